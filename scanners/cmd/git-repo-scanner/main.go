// SPDX-License-Identifier: Apache-2.0

// Command git-repo-scanner lists the repositories of a GitHub organisation or a GitLab group as findings. It ends
// with 2 for a command line that makes no sense, and with 1 for a scan that failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/retry"
	"github.com/scanyard/scanyard/scanners/gitrepo"
)

func main() {
	ctx, stop := process.Context(context.Background())
	// Proxies come from the environment, as everywhere. A server that takes a request and says nothing is given up.
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: 2 * time.Minute,
	}
	err := gitrepo.Run(ctx, gitrepo.Process{
		Args: os.Args[1:], Env: os.Getenv, Stderr: os.Stderr,
		Clock: retry.Clock{}.WithDefaults(), Transport: transport,
	})
	stop()
	if err == nil || gitrepo.IsHelp(err) {
		return
	}
	fmt.Fprintln(os.Stderr, "git-repo-scanner: "+process.Sentence(err))
	if _, ok := errors.AsType[*gitrepo.UsageError](err); ok {
		os.Exit(2)
	}
	os.Exit(1)
}
