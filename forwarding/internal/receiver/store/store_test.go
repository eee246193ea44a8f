// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

const (
	complete   = forwardingv1.Completeness_COMPLETENESS_COMPLETE
	incomplete = forwardingv1.Completeness_COMPLETENESS_INCOMPLETE
	conflict   = forwardingv1.Completeness_COMPLETENESS_CONFLICT
	opened     = forwardingv1.Completeness_COMPLETENESS_OPEN
)

func scan(uid string) *forwardingv1.StreamId {
	return &forwardingv1.StreamId{ClusterId: "c", Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: uid, Revision: 1}
}

// records are those of a Scan with n findings: the summary, the findings, the closing record.
func records(id *forwardingv1.StreamId, n int) []*forwardingv1.Record {
	list := []*forwardingv1.Record{{Body: &forwardingv1.Record_ScanSummary{ScanSummary: &forwardingv1.ScanSummary{Findings: uint64(n)}}}}
	for i := range n {
		list = append(list, &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{Title: fmt.Sprint("finding ", i)}}})
	}
	var chain []byte
	for i, record := range list {
		seal(id, record, uint64(i+1))
		chain = forwardingv1.AppendChain(chain, record.GetDigest())
	}
	last := &forwardingv1.Record{Body: &forwardingv1.Record_Closing{Closing: &forwardingv1.Closing{Records: uint64(n + 1), Chain: chain, FindingsTotal: uint64(n)}}}
	seal(id, last, uint64(n+2))
	return append(list, last)
}

func seal(id *forwardingv1.StreamId, record *forwardingv1.Record, sequence uint64) {
	record.Sequence, record.EventId = sequence, forwardingv1.EventID(id, sequence)
	record.Schema, record.Digest = forwardingv1.Schema, forwardingv1.Digest(record)
}

func open(t *testing.T, options store.Options) *store.Store {
	t.Helper()
	if options.Now == nil {
		options.Now = time.Now
	}
	s, err := store.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func add(t *testing.T, s *store.Store, id *forwardingv1.StreamId, list ...*forwardingv1.Record) store.Outcome {
	t.Helper()
	outcome, err := s.Append(t.Context(), store.Batch{Number: 1, Stream: id, Records: list})
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func TestVerdicts(t *testing.T) {
	id := scan("u")
	all := records(id, 8)
	other := proto.CloneOf(all[3])
	other.GetResult().Title = "other"
	seal(id, other, 4)
	for name, test := range map[string]struct {
		batches [][]*forwardingv1.Record
		want    forwardingv1.Completeness
		missing uint64
		gaps    string
	}{
		"Open":          {batches: [][]*forwardingv1.Record{all[:5]}, want: opened},
		"Complete":      {batches: [][]*forwardingv1.Record{all}, want: complete},
		"InTwo":         {batches: [][]*forwardingv1.Record{all[:4], all[4:]}, want: complete},
		"OutOfOrder":    {batches: [][]*forwardingv1.Record{all[4:], all[:4]}, want: complete},
		"Twice":         {batches: [][]*forwardingv1.Record{all, all}, want: complete},
		"OneMissing":    {batches: [][]*forwardingv1.Record{all[:3], all[4:]}, want: incomplete, missing: 1, gaps: "4-4"},
		"Filled":        {batches: [][]*forwardingv1.Record{all[:3], all[4:], all[3:4]}, want: complete},
		"TwoGaps":       {batches: [][]*forwardingv1.Record{all[1:3], all[5:8], all[9:]}, want: incomplete, missing: 4, gaps: "1-1 4-5 9-9"},
		"ClosingAlone":  {batches: [][]*forwardingv1.Record{all[9:]}, want: incomplete, missing: 9, gaps: "1-9"},
		"OtherContent":  {batches: [][]*forwardingv1.Record{all[:3], {other}, all[4:]}, want: conflict},
		"FirstOneStays": {batches: [][]*forwardingv1.Record{all[:5], {other}, all[5:]}, want: complete},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			s := open(t, store.Options{Directory: directory})
			var told *forwardingv1.StreamState
			for _, batch := range test.batches {
				if outcome := add(t, s, id, batch...); outcome.State != nil {
					told = outcome.State
				}
			}
			state, err := s.Stream("", id)
			if err != nil {
				t.Fatal(err)
			}
			if state.GetCompleteness() != test.want || state.GetMissing() != test.missing || gaps(state) != test.gaps {
				t.Errorf("got %s, %d missing, gaps %q; want %s, %d, %q", state.GetCompleteness(), state.GetMissing(), gaps(state), test.want, test.missing, test.gaps)
			}
			if told.GetCompleteness() != test.want && test.want != opened {
				t.Errorf("the sender was told %v last", told)
			}
			if test.want == complete && string(state.GetChain()) != string(all[9].GetClosing().GetChain()) {
				t.Error("the chain is another one")
			}
			report, err := s.Verify()
			if err != nil || len(report.Wrong) > 0 {
				t.Errorf("the store is not sound: %v %v", report.Wrong, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := open(t, store.Options{Directory: directory, ReadOnly: true})
			if reopened, err := again.Stream("", id); err != nil || !proto.Equal(reopened, state) {
				t.Errorf("after a restart the state is %v (%v), want %v", reopened, err, state)
			}
		})
	}
}

func gaps(state *forwardingv1.StreamState) string {
	var list []string
	for _, gap := range state.GetGaps() {
		list = append(list, fmt.Sprintf("%d-%d", gap.GetFirst(), gap.GetLast()))
	}
	return strings.Join(list, " ")
}

func TestFilterNamesNoGaps(t *testing.T) {
	id := scan("u")
	all := records(id, 8)
	sent := []*forwardingv1.Record{all[0], all[4], all[6]}
	var chain []byte
	for _, record := range sent {
		chain = forwardingv1.AppendChain(chain, record.GetDigest())
	}
	last := &forwardingv1.Record{Body: &forwardingv1.Record_Closing{Closing: &forwardingv1.Closing{Records: 3, Chain: chain, FindingsTotal: 8, Filter: "minSeverity=HIGH"}}}
	seal(id, last, 10)
	s := open(t, store.Options{Directory: t.TempDir()})
	if outcome := add(t, s, id, sent[0], sent[2], last); outcome.State.GetMissing() != 1 || len(outcome.State.GetGaps()) > 0 {
		t.Errorf("got %v", outcome.State)
	}
	if outcome := add(t, s, id, sent[1]); outcome.State.GetCompleteness() != complete {
		t.Errorf("got %v", outcome.State)
	}
}

func TestConflictSetsTheSecondAside(t *testing.T) {
	id := scan("u")
	all := records(id, 2)
	other := proto.CloneOf(all[1])
	other.GetResult().Title = "other"
	seal(id, other, 2)
	s := open(t, store.Options{Directory: t.TempDir()})
	add(t, s, id, all[:2]...)
	outcome := add(t, s, id, other)
	if len(outcome.Rejections) != 1 || outcome.Rejections[0].GetReason() != forwardingv1.RejectionReason_REJECTION_REASON_CONFLICT || outcome.Rejections[0].GetEventId() != other.GetEventId() {
		t.Errorf("got %v", outcome.Rejections)
	}
	if got := s.Counters(); got != (store.Counters{Received: 3, Stored: 2, Conflicts: 1}) {
		t.Errorf("got %+v", got)
	}
	report, err := s.Verify()
	if err != nil || report.Conflicts != 1 || report.Records != 2 {
		t.Errorf("got %+v, %v", report, err)
	}
	var titles []string
	err = s.Records(0, s.LastNumber(), func(arrival store.Arrival) error {
		titles = append(titles, arrival.Record.GetResult().GetTitle())
		return nil
	})
	if err != nil || !slices.Equal(titles, []string{"", "finding 0"}) {
		t.Errorf("the first one must stay: %q, %v", titles, err)
	}
}

func TestAuthoritiesAreSeparate(t *testing.T) {
	id := scan("u")
	all := records(id, 1)
	s := open(t, store.Options{Directory: t.TempDir()})
	for _, authority := range []string{"", "mallory", "alice"} {
		outcome, err := s.Append(t.Context(), store.Batch{Authority: authority, Number: 1, Stream: id, Records: all})
		if err != nil || outcome.Stored != 3 || outcome.State.GetCompleteness() != complete {
			t.Errorf("%q: got %+v, %v", authority, outcome, err)
		}
	}
	if state, err := s.Stream("bob", id); err != nil || state.GetRecords() != 0 || state.GetCompleteness() != opened {
		t.Errorf("bob has sent nothing: %v, %v", state, err)
	}
}

func TestConcurrentSendersOfOneStream(t *testing.T) {
	id := scan("u")
	all := records(id, 200)
	s := open(t, store.Options{Directory: t.TempDir()})
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for list := range slices.Chunk(all, 7) {
				if _, err := s.Append(t.Context(), store.Batch{Number: 1, Stream: id, Records: list}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	if got := s.Counters(); got != (store.Counters{Received: 8 * 202, Stored: 202, Duplicates: 7 * 202}) {
		t.Errorf("got %+v", got)
	}
	if state, err := s.Stream("", id); err != nil || state.GetCompleteness() != complete {
		t.Errorf("got %v, %v", state, err)
	}
}

func TestFullStoreRefusesRecords(t *testing.T) {
	id := scan("u")
	s := open(t, store.Options{Directory: t.TempDir(), MaxBytes: 1})
	_, err := s.Append(t.Context(), store.Batch{Number: 1, Stream: id, Records: records(id, 3), Refused: 2})
	if !errors.Is(err, store.ErrFull) {
		t.Fatalf("got %v", err)
	}
	if got := s.Counters(); got != (store.Counters{}) {
		t.Errorf("a batch that will come again must not be counted: %+v", got)
	}
	if state, err := s.Stream("", id); err != nil || state.GetRecords() != 0 {
		t.Errorf("got %v, %v", state, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	directory := t.TempDir()
	if _, err := store.Open(store.Options{Directory: directory, ReadOnly: true, Now: time.Now}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is no store to look at: %v", err)
	}
	s := open(t, store.Options{Directory: directory})
	if _, err := store.Open(store.Options{Directory: directory, Now: time.Now}); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint("is in use by pid ", os.Getpid())) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "FORMAT"), []byte(`{"format":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(store.Options{Directory: directory, Now: time.Now}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(directory, "FORMAT"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(store.Options{Directory: directory, Now: time.Now}); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	id := scan("u")
	record := records(id, 1)[1]
	unknown := []byte{0xfa, 0x3f, 0x03, 'n', 'e', 'w'} // field 1023
	record.GetResult().ProtoReflect().SetUnknown(unknown)
	s := open(t, store.Options{Directory: t.TempDir()})
	add(t, s, id, record)
	err := s.Records(0, s.LastNumber(), func(arrival store.Arrival) error {
		if got := arrival.Record.GetResult().ProtoReflect().GetUnknown(); string(got) != string(unknown) {
			t.Errorf("got %x", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
