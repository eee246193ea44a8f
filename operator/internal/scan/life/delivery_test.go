// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
	"github.com/scanyard/scanyard/settings"
)

const testHold = 30 * time.Minute

// withSinks puts the sinks hub and siem of the cluster, of epoch 2, into force, and the finalizer on the Scan.
func withSinks(o *Observation) {
	o.Tenant = &settings.Effective{Forwarding: settings.Forwarding{Hold: testHold}}
	for _, name := range []string{"hub", "siem"} {
		o.Tenant.Forwarding.Sinks = append(o.Tenant.Forwarding.Sinks, settings.EffectiveSink{
			ID: "cluster/" + name, Name: name, Sink: settingsv1alpha2.Sink{Epoch: 2},
		})
	}
	o.Scan.Finalizers = append(o.Scan.Finalizers, executionv1.FinalizerDelivery)
	o.Found, o.Known = o.Scan.Status.DeepCopy(), o.Known.With(NeedWhole)
}

// said adds what the forwarder says, of sinks that have all.
func said(status metav1.ConditionStatus, reason string, complete ...executionv1.SinkProgress) func(*Observation) {
	return func(o *Observation) {
		for _, p := range complete {
			p.CompletedAt = &metav1.Time{Time: testobjects.Epoch}
			o.Scan.Status.Forwarding = append(o.Scan.Status.Forwarding, p)
		}
		o.Scan.Status.Conditions = append(o.Scan.Status.Conditions, metav1.Condition{
			Type: executionv1.ConditionForwarded, Status: status, Reason: reason, Message: "as " + reason, LastTransitionTime: metav1.Time{Time: testobjects.Epoch},
		})
		o.Found = o.Scan.Status.DeepCopy()
	}
}

func has(sink string) executionv1.SinkProgress {
	return executionv1.SinkProgress{Sink: sink, Epoch: 2, Revision: 1}
}

// at sets the time since the Scan was deleted, which is one minute after it was made, or since it ended.
func at(since time.Duration) func(*Observation) {
	return func(o *Observation) { o.Now = testobjects.Epoch.Add(time.Minute + since) }
}

func withTTL(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Scan.Spec.TTLSecondsAfterFinished = new(int32(d.Seconds())) }
}

func deleted(o *Observation) { testobjects.Deleted(o.Scan) }

// TestDeletionWaitsForDelivery walks through what is known of sinks, for Scans that are to go.
func TestDeletionWaitsForDelivery(t *testing.T) {
	hub, siem := has("cluster/hub"), has("cluster/siem")
	delivered := said(metav1.ConditionTrue, "Complete", hub, siem)
	down := said(metav1.ConditionFalse, "ConnectionRefused", hub)
	older := func(p executionv1.SinkProgress) executionv1.SinkProgress { p.Revision = 0; return p }
	otherEpoch := func(p executionv1.SinkProgress) executionv1.SinkProgress { p.Epoch = 1; return p }
	cases := map[string]struct {
		reason string
		state  executionv1.ScanState
		with   []func(*Observation)
		step   string
		// lost are words of the Event of a Scan that goes undelivered.
		lost string
		wait time.Duration
	}{
		"NoSinks":        {"nothing is to be waited for", "Done", list(deleted), "Deleted", "", 0},
		"Delivered":      {"every sink has all", "Done", list(deleted, withSinks, delivered), "Deleted", "", 0},
		"NothingYet":     {"the forwarder has not come to it", "Done", list(deleted, withSinks), "HeldBack", "", testHold - time.Minute},
		"Down":           {"one of two has it", "Done", list(deleted, withSinks, down), "HeldBack", "", testHold - time.Minute},
		"ErroredDown":    {"a failure is a result, too", "Errored", list(deleted, withSinks, down), "HeldBack", "", testHold - time.Minute},
		"LastMoment":     {"the hold has not passed", "Done", list(deleted, withSinks, down, at(testHold-time.Second)), "HeldBack", "", time.Second},
		"HoldPassed":     {"nothing blocks a namespace for ever", "Done", list(deleted, withSinks, down, at(testHold)), "Deleted", "cluster/siem", 0},
		"NoHold":         {"holdSeconds is 0", "Done", list(deleted, withSinks, func(o *Observation) { o.Tenant.Forwarding.Hold = 0 }), "Deleted", "cluster/hub, cluster/siem", 0},
		"ByHand":         {"whoever removes the finalizer ends the wait", "Done", list(deleted, withSinks, down, noDelivery), "Deleted", "", 0},
		"SinksRemoved":   {"sinks that are gone hold nothing", "Done", list(deleted, withSinks, down, func(o *Observation) { o.Tenant = nil }), "Deleted", "", 0},
		"NotDue":         {"nothing is to be sent of a Scan that runs", executionv1.ScanStateScanning, list(deleted, withSinks, withJob(ScannerRole, Running)), "Deleted", "", 0},
		"TrueOfOldRun":   {"what was said of an earlier run does not count", "Done", list(deleted, withSinks, said(metav1.ConditionTrue, "Complete", older(hub), older(siem))), "HeldBack", "", testHold - time.Minute},
		"TrueOfOldEpoch": {"the far end has lost its data, so all is sent again", "Done", list(deleted, withSinks, said(metav1.ConditionTrue, "Complete", hub, otherEpoch(siem))), "HeldBack", "", testHold - time.Minute},
		"OnlySaid":       {"a condition without any entry is not the forwarder's", "Done", list(deleted, withSinks, said(metav1.ConditionTrue, "Complete")), "HeldBack", "", testHold - time.Minute},
		"OnlyEntries":    {"dead letters wait for somebody", "Done", list(deleted, withSinks, said(metav1.ConditionFalse, "RecordsRejected", hub, siem)), "HeldBack", "", testHold - time.Minute},
		"YoungerSink":    {"a sink that came later need not have it", "Done", list(deleted, withSinks, said(metav1.ConditionTrue, "Complete", hub)), "Deleted", "", 0},
		"StorageByHand":  {"what is stored stays, and the Scan does not stay for ever", "Done", list(deleted, withSinks, delivered, noStorage), "Deleted", "", 0},

		"TTL":            {"a TTL waits as well", "Done", list(withTTL(0), withSinks, down), "HeldBeyondTTL", "", testHold - time.Minute},
		"TTLDelivered":   {"every sink has all", "Done", list(withTTL(0), withSinks, delivered), "Expired", "", 0},
		"TTLToCome":      {"there is time", "Done", list(withTTL(time.Hour), withSinks, down, mended), "Settled", "", 59 * time.Minute},
		"TTLPassed":      {"it goes", "Done", list(withTTL(0), withSinks, down, at(testHold)), "Expired", "", 0},
		"TTLThenDeleted": {"who has waited once does not wait again", "Done", list(withTTL(0), withSinks, down, deletedAt(testHold), at(testHold+time.Second)), "Deleted", "cluster/siem", 0},
		"DeletedInHold":  {"the hold of the TTL goes on", "Done", list(withTTL(0), withSinks, down, deletedAt(time.Minute), at(2*time.Minute)), "HeldBack", "", testHold - 2*time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observationOf(testobjects.Scan("s", testobjects.WithState(tc.state)), tc.with...)
			d := Decide(o)
			checkNeeds(t, o, d)
			if d.Step != tc.step {
				t.Fatalf("%s: step %s, want %s", tc.reason, d.Step, tc.step)
			}
			if d.RequeueAfter != tc.wait && d.DeleteJobs == nil {
				t.Errorf("%s: looks again in %s, want %s", tc.reason, d.RequeueAfter, tc.wait)
			}
			if got := d.LostEvent; (got != nil) != (tc.lost != "") || got != nil && !strings.HasSuffix(got.Message, ": "+tc.lost) {
				t.Errorf("%s: Event of the loss %v, want one that names %q", tc.reason, got, tc.lost)
			}
			if held := strings.HasPrefix(d.Step, "Held"); held && (d.RemoveStored || d.Release || d.DeleteScan) {
				t.Errorf("%s: it is held and goes: %+v", tc.reason, d)
			}
			if d.Step == "Deleted" && d.RemoveStored == (name == "StorageByHand") && d.DeleteJobs == nil {
				t.Errorf("%s: what is stored is removed: %t", tc.reason, d.RemoveStored)
			}
		})
	}
}

func noDelivery(o *Observation) { o.Scan.Finalizers = []string{executionv1.FinalizerStorage} }

func noStorage(o *Observation) { o.Scan.Finalizers = []string{executionv1.FinalizerDelivery} }

func deletedAt(since time.Duration) func(*Observation) {
	return func(o *Observation) {
		o.Scan.DeletionTimestamp = &metav1.Time{Time: testobjects.Epoch.Add(time.Minute + since)}
	}
}

// mended gives a Scan the condition that one which has ended has.
func mended(o *Observation) {
	o.Scan.Status.Conditions = append(o.Scan.Status.Conditions, metav1.Condition{Type: executionv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Completed"})
}

// TestHoldIsReportedOnce: with what the forwarder had said, and never over what it says later.
func TestHoldIsReportedOnce(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState("Done")), deleted, withSinks, said(metav1.ConditionFalse, "TokenRejected", has("cluster/hub")))
	d := Decide(o)
	c := FindCondition(d.Status.Conditions, executionv1.ConditionForwarded)
	if c.Status != metav1.ConditionUnknown || c.Reason != "Held" || d.Event == nil || d.Event.Reason != "Held" {
		t.Fatalf("condition %+v, Event %+v", c, d.Event)
	}
	for _, word := range []string{"cluster/siem", "TokenRejected", "30m0s", "holdSeconds"} {
		if !strings.Contains(c.Message, word) || strings.Contains(c.Message, "cluster/hub") {
			t.Errorf("the message names not what is waited for (%s): %s", word, c.Message)
		}
	}
	o.Scan.Status, o.Found = *d.Status, d.Status.DeepCopy()
	o.Now = o.Now.Add(time.Minute)
	if again := Decide(o); again.Step != "HeldBack" || again.Status != nil || again.Event != nil {
		t.Errorf("the second pass says it again: %+v", again)
	}
	c.Status, c.Reason = metav1.ConditionTrue, "Complete"
	o.Scan.Status.Forwarding = append(o.Scan.Status.Forwarding, executionv1.SinkProgress{Sink: "cluster/siem", Epoch: 2, Revision: 1, CompletedAt: &metav1.Time{Time: o.Now}})
	o.Scan.Status.Conditions = []metav1.Condition{*c}
	o.Found = o.Scan.Status.DeepCopy()
	if done := Decide(o); done.Step != "Deleted" || done.LostEvent != nil || !done.RemoveStored {
		t.Errorf("delivered, it does not go: %+v", done)
	}
}

// TestCleanUpHasItsTimeAfterTheHold: a hold that is longer than the deadline of the clean-up does not use it up.
func TestCleanUpHasItsTimeAfterTheHold(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState("Done")), deleted, withSinks, at(testHold+time.Minute))
	if d := Decide(o); !d.RemoveStored || d.Release {
		t.Errorf("a minute after the hold it gives up storage: %+v", d)
	}
	at(testHold + testSettings.CleanupDeadline)(o)
	if d := Decide(o); !d.Release {
		t.Errorf("it never gives up: %+v", d)
	}
}

// TestDeliveryIsReadWhereItMatters: Scans of namespaces without sinks cost no read.
func TestDeliveryIsReadWhereItMatters(t *testing.T) {
	cases := map[string]struct {
		with []func(*Observation)
		want []Need
	}{
		"Deleted":         {list(deleted, withSinks), []Need{NeedWhole}},
		"Expired":         {list(withTTL(0), withSinks), []Need{NeedWhole}},
		"Stays":           {list(withSinks), nil},
		"NoSinks":         {list(deleted), nil},
		"NoSinksAnyMore":  {list(deleted, withSinks, func(o *Observation) { o.Tenant = &settings.Effective{} }), nil},
		"FinalizerIsGone": {list(deleted, withSinks, noDelivery), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, got := read(t, observationOf(testobjects.Scan("s", testobjects.WithState("Done")), tc.with...))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// withFail has the Scan fail where it is not forwarded within an hour.
func withFail(o *Observation) {
	o.Tenant.Forwarding.FailurePolicy, o.Tenant.Forwarding.FailAfter = settingsv1alpha2.FailurePolicyFail, time.Hour
}

// hooksRan says since when the hooks have run.
func hooksRan(o *Observation) {
	o.Scan.Status.Conditions = append(o.Scan.Status.Conditions, metav1.Condition{
		Type: executionv1.ConditionHooksCompleted, Status: metav1.ConditionTrue, Reason: "Completed", LastTransitionTime: metav1.Time{Time: testobjects.Epoch.Add(time.Minute)},
	})
}

// TestFailurePolicyFail walks through what becomes of a Scan whose last hook has ended.
func TestFailurePolicyFail(t *testing.T) {
	hub, siem := has("cluster/hub"), has("cluster/siem")
	ran := withJob(hookRole("a"), Complete)
	delivered := said(metav1.ConditionTrue, "Complete", hub, siem)
	down := said(metav1.ConditionFalse, "TokenRejected", hub)
	cases := map[string]struct {
		reason string
		with   []func(*Observation)
		state  executionv1.ScanState
		ready  string
		says   string
		wait   time.Duration
	}{
		"Ignore":       {"delivery is not part of the Scan", list(ran, withSinks), "Done", "Completed", "", 0},
		"NoSinks":      {"there is nothing to wait for", list(ran, withSinks, withFail, func(o *Observation) { o.Tenant.Forwarding.Sinks = nil }), "Done", "Completed", "", 0},
		"JustEnded":    {"the forwarder can begin now", list(ran, withSinks, withFail), "HookProcessing", "Forwarding", "cluster/hub, cluster/siem", time.Hour},
		"Waits":        {"one sink has it", list(ran, hooksRan, withSinks, withFail, down, at(time.Minute)), "HookProcessing", "Forwarding", "cluster/siem", 59 * time.Minute},
		"Delivered":    {"every sink has it", list(ran, hooksRan, withSinks, withFail, delivered), "Done", "Completed", "", 0},
		"OfOldRun":     {"what was said of the run before does not count", list(ran, hooksRan, withSinks, withFail, said(metav1.ConditionTrue, "Complete", executionv1.SinkProgress{Sink: "cluster/hub", Epoch: 2}), at(time.Minute)), "HookProcessing", "Forwarding", "cluster/hub", 59 * time.Minute},
		"LastMoment":   {"there is a second left", list(ran, hooksRan, withSinks, withFail, down, at(time.Hour-time.Second)), "HookProcessing", "Forwarding", "", time.Second},
		"TooLate":      {"the sink's reason is told", list(ran, hooksRan, withSinks, withFail, down, at(time.Hour)), "Errored", "ForwardingFailed", "cluster/siem (TokenRejected: as TokenRejected)", 0},
		"HookFailed":   {"the first failure ends it", list(withJob(hookRole("a"), Failed), withSinks, withFail), "Errored", "HookFailed", `Hook "a" failed`, 0},
		"SinksRemoved": {"nobody waits for what nobody wants", list(ran, hooksRan, withSinks, withFail, down, func(o *Observation) { o.Tenant = nil }), "Done", "Completed", "", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing), testobjects.WithHooks(hooksOf("a")))
			o := observationOf(scan, append(list(withJob(ParserRole, Complete), at(0)), tc.with...)...)
			d := Decide(o)
			ready := FindCondition(d.Status.Conditions, executionv1.ConditionReady)
			if d.Status.State != tc.state || ready.Reason != tc.ready || !strings.Contains(ready.Message, tc.says) {
				t.Fatalf("%s: %s, %+v", tc.reason, d.Status.State, ready)
			}
			if d.RequeueAfter != tc.wait {
				t.Errorf("%s: looks again in %s, want %s", tc.reason, d.RequeueAfter, tc.wait)
			}
			if tc.state == "Errored" && !strings.Contains(d.Status.ErrorDescription, tc.says) {
				t.Errorf("%s: errorDescription %q", tc.reason, d.Status.ErrorDescription)
			}
			if tc.ready == "Forwarding" && !isDue(&Observation{Scan: &executionv1.Scan{Status: *d.Status}}) {
				t.Errorf("%s: the forwarder waits as well: %+v", tc.reason, d.Status.Conditions)
			}
			if o.Found == nil {
				return
			}
			// A second pass says the same, and a late success of the forwarder changes no state.
			o.Scan.Status, o.Found = *d.Status.DeepCopy(), d.Status.DeepCopy()
			if again := Decide(o); again.Status != nil && diffStatus(d.Status, again.Status) != "" || again.Event != nil {
				t.Errorf("%s: the second pass would write again:\n%s", tc.reason, diffStatus(d.Status, again.Status))
			}
			if tc.state == "Errored" {
				delivered(o)
				if late := Decide(o); late.Status != nil && late.Status.State != "Errored" {
					t.Errorf("%s: a late success makes it %s", tc.reason, late.Status.State)
				}
			}
		})
	}
}
