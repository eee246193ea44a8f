// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"
)

// result is how a step ended.
type result struct {
	rows []row
	err  error
}

// report prints the findings and a verdict per step, and says whether all are good.
func report(c *clock, steps []step, results []result) bool {
	fmt.Fprint(c.out, "\nFindings, read back from S3 through the links in the Scans' status:\n\n")
	w := tabwriter.NewWriter(c.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "  SCAN\tSEVERITY\tCATEGORY\tFINDING\tWHERE")
	for _, r := range results {
		for _, f := range r.rows {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", f.scan, f.severity, f.category, f.name, f.where)
		}
	}
	// The writer below is the terminal; if that is gone there is nobody to tell.
	_ = w.Flush()
	fmt.Fprintln(c.out)
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
