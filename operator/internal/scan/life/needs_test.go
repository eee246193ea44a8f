// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// read goes through what is needed to decide, and takes it from an observation that has all. It
// returns what was needed, in order.
func read(t *testing.T, all *Observation) (*Observation, []Need) {
	t.Helper()
	o := *all
	o.ScanType, o.Definition, o.Hooks, o.Missing, o.Canceller = nil, nil, nil, "", ""
	o.HasRawResult, o.HasFindings, o.StoredRaw, o.StoredFindings = false, false, false, false
	o.Known, o.Found = 0, &executionv1.ScanStatus{}
	var needs []Need
	for {
		n, more := NextNeed(&o)
		if !more {
			return &o, needs
		}
		if slices.Contains(needs, n) {
			t.Fatalf("need %d is read twice: %v", n, needs)
		}
		needs, o.Known = append(needs, n), o.Known.With(n)
		switch n {
		case NeedCanceller:
			o.Canceller = all.Canceller
		case NeedHooks:
			o.Hooks = all.Hooks
		case NeedScanType, NeedResult:
			o.ScanType, o.Missing = all.ScanType, all.Missing
		case NeedDefinition:
			o.Definition, o.Missing = all.Definition, all.Missing
		case NeedScanner:
			o.HasRawResult = all.HasRawResult
		case NeedRawResult:
			o.HasRawResult = all.HasRawResult
		case NeedParser:
			o.HasFindings = all.HasFindings
		case NeedHookJobs:
		case NeedStored:
			o.StoredRaw, o.StoredFindings = all.StoredRaw, all.StoredFindings
		case NeedWhole:
			o.Found = all.Found
		}
	}
}

// checkNeeds holds for every observation: what is read because rows need it is enough to decide the
// same as from all that there is.
func checkNeeds(t *testing.T, all *Observation, want Decision) {
	t.Helper()
	o, needs := read(t, all)
	var unread cmp.Options
	if !o.Known.Has(NeedResult) && !o.Known.Has(NeedScanType) {
		// Rows that do not ask for the ScanType leave in the status what stands there.
		unread = append(unread, cmpopts.IgnoreFields(executionv1.ScanStatus{}, "RawResultFile", "RawResultType"))
	}
	unread = append(unread, cmpopts.IgnoreFields(JobRequest{}, "Tenant")) // shared, and has fields of its own
	if diff := cmp.Diff(want, Decide(o), unread); diff != "" {
		t.Errorf("read is %v, from which it decides something else (-all +read):\n%s", needs, diff)
	}
}

// TestNoNeedlessReads: what no row asks for costs no read.
func TestNoNeedlessReads(t *testing.T) {
	aged := func(o *Observation) { o.Now = o.Scan.CreationTimestamp.Add(time.Hour) }
	young := func(o *Observation) { o.Now = o.Scan.CreationTimestamp.Add(time.Second) }
	cases := map[string]struct {
		reason string
		scan   func(*executionv1.Scan)
		change func(*Observation)
		want   []Need
	}{
		"New":            {reason: "nobody can have begun it", change: young, want: []Need{NeedHooks, NeedScanType}},
		"OldAndNew":      {reason: "a killed operator may have begun it", change: aged, want: []Need{NeedScanner, NeedHooks, NeedScanType}},
		"Waiting":        {reason: "the queue knows that it has not begun", change: func(o *Observation) { aged(o); o.Turn.Waits = true }, want: []Need{NeedHooks, NeedScanType}},
		"OldAndUnbegun":  {reason: "nobody else can have begun it", change: func(o *Observation) { aged(o); o.Unbegun = true }, want: []Need{NeedHooks, NeedScanType}},
		"NoScanType":     {reason: "it is not its turn that it lacks", change: func(o *Observation) { young(o); withMissing("ScanType")(o) }, want: []Need{NeedHooks, NeedScanType}},
		"RawResultThere": {reason: "what is to follow is parsed", change: func(o *Observation) { aged(o); withRawResult(o) }, want: []Need{NeedScanner, NeedResult, NeedHooks, NeedDefinition}},
		"Scanning":       {reason: "its Job is there", scan: testobjects.WithState(executionv1.ScanStateScanning), change: withJob(ScannerRole, Running), want: []Need{NeedResult}},
		"ParserLost":     {reason: "how it ended is asked for", scan: testobjects.WithState(executionv1.ScanStateParsing), want: []Need{NeedParser, NeedResult, NeedHooks}},
		"Suspended":      {reason: "nothing is started", scan: testobjects.Suspended},
		"Deleted":        {reason: "nothing is started", scan: testobjects.Deleted},
		"Done":           {reason: "it has all it needs to stay so", scan: testobjects.WithState(executionv1.ScanStateDone)},
		"Cancelled":      {reason: "who did it is told", scan: func(s *executionv1.Scan) { s.Spec.Cancel = new(true) }, want: []Need{NeedCanceller}},
		"Rerun": {reason: "an answer depends on what is stored", scan: func(s *executionv1.Scan) {
			testobjects.WithState(executionv1.ScanStateDone)(s)
			s.Annotations = map[string]string{executionv1.AnnotationRerun: "parser"}
		}, want: []Need{NeedHooks, NeedHookJobs, NeedStored}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observationOf(testobjects.Scan("s"))
			if tc.scan != nil {
				tc.scan(o.Scan)
			}
			if tc.change != nil {
				tc.change(o)
			}
			_, got := read(t, o)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestIsBornUnder: only an operator that was at work long before a Scan was created knows that none has begun it.
func TestIsBornUnder(t *testing.T) {
	began := func(s *executionv1.Scan) { testobjects.WithState(executionv1.ScanStateScanning)(s) }
	cases := map[string]struct {
		reason string
		since  time.Duration
		scan   func(*executionv1.Scan)
		jobs   []Job
		want   bool
	}{
		"LongAtWork":   {reason: "no other operator was", since: -time.Hour, want: true},
		"JustAtWork":   {reason: "clocks may differ", since: -time.Minute},
		"Later":        {reason: "the operator before may have begun it", since: time.Second},
		"HasState":     {reason: "somebody says that it has begun", since: -time.Hour, scan: began},
		"HasJob":       {reason: "it has begun", since: -time.Hour, jobs: []Job{{Role: ScannerRole, Outcome: Running}}},
		"HasEndedJobs": {reason: "it has begun", since: -time.Hour, jobs: []Job{{Role: ParserRole, Outcome: Complete}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testobjects.Scan("s")
			if tc.scan != nil {
				tc.scan(s)
			}
			if got := IsBornUnder(s, tc.jobs, s.CreationTimestamp.Add(tc.since)); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}
