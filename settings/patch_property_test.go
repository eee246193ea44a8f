// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// rounds is how many patches each property is tried with.
const rounds = 600

// TestPropertyPatchesBreakNoInvariant: whatever a patch says, it is refused or the Job is as the
// contract and isolation need it. What that is stands in mustStay, which shares nothing with the
// guard.
func TestPropertyPatchesBreakNoInvariant(t *testing.T) {
	taken := 0
	forAll(t, func(t *testing.T, g *generator, job *batchv1.Job, attributes JobAttributes, text string) {
		before := mustStay(job)
		after, err := effectiveFor(g.tenant, text).Patch(job, attributes)
		if err != nil {
			if _, ok := errors.AsType[*PatchError](err); !ok {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		taken++
		if diff := cmp.Diff(before, mustStay(after), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the patch broke an invariant (-want +got):\n%s", diff)
		}
		if why := leaks(job, after); why != "" {
			t.Fatalf("the patch broke isolation: %s", why)
		}
	})
	if taken < rounds/20 {
		t.Errorf("only %d of %d patches were taken: the generator makes too few that can be", taken, rounds)
	}
}

// TestPropertyPatchesAreIdempotent: a merge patch that was taken changes nothing a second time,
// and every patch makes the same of the same Job.
func TestPropertyPatchesAreIdempotent(t *testing.T) {
	forAll(t, func(t *testing.T, g *generator, job *batchv1.Job, attributes JobAttributes, text string) {
		e := effectiveFor(g.tenant, text)
		once, err := e.Patch(job, attributes)
		if err != nil {
			return
		}
		again, err := e.Patch(job, attributes)
		if err != nil {
			t.Fatalf("taken once and refused then: %v", err)
		}
		if diff := cmp.Diff(once, again); diff != "" {
			t.Fatalf("the same patch made something else of the same Job:\n%s", diff)
		}
		if strings.HasPrefix(text, "[") {
			return // add to a list is not meant to be idempotent
		}
		twice, err := e.Patch(once, attributes)
		if err != nil {
			t.Fatalf("refused the second time: %v", err)
		}
		if diff := cmp.Diff(once, twice, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the second time changed more (-once +twice):\n%s", diff)
		}
	})
}

// TestPropertyValidPatchesApply: what admission lets through is taken by the Jobs it is for, or
// says in which line it does not fit.
func TestPropertyValidPatchesApply(t *testing.T) {
	forAll(t, func(t *testing.T, g *generator, job *batchv1.Job, attributes JobAttributes, text string) {
		p := &Problems{}
		p.patches([]settingsv1alpha2.JobPatch{{Patch: text, Target: &settingsv1alpha2.PatchTarget{Phases: []settingsv1alpha2.Phase{attributes.Phase}}}}, nil, rules{tenant: g.tenant})
		if len(p.All()) > 0 {
			return
		}
		if _, err := effectiveFor(g.tenant, text).Patch(job, attributes); err != nil && !strings.Contains(err.Error(), "line ") {
			t.Fatalf("let through, then refused without a line: %v", err)
		}
	})
}

func effectiveFor(tenant bool, text string) *Effective {
	p := []settingsv1alpha2.JobPatch{{Patch: text}}
	if tenant {
		return Compute(Input{Setting: &ownSpec{JobPatches: p}})
	}
	return Compute(Input{Cluster: &clusterSpec{JobPatches: p}})
}

func forAll(t *testing.T, check func(*testing.T, *generator, *batchv1.Job, JobAttributes, string)) {
	t.Helper()
	for seed := range uint64(rounds) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 7))}
		g.tenant = g.IntN(2) == 0
		phase := allPhases[g.IntN(len(allPhases))]
		job := samples(t, phase, "nmap", "extra")[g.IntN(2)]
		text := g.patch(job)
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, phase %s, patch:\n%s", seed, phase, text)
				}
			}()
			check(t, g, job, JobAttributes{Phase: phase, ScanType: "nmap", Hook: "slack"}, text)
		}()
	}
}

// invariants are what no patch may change.
type invariants struct {
	Name, Namespace, Owners, Finalizers string
	Labels, PodLabels, PodAnnotations   map[string]string
	Job                                 string
	Pod                                 []any
	Commands                            map[string]string
	Lurker                              string
	Env                                 map[string]string
	OwnVolumes, OwnMounts               map[string]string
}

func printed(v any) string { return fmt.Sprintf("%+v", jsonOf(v)) }

func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func mustStay(j *batchv1.Job) invariants {
	own := func(m map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			if strings.Contains(k, "securecodebox.io/") || strings.Contains(k, "scanyard.io/") || k == "app.kubernetes.io/managed-by" {
				out[k] = v
			}
		}
		return out
	}
	p := j.Spec.Template.Spec
	out := invariants{
		Name: j.Name, Namespace: j.Namespace, Owners: printed(j.OwnerReferences), Finalizers: printed(j.Finalizers),
		Labels: own(j.Labels), PodLabels: own(j.Spec.Template.Labels), PodAnnotations: own(j.Spec.Template.Annotations),
		Job: printed([]any{j.Spec.BackoffLimit, j.Spec.Suspend, j.Spec.Parallelism, j.Spec.Completions, j.Spec.ManualSelector, j.Spec.Selector, j.Spec.ManagedBy}),
		Pod: []any{p.ServiceAccountName, p.DeprecatedServiceAccount, printed(p.AutomountServiceAccountToken), p.RestartPolicy, p.HostPID, p.HostIPC, printed(p.ShareProcessNamespace), len(p.EphemeralContainers)},

		Commands: map[string]string{}, Env: map[string]string{}, OwnVolumes: map[string]string{}, OwnMounts: map[string]string{},
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		if c.Name == "lurker" {
			c.Resources = corev1.ResourceRequirements{}
			out.Lurker = printed(c)
			continue
		}
		if len(c.Command)+len(c.Args) > 0 && slices.Contains([]string{"nmap", "extra", "parser", "hook"}, c.Name) {
			out.Commands[c.Name] = printed([]any{c.Command, c.Args})
		}
		for _, e := range c.Env {
			if e.Name == "NAMESPACE" || e.Name == "SCAN_NAME" || e.Name == "HOOK_NAME" {
				out.Env[c.Name+e.Name] = printed(e)
			}
		}
		for _, m := range c.VolumeMounts {
			if m.Name == "scan-results" && c.Name == "nmap" || strings.HasPrefix(m.Name, "lurker-") {
				out.OwnMounts[c.Name+m.Name] += printed(m)
			}
		}
	}
	for _, v := range p.Volumes {
		if v.Name == "scan-results" || v.Name == "ca-certificate" || strings.HasPrefix(v.Name, "lurker-") {
			out.OwnVolumes[v.Name] += printed(v)
		}
	}
	return out
}

// leaks says how a container could come to a token that it had not.
func leaks(before, after *batchv1.Job) string {
	had := map[string]bool{}
	for _, v := range before.Spec.Template.Spec.Volumes {
		had[v.Name] = true
	}
	for _, v := range after.Spec.Template.Spec.Volumes {
		if !had[v.Name] && strings.Contains(jsonOf(v), "serviceAccountToken") {
			return "volume " + v.Name + " holds a token"
		}
	}
	return ""
}

// generator makes patches that go where it hurts: at every field that a Job has, and at some
// that it has not.
type generator struct {
	*rand.Rand

	tenant bool
}

func (g *generator) patch(job *batchv1.Job) string {
	var tree any
	if err := json.Unmarshal([]byte(jsonOf(job)), &tree); err != nil {
		return err.Error()
	}
	all := pathsOf(tree, nil)
	if g.IntN(3) == 0 {
		return g.operations(all)
	}
	merged := g.harmless(job)
	for range g.IntN(3) {
		merged = overlay(merged, g.merge(all[g.IntN(len(all))]))
	}
	return jsonOf(merged)
}

// step is a field or, with a name, an element of a list.
type step struct {
	key   string
	index int
	name  string
}

// pathsOf lists every place of a tree, in an order that is always the same.
func pathsOf(v any, at []step) [][]step {
	var all [][]step
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			p := append(slices.Clone(at), step{key: k, index: -1})
			all = append(append(all, p), pathsOf(v[k], p)...)
		}
	case []any:
		for i, e := range v {
			s := step{index: i}
			if m, ok := e.(map[string]any); ok {
				s.name, _ = m["name"].(string)
			}
			p := append(slices.Clone(at), s)
			all = append(append(all, p), pathsOf(e, p)...)
		}
	}
	return all
}

// fields are some that the Jobs do not have.
var fields = []string{
	"serviceAccountName", "serviceAccount", "hostPID", "hostIPC", "hostNetwork", "shareProcessNamespace", "automountServiceAccountToken", "restartPolicy",
	"suspend", "parallelism", "completions", "backoffLimit", "managedBy", "priorityClassName", "runtimeClassName", "nodeName", "args", "command", "image", "env",
	"volumeMounts", "volumes", "initContainers", "finalizers", "labels", "annotations", "$patch", "stdin", "tty", "workingDir", "schedulerName", "terminationGracePeriodSeconds",
	"securecodebox.io/job-type", "app.kubernetes.io/managed-by", "scanyard.io/scan", "example.com/free", "imagePullPolicy", "dnsPolicy", "ephemeralContainers",
}

func (g *generator) value() any {
	values := []any{
		nil, true, false, "x", "lurker-token", "Always", 1,
		[]any{},
		map[string]any{},
		[]any{"a"},
		"delete", "replace",
		map[string]any{"a": "b"},
		[]any{map[string]any{"name": "new", "image": "new"}},
		[]any{map[string]any{"name": "new", "image": "new", "volumeMounts": []any{map[string]any{"name": "lurker-token", "mountPath": "/t"}}}},
		[]any{map[string]any{"name": "t", "projected": map[string]any{"sources": []any{map[string]any{"serviceAccountToken": map[string]any{"path": "t"}}}}}},
		[]any{map[string]any{"name": "lurker", "image": "mine"}},
		[]any{map[string]any{"name": "SCAN_NAME", "value": "other"}, map[string]any{"name": "FREE", "value": "1"}},
		map[string]any{"securecodebox.io/job-type": "parser"},
		map[string]any{"example.com/free": "yes"},
	}
	return values[g.IntN(len(values))]
}

func (g *generator) operations(all [][]step) string {
	pointer := func() string {
		var parts []string
		for _, s := range all[g.IntN(len(all))] {
			if s.index >= 0 {
				parts = append(parts, strconv.Itoa(s.index))
				continue
			}
			parts = append(parts, strings.NewReplacer("~", "~0", "/", "~1").Replace(s.key))
		}
		p := "/" + strings.Join(parts, "/")
		switch g.IntN(4) {
		case 0:
			return p + "/-"
		case 1:
			return p + "/" + strings.ReplaceAll(fields[g.IntN(len(fields))], "/", "~1")
		}
		return p
	}
	var ops []any
	for range 1 + g.IntN(3) {
		op := map[string]any{"op": knownOps[g.IntN(len(knownOps))], "path": pointer()}
		switch op["op"] {
		case "move", "copy":
			op["from"] = pointer()
		case "add", "replace", "test":
			op["value"] = g.value()
		}
		ops = append(ops, op)
	}
	return jsonOf(ops)
}

// merge makes a merge patch of one path: the field there, or another one beside it.
func (g *generator) merge(path []step) any {
	if len(path) > 1 && path[len(path)-1].index < 0 && g.IntN(2) == 0 {
		path = append(slices.Clone(path[:len(path)-1]), step{key: fields[g.IntN(len(fields))], index: -1})
	}
	v := g.value()
	for _, s := range slices.Backward(path) {
		if s.index < 0 {
			v = map[string]any{s.key: v}
			continue
		}
		if m, ok := v.(map[string]any); ok && s.name != "" && m["name"] == nil {
			m["name"] = s.name
		}
		v = []any{v}
	}
	return v
}

// harmless makes a merge patch that may be taken.
func (g *generator) harmless(job *batchv1.Job) any {
	container := map[string]any{"name": job.Spec.Template.Spec.Containers[0].Name}
	for k, v := range map[string]any{
		"stdin": true, "imagePullPolicy": "Always", "workingDir": "/w", "env": []any{map[string]any{"name": "FREE", "value": "1"}},
		"resources":    map[string]any{"limits": map[string]any{"cpu": "3"}},
		"volumeMounts": []any{map[string]any{"name": "free", "mountPath": "/free"}}, "image": "mirror/image",
	} {
		if g.IntN(3) == 0 {
			container[k] = v
		}
	}
	pod := map[string]any{"containers": []any{container}}
	for k, v := range map[string]any{
		"priorityClassName": "scans", "schedulerName": "mine", "nodeSelector": map[string]any{"disk": "ssd"},
		"tolerations": []any{map[string]any{"key": "k", "operator": "Exists"}}, "initContainers": []any{map[string]any{"name": "new", "image": "new"}},
		"volumes": []any{map[string]any{"name": "free", "emptyDir": map[string]any{}}}, "imagePullSecrets": []any{map[string]any{"name": "pull"}},
	} {
		if g.IntN(3) == 0 {
			pod[k] = v
		}
	}
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{"example.com/free": "yes"}}, "spec": map[string]any{"template": map[string]any{"spec": pod}}}
}

// overlay puts one tree over another.
func overlay(base, over any) any {
	b, okB := base.(map[string]any)
	o, okO := over.(map[string]any)
	if !okB || !okO {
		return over
	}
	out := maps.Clone(b)
	for k, v := range o {
		if was, ok := out[k]; ok {
			v = overlay(was, v)
		}
		out[k] = v
	}
	return out
}
