// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

type (
	clusterSpec = settingsv1alpha2.ClusterScanSettingSpec
	ownSpec     = settingsv1alpha2.ScanSettingSpec
)

var flags = Defaults{StartDeadline: time.Minute, ScannerDeadline: time.Hour, ParserDeadline: time.Hour, HookDeadline: time.Hour, StatusLinks: true}

// plain is what holds where there are no settings.
func plain(change ...func(*Effective)) *Effective {
	e := &Effective{
		Weight: 1, Order: settingsv1alpha2.OrderFIFO, StatusLinks: true, Schedules: Schedules{MinInterval: 10 * time.Second, MaxHistory: 1000},
		Deadlines: Deadlines{Start: Deadline{Default: time.Minute}, Scanner: Deadline{Default: time.Hour}, Parser: Deadline{Default: time.Hour}, Hook: Deadline{Default: time.Hour}},
		Phases: map[settingsv1alpha2.Phase]settingsv1alpha2.PhaseDefaults{
			settingsv1alpha2.PhaseScanner: {}, settingsv1alpha2.PhaseParser: {}, settingsv1alpha2.PhaseHook: {},
		},
	}
	for _, c := range change {
		c(e)
	}
	return e
}

func secret(name string) []settingsv1alpha2.PullSecret {
	return []settingsv1alpha2.PullSecret{{Name: name}}
}

func TestCompute(t *testing.T) {
	red, blue := map[string]string{"team": "red"}, map[string]string{"team": "blue"}
	limits := func(m *resource.Quantity) *settingsv1alpha2.PhaseDefaults {
		return &settingsv1alpha2.PhaseDefaults{Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: *m}}}
	}
	one, two := resource.MustParse("1Gi"), resource.MustParse("2Gi")
	weights := []settingsv1alpha2.Weight{
		{Namespace: "team-a", Weight: 5},
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: red}, Weight: 3},
	}
	cases := map[string]struct {
		reason  string
		cluster *clusterSpec
		own     *ownSpec
		labels  map[string]string
		want    *Effective
	}{
		"Nothing": {reason: "the operator's flags hold", want: plain()},
		"LimitsAreInherited": {
			reason:  "a namespace without settings has the cluster's default",
			cluster: &clusterSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunning: new(int32(50)), MaxRunningPerNamespace: new(int32(10)), ScanTypes: []settingsv1alpha2.ScanTypeLimit{{Name: "nmap", MaxRunning: 2}}}},
			want: plain(func(e *Effective) {
				e.Cluster = Limits{MaxRunning: new(int32(50)), ScanTypes: map[string]int32{"nmap": 2}}
				e.Namespace.MaxRunning = new(int32(10))
			}),
		},
		"Schedules": {
			reason:  "the cluster bounds what ScheduledScans ask for",
			cluster: &clusterSpec{Schedules: &settingsv1alpha2.Schedules{MinIntervalSeconds: new(int32(60))}},
			want:    plain(func(e *Effective) { e.Schedules.MinInterval = time.Minute }),
		},
		"LimitsAreTightened": {
			reason:  "the tighter bound holds",
			cluster: &clusterSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunningPerNamespace: new(int32(10))}},
			own:     &ownSpec{Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(3)), Targets: []settingsv1alpha2.TargetLimit{{Label: "host", MaxRunning: 1}}}},
			want: plain(func(e *Effective) {
				e.Namespace = Limits{MaxRunning: new(int32(3)), Targets: map[string]int32{"host": 1}}
			}),
		},
		"LimitsAreNeverWidened": {
			reason:  "whatever is stored, the cluster's bound is not passed",
			cluster: &clusterSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunningPerNamespace: new(int32(10))}},
			own:     &ownSpec{Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(99))}},
			want:    plain(func(e *Effective) { e.Namespace.MaxRunning = new(int32(10)) }),
		},
		"WeightByName":     {reason: "the first entry that fits counts", cluster: &clusterSpec{Weights: weights}, labels: red, want: plain(func(e *Effective) { e.Weight = 5 })},
		"WeightBySelector": {reason: "labels of the Namespace are asked", cluster: &clusterSpec{Weights: weights[1:]}, labels: red, want: plain(func(e *Effective) { e.Weight = 3 })},
		"WeightOfOthers":   {reason: "without an entry the weight is 1", cluster: &clusterSpec{Weights: weights[1:]}, labels: blue, want: plain()},
		"Queue": {
			reason:  "a namespace chooses its order and may lower what counts",
			cluster: &clusterSpec{Queue: &settingsv1alpha2.Queue{MaxPriority: new(int32(100))}},
			own:     &ownSpec{Queue: &settingsv1alpha2.Queue{Order: new(settingsv1alpha2.OrderPriority), MaxPriority: new(int32(10))}},
			want: plain(func(e *Effective) {
				e.Order, e.MaxPriority = settingsv1alpha2.OrderPriority, new(int32(10))
			}),
		},
		"TTL": {
			reason:  "the default is the namespace's, the maximum the lower one",
			cluster: &clusterSpec{TTL: &settingsv1alpha2.TTL{DefaultSeconds: new(int32(60)), MaxSeconds: new(int32(600))}},
			own:     &ownSpec{TTL: &settingsv1alpha2.TTL{DefaultSeconds: new(int32(120)), MaxSeconds: new(int32(6000))}},
			want:    plain(func(e *Effective) { e.TTL = TTL{Default: new(int32(120)), Max: new(int32(600))} }),
		},
		"Deadlines": {
			reason:  "a bound is the default as well; what is not set is as the flags say",
			cluster: &clusterSpec{Deadlines: &settingsv1alpha2.Deadlines{ScannerSeconds: new(int64(7200)), ParserSeconds: new(int64(60))}},
			own:     &ownSpec{Deadlines: &settingsv1alpha2.Deadlines{ParserSeconds: new(int64(30)), HookSeconds: new(int64(90))}},
			want: plain(func(e *Effective) {
				e.Deadlines.Scanner = Deadline{2 * time.Hour, 2 * time.Hour}
				e.Deadlines.Parser = Deadline{30 * time.Second, 30 * time.Second}
				e.Deadlines.Hook = Deadline{90 * time.Second, 90 * time.Second}
			}),
		},
		"LinksOff": {
			reason:  "a namespace cannot switch on what the cluster has off",
			cluster: &clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{LinksInStatus: new(false)}},
			own:     &ownSpec{Storage: &settingsv1alpha2.Storage{LinksInStatus: new(true)}},
			want:    plain(func(e *Effective) { e.StatusLinks = false }),
		},
		"LinksOffInNamespace": {
			reason: "it can switch them off", own: &ownSpec{Storage: &settingsv1alpha2.Storage{LinksInStatus: new(false)}},
			want: plain(func(e *Effective) { e.StatusLinks = false }),
		},
		"StorageNotAllowed": {
			reason: "without allowNamespaces results lie where the operator says",
			own:    &ownSpec{Storage: &settingsv1alpha2.Storage{Bucket: "mine", CredentialsSecret: "s3"}}, want: plain(),
		},
		"StorageAllowed": {
			reason:  "with credentials of its own a namespace may use any bucket",
			cluster: &clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true)}},
			own:     &ownSpec{Storage: &settingsv1alpha2.Storage{Bucket: "mine", CredentialsSecret: "s3", Prefix: "a/b"}},
			want:    plain(func(e *Effective) { e.ChoosesPlace, e.Storage = true, Storage{"mine", "a/b", "s3"} }),
		},
		"BucketNotListed": {
			reason:  "with the operator's credentials only listed buckets are reached",
			cluster: &clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true), Buckets: []string{"team-a"}}},
			own:     &ownSpec{Storage: &settingsv1alpha2.Storage{Bucket: "team-b"}},
			want:    plain(func(e *Effective) { e.ChoosesPlace, e.Buckets = true, []string{"team-a"} }),
		},
		"Phases": {
			reason:  "a field of the namespace takes the place of the cluster's",
			cluster: &clusterSpec{Phases: &settingsv1alpha2.Phases{Scanner: limits(&one), Parser: limits(&one)}},
			own:     &ownSpec{Phases: &settingsv1alpha2.Phases{Scanner: limits(&two)}},
			want: plain(func(e *Effective) {
				e.Phases[settingsv1alpha2.PhaseScanner], e.Phases[settingsv1alpha2.PhaseParser] = *limits(&two), *limits(&one)
			}),
		},
		"Jobs": {
			reason: "pull secrets add up, variables of one name are the namespace's",
			cluster: &clusterSpec{Jobs: &settingsv1alpha2.Jobs{
				ImagePullSecrets: secret("all"), Env: []corev1.EnvVar{{Name: "A", Value: "cluster"}, {Name: "B", Value: "cluster"}}, Proxy: &settingsv1alpha2.Proxy{HTTP: "http://p"},
			}},
			own: &ownSpec{Jobs: &settingsv1alpha2.Jobs{ImagePullSecrets: append(secret("all"), secret("own")...), Env: []corev1.EnvVar{{Name: "A", Value: "own"}}}},
			want: plain(func(e *Effective) {
				e.Jobs = Additions{PullSecrets: []string{"all", "own"}, Env: []corev1.EnvVar{{Name: "B", Value: "cluster"}, {Name: "A", Value: "own"}}, Proxy: &settingsv1alpha2.Proxy{HTTP: "http://p"}}
			}),
		},
		"Allowed": {
			reason:  "what both allow is allowed",
			cluster: &clusterSpec{Allowed: &settingsv1alpha2.Allowed{VolumeTypes: &[]settingsv1alpha2.VolumeType{"emptyDir", "secret"}}},
			own:     &ownSpec{Allowed: &settingsv1alpha2.Allowed{VolumeTypes: &[]settingsv1alpha2.VolumeType{"secret", "hostPath"}, ServiceAccounts: &[]string{}}},
			want: plain(func(e *Effective) {
				e.Allowed = Allowed{volumeTypes: &[]string{"secret"}, serviceAccounts: &[]string{}}
			}),
		},
		"Patches": {
			reason:  "the cluster's come first",
			cluster: &clusterSpec{JobPatches: []settingsv1alpha2.JobPatch{{Patch: "c"}}}, own: &ownSpec{JobPatches: []settingsv1alpha2.JobPatch{{Patch: "n"}}},
			want: plain(func(e *Effective) {
				e.Patches = []Patch{
					{JobPatch: settingsv1alpha2.JobPatch{Patch: "c"}, Origin: "ClusterScanSetting default, spec.jobPatches[0]"},
					{JobPatch: settingsv1alpha2.JobPatch{Patch: "n"}, Origin: "ScanSetting default, spec.jobPatches[0]", Tenant: true},
				}
			}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Compute(Input{Namespace: "team-a", Labels: tc.labels, Cluster: tc.cluster, Setting: tc.own, Defaults: flags})
			diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(Allowed{}, TargetScope{}, targetRule{}, pattern{}), cmpopts.IgnoreFields(Patch{}, "selector"))
			if diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDeadlineFor(t *testing.T) {
	bound := Deadline{Default: time.Hour, Max: time.Hour}
	cases := map[string]struct {
		reason   string
		deadline Deadline
		own      *int64
		want     time.Duration
	}{
		"None":         {"the default holds", bound, nil, time.Hour},
		"Tighter":      {"a Scan may tighten", bound, new(int64(60)), time.Minute},
		"Wider":        {"a Scan may never exceed", bound, new(int64(7200)), time.Hour},
		"NoBound":      {"flags are defaults and no bounds", Deadline{Default: time.Hour}, new(int64(7200)), 2 * time.Hour},
		"OutOfAllTime": {"what does not fit into a duration is long", bound, new(int64(1 << 62)), time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.deadline.For(tc.own); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestTTLSeconds(t *testing.T) {
	cases := map[string]struct {
		reason string
		ttl    TTL
		own    *int32
		want   *int32
	}{
		"Nothing":          {"kept for ever", TTL{}, nil, nil},
		"Own":              {"the Scan's own", TTL{}, new(int32(5)), new(int32(5))},
		"Default":          {"for Scans that ask for nothing", TTL{Default: new(int32(7))}, nil, new(int32(7))},
		"OwnOverDefault":   {"a Scan may ask for more than the default", TTL{Default: new(int32(7))}, new(int32(9)), new(int32(9))},
		"MaxBoundsOwn":     {"but not for more than the maximum", TTL{Max: new(int32(8))}, new(int32(9)), new(int32(8))},
		"MaxBoundsForEver": {"nothing is kept for longer than the maximum", TTL{Max: new(int32(8))}, nil, new(int32(8))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.ttl.Seconds(tc.own); ptr.Deref(got, -1) != ptr.Deref(tc.want, -1) {
				t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}
