// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/terminal"
)

const (
	// stepTimeout bounds a step on a busy machine.
	stepTimeout = 2 * time.Minute
	// seconds is how soon a reason must show.
	seconds = 15 * time.Second
)

// step is one of the things that the demo shows.
type step struct {
	title string
	run   func(context.Context) (typed, error)
}

func (st *stage) steps() []step {
	return []step{
		{"team scan: nmap finds the open ports and their services", st.openPorts},
		{"team scan: gitleaks finds the credential in the history of a repository", st.leakedSecret},
		{"cluster admin's scan in another namespace, with the cluster's own hook", st.clusterWide},
		{"a scan type that is not installed: the command says what to install", st.notInstalled},
		{"an image that does not exist: it is said within seconds, and the scan cancelled", st.noImage},
		{"reports outside etcd: a team's findings as PolicyReports, a question over all namespaces, a watch that ends at the namespace", st.reports},
		{"two clusters' results arrive at one receiver, which is killed in between and proves that all are there", st.forwarding},
	}
}

// outcome is what the command line tells of a scan that is Done.
type outcome struct {
	uid      types.UID
	findings []finding.Finding
	table    typed
}

// said tells a line of progress of a scan, with the demo's own time at its beginning.
func (st *stage) said(namespace, line string) {
	_, rest, _ := strings.Cut(strings.TrimSpace(line), "  ")
	if name, what, ok := strings.Cut(rest, "  "); ok {
		st.clock.say("%-26s %s", namespace+"/"+name, what)
	}
}

// scan starts a scan as its user types it, and tells how it gets on.
func (st *stage) scan(ctx context.Context, who terminal.Program, namespace string, each func(string) bool, args ...string) (terminal.Result, error) {
	args = append([]string{"-n", namespace, "scan"}, args...)
	st.clock.say("$ scanyard %s", strings.Join(append(who.Args, args...), " "))
	return who.Watch(ctx, func(line string) bool {
		st.said(namespace, line)
		return each == nil || each(line)
	}, args...)
}

// finish runs a scan to its end, which has to be good, and reads its findings.
func (st *stage) finish(ctx context.Context, who terminal.Program, namespace, name string, args ...string) (outcome, error) {
	var o outcome
	r, err := st.scan(ctx, who, namespace, nil, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("it ended with %s", r.Said())
	}
	if err != nil {
		return o, err
	}
	ask := func(args ...string) string {
		var r terminal.Result
		if err == nil {
			r, err = who.Run(ctx, append([]string{"-n", namespace}, args...)...)
		}
		if err == nil && r.Code != 0 {
			err = fmt.Errorf("scanyard %s: %s", args[0], r.Said())
		}
		return r.Out
	}
	o.uid = types.UID(ask("get", name, "-o", "jsonpath={.metadata.uid}"))
	count := ask("get", name, "-o", "jsonpath={.status.findings.count}")
	stored := ask("findings", name, "-o", "json")
	o.table = typed{strings.Join(append(append([]string{"scanyard"}, who.Args...), "-n", namespace, "findings", name), " "), ask("findings", name)}
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal([]byte(stored), &o.findings); err != nil {
		return o, fmt.Errorf("read the findings of %s: %w", name, err)
	}
	if strconv.Itoa(len(o.findings)) != count {
		return o, fmt.Errorf("status counts %s findings, storage has %d", count, len(o.findings))
	}
	return o, nil
}

// hasServices says which of the target's services are not among the findings.
func (st *stage) hasServices(findings []finding.Finding) error {
	seen := map[string]bool{}
	for i := range findings {
		port, _ := findings[i].Attributes.Get("port")
		if f := &findings[i]; f.Category.String() == "Open Port" {
			seen[fmt.Sprintf("%v %s", port, f.Attributes.Text("service"))] = true
		}
	}
	var errs []error
	for port, service := range map[int]string{st.target.HTTP: "http", st.target.SSH: "ssh"} {
		if !seen[fmt.Sprintf("%d %s", port, service)] {
			errs = append(errs, fmt.Errorf("port %d with service %s is not among the findings", port, service))
		}
	}
	return errors.Join(errs...)
}

// openPorts is step 1.
func (st *stage) openPorts(ctx context.Context) (typed, error) {
	o, err := st.finish(ctx, st.alice, teamA, "open-ports", "nmap", "--name", "open-ports", "--wait", "--", "-sV", "-p", st.target.Ports(), st.target.Host)
	if err != nil {
		return o.table, err
	}
	return o.table, errors.Join(st.hasServices(o.findings), st.delivered("/team-a", o.uid))
}

// delivered says whether a hook has posted a Scan, with its findings, once.
func (st *stage) delivered(path string, scan types.UID) error {
	count, findings := 0, 0
	for _, d := range st.hooks.At(path) {
		if d.Scan.UID == scan {
			count++
			findings = len(d.Findings)
		}
	}
	if count != 1 || findings == 0 {
		return fmt.Errorf("the webhook %s got the Scan %d times, with %d findings; want once, with findings", path, count, findings)
	}
	return nil
}

// leaked is a scan that needs more than flags say: the repository is cloned by an init
// container into a volume that the scanner reads.
const leaked = `apiVersion: execution.securecodebox.io/v1
kind: Scan
metadata: {name: leaked-secrets}
spec:
  scanType: gitleaks
  parameters: [--source, /repo]
  volumes: [{name: repo, emptyDir: {}}]
  volumeMounts: [{name: repo, mountPath: /repo}]
  initContainers:
    - name: clone
      image: docker.io/alpine/git:latest
      command: [git, clone, --quiet, %q, /repo]
      volumeMounts: [{name: repo, mountPath: /repo}]
`

// leakedSecret is step 2.
func (st *stage) leakedSecret(ctx context.Context) (typed, error) {
	file := filepath.Join(st.files, "leaked-secrets.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, leaked, st.repo.URL), 0o600); err != nil {
		return typed{}, fmt.Errorf("write the scan: %w", err)
	}
	o, err := st.finish(ctx, st.alice, teamA, "leaked-secrets", "--from", file, "--wait")
	if err != nil {
		return o.table, err
	}
	for i := range o.findings {
		a := o.findings[i].Attributes
		if a.Text("offender").String() == st.repo.Secret && a.Text("file").String() == st.repo.File {
			return o.table, st.delivered("/team-a", o.uid)
		}
	}
	return o.table, fmt.Errorf("the planted credential in %s is not among the %d findings", st.repo.File, len(o.findings))
}

// clusterWide is step 3. The hook of team-b must not run for it.
func (st *stage) clusterWide(ctx context.Context) (typed, error) {
	o, err := st.finish(
		ctx, st.root, teamB, "security-check", "nmap",
		"--cluster-wide",
		"--name",
		"security-check",
		"--wait",
		"--",
		"-sV",
		"-p",
		st.target.Ports(), st.target.Host,
	)
	if err != nil {
		return o.table, err
	}
	errs := []error{st.hasServices(o.findings), st.delivered("/security", o.uid)}
	if n := len(st.hooks.At("/team-b")); n > 0 {
		errs = append(errs, fmt.Errorf("the team's own hook ran %d times for the cluster admin's scan", n))
	}
	var jobs batchv1.JobList
	errs = append(errs, st.admin.List(ctx, &jobs, client.HasLabels{executionv1.LabelHookName}, client.MatchingLabels{executionv1.LabelScanUID: string(o.uid)}))
	if len(jobs.Items) != 1 || jobs.Items[0].Namespace != security {
		errs = append(errs, fmt.Errorf("found %d hook Jobs, want one in namespace %s", len(jobs.Items), security))
	}
	return o.table, errors.Join(errs...)
}

// says makes sure that a call has ended with a code and has said certain things.
func says(r terminal.Result, err error, code int, parts ...string) error {
	if err != nil {
		return err
	}
	if r.Code != code {
		return fmt.Errorf("want exit code %d, got %s", code, r.Said())
	}
	for _, part := range parts {
		if !strings.Contains(r.Out+r.ErrOut, part) {
			return fmt.Errorf("it does not say %q: %s", part, r.Said())
		}
	}
	return nil
}

// notInstalled is step 4.
func (st *stage) notInstalled(ctx context.Context) (typed, error) {
	r, err := st.scan(ctx, st.alice, teamA, nil, "nikto", "--", "-h", st.target.Host)
	if err == nil {
		st.clock.say("%s: %s", teamA, strings.TrimSpace(r.ErrOut))
	}
	return typed{}, says(r, err, 1, `"nikto"`, "helm install nikto")
}

// noImage is step 5. Ctrl-C ends the watching only, so the scan is cancelled then.
func (st *stage) noImage(ctx context.Context) (typed, error) {
	soon, cancel := context.WithTimeout(ctx, seconds)
	defer cancel()
	const reason = "cannot be pulled"
	watching := func(line string) bool { return !strings.Contains(line, reason) }
	r, err := st.scan(soon, st.root, teamC, watching, "nmap", "--name", "no-image", "--wait", "--", st.target.Host)
	if err := says(r, err, 130, "docker.io/securecodebox/scaner-nmap", reason, "the scan continues"); err != nil {
		return typed{}, err
	}
	st.clock.say("$ scanyard -n %s cancel no-image", teamC)
	r, err = st.root.Run(ctx, "-n", teamC, "cancel", "no-image")
	return typed{}, says(r, err, 0, "cancelled")
}
