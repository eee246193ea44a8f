// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/settings"
)

var (
	now   = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	ended = now.Add(-time.Minute)
	keys  = Keys{[]byte("new"), []byte("old")}
)

// scan has ended well a minute ago.
func scan(change ...func(*executionv1.Scan)) *executionv1.Scan {
	count, finished := int64(100_000), metav1.NewTime(ended)
	s := &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "team-a", UID: "uid-1", Generation: 1},
		Status: executionv1.ScanStatus{
			State: executionv1.ScanStateDone, FinishedAt: &finished, Findings: executionv1.FindingStats{Count: &count},
			Conditions: []metav1.Condition{
				{Type: executionv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Completed", LastTransitionTime: finished},
				{Type: executionv1.ConditionHooksCompleted, Status: metav1.ConditionTrue, Reason: "Completed", LastTransitionTime: finished},
				{Type: executionv1.ConditionRerun, Status: metav1.ConditionTrue, Reason: "Completed", LastTransitionTime: finished},
			},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func has(entries ...executionv1.SinkProgress) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) { s.Status.Forwarding = append(s.Status.Forwarding, entries...) }
}

func says(status metav1.ConditionStatus, reason string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: executionv1.ConditionForwarded, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(ended)})
	}
}

// hub is a sink of the cluster that is healthy and in force for a day.
func hub(change ...func(*Sink)) Sink {
	s := Sink{
		EffectiveSink: settings.EffectiveSink{ID: "cluster/hub", Name: "hub", Sink: settingsv1alpha2.Sink{Provider: settingsv1alpha2.ProviderGRPC}},
		InForceSince:  now.Add(-24 * time.Hour), Health: Health{Phase: Healthy},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func siem(change ...func(*Sink)) Sink {
	return hub(append([]func(*Sink){func(s *Sink) { s.ID, s.Namespace, s.Name = "team-a/siem", "team-a", "siem" }}, change...)...)
}

func failing(class sink.Class, reason sink.Reason) func(*Sink) {
	return func(s *Sink) {
		s.Health = Health{Phase: Failing, Class: class, Reason: reason, Message: "it says so", Since: ended}
	}
}

// entry is complete and sealed.
func entry(id string, change ...func(*executionv1.SinkProgress)) executionv1.SinkProgress {
	completed := metav1.NewTime(ended)
	e := executionv1.SinkProgress{Sink: id, Revision: 1, Sequence: 100_001, Records: 100_001, CompletedAt: &completed, Verdict: executionv1.VerdictComplete}
	for _, c := range change {
		c(&e)
	}
	return keys.Seal("uid-1", e)
}

func partly(e *executionv1.SinkProgress) {
	e.CompletedAt, e.Verdict, e.Sequence, e.Records, e.Offset = nil, "", 12_000, 12_000, 4711
}

func due(d Decision) string {
	var ids []string
	for i := range d.Due {
		ids = append(ids, d.Due[i].Sink.ID)
	}
	return strings.Join(ids, " ")
}

func TestDue(t *testing.T) {
	old := Keys{keys[1]}
	tests := map[string]struct {
		scan   *executionv1.Scan
		sinks  []Sink
		state  map[string]Progress
		want   string
		forged int
		reason string
	}{
		"Fresh":   {scan: scan(), sinks: []Sink{hub(), siem()}, want: "cluster/hub team-a/siem"},
		"NoSinks": {scan: scan(), reason: "what has no sinks costs nothing"},
		"StillRunning": {scan: scan(func(s *executionv1.Scan) {
			s.Status.State, s.Status.Conditions = executionv1.ScanStateHookProcessing, nil
		}), sinks: []Sink{hub()}},
		"HooksComplete": {scan: scan(func(s *executionv1.Scan) { s.Status.State = executionv1.ScanStateHookProcessing }), sinks: []Sink{hub()}, want: "cluster/hub", reason: "with failurePolicy Fail the Scan waits in this state"},
		"Errored":       {scan: scan(func(s *executionv1.Scan) { s.Status.State, s.Status.Conditions = executionv1.ScanStateErrored, nil }), sinks: []Sink{hub()}, want: "cluster/hub"},
		"ErroredWithHook": {scan: scan(func(s *executionv1.Scan) {
			s.Status.State, s.Status.Conditions = executionv1.ScanStateErrored, nil
			s.Status.OrderedHookStatuses = [][]executionv1.HookStatus{{{HookName: "h", State: executionv1.HookStateInProgress, AfterFailure: true}}}
		}), sinks: []Sink{hub()}, reason: "a hook for failures is not finished"},
		"Complete":  {scan: scan(has(entry("cluster/hub"))), sinks: []Sink{hub()}},
		"FormerKey": {scan: scan(has(old.Seal("uid-1", entry("cluster/hub")))), sinks: []Sink{hub()}, reason: "two keys while rotating"},
		"Forged":    {scan: scan(has(entry("cluster/hub", func(e *executionv1.SinkProgress) { e.Records = 7 }), func() executionv1.SinkProgress { e := entry("team-a/siem"); e.Records++; return e }())), sinks: []Sink{hub(), siem()}, want: "team-a/siem", forged: 1},
		"OfAnother": {scan: scan(func(s *executionv1.Scan) { s.UID = "uid-2" }, has(entry("cluster/hub"))), sinks: []Sink{hub()}, want: "cluster/hub", forged: 1, reason: "an entry copied from another Scan"},
		"Epoch":     {scan: scan(has(entry("cluster/hub"))), sinks: []Sink{hub(func(s *Sink) { s.Sink.Epoch = 1 })}, want: "cluster/hub"},
		"Revision":  {scan: scan(has(entry("cluster/hub")), func(s *executionv1.Scan) { s.Status.Attempts = &executionv1.PhaseAttempts{Parser: 2} }), sinks: []Sink{hub()}, want: "cluster/hub"},
		"Resend":    {scan: scan(has(entry("cluster/hub")), func(s *executionv1.Scan) { s.Annotations = map[string]string{executionv1.AnnotationResend: "x"} }), sinks: []Sink{hub()}, want: "cluster/hub"},
		"Resent":    {scan: scan(has(entry("cluster/hub", func(e *executionv1.SinkProgress) { e.Resend = "x" })), func(s *executionv1.Scan) { s.Annotations = map[string]string{executionv1.AnnotationResend: "x"} }), sinks: []Sink{hub()}},
		"Released":  {scan: scan(func(s *executionv1.Scan) { s.Annotations = map[string]string{executionv1.AnnotationReleased: "1"} }), sinks: []Sink{hub()}},
		"NextRun": {scan: scan(func(s *executionv1.Scan) {
			s.Annotations = map[string]string{executionv1.AnnotationReleased: "1"}
			s.Status.Attempts = &executionv1.PhaseAttempts{Scanner: 2}
		}), sinks: []Sink{hub()}, want: "cluster/hub", reason: "a new run was not released"},
		"OutOfBounds": {scan: scan(), sinks: []Sink{siem(func(s *Sink) { s.OutOfBounds = "not allowed" })}},
		"SinceNew":    {scan: scan(), sinks: []Sink{hub(func(s *Sink) { s.InForceSince = now })}},
		"SameSecond":  {scan: scan(), sinks: []Sink{hub(func(s *Sink) { s.InForceSince = ended.Add(900 * time.Millisecond) })}, want: "cluster/hub"},
		"SinceAll":    {scan: scan(), sinks: []Sink{hub(func(s *Sink) { s.InForceSince, s.Sink.Since = now, settingsv1alpha2.SinceAll })}, want: "cluster/hub"},
		"SinceUnread": {scan: scan(), sinks: []Sink{hub(func(s *Sink) { s.InForceSince = time.Time{} })}},
		"Failing":     {scan: scan(), sinks: []Sink{hub(failing(sink.Auth, sink.TokenRejected))}, want: "cluster/hub", reason: "turns hold it back, since the sink has no streams"},
		"Blocked":     {scan: scan(), sinks: []Sink{hub()}, state: map[string]Progress{"cluster/hub": {Failure: &sink.Error{Reason: sink.ResultsChanged}}}},
		"BlockedLong": {scan: scan(), sinks: []Sink{hub(func(s *Sink) { s.Sink.Epoch = 3 })}, state: map[string]Progress{"cluster/hub": {Entry: &executionv1.SinkProgress{Sink: "cluster/hub", Revision: 1}, Failure: &sink.Error{Reason: sink.ResultsChanged}}}, want: "cluster/hub", reason: "another epoch is tried"},
		"Later":       {scan: scan(), sinks: []Sink{hub()}, state: map[string]Progress{"cluster/hub": {Failure: &sink.Error{Reason: sink.Incomplete}, NextTry: now.Add(time.Second)}}},
		"Again":       {scan: scan(), sinks: []Sink{hub()}, state: map[string]Progress{"cluster/hub": {Failure: &sink.Error{Reason: sink.Incomplete}, NextTry: now}}, want: "cluster/hub"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := Decide(Observation{Now: now, Scan: tt.scan, Sinks: tt.sinks, Progress: tt.state, Keys: keys, PendingSince: now})
			if got := due(d); got != tt.want || d.Forged != tt.forged {
				t.Errorf("due %q, want %q; %d forged, want %d: %s", got, tt.want, d.Forged, tt.forged, tt.reason)
			}
		})
	}
}

func TestResumesAtTheSealedCursor(t *testing.T) {
	d := Decide(Observation{Now: now, Scan: scan(has(entry("cluster/hub", partly))), Sinks: []Sink{hub()}, Keys: keys, PendingSince: now})
	if len(d.Due) != 1 || d.Due[0].Entry.Offset != 4711 || d.Due[0].Entry.Sequence != 12_000 {
		t.Errorf("got %+v", d.Due)
	}
}

func TestCondition(t *testing.T) {
	running := entry("team-a/siem", partly)
	rejected := func(e *executionv1.SinkProgress) { e.DeadLetters = 3 }
	tests := map[string]struct {
		scan   *executionv1.Scan
		sinks  []Sink
		state  map[string]Progress
		status metav1.ConditionStatus
		reason string
		text   []string
		events string
	}{
		"Complete":   {scan: scan(says("Unknown", ReasonForwarding), has(entry("cluster/hub"))), sinks: []Sink{hub()}, status: "True", reason: ReasonComplete, text: []string{"cluster/hub has all 100,001 records"}},
		"Recovered":  {scan: scan(says("False", "TokenRejected"), has(entry("cluster/hub"), entry("team-a/siem"))), sinks: []Sink{hub(), siem()}, status: "True", reason: ReasonComplete, text: []string{"all 2 sinks"}, events: EventForwarded},
		"Forwarding": {scan: scan(has(entry("cluster/hub"), running)), sinks: []Sink{hub(), siem()}, state: map[string]Progress{"team-a/siem": {Running: true}}, status: "Unknown", reason: ReasonForwarding, text: []string{"1 of 2 sinks have it; team-a/siem: 12,000 of 100,001 records"}},
		"Waiting":    {scan: scan(), sinks: []Sink{hub()}, status: "Unknown", reason: ReasonWaiting, text: []string{"0 of 1 sinks have it"}},
		"Unread":     {scan: scan(), sinks: []Sink{hub()}, state: map[string]Progress{"cluster/hub": {Failure: &sink.Error{Reason: ResultsUnread, Message: "the operator does not answer"}, NextTry: now.Add(time.Second)}}, status: "Unknown", reason: ReasonWaiting, text: []string{"the operator does not answer"}},
		"Held":       {scan: scan(says("Unknown", ReasonHeld)), sinks: []Sink{hub(failing(sink.Auth, sink.TokenRejected))}, status: "Unknown", reason: ReasonHeld},
		"HeldDone":   {scan: scan(says("Unknown", ReasonHeld), has(entry("cluster/hub"))), sinks: []Sink{hub()}, status: "True", reason: ReasonComplete},
		"Worst":      {scan: scan(), sinks: []Sink{hub(failing(sink.Transport, sink.ConnectionRefused)), siem(failing(sink.Auth, sink.TokenRejected))}, status: "False", reason: "TokenRejected", text: []string{"team-a/siem: it says so", "since 2026-11-23T09:59:00Z", "put a valid token into the Secret", "and 1 more sinks"}, events: EventForwardingFailed},
		"NewReason":  {scan: scan(says("False", "ConnectionRefused")), sinks: []Sink{hub(failing(sink.Auth, sink.TokenRejected))}, status: "False", reason: "TokenRejected", events: EventForwardingFailed},
		"SameReason": {scan: scan(says("False", "TokenRejected")), sinks: []Sink{hub(failing(sink.Auth, sink.TokenRejected))}, status: "False", reason: "TokenRejected"},
		"Secrets":    {scan: scan(), sinks: []Sink{hub(failing(sink.Auth, sink.SecretMissing))}, status: "False", reason: "SecretMissing", text: []string{"the status of the ClusterScanSetting says which"}, events: EventForwardingFailed},
		"OwnSecrets": {scan: scan(), sinks: []Sink{siem(failing(sink.Auth, sink.SecretMissing))}, status: "False", reason: "SecretMissing", text: []string{"it says so"}, events: EventForwardingFailed},
		"Rejected":   {scan: scan(has(entry("cluster/hub", rejected))), sinks: []Sink{hub()}, status: "False", reason: "RecordsRejected", text: []string{"3 of 100,001 records were refused"}, events: EventRecordsRejected},
		"Bounds":     {scan: scan(), sinks: []Sink{siem(func(s *Sink) { s.OutOfBounds = "the cluster allows grpc" })}, status: "False", reason: ReasonOutOfBounds, text: []string{"the cluster allows grpc"}, events: EventForwardingFailed},
		"Missing":    {scan: scan(), sinks: []Sink{hub()}, state: map[string]Progress{"cluster/hub": {Failure: &sink.Error{Class: sink.Refused, Reason: ResultsMissing, Message: "no findings.json"}, Since: now}}, status: "False", reason: "ResultsMissing", text: []string{"no findings.json"}, events: EventForwardingFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := Observation{Now: now, Scan: tt.scan, Sinks: tt.sinks, Progress: tt.state, Keys: keys, PendingSince: now.Add(-time.Hour)}
			d := Decide(o)
			conditions := tt.scan.Status.Conditions
			if d.Status != nil {
				conditions = d.Status.Conditions
			}
			c := Find(conditions, executionv1.ConditionForwarded)
			if c == nil || c.Status != tt.status || c.Reason != tt.reason {
				t.Fatalf("got %+v", c)
			}
			for _, text := range tt.text {
				if !strings.Contains(c.Message, text) {
					t.Errorf("%q lacks %q", c.Message, text)
				}
			}
			var events []string
			for _, e := range d.Events {
				events = append(events, e.Reason)
			}
			if got := strings.Join(events, " "); got != tt.events {
				t.Errorf("events %q, want %q", got, tt.events)
			}
			order := executionv1.ConditionOrder()
			if !slices.IsSortedFunc(conditions, func(a, b metav1.Condition) int { return slices.Index(order, a.Type) - slices.Index(order, b.Type) }) {
				t.Errorf("not in order: %+v", conditions)
			}
			// Once it is written nothing is left to write, now and later.
			if d.Status != nil {
				o.Scan = o.Scan.DeepCopy()
				o.Scan.Status.Conditions, o.Scan.Status.Forwarding = d.Status.Conditions, d.Status.Forwarding
			}
			for _, later := range []time.Duration{0, time.Second, time.Hour} {
				o.Now = now.Add(later)
				if again := Decide(o); again.Status != nil {
					t.Errorf("written again %s later: %+v", later, again.Status)
				}
			}
		})
	}
}

func TestWrites(t *testing.T) {
	complete := entry("cluster/hub")
	complete.Seal = ""
	cursor := entry("cluster/hub", partly)
	cursor.Seal = ""
	fails := []Sink{hub(failing(sink.Transport, sink.Timeout))}
	other := entry("cluster/gone")
	tests := map[string]struct {
		scan             *executionv1.Scan
		sinks            []Sink
		state            Progress
		pending, written time.Duration // ago
		want             bool
		after            time.Duration
	}{
		"DoneAtOnce":        {scan: scan(), sinks: []Sink{hub()}, state: Progress{Entry: &complete}, want: true},
		"FailureAtOnce":     {scan: scan(), sinks: fails, want: true},
		"WaitingIsPatient":  {scan: scan(), sinks: []Sink{hub()}, pending: 10 * time.Second, after: 20 * time.Second},
		"WaitingInTheEnd":   {scan: scan(), sinks: []Sink{hub()}, pending: 30 * time.Second, want: true},
		"CursorIsPatient":   {scan: scan(), sinks: []Sink{hub()}, state: Progress{Entry: &cursor, Running: true}, pending: time.Hour, written: 29 * time.Second, after: time.Second},
		"CursorIsWritten":   {scan: scan(), sinks: []Sink{hub()}, state: Progress{Entry: &cursor, Running: true}, pending: time.Hour, written: 30 * time.Second, want: true},
		"AnEarlierSuccess":  {scan: scan(says("True", ReasonComplete)), sinks: []Sink{hub()}, want: true},
		"RecoveryIsPatient": {scan: scan(says("False", "Timeout")), sinks: []Sink{hub()}, pending: time.Hour, written: time.Second, after: 29 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := Observation{Now: now, Scan: tt.scan, Sinks: tt.sinks, Progress: map[string]Progress{"cluster/hub": tt.state}, Keys: keys, PendingSince: now.Add(-tt.pending)}
			if tt.written > 0 {
				o.Written = now.Add(-tt.written)
			}
			d := Decide(o)
			if got := d.Status != nil; got != tt.want || tt.after > 0 && d.RequeueAfter != tt.after {
				t.Errorf("writes: %t, want %t; after %s, want %s", got, tt.want, d.RequeueAfter, tt.after)
			}
			if d.Status == nil {
				return
			}
			for _, e := range d.Status.Forwarding {
				if !keys.Valid("uid-1", e) {
					t.Errorf("no valid seal: %+v", e)
				}
			}
		})
	}
	d := Decide(Observation{Now: now, Scan: scan(has(other)), Sinks: []Sink{hub()}, Progress: map[string]Progress{"cluster/hub": {Entry: &complete}}, Keys: keys})
	if len(d.Status.Forwarding) != 1 || d.Status.Forwarding[0].Sink != "cluster/hub" {
		t.Errorf("the entry of a sink that was removed goes with the next write: %+v", d.Status.Forwarding)
	}
}

func TestSealIsOverEveryField(t *testing.T) {
	e := entry("cluster/hub", func(e *executionv1.SinkProgress) { e.Outcomes = map[string]int64{"FAIL": 1, "INFO": 2} })
	if !keys.Valid("uid-1", e) || keys.Valid("uid-2", e) || (Keys{[]byte("x")}).Valid("uid-1", e) || (Keys{}).Valid("uid-1", e) {
		t.Fatal("the seal does not hold")
	}
	for name, change := range map[string]func(*executionv1.SinkProgress){
		"sink": func(e *executionv1.SinkProgress) { e.Sink = "x" }, "epoch": func(e *executionv1.SinkProgress) { e.Epoch++ },
		"revision": func(e *executionv1.SinkProgress) { e.Revision++ }, "resend": func(e *executionv1.SinkProgress) { e.Resend = "x" },
		"etag": func(e *executionv1.SinkProgress) { e.ETag = "x" }, "sequence": func(e *executionv1.SinkProgress) { e.Sequence++ },
		"offset": func(e *executionv1.SinkProgress) { e.Offset++ }, "chain": func(e *executionv1.SinkProgress) { e.Chain = "x" },
		"records": func(e *executionv1.SinkProgress) { e.Records++ }, "deadLetters": func(e *executionv1.SinkProgress) { e.DeadLetters++ },
		"outcomes": func(e *executionv1.SinkProgress) { e.Outcomes = nil }, "completedAt": func(e *executionv1.SinkProgress) { e.CompletedAt = nil },
		"verdict": func(e *executionv1.SinkProgress) { e.Verdict = executionv1.VerdictAccepted }, "seal": func(e *executionv1.SinkProgress) { e.Seal = "" },
	} {
		changed := *e.DeepCopy()
		change(&changed)
		if keys.Valid("uid-1", changed) {
			t.Errorf("%s is not sealed", name)
		}
	}
}

func TestHealth(t *testing.T) {
	bounds := retry.Bounds{Initial: time.Second, Max: time.Minute}
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	var h Health
	if h.Streams() != 4 || h.IsHealthy() || h.Fails() {
		t.Errorf("a new sink is tried: %+v", h)
	}
	h = h.Delivered(at(1))
	if !h.IsHealthy() || h.Since != at(1) || h.Delivered(at(2)).Since != at(1) {
		t.Errorf("got %+v", h)
	}
	h = h.Failed(&sink.Error{Class: sink.Auth, Reason: sink.TokenRejected}, bounds, at(3), 1)
	if (Health{}).Idle(at(3)) != (Health{}) || h.Idle(at(3)) != h {
		t.Error("a sink is healthy that has not answered")
	}
	if h.Streams() != 0 || !h.Fails() || h.Since != at(3) || h.NextTry != at(8) || h.Acknowledged != at(1) {
		t.Errorf("got %+v", h)
	}
	h = h.Answered(at(8))
	if h.Phase != Trial || h.Streams() != 1 || !h.Fails() || h.Reason != sink.TokenRejected || h.Acknowledged != at(1) || h.Idle(at(8)).Acknowledged != at(1) {
		t.Errorf("a probe is not a delivery: %+v", h)
	}
	if idle := h.Idle(at(8)); !idle.IsHealthy() || idle.Since != at(8) || idle.Heard != at(8) || idle.Failures != 0 || idle.Reason != "" {
		t.Errorf("nobody waits for a sink that answers, and the sink is tried for ever: %+v", idle)
	}
	h = h.Failed(&sink.Error{Class: sink.Auth, Reason: sink.TokenRejected}, bounds, at(9), 1)
	if h.Since != at(3) || h.NextTry != at(19) || h.Failures != 2 {
		t.Errorf("the same failure goes on, with a longer wait: %+v", h)
	}
	h = h.Failed(&sink.Error{Class: sink.Overload, Reason: sink.Overloaded, RetryAfter: 7 * time.Second}, bounds, at(20), 1)
	if h.Since != at(20) || h.NextTry != at(27) || h.Share != 0.5 {
		t.Errorf("got %+v", h)
	}
	h = h.Answered(at(27)).Delivered(at(28))
	if !h.IsHealthy() || h.Failures != 0 || h.Share <= 0.5 || h.Share >= 1 || h.Since != at(28) {
		t.Errorf("the batch grows again by and by: %+v", h)
	}
}
