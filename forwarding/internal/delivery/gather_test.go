// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// gatherer is a far end that takes several streams in one call, and whose answers are by chance: some are lost, and bad records are refused by
// name or with everything that came with them.
type gatherer struct {
	random *rand.Rand
	calls  int
	wide   int                 // calls with more than one stream
	got    map[string][]uint64 // sequences by stream, each once
	bad    uint64              // of sequences that it refuses
}

func (g *gatherer) Deliver(ctx context.Context, b sink.Batch) (sink.Outcome, error) {
	return g.Gather(ctx, []sink.Batch{b})
}

// Gather takes what it likes.
func (g *gatherer) Gather(_ context.Context, batches []sink.Batch) (outcome sink.Outcome, err error) {
	g.calls++
	if len(batches) > 1 {
		g.wide++
	}
	chance := g.random.IntN(10)
	if chance == 0 {
		return outcome, errReset
	}
	for _, b := range batches {
		for _, r := range b.Records {
			if r.Sequence%g.bad != 0 {
				if !slices.Contains(g.got[b.Stream.GetUid()], r.Sequence) {
					g.got[b.Stream.GetUid()] = append(g.got[b.Stream.GetUid()], r.Sequence)
				}
				continue
			}
			if chance < 5 {
				return sink.Outcome{}, &sink.Error{Class: sink.Refused, Reason: sink.RecordsRejected, Message: "no"}
			}
			outcome.Rejected = append(outcome.Rejected, sink.Rejection{EventID: r.EventID, Reason: "Malformed", Message: "no"})
		}
	}
	if chance == 1 {
		return sink.Outcome{}, errReset
	}
	return outcome, nil
}

// Probe takes everything.
func (*gatherer) Probe(context.Context) error { return nil }

// Close does nothing.
func (*gatherer) Close() error { return nil }

// TestStreamsGoTogether: records of several streams go in one call to a sink that can take them, each stream in its order, and none is lost.
func TestStreamsGoTogether(t *testing.T) {
	const streams, each, bad = 4, 300, 97
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			q := openQueue(t, time.Now, "hub")
			s := &queue.Submission{}
			for i := range uint64(streams * each) {
				id, sequence := &forwardingv1.StreamId{Uid: strconv.FormatUint(i%streams, 10)}, i/streams+1
				r := &queue.Record{ID: fmt.Sprint(id.GetUid(), "-", sequence), Time: time.Now()}
				r.Stream = marshalled(t, id)
				r.Message = marshalled(t, &forwardingv1.Record{EventId: r.ID, Sequence: sequence})
				if err := q.Reserve("a", r.Size()); err != nil {
					t.Fatal(err)
				}
				s.Entries = append(s.Entries, queue.Entry{Tenant: "a", Record: r})
			}
			done := make(chan error, 1)
			s.Done = func(err error) { done <- err }
			q.Submit(s)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			g := &gatherer{random: rand.New(rand.NewPCG(seed, 1)), got: map[string][]uint64{}, bad: bad}
			serve(t, q, time.Now, map[string]sink.Sink{"hub": g})
			time.Sleep(time.Hour) // of the bubble
			letters, err := q.DeadLetters("hub", "a", false, streams*each)
			if err != nil || len(letters) != streams*(each/bad) || q.Usage().Records != 0 {
				t.Errorf("seed %d: %d dead letters, %d records are left, %v", seed, len(letters), q.Usage().Records, err)
			}
			for _, letter := range letters {
				record := &forwardingv1.Record{}
				if err := proto.Unmarshal(letter.Record.Message, record); err != nil || record.GetSequence()%bad != 0 {
					t.Errorf("seed %d: %s is a dead letter, %v", seed, letter.Record.ID, err)
				}
			}
			for uid, got := range g.got {
				if len(got) != each-each/bad || !slices.IsSorted(got) {
					t.Errorf("seed %d: stream %s has %d records, in order: %t", seed, uid, len(got), slices.IsSorted(got))
				}
			}
			if len(g.got) != streams || g.wide == 0 {
				t.Errorf("seed %d: %d streams, %d of %d calls with more than one", seed, len(g.got), g.wide, g.calls)
			}
		})
	}
}

func marshalled(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
