// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster"
)

// playReleases are the charts of "up": everything for one team, and nmap for all.
func playReleases() []install.Release {
	return []install.Release{
		{Chart: "nmap", Namespace: teamA},
		{Chart: "gitleaks", Namespace: teamA},
		{Chart: "test-scan", Namespace: teamA},
		{Chart: "persistence-reports", Namespace: teamA},
		{Name: "nmap-cluster", Chart: "nmap", Namespace: install.Namespace, Values: map[string]any{"clusterWide": true}},
	}
}

// up starts a cluster that stays, installs everything and says what to try.
func up(ctx context.Context, out io.Writer, s settings) (err error) {
	c := &clock{began: time.Now(), out: out}
	dir, err := s.playground()
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if _, err := localcluster.Attach(filepath.Join(dir, clusterDir)); err == nil {
		fmt.Fprintf(out, "It is up already:\n  export KUBECONFIG=%s\n", kubeconfig)
		return nil
	}
	c.say("starting the cluster                etcd, kube-apiserver, controllers, a node and S3")
	y, err := startCluster(ctx, s.programs, dir, true)
	if err != nil {
		return err
	}
	c.say("the cluster is up")
	console, address, err := install.Console(y.cluster.ObjectStore)
	var token string
	if err == nil {
		err = y.installAll(ctx, c.say, nil, append(playReleases(), console))
	}
	if err == nil {
		err = install.ConsoleReady(ctx, address, operatorTimeout)
	}
	if err == nil {
		token, err = y.token(ctx)
	}
	if err == nil {
		err = kubeconfigFor(teamA, y.cluster.Kubeconfig, kubeconfig)
	}
	if err != nil {
		return errors.Join(err, y.remove())
	}
	c.say("the operator, the reports API server and the console are ready\n")
	api, err := url.Parse(y.config.Host)
	if err != nil {
		return fmt.Errorf("read the API server's address: %w", err)
	}
	kubectl := s.programs.Path("localcluster") + " kubectl --data-dir " + y.cluster.DataDir
	fmt.Fprintf(out, instructions, kubeconfig, kubectl, api.Port(), teamA, os.Args[0], s.programs.Path("scanyard"), address, token)
	return nil
}

// kubeconfigFor copies a kubeconfig to a file whose context has a namespace, so that the commands of
// README and docs, which name none, mean the namespace where things are installed.
func kubeconfigFor(namespace, from, to string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		return fmt.Errorf("write a kubeconfig for namespace %s: %w", namespace, err)
	}
	return nil
}

// instructions take the kubeconfig of the team's namespace, a kubectl, a port to scan, that namespace,
// this program, the command line, and the console's address with a token to sign in with.
const instructions = `Your cluster:

  export KUBECONFIG=%[1]s     # its namespace is %[4]s
  alias scanyard="%[6]s"
  alias kubectl="%[2]s -n %[4]s"     # unless you have one

Scan something; the cluster's own API server will do:

  scanyard scan nmap --wait -- -p %[3]s 127.0.0.1
  scanyard findings nmap
  scanyard describe nmap
  scanyard reports get polr -o wide
  scanyard reports query -A "severity >= 'info'"
  scanyard --help

Look at it in a browser, and sign in with this token, which may do everything for twelve hours:

  %[7]s
  %[8]s

Installed for namespace %[4]s are nmap, gitleaks and test-scan, and a hook that keeps their
findings as PolicyReports, in SQLite; nmap is also there for all namespaces (--cluster-wide). When you are done: %[5]s down
`

// down removes the cluster of up, also one that has died.
func down(out io.Writer, s settings) error {
	dir, err := s.playground()
	if err != nil {
		return err
	}
	layout := localcluster.Layout(filepath.Join(dir, clusterDir))
	state, err := localcluster.LoadState(layout)
	if errors.Is(err, localcluster.ErrNoCluster) {
		fmt.Fprintln(out, "there is nothing to remove")
		return nil
	}
	if err != nil {
		return err
	}
	if err := localcluster.StopSupervisor(localcluster.NewControl(layout), state); err != nil {
		return err
	}
	if err := removeFiles(dir); err != nil {
		return err
	}
	fmt.Fprintln(out, "stopped and removed")
	return nil
}
