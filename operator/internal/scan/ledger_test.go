// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestLedgerMemoryOfEndedScans: a cluster has many Scans that have ended.
func TestLedgerMemoryOfEndedScans(t *testing.T) {
	l := newLedger()
	s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone))
	s.Status.FindingDownloadLink, s.Status.LastRerun = "https://long", "hooks@1"
	l.note(s.UID, s.Status.DeepCopy())
	want := &executionv1.ScanStatus{State: executionv1.ScanStateDone, FinishedAt: s.Status.FinishedAt, LastRerun: "hooks@1"}
	if diff := cmp.Diff(want, l.recall(s.UID)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	forged := s.DeepCopy()
	forged.Status.State, forged.Status.FinishedAt = executionv1.ScanStateScanning, nil
	got := life.Recalled(forged, l.recall(s.UID))
	if got.State != executionv1.ScanStateDone || got.FinishedAt == nil || got.FindingDownloadLink == "" || !life.IsForged(&forged.Status, got) {
		t.Errorf("%+v", got)
	}
	l.forget(s.UID)
	if l.recall(s.UID) != nil {
		t.Error("a Scan that is gone is remembered")
	}
}

// TestLedgerOverridesWatch: what the operator knows of a Scan counts, whatever a watch shows.
func TestLedgerOverridesWatch(t *testing.T) {
	l := newLedger()
	s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing))
	l.note(s.UID, s.Status.DeepCopy())
	for _, forged := range []executionv1.ScanState{executionv1.ScanStateDone, executionv1.ScanStateNew} {
		is := s.DeepCopy()
		is.Status.State = forged
		if got := l.believed(is); got.Status.State != executionv1.ScanStateParsing || is.Status.State != forged {
			t.Errorf("%q is believed, %q changed", got.Status.State, is.Status.State)
		}
	}
	if other := testobjects.Scan("t"); l.believed(&executionv1.Scan{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: other.Status}).UID != "u" {
		t.Error("what is not known is not what the watch shows")
	}
}

// TestLedgerOfTheUnbegun: a Scan that was born under this operator is unbegun until the operator tries to begin it, and is
// forgotten with the Scan.
func TestLedgerOfTheUnbegun(t *testing.T) {
	l := newLedger()
	if first := l.open(testobjects.Epoch); !l.open(testobjects.Epoch.Add(time.Hour)).Equal(first) {
		t.Error("the operator began to work twice")
	}
	if l.isUnbegun("a") {
		t.Error("what was not noted is unbegun")
	}
	l.noteBirth("a")
	l.noteBirth("b")
	if !l.isUnbegun("a") {
		t.Error("a Scan that was just born has begun")
	}
	l.noteBegin("a")
	l.forget("b")
	if l.isUnbegun("a") || l.isUnbegun("b") {
		t.Error("a Scan that has begun, or is gone, is unbegun")
	}
}

// TestLedgerOfMadeJobs: a Job that this operator has made counts as there for a moment, until the cache shows it.
func TestLedgerOfMadeJobs(t *testing.T) {
	s := testobjects.Scan("s")
	at := metav1.NewTime(testobjects.Epoch)
	job := func(uid types.UID) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: uid, CreationTimestamp: at, Labels: map[string]string{"other": "label"}}}
	}
	for name, tc := range map[string]struct {
		after  time.Duration
		shown  []batchv1.Job
		want   []types.UID
		reason string
	}{
		"Behind":  {want: []types.UID{"scanner", "hook"}, reason: "the cache shows none yet"},
		"Shown":   {shown: []batchv1.Job{*job("scanner")}, want: []types.UID{"hook"}, reason: "the cache knows more of a Job that it shows"},
		"All":     {shown: []batchv1.Job{*job("hook"), *job("scanner")}, reason: "nothing is left to remember"},
		"TooLong": {after: madeTrusted, reason: "the Job may be gone; the API server is asked"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.noteMade(s.UID, job("scanner"))
			l.noteMade(s.UID, job("hook"))
			var got []types.UID
			for _, b := range l.unseen(s.UID, at.Add(tc.after), tc.shown) {
				got = append(got, b.UID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || l.awaits(s.UID) != (len(tc.want) > 0) {
				t.Errorf("awaits %t, %s (-want +got):\n%s", l.awaits(s.UID), tc.reason, diff)
			}
			l.forget(s.UID)
			if l.awaits(s.UID) || l.unseen("another", at.Time, nil) != nil {
				t.Error("a Job is remembered for a Scan that has none")
			}
		})
	}
}
