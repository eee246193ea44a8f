// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// scannerJob is a Job as a Scan of type nmap has it.
func scannerJob(t testing.TB) *batchv1.Job {
	t.Helper()
	return samples(t, settingsv1alpha2.PhaseScanner, "nmap")[0]
}

func samples(t testing.TB, phase settingsv1alpha2.Phase, containers ...string) []*batchv1.Job {
	t.Helper()
	jobs, err := Samples(phase, containers)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func effective(patches ...string) *Effective {
	var all []settingsv1alpha2.JobPatch
	for _, p := range patches {
		all = append(all, settingsv1alpha2.JobPatch{Patch: p})
	}
	return Compute(Input{Cluster: &clusterSpec{JobPatches: all}})
}

func TestPatchChangesTheJob(t *testing.T) {
	pod := func(f func(*corev1.PodSpec)) func(*batchv1.Job) {
		return func(j *batchv1.Job) { f(&j.Spec.Template.Spec) }
	}
	cases := map[string]struct {
		reason, patch string
		want          func(*batchv1.Job)
	}{
		"Merge": {
			reason: "a field that nothing of ours is for",
			patch:  "spec:\n  template:\n    spec:\n      priorityClassName: scans\n      runtimeClassName: gvisor\n",
			want:   pod(func(p *corev1.PodSpec) { p.PriorityClassName, p.RuntimeClassName = "scans", new("gvisor") }),
		},
		"MergeContainer": {
			reason: "a container is found by its name, and the others stay",
			patch:  "spec: {template: {spec: {containers: [{name: nmap, stdin: true}]}}}",
			want:   pod(func(p *corev1.PodSpec) { p.Containers[0].Stdin = true }),
		},
		"MergeUnknownContainer": {
			reason: "an entry for a container that this Job does not have is for other Jobs",
			patch:  "spec: {template: {spec: {containers: [{name: zap, stdin: true}]}}}",
			want:   func(*batchv1.Job) {},
		},
		"NewContainer": {
			reason: "a new container comes behind the scanner and before the lurker",
			patch:  "spec: {template: {spec: {containers: [{name: side, image: side}]}}}",
			want: pod(func(p *corev1.PodSpec) {
				p.Containers = []corev1.Container{p.Containers[0], {Name: "side", Image: "side"}, p.Containers[1]}
			}),
		},
		"LurkerResources": {
			reason: "of the lurker, resources may be changed",
			patch:  "spec: {template: {spec: {containers: [{name: lurker, resources: {limits: {cpu: null}}}]}}}",
			want: pod(func(p *corev1.PodSpec) {
				delete(p.Containers[1].Resources.Limits, corev1.ResourceCPU)
			}),
		},
		"Labels": {
			reason: "labels for others are free",
			patch:  "metadata: {labels: {cost-center: '7'}}\nspec: {template: {metadata: {annotations: {example.com/a: b}}}}",
			want: func(j *batchv1.Job) {
				j.Labels["cost-center"] = "7"
				j.Spec.Template.Annotations["example.com/a"] = "b"
			},
		},
		"JSON6902": {
			reason: "operations one after the other",
			patch:  "- {op: add, path: /spec/template/spec/tolerations, value: []}\n- {op: add, path: /spec/template/spec/tolerations/-, value: {key: scans, operator: Exists}}\n",
			want: pod(func(p *corev1.PodSpec) {
				p.Tolerations = []corev1.Toleration{{Key: "scans", Operator: corev1.TolerationOpExists}}
			}),
		},
		"JSON": {
			reason: "JSON is YAML, and what the operator has noted stays where all annotations are set",
			patch:  `[{"op":"add","path":"/metadata/annotations","value":{"example.com~1x":"y"}}]`,
			want:   func(j *batchv1.Job) { j.Annotations["example.com~1x"] = "y" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, want := scannerJob(t), scannerJob(t)
			tc.want(want)
			got, err := effective(tc.patch).Patch(before, JobAttributes{Phase: settingsv1alpha2.PhaseScanner})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(scannerJob(t), before); diff != "" {
				t.Errorf("the Job itself was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	const mark = "metadata: {annotations: {patched: 'yes'}}"
	nmap := JobAttributes{Phase: settingsv1alpha2.PhaseScanner, ScanType: "nmap", Labels: map[string]string{"team": "red"}}
	hook := JobAttributes{Phase: settingsv1alpha2.PhaseHook, ScanType: "nmap", Hook: "slack"}
	cases := map[string]struct {
		reason string
		target *settingsv1alpha2.PatchTarget
		job    JobAttributes
		want   bool
	}{
		"All":          {"no target is for all", nil, nmap, true},
		"Empty":        {"an empty target is for all", &settingsv1alpha2.PatchTarget{}, hook, true},
		"Phase":        {"the phase fits", &settingsv1alpha2.PatchTarget{Phases: []settingsv1alpha2.Phase{settingsv1alpha2.PhaseScanner}}, nmap, true},
		"OtherPhase":   {"the phase does not fit", &settingsv1alpha2.PatchTarget{Phases: []settingsv1alpha2.Phase{settingsv1alpha2.PhaseScanner}}, hook, false},
		"ScanType":     {"also hooks of the type's Scans", &settingsv1alpha2.PatchTarget{ScanTypes: []string{"zap", "nmap"}}, hook, true},
		"OtherType":    {"the type does not fit", &settingsv1alpha2.PatchTarget{ScanTypes: []string{"zap"}}, nmap, false},
		"Hook":         {"the hook fits", &settingsv1alpha2.PatchTarget{Hooks: []string{"slack"}}, hook, true},
		"NoHook":       {"scanners have no hook", &settingsv1alpha2.PatchTarget{Hooks: []string{"slack"}}, nmap, false},
		"Labels":       {"labels of the Scan", selecting("team", "red"), nmap, true},
		"OtherLabels":  {"labels of another", selecting("team", "blue"), nmap, false},
		"AllMustMatch": {"each part has to hold", &settingsv1alpha2.PatchTarget{Hooks: []string{"slack"}, ScanTypes: []string{"zap"}}, hook, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := Compute(Input{Setting: &ownSpec{JobPatches: []settingsv1alpha2.JobPatch{{Target: tc.target, Patch: mark}}}})
			got, err := e.Patch(scannerJob(t), tc.job)
			if err != nil {
				t.Fatal(err)
			}
			if (got.Annotations["patched"] == "yes") != tc.want {
				t.Errorf("%s: patched is %t", tc.reason, !tc.want)
			}
		})
	}
}

// badPatches are refused, each with its line and a word of the message.
var badPatches = map[string]struct {
	reason, patch string
	line          string
	want          string
	tenant        bool
}{
	"NoYAML":             {reason: "a tab", patch: "spec:\n\ttemplate: {}", line: "line 2", want: "not YAML"},
	"Twice":              {reason: "which of the two applies is undefined", patch: "spec: {}\nspec: {}", line: "line 2", want: "spec"},
	"Text":               {reason: "neither form", patch: "runtimeClassName", line: "line 1", want: "neither"},
	"OtherKind":          {reason: "patches are for Jobs", patch: "kind: Pod\nspec: {}", line: "line 1", want: "patches are for Jobs"},
	"PodSpec":            {reason: "a pod is below spec.template", patch: "tolerations: []", line: "line 1", want: "spec.template"},
	"UnknownField":       {reason: "a typing error", patch: "spec:\n  template:\n    spec:\n      tolerationz: []\n", line: "line 4", want: "no field spec.template.spec.tolerationz"},
	"WrongType":          {reason: "a text instead of a list", patch: "spec:\n  template:\n    spec:\n      containers: none\n", line: "line 4", want: "containers: is a text and must be a list"},
	"WrongElement":       {reason: "kustomize would drop it", patch: "spec:\n  template:\n    spec:\n      containers:\n      - name: nmap\n        env: [[{name: A}]]\n", line: "line 6", want: "env"},
	"UnknownInElement":   {reason: "a typing error in a list", patch: "spec:\n  template:\n    spec:\n      containers:\n      - name: nmap\n      - name: zap\n        stdinn: true\n", line: "line 7", want: "containers[1].stdinn"},
	"Name":               {reason: "the name is derived", patch: "metadata:\n  name: mine\n", line: "line 2", want: "metadata.name cannot be changed"},
	"Namespace":          {reason: "the namespace isolates", patch: "metadata:\n  namespace: kube-system\n", line: "line 2", want: "metadata.namespace"},
	"Owner":              {reason: "ownership is by UID", patch: "metadata:\n  ownerReferences: []\n  labels: {a: b}\n  finalizers: [x]\n", line: "line 4", want: "metadata.finalizers"},
	"OwnLabel":           {reason: "the operator finds its Jobs by it", patch: "metadata:\n  labels:\n    securecodebox.io/job-type: parser\n", line: "line 3", want: "securecodebox.io/job-type"},
	"PodLabel":           {reason: "the cache selects by it", patch: "spec:\n  template:\n    metadata:\n      labels:\n        app.kubernetes.io/managed-by: me\n", line: "line 5", want: "managed-by"},
	"Backoff":            {reason: "each pod is a try of the same phase", patch: "spec:\n  backoffLimit: 9\n", line: "line 2", want: "spec.backoffLimit"},
	"Restart":            {reason: "as it ends", patch: "spec: {template: {spec: {\n  restartPolicy: Always}}}", line: "line 2", want: "restartPolicy"},
	"ServiceAccount":     {reason: "rights of the pod", patch: "spec:\n  template:\n    spec:\n      serviceAccountName: admin\n", line: "line 4", want: "serviceAccountName"},
	"Token":              {reason: "scanners get no token", patch: "spec:\n  template:\n    spec:\n      automountServiceAccountToken: true\n", line: "line 4", want: "automountServiceAccountToken"},
	"TokenVolume":        {reason: "neither by a volume", patch: "spec:\n  template:\n    spec:\n      volumes:\n      - name: t\n        projected: {sources: [{serviceAccountToken: {path: token}}]}\n", line: "line 5", want: "API token"},
	"LurkerToken":        {reason: "nor by the lurker's", patch: "spec:\n  template:\n    spec:\n      containers:\n      - name: nmap\n        volumeMounts: [{name: lurker-token, mountPath: /t}]\n", line: "line 6", want: "lurker-token"},
	"TokenInNew":         {reason: "nor in a new container", patch: "spec:\n  template:\n    spec:\n      containers:\n      - {name: side, image: side, volumeMounts: [{name: lurker-token, mountPath: /t}]}\n", line: "line 5", want: "lurker-token"},
	"OwnVolume":          {reason: "results go through it", patch: "spec:\n  template:\n    spec:\n      volumes:\n      - name: scan-results\n        hostPath: {path: /}\n", line: "line 5", want: "scan-results"},
	"ShareProcess":       {reason: "the scanner could read the lurker's memory", patch: "spec: {template: {spec: {shareProcessNamespace: true}}}", line: "line 1", want: "shareProcessNamespace"},
	"Lurker":             {reason: "it uploads", patch: "spec:\n  template:\n    spec:\n      containers:\n      - name: lurker\n        image: mine\n", line: "line 6", want: "containers.lurker.image"},
	"LurkerGone":         {reason: "it is needed", patch: "spec:\n  template:\n    spec:\n      containers:\n      - name: lurker\n        $patch: delete\n", line: "line 5", want: "removed"},
	"Args":               {reason: "parameters are the Scan's", patch: "spec: {template: {spec: {containers: [\n  {name: nmap,\n   args: [-A]}]}}}", line: "line 3", want: "containers.nmap.args"},
	"Command":            {reason: "the command is the ScanType's", patch: "spec:\n  template:\n    spec:\n      containers:\n      - name: nmap\n        command: [sh]\n", line: "line 6", want: "containers.nmap.command"},
	"ContractEnv":        {reason: "the image finds its Scan by it", patch: "spec:\n  template:\n    spec:\n      containers:\n      - name: hook\n        env:\n        - {name: SCAN_NAME, value: other}\n", line: "line 7", want: "SCAN_NAME"},
	"Deleted":            {reason: "the Job would be gone", patch: "$patch: delete\nspec: {}", line: "line 1", want: "deletes the Job"},
	"Replaced":           {reason: "so would the pod", patch: "spec:\n  template:\n    $patch: replace\n    spec: {containers: [{name: x, image: y}]}\n", line: "line", want: "cannot"},
	"OpUnknown":          {reason: "a typing error", patch: "- {op: ad, path: /spec/suspend, value: true}", line: "line 1", want: `op "ad"`},
	"OpField":            {reason: "a typing error", patch: "- {op: add, path: /metadata/annotations, value: {}}\n- {op: add, pathh: /x, value: 1}", line: "line 2", want: "pathh"},
	"OpValue":            {reason: "the value is missing", patch: "- {op: add, path: /spec/x}", line: "line 1", want: "needs a value"},
	"OpSuspend":          {reason: "the queue's", patch: "- {op: add, path: /metadata/annotations, value: {}}\n- op: add\n  path: /spec/suspend\n  value: true\n", line: "line 2", want: "spec.suspend"},
	"OpUnknownField":     {reason: "a typing error", patch: "- {op: add, path: /spec/template/spec/tolerationz, value: []}", line: "line 1", want: "no field"},
	"OpMovesLurker":      {reason: "the lurker's arguments", patch: "- {op: move, from: /spec/template/spec/containers/1, path: /spec/template/spec/containers/0}", line: "line 1", want: "first"},
	"TenantHostNetwork":  {reason: "a team may only tighten", patch: "spec: {template: {spec: {hostNetwork: true}}}", line: "line 1", want: "cluster admin", tenant: true},
	"TenantPrivileged":   {reason: "a team may only tighten", patch: "spec: {template: {spec: {containers: [{name: nmap, securityContext: {privileged: true}}]}}}", line: "line 1", want: "cluster admin", tenant: true},
	"TenantVolume":       {reason: "what is not allowed is not patched in", patch: "spec: {template: {spec: {volumes: [{name: root, hostPath: {path: /}}]}}}", line: "line 1", want: "hostPath", tenant: true},
	"FindsNothing":       {reason: "a container that no Job has", patch: "spec: {template: {spec: {containers: [{name: parser, image: null}]}}}", line: "line 1", want: "image"},
	"ChangesNothing":     {reason: "it is so already", patch: "metadata: {}", line: "line 1", want: "matches nothing"},
	"OpFindsNothing":     {reason: "there is no such place", patch: "- {op: remove, path: /spec/template/spec/hostAliases/3}", line: "line 1", want: "nothing to change"},
	"NoOperation":        {reason: "an empty list", patch: "[]", line: "line 1", want: "no operation"},
	"EphemeralContainer": {reason: "a debug container sees all", patch: "spec: {template: {spec: {ephemeralContainers: [{name: d, image: d}]}}}", line: "line 1", want: "ephemeralContainers"},
}

func TestBadPatchesAreRefusedWithTheirLine(t *testing.T) {
	for name, tc := range badPatches {
		t.Run(name, func(t *testing.T) {
			p := settingsv1alpha2.JobPatch{Patch: tc.patch}
			var got string
			if tc.tenant {
				cluster := &settingsv1alpha2.ClusterScanSetting{Spec: clusterSpec{Allowed: &settingsv1alpha2.Allowed{VolumeTypes: &[]settingsv1alpha2.VolumeType{"emptyDir"}}}}
				cluster.Name = settingsv1alpha2.Name
				own := &settingsv1alpha2.ScanSetting{Spec: ownSpec{JobPatches: []settingsv1alpha2.JobPatch{p}}}
				own.Name = settingsv1alpha2.Name
				got = ValidateScanSetting(cluster, own).ToAggregate().Error()
			} else {
				c := &settingsv1alpha2.ClusterScanSetting{Spec: clusterSpec{JobPatches: []settingsv1alpha2.JobPatch{{Patch: "spec: {template: {spec: {priorityClassName: a}}}"}, p}}}
				c.Name = settingsv1alpha2.Name
				errs := ValidateClusterScanSetting(c)
				if len(errs) == 0 {
					t.Fatalf("%s: accepted", tc.reason)
				}
				got = errs.ToAggregate().Error()
				if !strings.HasPrefix(got, "spec.jobPatches[1].patch") {
					t.Errorf("%s: %q does not name the entry", tc.reason, got)
				}
			}
			if !strings.Contains(got, tc.want) || !strings.Contains(got, tc.line) {
				t.Errorf("%s: %q, want %q in %s", tc.reason, got, tc.want, tc.line)
			}
		})
	}
}

func selecting(key, value string) *settingsv1alpha2.PatchTarget {
	return &settingsv1alpha2.PatchTarget{LabelSelector: labelSelector(key, value)}
}

func labelSelector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}
