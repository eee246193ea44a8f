// SPDX-License-Identifier: Apache-2.0

// The program testdb makes a small database for adapter-grype of files of advisories: testdb OUT ADVISORIES.json…
package main

import (
	"fmt"
	"os"

	"github.com/scanyard/scanyard/registry/adapters/grype/internal/testdb"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

func main() { os.Exit(run()) }

func run() int {
	const usage = 2
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: testdb OUT ADVISORIES.json...")
		return usage
	}
	advisories, err := mini.ReadAdvisories(os.Args[2:]...)
	if err == nil {
		err = testdb.Make(os.Args[1], advisories, testdb.Options{Schema: testdb.Schema})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
