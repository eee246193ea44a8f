// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

// flipping passes a connection on, and changes the last byte of a text as often as it may.
type flipping struct {
	text []byte
	to   byte
	left atomic.Int64
}

// copy passes on what one side says.
func (f *flipping) copy(to io.Writer, from io.Reader) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if at := bytes.Index(chunk[:n], f.text); at >= 0 && f.left.Add(-1) >= 0 {
			chunk[at+len(f.text)-1] = f.to
		}
		if _, failed := to.Write(chunk[:n]); failed != nil || err != nil {
			return
		}
	}
}

// start gives the address to dial instead of the receiver's.
func (f *flipping) start(t *testing.T, receiver string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // accepting ends with it
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", receiver)
			if err != nil {
				_ = near.Close() // the sink sees it
				return
			}
			both := func() { _, _ = near.Close(), far.Close() } // the other half ends as well
			go func() { defer both(); f.copy(far, near) }()
			go func() { defer both(); f.copy(near, far) }()
		}
	}()
	return listener.Addr().String()
}

// TestFaultWireFlip changes a record on its way, in plain text: it is never stored so, is sent again, and is told where it is changed each time.
func TestFaultWireFlip(t *testing.T) {
	for name, tt := range map[string]struct {
		flips    int64
		rejected int
		counters store.Counters
	}{
		"Once":   {flips: 1, counters: store.Counters{Received: 13, Stored: 12, Rejected: 1}},
		"Always": {flips: 1 << 30, rejected: 1, counters: store.Counters{Received: 13, Stored: 11, Rejected: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			r := receivertest.Start(t, receivertest.Options{})
			f := &flipping{text: []byte("finding 7"), to: '6'}
			f.left.Store(tt.flips)
			config := plain(f.start(t, r.Address))
			config.Options = map[string]string{"compression": "None"}
			id := receivertest.Scan("u")
			all := receivertest.Records(id, 10)
			outcome, err := open(t, config).Deliver(t.Context(), batch(id, all))
			if err != nil || len(outcome.Rejected) != tt.rejected {
				t.Fatalf("got %+v, %v", outcome, err)
			}
			for _, rejection := range outcome.Rejected {
				if rejection.Reason != "DigestMismatch" || rejection.EventID != all[8].GetEventId() {
					t.Errorf("got %+v", rejection)
				}
			}
			if got := r.Store.Counters(); got != tt.counters {
				t.Errorf("got %+v", got)
			}
			answer, err := r.Client(t).GetStream(t.Context(), &forwardingv1.GetStreamRequest{Stream: id})
			complete := answer.GetState().GetCompleteness() == forwardingv1.Completeness_COMPLETENESS_COMPLETE
			if err != nil || complete != (tt.rejected == 0) {
				t.Errorf("got %v, %v", answer, err)
			}
		})
	}
}

// TestRejectionOfUnsentRecord has a receiver that refuses a record that it was not sent: the batch is sent again.
func TestRejectionOfUnsentRecord(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	id := receivertest.Scan("u")
	all := receivertest.Records(id, 10)
	f := &flipping{text: []byte(all[4].GetEventId()), to: 1}
	f.left.Store(1)
	config := plain(f.start(t, r.Address))
	config.Options = map[string]string{"compression": "None"}
	outcome, err := open(t, config).Deliver(t.Context(), batch(id, all))
	if err != nil || len(outcome.Rejected) > 0 {
		t.Fatalf("got %+v, %v", outcome, err)
	}
	if got := r.Store.Counters().Rejected; got != 1 {
		t.Errorf("%d were refused on the way", got)
	}
	answer, err := r.Client(t).GetStream(t.Context(), &forwardingv1.GetStreamRequest{Stream: id})
	if err != nil || answer.GetState().GetCompleteness() != forwardingv1.Completeness_COMPLETENESS_COMPLETE {
		t.Errorf("got %v, %v", answer, err)
	}
}
