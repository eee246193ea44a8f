// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

// enforcing is the label by which a namespace enforces a Pod Security level.
const enforcing = "pod-security.kubernetes.io/enforce="

// levels are those of Pod Security, from the strictest.
var levels = []string{"restricted", "baseline", "privileged"}

// everythingHeld makes a namespace with all charts, in which no scanner runs: their Jobs
// are suspended.
func everythingHeld(t *testing.T) string {
	t.Helper()
	ns := namespace(t, enforcing+"restricted")
	var releases []install.Release
	for _, name := range everyChart(t) {
		if strings.HasPrefix(name, "auto-discovery") {
			continue // these make no pods of Scans
		}
		values := map[string]any{}
		if c, ok := scannerCharts[name]; ok && len(c.scanTypes) > 0 {
			values["scanner"] = map[string]any{"suspend": true}
		}
		if name == "trivy" {
			values["createAutoDiscoveryScanType"] = true
		}
		releases = append(releases, install.Release{Chart: name, Namespace: ns, Values: values})
	}
	if err := installTogether(t.Context(), releases); err != nil {
		t.Fatal(err)
	}
	return ns
}

// podOf is the pod that a Job makes.
func podOf(j *batchv1.Job, ns string) *corev1.Pod {
	template := j.Spec.Template.DeepCopy()
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "try-", Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec}
}

// jobTo waits for the Job of a role of a Scan, then deletes the Scan: how it ends does not
// matter.
func jobTo(t *testing.T, s *executionv1.Scan, role string) *batchv1.Job {
	t.Helper()
	create(t, s)
	var found *batchv1.Job
	eventually(t, "the "+role+" of Scan "+s.Name, func(context.Context) (bool, error) {
		found = jobsOf(s)[role]
		return found != nil, nil
	})
	return found
}

// violations asks the API server whether a pod is admitted where a level is enforced, and
// returns what it objects to.
func violations(t *testing.T, j *batchv1.Job, ns, level string) string {
	t.Helper()
	pod := podOf(j, ns)
	err := w.admin.Create(t.Context(), pod, client.DryRunAll)
	if err == nil {
		return ""
	}
	_, what, ok := strings.Cut(err.Error(), `violates PodSecurity "`+level+`:latest": `)
	if !apierrors.IsForbidden(err) || !ok {
		t.Fatalf("create a pod of Job %s: %v", j.Name, err)
	}
	return what
}

// TestPodSecurityOfCharts asks the admission plugin about the pods of every scanner, parser
// and hook that there is a chart of.
func TestPodSecurityOfCharts(t *testing.T) {
	ns := everythingHeld(t)
	lower := map[string]string{}
	for _, level := range levels[1:] {
		lower[level] = namespace(t, enforcing+level)
	}
	var types executionv1.ScanTypeList
	if err := w.admin.List(t.Context(), &types, client.InNamespace(ns)); err != nil || len(types.Items) < len(scannerCharts) {
		t.Fatalf("%d ScanTypes (%v)", len(types.Items), err)
	}
	var passing []string
	rows := [][]string{{"ScanType", "passes", "what keeps it from `restricted`"}}
	for i := range types.Items {
		name := types.Items[i].Name
		job := jobTo(t, scans.New(ns, "held-"+name, name), "scanner")
		why := violations(t, job, ns, levels[0])
		if why == "" {
			passing = append(passing, "`"+name+"`")
			continue
		}
		rows = append(rows, []string{"`" + name + "`", "`" + passes(t, job, lower) + "`", strings.ReplaceAll(why, "|", `\|`)})
	}
	parsers := wantRestrictedParsers(t, ns)
	hooks := wantRestrictedHooks(t, ns)
	text := fmt.Sprintf("Scanners that pass `restricted`, with the lurker beside them: %s. So do the parsers of all %d result types and the %d hooks that there are charts of.\n\n",
		strings.Join(passing, ", "), parsers, hooks)
	if len(rows) > 1 {
		text += markdownTable(rows)
	}
	wantDocumented(t, "pod-security", text)
}

// passes is the strictest of the lower levels that admits the pod of a Job.
func passes(t *testing.T, j *batchv1.Job, namespaces map[string]string) string {
	t.Helper()
	for _, level := range levels[1:] {
		ns := namespaces[level]
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: j.Spec.Template.Spec.ServiceAccountName}}
		if err := w.admin.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		if violations(t, j, ns, level) == "" {
			return level
		}
	}
	t.Fatalf("no level admits the pod of Job %s", j.Name)
	return ""
}

// restrictedShell is a ScanType that the restricted level admits, and whose scanner leaves
// an empty result.
func restrictedShell(ns, resultType string) *executionv1.ScanType {
	no, yes := false, true
	kind := shellType(ns, resultType, func(j *batchv1.JobSpec) {
		j.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	})
	kind.Name = "sh-" + resultType
	return kind
}

// wantRestrictedParsers runs a parser of every result type, as far as to its Job.
func wantRestrictedParsers(t *testing.T, ns string) int {
	t.Helper()
	var definitions executionv1.ParseDefinitionList
	if err := w.admin.List(t.Context(), &definitions, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range definitions.Items {
		name := definitions.Items[i].Name
		create(t, restrictedShell(ns, name))
		create(t, onlyHooks(scans.New(ns, "sh-"+name, "sh-"+name, quick), ""))
	}
	for i := range definitions.Items {
		name := definitions.Items[i].Name
		s := scanNamed(t, ns, "sh-"+name)
		eventually(t, "the parser of "+name, func(context.Context) (bool, error) { return jobsOf(s)["parser"] != nil, nil })
		job := jobsOf(s)["parser"]
		if why := violationsWith(t, job, ns); why != "" {
			t.Errorf("the parser of %s: %s", name, why)
		}
	}
	return len(definitions.Items)
}

// violationsWith asks about a pod whose account may be gone already, for its Scan may have
// ended: any other account is as good for this question.
func violationsWith(t *testing.T, j *batchv1.Job, ns string) string {
	t.Helper()
	j = j.DeepCopy()
	j.Spec.Template.Spec.ServiceAccountName, j.Spec.Template.Spec.DeprecatedServiceAccount = executionv1.ServiceAccountLurker, ""
	return violations(t, j, ns, levels[0])
}

func scanNamed(t *testing.T, ns, name string) *executionv1.Scan {
	t.Helper()
	s := &executionv1.Scan{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// wantRestrictedHooks runs each hook over the result of a Scan, as far as to its Job.
func wantRestrictedHooks(t *testing.T, ns string) int {
	t.Helper()
	var hooks executionv1.ScanCompletionHookList
	if err := w.admin.List(t.Context(), &hooks, client.InNamespace(ns)); err != nil || len(hooks.Items) == 0 {
		t.Fatalf("%d hooks (%v)", len(hooks.Items), err)
	}
	for i := range hooks.Items {
		name := hooks.Items[i].Name
		create(t, onlyHooks(scans.New(ns, "hook-"+name, "sh-test-txt", quick), name))
	}
	for i := range hooks.Items {
		name := hooks.Items[i].Name
		s := scanNamed(t, ns, "hook-"+name)
		eventually(t, "hook "+name, func(context.Context) (bool, error) { return jobsOf(s)[name] != nil, nil })
		if why := violationsWith(t, jobsOf(s)[name], ns); why != "" {
			t.Errorf("hook %s: %s", name, why)
		}
	}
	return len(hooks.Items)
}

// TestNoScannerOfAChartHasAToken looks at the pods as the API server makes them: of all
// containers only the lurker has a token, but where a ScanType asks for an account.
func TestNoScannerOfAChartHasAToken(t *testing.T) {
	ns := everythingHeld(t)
	withAccount := []string{"trivy-k8s", "trivy-image-autodiscovery"}
	var types executionv1.ScanTypeList
	if err := w.admin.List(t.Context(), &types, client.InNamespace(ns)); err != nil || len(types.Items) < len(scannerCharts) {
		t.Fatalf("%d ScanTypes (%v)", len(types.Items), err)
	}
	open := namespace(t)
	for i := range types.Items {
		name := types.Items[i].Name
		job := jobTo(t, scans.New(ns, "held-"+name, name), "scanner")
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: open, Name: job.Spec.Template.Spec.ServiceAccountName}}
		if err := w.admin.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		pod := podOf(job, open)
		if err := w.admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		have := mountsToken(&pod.Spec)
		if slices.Contains(withAccount, name) {
			if len(have) != len(pod.Spec.Containers) {
				t.Errorf("%s: %v mount a token, want all containers of a ScanType with an account", name, have)
			}
			continue
		}
		if len(have) != 1 || have[0] != "lurker" {
			t.Errorf("%s: %v mount a token, want the lurker only", name, have)
		}
	}
}
