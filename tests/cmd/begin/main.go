// SPDX-License-Identifier: Apache-2.0

// Command begin begins a scanner or a hook, for "make new-scanner" and "make new-hook".
//
// Usage: begin scanner ROOT NAME [RESULT-TYPE] | begin hook ROOT NAME [ReadOnly|ReadAndWrite]
package main

import (
	"fmt"
	"os"

	"github.com/scanyard/scanyard/tests/begin"
)

func main() {
	verbs := map[string]func(root, name, kind string, say func(string)) error{"scanner": begin.Scanner, "hook": begin.Hook}
	args := append(os.Args[1:], "")
	if len(args) < 4 || len(args) > 5 || verbs[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: begin scanner ROOT NAME [RESULT-TYPE] | begin hook ROOT NAME [ReadOnly|ReadAndWrite]")
		os.Exit(2)
	}
	if err := verbs[args[0]](args[1], args[2], args[3], func(file string) { fmt.Println("  " + file) }); err != nil {
		fmt.Fprintln(os.Stderr, "begin:", err)
		os.Exit(1)
	}
}
