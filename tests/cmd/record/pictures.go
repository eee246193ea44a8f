// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/tests/browser/chromium"
	"github.com/scanyard/scanyard/tests/recording"
)

// still is a picture of a terminal on which commands were typed.
type still struct {
	name, title string
	typed       []string
}

// stills are the pictures of the demo's cluster, whose targets and receiver of webhooks are gone with the demo.
var stills = []still{
	{"doctor", "scanyard doctor: what is in the way, looked for from end to end", []string{"-n team-a doctor --no-scan"}},
	{"findings", "scanyard findings: what scans have found", []string{"-n team-a findings open-ports", "-n team-a findings leaked-secrets"}},
	{"describe", "scanyard describe: why a scan ended as it did, and what to do", []string{"-n team-c describe no-image"}},
}

// waiting is the picture of a cluster that has more to do than it may. The first Scan takes longer than the picture.
var waiting = still{"queue", "scanyard queue: who waits, where, for how long and why", []string{"queue --all-namespaces"}}

// oneAtOnce lets one Scan run in the whole cluster.
const oneAtOnce = `apiVersion: settings.scanyard.io/v1alpha2
kind: ClusterScanSetting
metadata: {name: default}
spec:
  limits: {maxRunning: 1}
  queue: {order: Priority, maxPriority: 100}
`

// endless takes longer than the picture; the others wait for its end.
var (
	endless = []string{"-n", "team-a", "scan", "nmap", "--name", "all-ports", "--", "-p-", "--max-rate", "20", "127.0.0.1"}
	backlog = [][]string{
		{"-n", "team-a", "scan", "nmap", "--name", "web-ports", "--", "-p", "80,443", "127.0.0.1"},
		{"-n", "team-b", "scan", "nmap", "--cluster-wide", "--name", "audit", "--priority", "50", "--", "-sV", "127.0.0.1"},
		{"-n", "team-a", "scan", "nmap", "--name", "databases", "--", "-p", "3306,5432", "127.0.0.1"},
	}
)

// visit types commands at the demo's cluster, and makes pictures of what they print and of a report.
func (r *recorder) visit(ctx context.Context, kubeconfig string, plain func(string) string) error {
	cluster := visitor{bin: r.bin, env: []string{"KUBECONFIG=" + kubeconfig, "KUBECACHEDIR=" + filepath.Join(filepath.Dir(kubeconfig), "visits")}, plain: plain}
	for _, s := range stills {
		if err := r.still(ctx, cluster, s); err != nil {
			return err
		}
	}
	report, err := cluster.run(ctx, nil, "scanyard", "-n", "team-a", "findings", "open-ports", "--output", "html")
	if err != nil {
		return err
	}
	if err := r.photograph(ctx, report); err != nil {
		return err
	}
	return r.queue(ctx, cluster, filepath.Dir(kubeconfig))
}

// queue has one Scan run and others wait, and makes the picture of that.
func (r *recorder) queue(ctx context.Context, v visitor, cluster string) error {
	kubectl := []string{"localcluster", "kubectl", "--data-dir", cluster, "--namespace", "team-a"}
	type step struct {
		in      io.Reader
		command []string
	}
	steps := []step{
		{strings.NewReader(oneAtOnce), slices.Concat(kubectl, []string{"apply", "-f", "-"})},
		{nil, append([]string{"scanyard"}, endless...)},
		{nil, slices.Concat(kubectl, []string{"wait", "--timeout=2m", "--for=jsonpath={.status.state}=Scanning", "scan/all-ports"})},
	}
	for _, args := range backlog {
		steps = append(steps, step{nil, append([]string{"scanyard"}, args...)})
	}
	steps = append(steps, step{nil, slices.Concat(kubectl, []string{"wait", "--timeout=2m", "--for=condition=Admitted=False", "scan/databases"})})
	for _, s := range steps {
		if _, err := v.run(ctx, s.in, s.command...); err != nil {
			return err
		}
	}
	return r.still(ctx, v, waiting)
}

// still types commands and keeps the picture of the terminal afterwards.
func (r *recorder) still(ctx context.Context, v visitor, what still) error {
	s := &session{cast: recording.Cast{Columns: columns, Rows: tallest, Title: what.title}, began: time.Now(), env: v.env}
	for _, line := range what.typed {
		if err := s.typed(ctx, "scanyard "+line, filepath.Join(v.bin, "scanyard"), strings.Fields(line)...); err != nil {
			return err
		}
	}
	svg, err := s.cast.Replace(v.plain).Still()
	if err != nil {
		return err
	}
	return r.write(what.name+".svg", svg)
}

// photograph shows a page in a browser and keeps what can be seen.
func (r *recorder) photograph(ctx context.Context, page []byte) (err error) {
	dir, err := os.MkdirTemp("", "report-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "report.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		return err
	}
	if err := chromium.Picture(ctx, "file://"+file, filepath.Join(r.out, "report.png"), 1200, 900); err != nil {
		return fmt.Errorf("a picture of the report: %w", err)
	}
	fmt.Println("report.png")
	return nil
}

// visitor runs programs at the demo's cluster.
type visitor struct {
	bin   string
	env   []string
	plain func(string) string
}

// run runs a program of this project for what it prints.
func (v visitor) run(ctx context.Context, in io.Reader, command ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(v.bin, command[0]), command[1:]...)
	cmd.Env = append(os.Environ(), v.env...)
	cmd.Stdin = in
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, said.String())
	}
	return out, nil
}
