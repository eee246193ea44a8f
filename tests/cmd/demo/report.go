// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// result is how a step ended.
type result struct {
	// findings is what the command findings prints of its scan.
	findings typed
	err      error
}

// typed is a command, and what it has printed.
type typed struct{ command, said string }

// report prints the findings and a verdict per step, and says whether all are good.
func report(c *clock, steps []step, results []result) bool {
	fmt.Fprintln(c.out)
	for _, r := range results {
		if r.findings.command != "" {
			fmt.Fprintf(c.out, "$ %s\n%s\n", r.findings.command, r.findings.said)
		}
	}
	ok := true
	for i, s := range steps {
		verdict := "PASS"
		if results[i].err != nil {
			verdict, ok = "FAIL", false
		}
		fmt.Fprintf(c.out, "%s  %d. %s\n", verdict, i+1, s.title)
		if results[i].err != nil {
			fmt.Fprintf(c.out, "         %v\n", results[i].err)
		}
	}
	return ok
}
