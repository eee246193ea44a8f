// SPDX-License-Identifier: Apache-2.0

// Command test-scan is a scanner that scans nothing, for trying out an installation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/scanyard/scanyard/scanners/testscan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := testscan.Run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "test-scan:", err)
	if exit, ok := errors.AsType[*testscan.ExitError](err); ok {
		os.Exit(exit.Code)
	}
	os.Exit(1)
}
