// SPDX-License-Identifier: Apache-2.0

// Command scanyard starts, watches, reads and judges scans. Under the name
// kubectl-scanyard it is a plugin of kubectl: "kubectl scanyard". Under the name
// kubectl-prext it has the commands for reports alone: "kubectl prext".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/scanyard/scanyard/apis/buildinfo"
	"github.com/scanyard/scanyard/cli"
	"github.com/scanyard/scanyard/cli/session"
)

func main() { os.Exit(run()) }

func run() int {
	// What libraries log is said better by our own messages.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	s, err := session.New(session.Options{
		Streams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Program: program(os.Args[0]), Version: buildinfo.Version(), Args: os.Args[1:], Getenv: os.Getenv, Now: time.Now,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return session.CodeErrored
	}
	return cli.End(s, cli.NewCommand(s).ExecuteContext(ctx))
}

// program is how the user has called this binary.
func program(path string) string {
	switch name := filepath.Base(path); {
	case strings.HasPrefix(name, "kubectl-prext"):
		return session.PluginProgram
	case strings.HasPrefix(name, "kubectl-"):
		return "kubectl scanyard"
	}
	return "scanyard"
}
