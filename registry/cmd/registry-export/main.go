// SPDX-License-Identifier: Apache-2.0

// registry-export writes the findings of a Registry's images as one document, the raw result of a Scan. See the README of this module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/scanyard/scanyard/registry/internal/clock"
	"github.com/scanyard/scanyard/registry/internal/export"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	command := export.New(export.Streams{Out: os.Stdout, Env: os.Getenv, Clock: clock.Real{}})
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}
