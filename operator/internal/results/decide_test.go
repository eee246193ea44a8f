// SPDX-License-Identifier: Apache-2.0

package results

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	api "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// proven are facts that let results go: two sinks have the second run, and one has proved it.
func proven() *facts {
	at := metav1.NewTime(time.Unix(1700000000, 0))
	entry := func(sink string, verdict executionv1.SinkVerdict) executionv1.SinkProgress {
		return executionv1.SinkProgress{
			Sink: sink, Epoch: 1, Revision: 2, ETag: "e", Records: 7, Chain: "c0", CompletedAt: &at, Verdict: verdict,
		}
	}
	sink := func(name string) settings.EffectiveSink {
		return settings.EffectiveSink{ID: "cluster/" + name, Name: name, Sink: settingsv1alpha2.Sink{Epoch: 1}}
	}
	return &facts{
		asked: &api.ReleaseRequest{Revision: 2, ETag: "e", Records: 7, Chain: "c0", Sinks: []string{"cluster/hub", "cluster/siem"}},
		scan: &executionv1.Scan{Status: executionv1.ScanStatus{
			State: executionv1.ScanStateDone, Attempts: &executionv1.PhaseAttempts{Scanner: 2, Parser: 2},
			Forwarding: []executionv1.SinkProgress{entry("cluster/hub", executionv1.VerdictComplete), entry("cluster/siem", executionv1.VerdictAccepted)},
		}},
		forwarding: settings.Forwarding{
			Sinks: []settings.EffectiveSink{sink("hub"), sink("siem")}, AfterForwarding: settingsv1alpha2.AfterForwardingRemove,
		},
		health: map[string]settingsv1alpha2.SinkStatus{"cluster/hub": {Healthy: corev1.ConditionTrue}, "cluster/siem": {Healthy: corev1.ConditionUnknown}},
		etag:   "e",
	}
}

func TestDecide(t *testing.T) {
	keepLast := func(f *facts) { f.forwarding.AfterForwarding = settingsv1alpha2.AfterForwardingKeepLastRun }
	hub := func(change func(*executionv1.SinkProgress)) func(*facts) {
		return func(f *facts) { change(&f.scan.Status.Forwarding[0]) }
	}
	annotated := func(key, value string) func(*facts) {
		return func(f *facts) { metav1.SetMetaDataAnnotation(&f.scan.ObjectMeta, key, value) }
	}
	cases := map[string]struct {
		reason string
		change func(*facts)
		want   string
	}{
		"Proved":  {"nothing speaks against it", func(*facts) {}, ""},
		"Errored": {"a failure has results, too", func(f *facts) { f.scan.Status.State = executionv1.ScanStateErrored }, ""},
		"NoFindings": {"a failure may have stored nothing", func(f *facts) {
			f.etag, f.asked.ETag = "", ""
			f.scan.Status.Forwarding[0].ETag, f.scan.Status.Forwarding[1].ETag = "", ""
		}, ""},
		"Keep":       {"the settings have changed", func(f *facts) { f.forwarding.AfterForwarding = settingsv1alpha2.AfterForwardingKeep }, api.ReasonModeIsKeep},
		"NoSinks":    {"sinks were removed", func(f *facts) { f.forwarding.Sinks = nil }, api.ReasonModeIsKeep},
		"Runs":       {"a new run has begun", func(f *facts) { f.scan.Status.State = executionv1.ScanStateParsing }, api.ReasonNotSettled},
		"AskedAgain": {"a new run is to begin", annotated(executionv1.AnnotationRerun, "hooks"), api.ReasonNotSettled},
		"Answered":   {"an old wish", func(f *facts) { annotated(executionv1.AnnotationRerun, "hooks")(f); f.scan.Status.LastRerun = "hooks" }, ""},
		"FailureHook": {"a hook reads what is stored", func(f *facts) {
			f.scan.Status.State = executionv1.ScanStateErrored
			f.scan.Status.OrderedHookStatuses = [][]executionv1.HookStatus{{{HookName: "n", AfterFailure: true, State: executionv1.HookStateInProgress}}}
		}, api.ReasonNotSettled},
		"Deleted":        {"its deletion decides", func(f *facts) { f.scan.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, api.ReasonNotSettled},
		"Retained":       {"somebody wants them to stay", annotated(executionv1.AnnotationOnDelete, executionv1.OnDeleteRetain), api.ReasonRetained},
		"OtherRevision":  {"the run before was sent", func(f *facts) { f.scan.Status.Attempts = nil }, api.ReasonResultsChanged},
		"OtherFindings":  {"a hook has written them since", func(f *facts) { f.etag = "f" }, api.ReasonResultsChanged},
		"FindingsGone":   {"they are not what was sent", func(f *facts) { f.etag = "" }, api.ReasonResultsChanged},
		"FindingsCame":   {"nothing was sent of them", func(f *facts) { f.asked.ETag = "" }, api.ReasonResultsChanged},
		"NoEntry":        {"a sink has come that lacks them", func(f *facts) { f.scan.Status.Forwarding = f.scan.Status.Forwarding[:1] }, api.ReasonNotForwarded},
		"NotComplete":    {"it is being sent", hub(func(p *executionv1.SinkProgress) { p.CompletedAt = nil }), api.ReasonNotForwarded},
		"OldEpoch":       {"the sink has lost its data", func(f *facts) { f.forwarding.Sinks[0].Sink.Epoch = 2 }, api.ReasonNotForwarded},
		"OldEntry":       {"the run before was sent", hub(func(p *executionv1.SinkProgress) { p.Revision = 1 }), api.ReasonNotForwarded},
		"EntryOfOthers":  {"other findings were sent", hub(func(p *executionv1.SinkProgress) { p.ETag = "d" }), api.ReasonNotForwarded},
		"DeadLetters":    {"a record was refused", hub(func(p *executionv1.SinkProgress) { p.DeadLetters = 1 }), api.ReasonNotForwarded},
		"OutOfBounds":    {"the cluster does not allow the sink", func(f *facts) { f.forwarding.Sinks[1].OutOfBounds = "no" }, api.ReasonNotForwarded},
		"NotAsked":       {"the forwarder does not know the sink", func(f *facts) { f.asked.Sinks = []string{"cluster/hub"} }, api.ReasonNotForwarded},
		"OnlyAccepted":   {"nobody has proved it", hub(func(p *executionv1.SinkProgress) { p.Verdict = executionv1.VerdictAccepted }), api.ReasonNotProved},
		"OtherCount":     {"something else was proved", func(f *facts) { f.asked.Records = 6 }, api.ReasonNotProved},
		"OtherChain":     {"something else was proved", func(f *facts) { f.asked.Chain = "c1" }, api.ReasonNotProved},
		"NoChain":        {"nothing was proved", func(f *facts) { f.asked.Chain = ""; f.scan.Status.Forwarding[0].Chain = "" }, api.ReasonNotProved},
		"Ill":            {"a sink fails", func(f *facts) { f.health["cluster/siem"] = settingsv1alpha2.SinkStatus{Healthy: corev1.ConditionFalse} }, api.ReasonNotHealthy},
		"KeepLastOld":    {"there is a later run", keepLast, ""},
		"KeepLastNewest": {"hooks compare with it", func(f *facts) { keepLast(f); f.compared = true }, api.ReasonNeededForComparison},
		"RemoveNewest":   {"nobody keeps it", func(f *facts) { f.compared = true }, ""},
		"UnknownMode":    {"what we do not know removes nothing", func(f *facts) { f.forwarding.AfterForwarding = "Everything" }, api.ReasonModeIsKeep},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := proven()
			tc.change(f)
			got := decide(f)
			if got == nil {
				got = &api.Refusal{}
			}
			if got.Reason != tc.want || (got.Message == "") != (tc.want == "") {
				t.Errorf("%s: %+v, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
