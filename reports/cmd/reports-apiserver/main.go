// SPDX-License-Identifier: Apache-2.0

// reports-apiserver serves policy reports, images, SBOMs and vulnerability reports from SQL. See the README of this module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/scanyard/scanyard/reports/internal/command"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := command.New(os.Stdout, os.Getenv).ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	return command.ExitCode(err)
}
