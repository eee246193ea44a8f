// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/parsers"
	"github.com/scanyard/scanyard/parsers/sdk/cli"
	"github.com/scanyard/scanyard/parsers/sdk/container"
)

// A parser holds little and makes much garbage: collecting it less often saves a quarter of its CPU time. As the heap
// comes near to maxHeap it is collected as often as needed, well below the 200 MiB that pods of parsers get.
const (
	gcPercent = 400
	maxHeap   = 48 << 20
)

func main() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(maxHeap)
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := cli.Program{
		Parsers: parsers.All(),
		Lookup:  parsers.For,
		Env:     os.Getenv,
		Clock:   container.Clock{Now: time.Now, Sleep: sleep},
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		TerminationLog: "/dev/termination-log",
	}
	return program.Run(ctx, os.Args[1:])
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
