// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/scanyard/scanyard/tests/browser/chromium"
	"github.com/scanyard/scanyard/tests/gitrepo"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/target"
	"github.com/scanyard/scanyard/tests/terminal"
	"github.com/scanyard/scanyard/tests/webhook"
)

// errNotAsExpected says that the demo ran to its end and a step failed.
var errNotAsExpected = errors.New("a step did not give the expected result")

// stage is everything that the steps stand on.
type stage struct {
	*yard
	// alice is a developer of team-a, root the cluster's admin: the command line as each
	// of them types it.
	alice, root terminal.Program
	clock       *clock
	files       string
	target      *target.Target
	repo        *gitrepo.Repository
	hooks       *webhook.Receiver
}

// Namespaces of the demo.
const (
	teamA    = "team-a"   // has nmap, gitleaks and a hook of its own
	teamB    = "team-b"   // is scanned by the cluster admin, and has a hook of its own
	teamC    = "team-c"   // has an nmap whose image name is misspelt
	security = "security" // where the cluster admin's hook runs
)

// demo runs everything and removes it again, however it ends.
func demo(ctx context.Context, out io.Writer, s settings) (err error) {
	fmt.Fprint(
		out,
		"Scanyard demo: six scans on a Kubernetes cluster made of this machine's processes.\nNo containers, no downloads, nothing outside this machine.\n\n",
	)
	c := &clock{began: time.Now(), out: out}
	dir, cleanup, err := dataDir(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cleanup()) }()
	st, err := serve(ctx, filepath.Join(dir, "targets"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close(dir)) }()

	c.say("starting the cluster                etcd, kube-apiserver, controllers, a node and S3")
	if st.yard, err = startCluster(ctx, s.programs, dir, s.keep); err != nil {
		return err
	}
	defer func() {
		if s.keep {
			fmt.Fprintf(out, "\nThe cluster is kept:\n  export KUBECONFIG=%s\n  remove it: %s down --data-dir %s\n", st.cluster.Kubeconfig, os.Args[0], dir)
			return
		}
		c.say("cleaning up")
		err = errors.Join(err, st.remove())
	}()
	c.say("the cluster is up                   export KUBECONFIG=%s", st.cluster.Kubeconfig)
	return st.play(ctx, c, s.keep)
}

// play installs, runs the steps and reports.
func (st *stage) play(ctx context.Context, c *clock, kept bool) error {
	if err := st.team(ctx, teamA, "alice"); err != nil {
		return err
	}
	st.clock, st.root = c, st.commandLine()
	st.alice = st.root.With("--as", "alice")
	if err := st.installAll(ctx, c.say, map[string]any{"resultsEndpoint": map[string]any{"enabled": true}}, st.releases()); err != nil {
		return err
	}
	c.say("the operator and the reports API server are ready\n")
	steps := st.steps()
	results := make([]result, len(steps))
	var wait sync.WaitGroup
	for i, step := range steps {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			results[i].findings, results[i].err = step.run(ctx)
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ok := report(c, steps, results)
	switch file, err := st.picture(ctx); {
	case errors.Is(err, chromium.ErrNone):
		fmt.Fprintln(c.out, "\nThere is no Chromium on this machine, so that there is no picture of the console. It shows such a cluster with: scanyard console")
	case err != nil:
		fmt.Fprintf(c.out, "\nFAIL  a picture of the console: %v\n", err)
		ok = false
	default:
		fmt.Fprintf(c.out, "\nThe overview of the console, as a browser shows it: %s\n", file)
	}
	if !kept {
		fmt.Fprint(c.out, "\nTo look at such a cluster with kubectl: make up (and make down), or run this with --keep.\n\n")
	}
	if !ok {
		return errNotAsExpected
	}
	return nil
}

// dataDir returns the folder of this run and what removes it.
func dataDir(s settings) (dir string, cleanup func() error, err error) {
	nothing := func() error { return nil }
	if s.dataDir != "" {
		dir, err = filepath.Abs(s.dataDir)
		return dir, nothing, err
	}
	dir, err = os.MkdirTemp("", "scanyard-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("make data folder: %w", err)
	}
	if s.keep {
		return dir, nothing, nil
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// serve starts what is scanned and what receives webhooks.
func serve(ctx context.Context, dir string) (*stage, error) {
	t, err := target.Start()
	if err != nil {
		return nil, err
	}
	repo, err := gitrepo.Start(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return &stage{files: dir, target: t, repo: repo, hooks: webhook.Start()}, nil
}

func (st *stage) close(dir string) error {
	st.repo.Close()
	st.hooks.Close()
	return errors.Join(st.target.Close(), os.RemoveAll(filepath.Join(dir, "targets")))
}

// releases are the charts of the demo.
func (st *stage) releases() []install.Release {
	webhookTo := func(path string, more map[string]any) map[string]any {
		values := map[string]any{"webhookUrl": st.hooks.URL(path)}
		maps.Copy(values, more)
		return values
	}
	misspelt := map[string]any{"image": map[string]any{"repository": "docker.io/securecodebox/scaner-nmap"}}
	return []install.Release{
		{Chart: "nmap", Namespace: teamA},
		{Chart: "gitleaks", Namespace: teamA},
		{Chart: "generic-webhook", Namespace: teamA, Values: webhookTo("/team-a", nil)},
		{Chart: "persistence-reports", Namespace: teamA},
		{Chart: "generic-webhook", Namespace: teamB, Values: webhookTo("/team-b", nil)},
		{Chart: "nmap", Namespace: teamC, Values: map[string]any{"scanner": misspelt}},
		{Name: "nmap-cluster", Chart: "nmap", Namespace: security, Values: map[string]any{"clusterWide": true}},
		{
			Name: "generic-webhook", Chart: "generic-webhook", Namespace: security,
			Values: webhookTo("/security", map[string]any{"clusterWide": true, "executionNamespace": security}),
		},
	}
}
