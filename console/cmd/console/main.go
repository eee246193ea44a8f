// SPDX-License-Identifier: Apache-2.0

// console serves the pages of Scanyard in the cluster, to people who sign in. See the README of this module.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/scanyard/scanyard/apis/buildinfo"
	"github.com/scanyard/scanyard/console/internal/app"
)

// collectAt is how much garbage there may be, in percent of what is in use: most of that are all Scans of the cluster, and the rest of a page is soon
// garbage. GOGC overrides it.
const collectAt = 50

func main() { os.Exit(run()) }

func run() int {
	const usage = 2
	var o app.Options
	flags := flag.NewFlagSet("console", flag.ContinueOnError)
	o.BindFlags(flags, os.Getenv)
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return usage
	}
	if err := o.Validate(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return usage
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	handler := slog.NewJSONHandler(os.Stderr, nil)
	log.SetLogger(logr.FromSlogHandler(handler)) // that of a library, which complains if there is none
	e := app.Environment{Version: buildinfo.Version(), Now: time.Now, Log: slog.New(handler)}
	if err := app.Run(ctx, &o, e); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}
