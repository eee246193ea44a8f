// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/scans"
)

const (
	// stepTimeout bounds a step on a busy machine.
	stepTimeout = 2 * time.Minute
	// seconds is how soon trouble has to show in a condition.
	seconds = 15 * time.Second
)

// step is one of the five things that the demo shows.
type step struct {
	title string
	run   func(context.Context) ([]row, error)
}

// row is a line of the table of findings.
type row struct{ scan, severity, category, name, where string }

func (st *stage) steps() []step {
	return []step{
		{"team scan: nmap finds the open ports and their services", st.openPorts},
		{"team scan: gitleaks finds the credential in the history of a repository", st.leakedSecret},
		{"cluster admin's scan in another namespace, with the cluster's own hook", st.clusterWide},
		{"a scan type that is not installed: the condition says what to install", st.notInstalled},
		{"an image that does not exist: the condition says so within seconds", st.noImage},
	}
}

// start applies a Scan and returns it once the condition holds.
func (st *stage) start(ctx context.Context, c client.Client, s *executionv1.Scan, cond func(*executionv1.Scan) bool) (*executionv1.Scan, error) {
	if err := c.Create(ctx, s); err != nil {
		return nil, fmt.Errorf("apply Scan %s/%s: %w", s.Namespace, s.Name, err)
	}
	got, err := st.scans.Until(ctx, s.Namespace, s.Name, func(s *executionv1.Scan, there bool) bool { return there && cond(s) })
	if err != nil {
		return nil, fmt.Errorf("waited too long (%w); it says: %s", err, scans.Ready(got).Message)
	}
	return got, nil
}

// finish runs a Scan to its end, which has to be good, and returns its findings
// as its status links to them.
func (st *stage) finish(ctx context.Context, c client.Client, s *executionv1.Scan) ([]finding.Finding, error) {
	got, err := st.start(ctx, c, s, (*executionv1.Scan).Settled)
	if err != nil {
		return nil, err
	}
	if got.Status.State != executionv1.ScanStateDone {
		return nil, fmt.Errorf("it ended %s: %s", got.Status.State, got.Status.ErrorDescription)
	}
	findings, err := scans.Findings(ctx, got)
	if err == nil && int64(len(findings)) != scans.Count(got) {
		err = fmt.Errorf("status counts %d findings, storage has %d", scans.Count(got), len(findings))
	}
	return findings, err
}

// rows makes lines of the table.
func rows(s *executionv1.Scan, findings []finding.Finding) []row {
	var out []row
	for i := range findings {
		f := &findings[i]
		where := f.Location.Or("")
		if file, ok := f.Attributes.Text("file").Get(); ok {
			where = file
			if commit, ok := f.Attributes.Text("commit").Get(); ok && len(commit) > 10 {
				where += " in commit " + commit[:10]
			}
		}
		out = append(out, row{s.Namespace + "/" + s.Name, f.Severity.String(), f.Category.String(), f.Name.String(), where})
	}
	return out
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
func (st *stage) openPorts(ctx context.Context) ([]row, error) {
	s := scans.New(teamA, "open-ports", "nmap", "-sV", "-p", st.target.Ports(), st.target.Host)
	findings, err := st.finish(ctx, st.alice, s)
	if err != nil {
		return nil, err
	}
	return rows(s, findings), errors.Join(st.hasServices(findings), st.delivered("/team-a", s))
}

// delivered says whether a hook has posted a Scan, with its findings, once.
func (st *stage) delivered(path string, s *executionv1.Scan) error {
	count, findings := 0, 0
	for _, d := range st.hooks.At(path) {
		if d.Scan.UID == s.UID {
			count++
			findings = len(d.Findings)
		}
	}
	if count != 1 || findings == 0 {
		return fmt.Errorf("the webhook %s got the Scan %d times, with %d findings; want once, with findings", path, count, findings)
	}
	return nil
}

// leakedSecret is step 2: the repository is cloned by an init container into a
// volume that the scanner reads.
func (st *stage) leakedSecret(ctx context.Context) ([]row, error) {
	s := scans.New(teamA, "leaked-secrets", "gitleaks", "--source", "/repo")
	mount := corev1.VolumeMount{Name: "repo", MountPath: "/repo"}
	s.Spec.Volumes = []corev1.Volume{{Name: "repo", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	s.Spec.VolumeMounts = []corev1.VolumeMount{mount}
	s.Spec.InitContainers = []corev1.Container{{
		Name: "clone", Image: "docker.io/alpine/git:latest", Command: []string{"git", "clone", "--quiet", st.repo.URL, "/repo"},
		VolumeMounts: []corev1.VolumeMount{mount},
	}}
	findings, err := st.finish(ctx, st.alice, s)
	if err != nil {
		return nil, err
	}
	for i := range findings {
		a := findings[i].Attributes
		if a.Text("offender").String() == st.repo.Secret && a.Text("file").String() == st.repo.File {
			return rows(s, findings), st.delivered("/team-a", s)
		}
	}
	return rows(s, findings), fmt.Errorf("the planted credential in %s is not among the %d findings", st.repo.File, len(findings))
}

// clusterWide is step 3. The hook of team-b must not run for it.
func (st *stage) clusterWide(ctx context.Context) ([]row, error) {
	s := scans.NewClusterWide(teamB, "security-check", "nmap", "-sV", "-p", st.target.Ports(), st.target.Host)
	findings, err := st.finish(ctx, st.admin, s)
	if err != nil {
		return nil, err
	}
	errs := []error{st.hasServices(findings), st.delivered("/security", s)}
	if n := len(st.hooks.At("/team-b")); n > 0 {
		errs = append(errs, fmt.Errorf("the team's own hook ran %d times for the cluster admin's scan", n))
	}
	var jobs batchv1.JobList
	errs = append(errs, st.admin.List(ctx, &jobs, client.HasLabels{executionv1.LabelHookName}, client.MatchingLabels{executionv1.LabelScanUID: string(s.UID)}))
	if len(jobs.Items) != 1 || jobs.Items[0].Namespace != security {
		errs = append(errs, fmt.Errorf("found %d hook Jobs, want one in namespace %s", len(jobs.Items), security))
	}
	return rows(s, findings), errors.Join(errs...)
}

// troubled runs a Scan until its condition has a reason, which has to be soon.
func (st *stage) troubled(ctx context.Context, c client.Client, s *executionv1.Scan, reason string, says ...string) error {
	ctx, cancel := context.WithTimeout(ctx, seconds)
	defer cancel()
	got, err := st.start(ctx, c, s, func(s *executionv1.Scan) bool { return scans.Ready(s).Reason == reason })
	if err != nil {
		return err
	}
	for _, part := range says {
		if !strings.Contains(scans.Ready(got).Message, part) {
			return fmt.Errorf("the condition does not say %q: %s", part, scans.Ready(got).Message)
		}
	}
	return nil
}

// notInstalled is step 4.
func (st *stage) notInstalled(ctx context.Context) ([]row, error) {
	s := scans.New(teamA, "not-installed", "nikto", "-h", st.target.Host)
	return nil, st.troubled(ctx, st.alice, s, executionv1.ReasonScanTypeNotFound, `"nikto"`, "helm install nikto")
}

// noImage is step 5.
func (st *stage) noImage(ctx context.Context) ([]row, error) {
	s := scans.New(teamC, "no-image", "nmap", st.target.Host)
	return nil, st.troubled(ctx, st.admin, s, executionv1.ReasonImagePull, "docker.io/securecodebox/scaner-nmap", "cannot be pulled")
}
