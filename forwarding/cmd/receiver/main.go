// SPDX-License-Identifier: Apache-2.0

// receiver is the reference far end of forwarding: it stores records once and says what of each stream it holds. See the README of this module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/scanyard/scanyard/forwarding/internal/receiver/command"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := command.New(os.Stdout, os.Stderr).ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	return command.ExitCode(err)
}
