// SPDX-License-Identifier: Apache-2.0

// exporter takes records of decisions by a socket and by gRPC, keeps them on disk and delivers them at least once. See the README of this module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/exporter"
	"github.com/scanyard/scanyard/forwarding/internal/garbage"
	_ "github.com/scanyard/scanyard/forwarding/internal/sinks"
	"github.com/scanyard/scanyard/forwarding/internal/version"
)

func main() { os.Exit(run()) }

// garbageBytes come together before garbage is collected, unless GOGC says otherwise: most of it is records that are on disk already, and a small pod
// has no room for as much again as is used.
const garbageBytes = 8 << 20

func run() int {
	syscall.Umask(0o077) // files of the queue are for its user only
	if os.Getenv("GOGC") == "" {
		garbage.CollectEvery(garbageBytes)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(1) // what was acknowledged is synced
	}()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	err := exporter.New(exporter.Options{Out: os.Stdout, Err: os.Stderr, Version: version.Text(), Now: time.Now, Hangup: hangup}).ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	return exporter.ExitCode(err)
}
