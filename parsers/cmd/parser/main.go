// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/scanyard/scanyard/parsers"
	"github.com/scanyard/scanyard/parsers/sdk/cli"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/retry"
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
	ctx, stop := process.Context(context.Background())
	defer stop()
	program := cli.Program{
		Parsers: parsers.All(),
		Lookup:  parsers.For,
		Env:     os.Getenv,
		Clock:   retry.Clock{}.WithDefaults(),
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		TerminationLog: process.TerminationLog,
	}
	return program.Run(ctx, os.Args[1:])
}
