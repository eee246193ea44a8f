// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/resultimport"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

// enforcing is the label by which a namespace enforces a Pod Security level.
const enforcing = "pod-security.kubernetes.io/enforce="

// levels are those of Pod Security, from the strictest.
var levels = []string{"restricted", "baseline", "privileged"}

// everythingHeld makes a namespace with all charts, in which no scanner runs: their Jobs
// are suspended.
func everythingHeld(ctx context.Context) string {
	GinkgoHelper()
	ns := namespace(ctx, enforcing+"restricted")
	var releases []install.Release
	for _, name := range everyChart() {
		if strings.HasPrefix(name, "auto-discovery") {
			continue // these make no pods of Scans
		}
		values := map[string]any{}
		if c, ok := scannerCharts[name]; ok && len(c.types()) > 0 {
			values["scanner"] = map[string]any{"suspend": true}
		}
		if name == "trivy" {
			values["createAutoDiscoveryScanType"] = true
		}
		releases = append(releases, install.Release{Chart: name, Namespace: ns, Values: values})
	}
	Expect(installTogether(ctx, releases)).To(Succeed())
	return ns
}

// podOf is the pod that a Job makes.
func podOf(j *batchv1.Job, ns string) *corev1.Pod {
	template := j.Spec.Template.DeepCopy()
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "try-", Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec}
}

// jobTo waits for the Job of a role of a Scan, then deletes the Scan: how it ends does not
// matter.
func jobTo(ctx context.Context, s *executionv1.Scan, role string) *batchv1.Job {
	GinkgoHelper()
	create(ctx, s)
	var found *batchv1.Job
	eventually(ctx, "the "+role+" of Scan "+s.Name, func(context.Context) (bool, error) {
		found = jobsOf(s)[role]
		return found != nil, nil
	})
	return found
}

// violations asks the API server whether a pod is admitted where a level is enforced, and
// returns what it objects to.
func violations(ctx context.Context, j *batchv1.Job, ns, level string) string {
	GinkgoHelper()
	pod := podOf(j, ns)
	err := w.admin.Create(ctx, pod, client.DryRunAll)
	if err == nil {
		return ""
	}
	_, what, ok := strings.Cut(err.Error(), `violates PodSecurity "`+level+`:latest": `)
	if !apierrors.IsForbidden(err) || !ok {
		Fail(fmt.Sprintf("create a pod of Job %s: %v", j.Name, err))
	}
	return what
}

var _ = Describe("Pod Security", Label("isolation"), func() {
	// Asks the admission plugin about the pods of every scanner, parser
	// and hook that there is a chart of.
	It("admits the pods of every scanner, parser and hook at the level that the documentation says", func(ctx SpecContext) {
		ns := everythingHeld(ctx)
		lower := map[string]string{}
		for _, level := range levels[1:] {
			lower[level] = namespace(ctx, enforcing+level)
		}
		var types executionv1.ScanTypeList
		if err := w.admin.List(ctx, &types, client.InNamespace(ns)); err != nil || len(types.Items) < len(scannerCharts) {
			Fail(fmt.Sprintf("%d ScanTypes (%v)", len(types.Items), err))
		}
		var passing []string
		rows := [][]string{{"ScanType", "passes", "what keeps it from `restricted`"}}
		for i := range types.Items {
			name := types.Items[i].Name
			job := jobTo(ctx, scans.New(ns, "held-"+name, name), "scanner")
			why := violations(ctx, job, ns, levels[0])
			if why == "" {
				if strings.HasPrefix(name, resultimport.TypePrefix) {
					name = resultimport.TypePrefix + "*" // they have one shape
				}
				passing = append(passing, "`"+name+"`")
				continue
			}
			rows = append(rows, []string{"`" + name + "`", "`" + passes(ctx, job, lower) + "`", strings.ReplaceAll(why, "|", `\|`)})
		}
		parsers := wantRestrictedParsers(ctx, ns)
		hooks := wantRestrictedHooks(ctx, ns)
		text := fmt.Sprintf("Scanners that pass `restricted`, with the lurker beside them: %s. So do the parsers of all %d result types and the %d hooks that there are charts of.\n\n",
			strings.Join(slices.Compact(passing), ", "), parsers, hooks)
		if len(rows) > 1 {
			text += markdownTable(rows)
		}
		wantDocumented("pod-security", text)
	})

	// Looks at the pods as the API server makes them: of all
	// containers only the lurker has a token, but where a ScanType asks for an account.
	It("finds tokens in no container but the lurker's, unless a ScanType asks for an account", func(ctx SpecContext) {
		ns := everythingHeld(ctx)
		withAccount := []string{"trivy-k8s", "trivy-image-autodiscovery", "registry-findings"}
		var types executionv1.ScanTypeList
		if err := w.admin.List(ctx, &types, client.InNamespace(ns)); err != nil || len(types.Items) < len(scannerCharts) {
			Fail(fmt.Sprintf("%d ScanTypes (%v)", len(types.Items), err))
		}
		open := namespace(ctx)
		for i := range types.Items {
			name := types.Items[i].Name
			job := jobTo(ctx, scans.New(ns, "held-"+name, name), "scanner")
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: open, Name: job.Spec.Template.Spec.ServiceAccountName}}
			if err := w.admin.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
				Expect(err).NotTo(HaveOccurred())
			}
			pod := podOf(job, open)
			Expect(w.admin.Create(ctx, pod, client.DryRunAll)).To(Succeed())
			have := mountsToken(&pod.Spec)
			if slices.Contains(withAccount, name) {
				Expect(have).To(HaveLen(len(pod.Spec.Containers)), "%s: %v mount a token, want all containers of a ScanType with an account", name, have)
				continue
			}
			if len(have) != 1 || have[0] != "lurker" {
				Fail(fmt.Sprintf("%s: %v mount a token, want the lurker only", name, have))
			}
		}
	})
})

// passes is the strictest of the lower levels that admits the pod of a Job.
func passes(ctx context.Context, j *batchv1.Job, namespaces map[string]string) string {
	GinkgoHelper()
	for _, level := range levels[1:] {
		ns := namespaces[level]
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: j.Spec.Template.Spec.ServiceAccountName}}
		if err := w.admin.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
			Expect(err).NotTo(HaveOccurred())
		}
		if violations(ctx, j, ns, level) == "" {
			return level
		}
	}
	Fail(fmt.Sprintf("no level admits the pod of Job %s", j.Name))
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
	kind.Name, kind.Spec.Phases = "sh-"+resultType, executionv1.PhasesSeparate
	return kind
}

// wantRestrictedParsers runs a parser of every result type, as far as to its Job.
func wantRestrictedParsers(ctx context.Context, ns string) int {
	GinkgoHelper()
	var definitions executionv1.ParseDefinitionList
	Expect(w.admin.List(ctx, &definitions, client.InNamespace(ns))).To(Succeed())
	for i := range definitions.Items {
		name := definitions.Items[i].Name
		create(ctx, restrictedShell(ns, name))
		create(ctx, onlyHooks(scans.New(ns, "sh-"+name, "sh-"+name, quick), ""))
	}
	for i := range definitions.Items {
		name := definitions.Items[i].Name
		s := scanNamed(ctx, ns, "sh-"+name)
		eventually(ctx, "the parser of "+name, func(context.Context) (bool, error) { return jobsOf(s)["parser"] != nil, nil })
		job := jobsOf(s)["parser"]
		if why := violationsWith(ctx, job, ns); why != "" {
			Fail(fmt.Sprintf("the parser of %s: %s", name, why))
		}
	}
	return len(definitions.Items)
}

// violationsWith asks about a pod whose account may be gone already, for its Scan may have
// ended: any other account is as good for this question.
func violationsWith(ctx context.Context, j *batchv1.Job, ns string) string {
	GinkgoHelper()
	j = j.DeepCopy()
	j.Spec.Template.Spec.ServiceAccountName, j.Spec.Template.Spec.DeprecatedServiceAccount = executionv1.ServiceAccountLurker, ""
	return violations(ctx, j, ns, levels[0])
}

func scanNamed(ctx context.Context, ns, name string) *executionv1.Scan {
	GinkgoHelper()
	s := &executionv1.Scan{}
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, s)).To(Succeed())
	return s
}

// wantRestrictedHooks runs each hook over the result of a Scan, as far as to its Job.
func wantRestrictedHooks(ctx context.Context, ns string) int {
	GinkgoHelper()
	var hooks executionv1.ScanCompletionHookList
	if err := w.admin.List(ctx, &hooks, client.InNamespace(ns)); err != nil || len(hooks.Items) == 0 {
		Fail(fmt.Sprintf("%d hooks (%v)", len(hooks.Items), err))
	}
	for i := range hooks.Items {
		name := hooks.Items[i].Name
		create(ctx, onlyHooks(scans.New(ns, "hook-"+name, "sh-test-txt", quick), name))
	}
	for i := range hooks.Items {
		name := hooks.Items[i].Name
		s := scanNamed(ctx, ns, "hook-"+name)
		eventually(ctx, "hook "+name, func(context.Context) (bool, error) { return jobsOf(s)[name] != nil, nil })
		if why := violationsWith(ctx, jobsOf(s)[name], ns); why != "" {
			Fail(fmt.Sprintf("hook %s: %s", name, why))
		}
	}
	return len(hooks.Items)
}
