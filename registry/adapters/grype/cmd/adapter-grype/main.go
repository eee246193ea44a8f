// SPDX-License-Identifier: Apache-2.0

// The program adapter-grype is the adapter of the libraries of Syft and Grype: it speaks scanyard.adapter/1 on its standard streams.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/registry/adapters/grype/internal/grype"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// What is read from standard input cannot be interrupted: a signal ends the process at once. Its files are made aside.
	atEnd := context.AfterFunc(ctx, func() { os.Exit(1) })
	defer atEnd()
	err := grype.Run(ctx, os.Args[1:], grype.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
