// SPDX-License-Identifier: Apache-2.0

// forwarder sends results of Scans to far ends. See the README of this module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/scanyard/scanyard/forwarding/internal/forwarder"
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks"
	"github.com/scanyard/scanyard/forwarding/internal/version"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := forwarder.New(forwarder.Options{Out: os.Stdout, Err: os.Stderr, Version: version.Text(), Getenv: os.Getenv}).ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	return forwarder.ExitCode(err)
}
