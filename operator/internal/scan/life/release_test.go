// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// released marks the Scan as one whose results of a run were given up, with two sinks that have them.
func released(revision string) func(*Observation) {
	return func(o *Observation) {
		metav1.SetMetaDataAnnotation(&o.Scan.ObjectMeta, executionv1.AnnotationReleased, revision)
		hub := has("cluster/hub")
		hub.Verdict, hub.Records, hub.Chain = executionv1.VerdictComplete, 3, "abcd"
		said(metav1.ConditionTrue, "Complete", hub, has("cluster/siem"))(o)
		o.Scan.Status.FindingDownloadLink, o.Scan.Status.ScannerLogDownloadLink = "https://s3/f", "https://s3/l"
		o.Found, o.Known = o.Scan.Status.DeepCopy(), o.Known.With(NeedWhole)
	}
}

// stored sets what the status says of the results.
func stored(status metav1.ConditionStatus, reason string) func(*Observation) {
	return func(o *Observation) {
		o.Scan.Status.Conditions = append(o.Scan.Status.Conditions, metav1.Condition{
			Type: executionv1.ConditionResultsStored, Status: status, Reason: reason, Message: "as " + reason, LastTransitionTime: metav1.Time{Time: testobjects.Epoch},
		})
		o.Found = o.Scan.Status.DeepCopy()
	}
}

func asking(what string) func(*Observation) {
	return func(o *Observation) {
		metav1.SetMetaDataAnnotation(&o.Scan.ObjectMeta, executionv1.AnnotationRerun, what)
	}
}

func noLinks(o *Observation) {
	o.Scan.Status.FindingDownloadLink, o.Scan.Status.ScannerLogDownloadLink = "", ""
	o.Found = o.Scan.Status.DeepCopy()
}

func attempts(n int) func(*Observation) {
	return func(o *Observation) {
		o.Scan.Status.Attempts = &executionv1.PhaseAttempts{Scanner: n, Parser: n}
		o.Found = o.Scan.Status.DeepCopy()
	}
}

// TestReleasing walks through everything that can be seen of results that were given up, as after an operator that was killed
// between any two steps.
func TestReleasing(t *testing.T) {
	cases := map[string]struct {
		reason string
		state  executionv1.ScanState
		with   []func(*Observation)
		step   string
		remove bool
		says   string
	}{
		"JustGivenUp":    {"the annotation is there, nothing else", "Done", list(mended, released("1")), "Releasing", false, "Removing"},
		"Errored":        {"the results of a failure go as well", "Errored", list(mended, released("1")), "Releasing", false, "Removing"},
		"KeptBefore":     {"what was said before is written over", "Done", list(mended, released("1"), stored(metav1.ConditionTrue, "ForwardingUnhealthy")), "Releasing", false, "Removing"},
		"LinksAreBack":   {"nothing links to what is removed", "Done", list(mended, released("1"), stored(metav1.ConditionFalse, "Removing")), "Releasing", false, "Removing"},
		"Said":           {"now they are removed", "Done", list(mended, released("1"), noLinks, stored(metav1.ConditionFalse, "Removing")), "Releasing", true, "RemovedAfterForwarding"},
		"Removed":        {"and that is all", "Done", list(mended, released("1"), noLinks, stored(metav1.ConditionFalse, "RemovedAfterForwarding")), "Settled", false, ""},
		"OnlySaid":       {"a condition without the annotation is somebody else's", "Done", list(mended, stored(metav1.ConditionFalse, "Removing")), "Settled", false, ""},
		"SecondRun":      {"the second run's", "Done", list(mended, released("2"), attempts(2)), "Releasing", false, "Removing"},
		"OfAnotherRun":   {"those of the present run were not given up", "Done", list(mended, released("1"), attempts(2)), "Settled", false, ""},
		"Nonsense":       {"nobody of ours has written it", "Done", list(mended, released("all")), "Settled", false, ""},
		"Runs":           {"nothing is removed under a Scan that runs", executionv1.ScanStateScanning, list(released("1"), withJob(ScannerRole, Running)), "ScannerRuns", false, ""},
		"Deleted":        {"its deletion removes everything", "Done", list(mended, deleted, withSinks, released("1")), "Deleted", false, ""},
		"EpochRaised":    {"what is gone cannot be sent again, and holds nothing", "Done", list(mended, deleted, withSinks, released("1"), func(o *Observation) { o.Tenant.Forwarding.Sinks[0].Sink.Epoch = 3 }), "Deleted", false, ""},
		"StorageIsAway":  {"it is tried again", "Done", list(mended, released("1"), func(o *Observation) { o.StorageError = "down" }), "StorageUnavailable", false, ""},
		"WaitsForItsTTL": {"removing comes first", "Done", list(mended, released("1"), withTTL(time.Hour)), "Releasing", false, "Removing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observationOf(testobjects.Scan("s", testobjects.WithState(tc.state)), tc.with...)
			d := Decide(o)
			checkNeeds(t, o, d)
			if d.Step != tc.step || d.RemoveResults != tc.remove {
				t.Fatalf("%s: step %s, removes %t", tc.reason, d.Step, d.RemoveResults)
			}
			if tc.says == "" {
				return
			}
			c := FindCondition(d.Status.Conditions, executionv1.ConditionResultsStored)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != tc.says {
				t.Fatalf("%s: said is %+v", tc.reason, c)
			}
			if tc.says == executionv1.ReasonRemoving {
				want := "The results are removed after they were forwarded to cluster/hub, cluster/siem: 3 records; proved by cluster/hub, chain abcd."
				if c.Message != want || hasLinks(d.Status) || d.RequeueAfter == 0 {
					t.Errorf("%s: message %q, links %t, again in %s", tc.reason, c.Message, hasLinks(d.Status), d.RequeueAfter)
				}
			}
		})
	}
}

// TestReleasedScansAreReadLive: of a Scan that has ended the cache leaves out whose results were given up.
func TestReleasedScansAreReadLive(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone)), mended, released("1"))
	o.Known = 0
	if need, ok := NextNeed(o); !ok || need != NeedWhole {
		t.Errorf("needs %d, %t", need, ok)
	}
	stored(metav1.ConditionFalse, executionv1.ReasonRemovedAfterForwarding)(o)
	if need, ok := NextNeed(o); ok {
		t.Errorf("one whose results are gone costs a read (%d)", need)
	}
}

// TestRerunsOfReleasedResults: only the scanner can make new ones.
func TestRerunsOfReleasedResults(t *testing.T) {
	for _, what := range []string{"parser", "hooks", "hook/notify", "links", "parser@2"} {
		o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone)), mended, released("1"), asking(what))
		o.StoredRaw, o.StoredFindings = true, true // not yet removed
		d := Decide(o)
		c := FindCondition(d.Status.Conditions, executionv1.ConditionRerun)
		if c == nil || c.Reason != executionv1.ReasonRerunRefused || !strings.HasSuffix(c.Message, ": the results were removed after they were forwarded to cluster/hub, cluster/siem") {
			t.Errorf("%s: %s, %+v", what, d.Step, c)
		}
		if d.ForgetReleased {
			t.Errorf("%s: the mark goes", what)
		}
	}
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone)), mended, released("3"), attempts(3), asking("scanner"),
		stored(metav1.ConditionFalse, executionv1.ReasonRemovedAfterForwarding))
	o.Scan.Status.Attempts = nil // as after a restart: neither Jobs nor cache tell
	d := Decide(o)
	if d.Status.State != executionv1.ScanStateNew || d.Status.Attempts == nil || d.Status.Attempts.Scanner != 4 || !d.ForgetReleased {
		t.Errorf("%s: state %q, attempts %+v, forgets the mark %t", d.Step, d.Status.State, d.Status.Attempts, d.ForgetReleased)
	}
	if c := FindCondition(d.Status.Conditions, executionv1.ConditionResultsStored); c != nil {
		t.Errorf("said of results that there will be: %+v", c)
	}
}

// TestCopiedMarkGoesAtTheStart: whoever copies a Scan copies its annotations.
func TestCopiedMarkGoesAtTheStart(t *testing.T) {
	o := observationOf(testobjects.Scan("s"), released("1"))
	if d := Decide(o); d.Step != "Start" || !d.ForgetReleased {
		t.Errorf("%s, forgets the mark %t", d.Step, d.ForgetReleased)
	}
}
