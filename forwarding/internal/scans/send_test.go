// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/breaker"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// farEnd keeps what it takes, and answers the first calls by script.
type farEnd struct {
	script  []error
	refuses map[uint64]bool
	held    map[string]*forwardingv1.Record
	calls   []int
	answer  func(*farEnd) sink.Verdict
}

func (f *farEnd) Deliver(_ context.Context, batch sink.Batch) (sink.Outcome, error) {
	f.calls = append(f.calls, len(batch.Records))
	if len(f.script) > 0 {
		err := f.script[0]
		f.script = f.script[1:]
		if err != nil {
			return sink.Outcome{}, err
		}
	}
	var outcome sink.Outcome
	for _, record := range batch.Records {
		if f.refuses[record.Sequence] {
			if len(batch.Records) > 1 {
				return sink.Outcome{}, &sink.Error{Class: sink.Refused, Reason: sink.RecordsRejected, Message: "one of many"}
			}
			return sink.Outcome{}, &sink.Error{Class: sink.Refused, Reason: sink.TooLarge, Message: "too large"}
		}
	}
	for _, record := range batch.Records {
		if f.held[record.EventID] != nil {
			outcome.Duplicates++
		}
		f.held[record.EventID] = record.Message
	}
	return outcome, nil
}

func (*farEnd) Probe(context.Context) error { return nil }
func (*farEnd) Close() error                { return nil }

// proving is a far end that says what it holds.
type proving struct{ *farEnd }

func (p proving) Proof(context.Context, *forwardingv1.StreamId) (sink.Verdict, error) {
	return p.answer(p.farEnd), nil
}

// truth is what a far end says that counts right.
func truth(f *farEnd) sink.Verdict {
	verdict := sink.Verdict{Proved: true, Completeness: forwardingv1.Completeness_COMPLETENESS_OPEN}
	var chain []byte
	var closing *forwardingv1.Closing
	for sequence := uint64(1); sequence < 1000; sequence++ {
		for _, record := range f.held {
			switch {
			case record.GetSequence() != sequence:
			case record.GetClosing() != nil:
				closing = record.GetClosing()
			default:
				chain = forwardingv1.AppendChain(chain, record.GetDigest())
				verdict.Records++
			}
		}
	}
	verdict.Chain = chain
	if closing != nil {
		verdict.Completeness = forwardingv1.Completeness_COMPLETENESS_COMPLETE
		if closing.GetRecords() != verdict.Records || !bytes.Equal(closing.GetChain(), chain) {
			verdict.Completeness = forwardingv1.Completeness_COMPLETENESS_INCOMPLETE
		}
	}
	return verdict
}

// sending sends n findings and never waits.
func sending(to sink.Sink, n int, limits Limits) *Sending {
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "team-a", UID: "u"}, Spec: executionv1.ScanSpec{ScanType: "nmap"}}
	findings := make([]string, n)
	for i := range findings {
		findings[i] = fmt.Sprintf(`{"name":"finding %d","severity":"LOW"}`, i)
	}
	return &Sending{
		Sink: to, Limits: limits, Retry: Retry{Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }},
		Open: func(_ context.Context, at mapping.Position) (*mapping.Reader, io.Closer, error) {
			text := "[" + strings.Join(findings, ",") + "]"
			return mapping.NewReaderAt(mapping.Source{ClusterID: "c", Scan: scan}, strings.NewReader(text[at.Offset:]), at), io.NopCloser(nil), nil
		},
		Stream: mapping.StreamOf("c", scan),
	}
}

func newFarEnd() *farEnd {
	return &farEnd{held: map[string]*forwardingv1.Record{}, refuses: map[uint64]bool{}, answer: truth}
}

func TestSend(t *testing.T) {
	far := newFarEnd()
	far.script = []error{nil, &sink.Error{Class: sink.Transport, Reason: sink.ConnectionRefused}, errors.New("foreign"), &sink.Error{Class: sink.Auth, Reason: sink.TokenRejected}}
	s := sending(proving{far}, 100, Limits{MaxRecords: 30})
	report, err := s.Send(t.Context())
	if err != nil || report.Verdict != Complete || report.Records != 102 || report.Stored != 102 || report.Duplicates != 0 || report.Rejected != 0 || len(report.Chain) != 32 {
		t.Fatalf("got %+v, %v", report, err)
	}
	if want := "[30 30 30 30 30 30 11 1]"; fmt.Sprint(far.calls) != want {
		t.Errorf("batches of %v, want %s", far.calls, want)
	}
	again, err := s.Send(t.Context())
	if err != nil || again.Verdict != Complete || again.Stored != 0 || again.Duplicates != 102 || !bytes.Equal(again.Chain, report.Chain) {
		t.Errorf("the same Scan once more: %+v, %v", again, err)
	}
}

func TestSendWithoutProof(t *testing.T) {
	report, err := sending(newFarEnd(), 3, Limits{}).Send(t.Context())
	if err != nil || report.Verdict != Accepted || report.Records != 5 {
		t.Errorf("got %+v, %v", report, err)
	}
	far := newFarEnd()
	far.answer = func(f *farEnd) sink.Verdict { v := truth(f); v.Proved = false; return v }
	if report, err := sending(proving{far}, 3, Limits{}).Send(t.Context()); err != nil || report.Verdict != Accepted {
		t.Errorf("a far end that keeps nothing proves nothing: %+v, %v", report, err)
	}
}

// TestSendRejected refuses one record of a batch: it alone is rejected, and chain and count go over the others.
func TestSendRejected(t *testing.T) {
	far := newFarEnd()
	far.refuses[7] = true
	report, err := sending(proving{far}, 50, Limits{}).Send(t.Context())
	if err != nil || report.Verdict != Complete || report.Records != 52 || report.Rejected != 1 || report.Stored != 51 || len(report.Rejections) != 1 || report.Rejections[0].Reason != "TooLarge" {
		t.Errorf("got %+v, %v", report, err)
	}
	if len(far.calls) > 2*6+2 {
		t.Errorf("%d calls to find one of 51: %v", len(far.calls), far.calls)
	}
}

func TestSendHalvesUnderLoad(t *testing.T) {
	far := newFarEnd()
	far.script = []error{&sink.Error{Class: sink.Overload, Reason: sink.Overloaded, RetryAfter: time.Hour}}
	report, err := sending(proving{far}, 7, Limits{}).Send(t.Context())
	if err != nil || report.Verdict != Complete || fmt.Sprint(far.calls) != "[8 4 4 1]" {
		t.Errorf("got %+v, %v after batches of %v", report, err, far.calls)
	}
}

func TestSendSendsOnceMoreWhatIsMissing(t *testing.T) {
	far := newFarEnd()
	lost := false
	far.answer = func(f *farEnd) sink.Verdict {
		if !lost {
			lost = true
			for id, record := range f.held {
				if record.GetSequence() == 3 {
					delete(f.held, id)
				}
			}
		}
		return truth(f)
	}
	report, err := sending(proving{far}, 5, Limits{}).Send(t.Context())
	if err != nil || report.Verdict != Complete || report.Stored != 1 || report.Duplicates != 6 {
		t.Errorf("got %+v, %v", report, err)
	}
}

func TestSendVerdictsThatFail(t *testing.T) {
	tests := map[string]struct {
		change func(*sink.Verdict)
		want   Verdict
		reason sink.Reason
	}{
		"OtherChain": {func(v *sink.Verdict) { v.Chain = make([]byte, 32) }, Conflict, sink.ResultsChanged},
		"OtherCount": {func(v *sink.Verdict) { v.Records++ }, Conflict, sink.ResultsChanged},
		"Conflict":   {func(v *sink.Verdict) { v.Completeness = forwardingv1.Completeness_COMPLETENESS_CONFLICT }, Conflict, sink.ResultsChanged},
		"Incomplete": {func(v *sink.Verdict) { v.Completeness = forwardingv1.Completeness_COMPLETENESS_INCOMPLETE }, Incomplete, sink.Incomplete},
		"Open":       {func(v *sink.Verdict) { v.Completeness = forwardingv1.Completeness_COMPLETENESS_OPEN }, Incomplete, sink.Incomplete},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			far := newFarEnd()
			far.answer = func(f *farEnd) sink.Verdict { v := truth(f); tt.change(&v); return v }
			report, err := sending(proving{far}, 2, Limits{}).Send(t.Context())
			if err == nil || report.Verdict != tt.want || sink.AsError(err).Reason != tt.reason {
				t.Errorf("got %+v, %v", report, err)
			}
		})
	}
}

// TestSendEndsWithTheContext asks for the sink's reason when the time is over.
func TestSendEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	far := newFarEnd()
	far.script = []error{&sink.Error{Class: sink.Transport, Reason: sink.ConnectionRefused, Message: "nobody listens"}}
	report, err := sending(far, 2, Limits{}).Send(ctx)
	if report.Verdict != Pending || sink.AsError(err).Reason != sink.ConnectionRefused || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", report, err)
	}
}

func TestPause(t *testing.T) {
	tests := map[string]struct {
		retry           Retry
		failure         sink.Error
		n               int
		lowest, longest time.Duration
	}{
		"First":        {Retry{}, sink.Error{Class: sink.Transport}, 0, 1, 500*time.Millisecond + 1},
		"Third":        {Retry{}, sink.Error{Class: sink.Transport}, 2, 1, 2*time.Second + 1},
		"Bounded":      {Retry{Bounds: retry.Bounds{Max: time.Second}}, sink.Error{Class: sink.Transport}, 1000, 1, time.Second + 1},
		"Auth":         {Retry{}, sink.Error{Class: sink.Auth}, 1, 10 * time.Second, 10 * time.Second},
		"AuthLater":    {Retry{}, sink.Error{Class: sink.Auth}, 50, time.Minute, time.Minute},
		"AuthBounded":  {Retry{Bounds: retry.Bounds{Max: time.Second}}, sink.Error{Class: sink.Auth}, 0, time.Second, time.Second},
		"Incompatible": {Retry{}, sink.Error{Class: sink.Incompatible}, 0, time.Minute, time.Minute},
		"Asked":        {Retry{Bounds: retry.Bounds{Max: time.Second}}, sink.Error{Class: sink.Overload, RetryAfter: time.Minute}, 0, time.Minute, time.Minute},
		"AskedTooMuch": {Retry{}, sink.Error{Class: sink.Overload, RetryAfter: time.Hour}, 0, 10 * time.Minute, 10 * time.Minute},
		"OverloadOnly": {Retry{}, sink.Error{Class: sink.Overload}, 0, 1, 500*time.Millisecond + 1},
	}
	for name, tt := range tests {
		for range 50 {
			if got := tt.retry.pause(&tt.failure, tt.n); got < tt.lowest || got > tt.longest {
				t.Errorf("%s: %s is not from %s to %s", name, got, tt.lowest, tt.longest)
			}
		}
	}
}

// TestSendGoesOn stops behind each batch and goes on there: every record goes out once, and the far end proves all.
func TestSendGoesOn(t *testing.T) {
	far := newFarEnd()
	far.refuses[4] = true
	s := sending(proving{far}, 40, Limits{MaxRecords: 7})
	s.Progress = func(Cursor, int) bool { return false }
	for range 100 {
		report, err := s.Send(t.Context())
		if errors.Is(err, ErrStopped) {
			if report.Cursor.Sequence <= s.From.Sequence {
				t.Fatalf("no progress behind %+v", report.Cursor)
			}
			s.From = report.Cursor
			continue
		}
		if err != nil || report.Verdict != Complete || report.Records != 42 || report.Rejected != 1 || report.Cursor.Accepted != 40 ||
			report.Cursor.DeadLetters() != 1 || report.Cursor.Outcomes["FAIL"] != 40 {
			t.Fatalf("got %+v, %v", report, err)
		}
		sum := 0
		for _, n := range far.calls {
			sum += n
		}
		if len(far.held) != 41 || sum > 41+1+4*7 {
			t.Errorf("%d records in calls of %v", len(far.held), far.calls)
		}
		return
	}
	t.Fatal("does not end")
}

// TestSendBeginsAnewWhereTheFarEndLostData resumes at a far end that holds less than it once acknowledged.
func TestSendBeginsAnewWhereTheFarEndLostData(t *testing.T) {
	far := newFarEnd()
	s := sending(proving{far}, 20, Limits{MaxRecords: 5})
	s.Progress = func(c Cursor, _ int) bool { return c.Sequence < 10 }
	report, err := s.Send(t.Context())
	if !errors.Is(err, ErrStopped) || report.Cursor.Sequence != 10 {
		t.Fatalf("got %+v, %v", report, err)
	}
	s.From, s.Progress = report.Cursor, nil
	clear(far.held)
	if report, err = s.Send(t.Context()); err != nil || report.Verdict != Complete || len(far.held) != 22 {
		t.Errorf("got %+v, %v with %d records", report, err, len(far.held))
	}
}

// TestSendSendsGaps sends what the far end names, and the closing record, and nothing else.
func TestSendSendsGaps(t *testing.T) {
	far := newFarEnd()
	lost := 0
	far.answer = func(f *farEnd) sink.Verdict {
		if lost < 3 {
			lost++
			for id, record := range f.held {
				if record.GetSequence() == uint64(2+lost) {
					delete(f.held, id)
				}
			}
		}
		v := truth(f)
		if v.Completeness == forwardingv1.Completeness_COMPLETENESS_INCOMPLETE {
			gap := uint64(2 + lost)
			v.Missing, v.Gaps = 4-uint64(lost), []*forwardingv1.SequenceRange{{First: gap, Last: gap}}
		}
		return v
	}
	report, err := sending(proving{far}, 30, Limits{}).Send(t.Context())
	if err != nil || report.Verdict != Complete || report.Records != 32 || fmt.Sprint(far.calls) != "[31 1 1 1 1 1 1 1]" {
		t.Errorf("got %+v, %v after batches of %v", report, err, far.calls)
	}
}

// guard is the breaker, which knows no streams here.
type guard struct {
	breaker.Breaker

	newest bool
}

func (g *guard) Note(accepted []bool) bool {
	opened := false
	for i, ok := range accepted {
		if ok {
			g.Accepted(1)
		} else {
			opened = g.Refused(uint64(i)) || opened
		}
	}
	return opened && g.Open
}

func (g *guard) IsOpen() (open, newest bool) {
	g.newest = !g.newest
	return g.Open, g.newest
}

// TestSendToAFarEndThatRefusesEverything sets nothing aside, and goes on when the far end takes records again.
func TestSendToAFarEndThatRefusesEverything(t *testing.T) {
	far := newFarEnd()
	s := sending(proving{far}, 60, Limits{MaxRecords: 10})
	s.Guard = &guard{}
	s.Progress = func(c Cursor, _ int) bool {
		if c.Sequence == 20 {
			for i := range uint64(100) {
				far.refuses[i] = true
			}
		}
		return true
	}
	for range 3 {
		report, err := s.Send(t.Context())
		if sink.AsError(err).Reason != sink.RefusesEverything || report.Cursor.Sequence != 20 || report.Cursor.DeadLetters() != 0 {
			t.Fatalf("got %+v, %v", report, err)
		}
		s.From = report.Cursor
	}
	if len(far.calls) > 2+2*60+4 {
		t.Errorf("%d calls", len(far.calls))
	}
	clear(far.refuses)
	s.Progress = nil
	if report, err := s.Send(t.Context()); err != nil || report.Verdict != Complete || report.Rejected != 0 || len(far.held) != 62 {
		t.Errorf("got %+v, %v", report, err)
	}
}
