// SPDX-License-Identifier: Apache-2.0

// Command import-result is the scanner of imports: it writes the result that "scanyard import" has brought along.
package main

import (
	"fmt"
	"os"

	"github.com/scanyard/scanyard/scanners/resultimport"
)

func main() {
	if err := resultimport.Run("", os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "import-result:", err)
		os.Exit(1)
	}
}
