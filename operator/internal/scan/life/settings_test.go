// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
	"github.com/scanyard/scanyard/settings"
)

// TestForbiddenScanIsNotStarted: what would be refused is decided before anything is made.
func TestForbiddenScanIsNotStarted(t *testing.T) {
	host := []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	tenant := settings.Compute(settings.Input{Setting: &settingsv1alpha2.ScanSettingSpec{Allowed: &settingsv1alpha2.Allowed{
		VolumeTypes: &[]settingsv1alpha2.VolumeType{"emptyDir"},
	}}})
	scoped := settings.Compute(settings.Input{Cluster: &settingsv1alpha2.ClusterScanSettingSpec{TargetScope: &settingsv1alpha2.TargetScope{
		Denied: []string{"10.0.0.0/8"},
	}}})
	withHook := func(h Hook) func(*Observation) {
		return func(o *Observation) {
			o.Hooks = []Hook{h}
			o.Jobs = []Job{{Name: "scan", Role: ScannerRole, Attempt: 1, Outcome: Complete}, {Name: "parse", Role: ParserRole, Attempt: 1, Outcome: Complete}}
		}
	}
	hostHook := hook("h", executionv1.ReadOnly, 0)
	hostHook.Spec.Volumes = host
	away := hook("h", executionv1.ReadOnly, 0)
	away.ExecutionNamespace = "hooks"
	cases := map[string]struct {
		change func(*Observation)
		step   string
		reason string
		want   string
	}{
		"Scanner": {func(o *Observation) { o.Scan.Spec.Volumes = host }, "NotAllowed", executionv1.ReasonNotAllowed, "spec.volumes[0]"},
		"Target": {
			func(o *Observation) { o.Tenant, o.Scan.Spec.Parameters = scoped, []string{"-sV", "10.0.0.7"} }, "NotAllowed", executionv1.ReasonNotAllowed,
			`spec.parameters[1]: target "10.0.0.7" is denied by "10.0.0.0/8"`,
		},
		"ScannerInTurn": {func(o *Observation) { o.Scan.Spec.Volumes, o.Turn.Wait = host, true }, "Queued", "", ""},
		"Parser": {func(o *Observation) {
			withJob(ScannerRole, Complete)(o)
			o.Definition.Volumes = host
		}, "ParserNotAllowed", executionv1.ReasonNotAllowed, "ParseDefinition nmap-xml: spec.volumes[0]"},
		"Hook":           {withHook(hostHook), "Parsed", executionv1.ReasonNotAllowed, `Hook "h": spec.volumes[0]`},
		"HookElsewhere":  {func(o *Observation) { withHook(away)(o); o.Settings.Namespaces = []string{"team"} }, "Parsed", executionv1.ReasonInvalidHook, "--watch-namespaces"},
		"HookWithOutput": {withHook(hookWithOutput("h", "report.html")), "Parsed", executionv1.ReasonInvalidHook, "spec.outputs needs a folder"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observationOf(testobjects.Scan("s"), func(o *Observation) { o.Tenant = tenant }, tc.change)
			d := Decide(o)
			if d.Step != tc.step || len(d.Create) > 0 {
				t.Fatalf("step %s creates %v, want %s and nothing", d.Step, d.Create, tc.step)
			}
			if tc.want == "" {
				return
			}
			ready := FindCondition(d.Status.Conditions, executionv1.ConditionReady)
			if d.Status.State != executionv1.ScanStateErrored || ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.want) {
				t.Errorf("state %s, Ready %+v; want Errored for %s: %s", d.Status.State, ready, tc.reason, tc.want)
			}
			checkNeeds(t, o, d)
		})
	}
}
