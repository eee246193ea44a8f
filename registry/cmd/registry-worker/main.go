// SPDX-License-Identifier: Apache-2.0

// registry-worker looks at registries. See the README of this module.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/registry/internal/preview"
)

func main() { os.Exit(run()) }

func run() int {
	root := &cobra.Command{
		Use: "registry-worker", Short: "Look at container registries", Version: version(), SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(preview.New(preview.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now}))
	err := root.Execute()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	return preview.ExitCode(err)
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
