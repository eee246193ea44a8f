// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

func setting(spec ownSpec) *settingsv1alpha2.ScanSetting {
	return &settingsv1alpha2.ScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Namespace: "team-a", Generation: 1}, Spec: spec}
}

func clusterSetting(spec clusterSpec) *settingsv1alpha2.ClusterScanSetting {
	return &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Generation: 1}, Spec: spec}
}

// refused holds problems against what each of them has to say.
func refused(t *testing.T, reason string, want []string, got field.ErrorList) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d problems, want %d: %v", reason, len(got), len(want), got.ToAggregate())
	}
	for i, w := range want {
		path, message, _ := strings.Cut(w, ": ")
		if e := got[i].Error(); !strings.HasPrefix(e, path+": ") || !strings.Contains(e, message) {
			t.Errorf("%s: %q, want %q at %s", reason, e, message, path)
		}
	}
}

func TestValidateScanSetting(t *testing.T) {
	bounds := clusterSpec{
		Limits: &settingsv1alpha2.ClusterLimits{
			MaxRunning: new(int32(50)), MaxRunningPerNamespace: new(int32(10)),
			ScanTypes: []settingsv1alpha2.ScanTypeLimit{{Name: "zap", MaxRunning: 2}}, Targets: []settingsv1alpha2.TargetLimit{{Label: "host", MaxRunning: 1}},
		},
		Queue:     &settingsv1alpha2.Queue{MaxPriority: new(int32(100))},
		TTL:       &settingsv1alpha2.TTL{MaxSeconds: new(int32(600))},
		Deadlines: &settingsv1alpha2.Deadlines{ScannerSeconds: new(int64(60))},
		Storage:   &settingsv1alpha2.ClusterStorage{LinksInStatus: new(false)},
		Allowed:   &settingsv1alpha2.Allowed{VolumeTypes: &[]settingsv1alpha2.VolumeType{"emptyDir"}, ServiceAccounts: &[]string{"scanner"}},
	}
	cases := map[string]struct {
		reason  string
		cluster *clusterSpec
		own     ownSpec
		want    []string
	}{
		"Empty":  {reason: "all is inherited", cluster: &bounds},
		"Inside": {reason: "bounds may be as tight as the cluster's", cluster: &bounds, own: ownSpec{Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(10))}, TTL: &settingsv1alpha2.TTL{MaxSeconds: new(int32(600))}}},
		"NoCluster": {
			reason: "without a ClusterScanSetting nothing is bounded",
			own:    ownSpec{Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(1000))}, Storage: &settingsv1alpha2.Storage{LinksInStatus: new(true)}},
		},
		"WiderThanTheCluster": {
			reason: "each bound says what it may be", cluster: &bounds,
			own: ownSpec{
				Limits: &settingsv1alpha2.Limits{
					MaxRunning: new(int32(11)), ScanTypes: []settingsv1alpha2.ScanTypeLimit{{Name: "nmap", MaxRunning: 9}, {Name: "zap", MaxRunning: 3}},
					Targets: []settingsv1alpha2.TargetLimit{{Label: "host", MaxRunning: 2}},
				},
				Queue:     &settingsv1alpha2.Queue{MaxPriority: new(int32(101))},
				TTL:       &settingsv1alpha2.TTL{MaxSeconds: new(int32(601))},
				Deadlines: &settingsv1alpha2.Deadlines{ScannerSeconds: new(int64(61))},
				Allowed:   &settingsv1alpha2.Allowed{VolumeTypes: &[]settingsv1alpha2.VolumeType{"hostPath"}, ServiceAccounts: &[]string{"admin"}},
				Storage:   &settingsv1alpha2.Storage{LinksInStatus: new(true), Bucket: "mine"},
			},
			want: []string{
				"spec.limits.maxRunning: is more than spec.limits.maxRunningPerNamespace of the ClusterScanSetting, which is 10: set it to 10 or less",
				"spec.limits.scanTypes[1].maxRunning: spec.limits.scanTypes[zap]", "spec.limits.targets[0].maxRunning: set it to 1 or less",
				"spec.queue.maxPriority: set it to 100 or less", "spec.ttl.maxSeconds: set it to 600 or less", "spec.deadlines.scannerSeconds: set it to 60 or less",
				`spec.allowed.volumeTypes[0]: supported values: "emptyDir"`, `spec.allowed.serviceAccounts[0]: supported values: "scanner"`,
				"spec.storage.linksInStatus: switched off", "spec.storage.bucket: allowNamespaces",
			},
		},
		"Bucket": {
			reason: "with the operator's credentials only what is listed", cluster: &clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true), Buckets: []string{"team-a"}}},
			own: ownSpec{Storage: &settingsv1alpha2.Storage{Bucket: "team-b"}}, want: []string{`spec.storage.bucket: supported values: "team-a" (spec.storage.buckets of the ClusterScanSetting), or any with a credentialsSecret`},
		},
		"Storage": {
			reason: "what can never work", cluster: &clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true)}},
			own:  ownSpec{Storage: &settingsv1alpha2.Storage{CredentialsSecret: "S3", Prefix: "a/../b"}},
			want: []string{"spec.storage.credentialsSecret: is not a valid name of a Secret", "spec.storage.bucket: the bucket that the credentials are for", "spec.storage.prefix: without . and .."},
		},
		"TTL": {
			reason: "also where the CRD did not ask", own: ownSpec{TTL: &settingsv1alpha2.TTL{DefaultSeconds: new(int32(9)), MaxSeconds: new(int32(8))}},
			want: []string{"spec.ttl.defaultSeconds: lower it"},
		},
		"Jobs": {
			reason: "what no Job could take",
			own: ownSpec{Jobs: &settingsv1alpha2.Jobs{
				ImagePullSecrets: secret("No Name"),
				Env:              []corev1.EnvVar{{Name: "1=2"}, {Name: "SCAN_NAME", Value: "x"}, {Name: "A", Value: "x", ValueFrom: &corev1.EnvVarSource{}}},
				Proxy:            &settingsv1alpha2.Proxy{HTTP: "proxy:3128", HTTPS: "http://me:secret@proxy"},
				CACertificate:    &settingsv1alpha2.CACertificate{ConfigMap: "?"},
			}},
			want: []string{
				"spec.jobs.imagePullSecrets[0].name: is not a valid name of a Secret", "spec.jobs.env[0].name: valid environment variable name", "spec.jobs.env[1].name: choose another name",
				"spec.jobs.env[2]: remove one", "spec.jobs.proxy.http: must be the URL of a proxy", "spec.jobs.proxy.https: holds credentials", "spec.jobs.caCertificate.configMap: is not a valid name of a ConfigMap",
			},
		},
		"Phases": {
			reason: "a request over its limit",
			own: ownSpec{Phases: &settingsv1alpha2.Phases{Hook: &settingsv1alpha2.PhaseDefaults{Resources: &corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}, Requests: corev1.ResourceList{"cpu": resource.MustParse("2")},
			}}}},
			want: []string{"spec.phases.hook.resources.requests[cpu]: raise the limit"},
		},
		"Privileged": {
			reason: "a team may only tighten",
			own:    ownSpec{Phases: &settingsv1alpha2.Phases{Parser: &settingsv1alpha2.PhaseDefaults{SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}},
			want:   []string{"spec.phases.parser.securityContext.privileged: ask the cluster admin"},
		},
		"Targets": {
			reason: "labels that no Scan can have", own: ownSpec{Limits: &settingsv1alpha2.Limits{Targets: []settingsv1alpha2.TargetLimit{{Label: "a b"}}}},
			want: []string{"spec.limits.targets[0].label: is not a key of a label"},
		},
		"HooksOfScanners": {
			reason: "only hook Jobs have a hook",
			own: ownSpec{JobPatches: []settingsv1alpha2.JobPatch{{
				Target: &settingsv1alpha2.PatchTarget{Phases: []settingsv1alpha2.Phase{settingsv1alpha2.PhaseScanner}, Hooks: []string{"slack"}}, Patch: "metadata: {labels: {a: b}}",
			}}},
			want: []string{"spec.jobPatches[0].target.hooks: matches nothing"},
		},
		"Selector": {
			reason: "a selector that cannot be read",
			own: ownSpec{JobPatches: []settingsv1alpha2.JobPatch{{
				Target: &settingsv1alpha2.PatchTarget{LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}, Patch: "metadata: {labels: {a: b}}",
			}}},
			want: []string{"spec.jobPatches[0].target.labelSelector.matchExpressions[0].operator: not a valid"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var cluster *settingsv1alpha2.ClusterScanSetting
			if tc.cluster != nil {
				cluster = clusterSetting(*tc.cluster)
			}
			got := ValidateScanSetting(cluster, setting(tc.own))
			refused(t, tc.reason, tc.want, got)
			for _, e := range got {
				if strings.Contains(e.Error(), "secret@") {
					t.Errorf("the message holds a password: %s", e.Error())
				}
			}
		})
	}
}

func TestValidateClusterScanSetting(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   clusterSpec
		name   string
		want   []string
	}{
		"Empty": {reason: "nothing is bounded"},
		"Name":  {reason: "one object counts", name: "other", want: []string{"metadata.name: rename it"}},
		"PerNamespace": {
			reason: "a namespace is a part of the cluster", spec: clusterSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunning: new(int32(5)), MaxRunningPerNamespace: new(int32(6))}},
			want: []string{"spec.limits.maxRunningPerNamespace: lower it"},
		},
		"Weights": {
			reason: "whom a weight is for",
			spec: clusterSpec{Weights: []settingsv1alpha2.Weight{
				{Weight: 1},
				{Namespace: "a", NamespaceSelector: &metav1.LabelSelector{}, Weight: 1},
				{Namespace: "a"},
				{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}, Weight: 1},
			}},
			want: []string{"spec.weights[0]: either", "spec.weights[1]: either", "spec.weights[2].weight: at least 1", "spec.weights[3].namespaceSelector.matchLabels: name part"},
		},
		"Allowed": {
			reason: "types that there are not", spec: clusterSpec{Allowed: &settingsv1alpha2.Allowed{VolumeTypes: &[]settingsv1alpha2.VolumeType{"emptydir"}, ServiceAccounts: &[]string{"A"}}},
			want: []string{`spec.allowed.volumeTypes[0]: "emptyDir"`, "spec.allowed.serviceAccounts[0]: is not a valid name of a ServiceAccount"},
		},
		"Buckets": {
			reason: "names that no bucket has", spec: clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{Buckets: []string{"ok-bucket", "a"}}},
			want: []string{"spec.storage.buckets[1]: is not a valid name of a bucket"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := clusterSetting(tc.spec)
			if tc.name != "" {
				s.Name = tc.name
			}
			refused(t, tc.reason, tc.want, ValidateClusterScanSetting(s))
		})
	}
}

func TestUnmatchedPatches(t *testing.T) {
	installed := &Installed{ScanTypes: []string{"nmap", "zap"}, Hooks: []string{"slack"}}
	target := func(types, hooks []string) settingsv1alpha2.JobPatch {
		return settingsv1alpha2.JobPatch{Target: &settingsv1alpha2.PatchTarget{ScanTypes: types, Hooks: hooks}}
	}
	patches := []settingsv1alpha2.JobPatch{{}, target([]string{"nmap", "gone"}, nil), target([]string{"gone"}, nil), target(nil, []string{"slak"})}
	refused(t, "of names, one that is there is enough", []string{
		"spec.jobPatches[2].target.scanTypes: there are nmap, zap", "spec.jobPatches[3].target.hooks: there are slack",
	}, UnmatchedPatches(patches, installed, field.NewPath("spec", "jobPatches")))
	refused(t, "without knowledge nothing is said", nil, UnmatchedPatches(patches, nil, nil))
}

func TestInForce(t *testing.T) {
	good := ownSpec{Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(1))}}
	bad := ownSpec{TTL: &settingsv1alpha2.TTL{DefaultSeconds: new(int32(9)), MaxSeconds: new(int32(8))}}
	unmatched := ownSpec{JobPatches: []settingsv1alpha2.JobPatch{{Target: &settingsv1alpha2.PatchTarget{ScanTypes: []string{"gone"}}, Patch: "metadata: {labels: {a: b}}"}}}
	heldBack := func(generation int64) settingsv1alpha2.ScanSettingStatus {
		return settingsv1alpha2.ScanSettingStatus{InForce: &good, ObservedGeneration: generation, Conditions: []metav1.Condition{{
			Type: "Ready", Status: metav1.ConditionFalse, Reason: settingsv1alpha2.ReasonPatchMatchesNothing, ObservedGeneration: generation,
		}}}
	}
	cases := map[string]struct {
		reason  string
		cluster *clusterSpec
		spec    ownSpec
		status  settingsv1alpha2.ScanSettingStatus
		want    *ownSpec
	}{
		"Good":          {reason: "the spec, also before the controller has seen it", spec: good, want: &good},
		"Bad":           {reason: "nothing where there was nothing good before", spec: bad},
		"BadAfterGood":  {reason: "the last good one", spec: bad, status: settingsv1alpha2.ScanSettingStatus{InForce: &good}, want: &good},
		"GoodAfterBad":  {reason: "a mended spec counts at once", spec: good, status: settingsv1alpha2.ScanSettingStatus{InForce: &unmatched}, want: &good},
		"OutOfBounds":   {reason: "the cluster was tightened", cluster: &clusterSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunningPerNamespace: new(int32(0))}}, spec: good, status: settingsv1alpha2.ScanSettingStatus{InForce: &unmatched}, want: &unmatched},
		"HeldBack":      {reason: "the controller knows what is installed", spec: unmatched, status: heldBack(1), want: &good},
		"HeldBackStale": {reason: "it has not looked at this generation", spec: unmatched, status: heldBack(0), want: &unmatched},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := setting(tc.spec)
			s.Status = tc.status
			if diff := cmp.Diff(tc.want, InForce(tc.cluster, s)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
