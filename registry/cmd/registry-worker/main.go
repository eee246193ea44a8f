// SPDX-License-Identifier: Apache-2.0

// registry-worker looks at registries. See the README of this module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/apis/buildinfo"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
	"github.com/scanyard/scanyard/registry/internal/conform"
	"github.com/scanyard/scanyard/registry/internal/mini"
	"github.com/scanyard/scanyard/registry/internal/preview"
)

func main() { os.Exit(run()) }

func run() int {
	if code, child := runChild(os.Args[1:]); child {
		return code
	}
	root := &cobra.Command{
		Use: "registry-worker", Short: "Look at container registries", Version: buildinfo.Version(), SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(preview.New(preview.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now}))
	root.AddCommand(conform.New(os.Stdout))
	root.AddCommand(newRun())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	return preview.ExitCode(err)
}

// runChild is what a worker starts this program for.
func runChild(arguments []string) (code int, child bool) {
	if len(arguments) == 0 {
		return 0, false
	}
	var err error
	switch arguments[0] {
	case sandbox.Subcommand:
		err = sandbox.Main(arguments[1:], os.Environ())
	case "adapter-mini":
		err = mini.Run(context.Background(), arguments[1:], mini.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now})
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1, true
	}
	return 0, true
}
