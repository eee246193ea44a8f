// SPDX-License-Identifier: Apache-2.0

// Package receivertest runs a receiver inside of a test, and makes what a sender would send.
package receivertest

import (
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

// Options change the receiver of a test.
type Options struct {
	// Receiver are further options; Keeper, Log and Version are filled where they are empty.
	Receiver receiver.Options
	// Store are options of the store; Directory and Now are filled where they are empty.
	Store store.Options
	// Listener is where it listens; nil: a free port of this machine.
	Listener net.Listener
}

// Receiver is a running receiver.
type Receiver struct {
	// Address is HOST:PORT of ForwardingService.
	Address string
	Store   *store.Store
	Server  *grpc.Server
	Service *receiver.Service
}

// Start starts a receiver, which ends with the test.
func Start(t testing.TB, options Options) *Receiver {
	t.Helper()
	r := &Receiver{}
	if options.Receiver.Keeper == nil {
		if options.Store.Directory == "" {
			options.Store.Directory = filepath.Join(t.TempDir(), "store")
		}
		if options.Store.Now == nil {
			options.Store.Now = time.Now //nolint:forbidigo // a test has the clock
		}
		opened, err := store.Open(options.Store)
		if err != nil {
			t.Fatal(err)
		}
		r.Store, options.Receiver.Keeper = opened, opened
	}
	options.Receiver.Version = "test"
	if options.Receiver.Log == nil {
		options.Receiver.Log = slog.New(slog.DiscardHandler)
	}
	if options.Listener == nil {
		var listen net.ListenConfig
		listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		options.Listener = listener
	}
	r.Address = options.Listener.Addr().String()
	r.Service = receiver.New(options.Receiver)
	r.Server = r.Service.Server()
	served := make(chan error, 1)
	go func() { served <- r.Server.Serve(options.Listener) }()
	t.Cleanup(func() {
		r.Server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if r.Store != nil {
			if err := r.Store.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

// Client is a plain client of the receiver.
func (r *Receiver) Client(t testing.TB) forwardingv1.ForwardingServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(r.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return forwardingv1.NewForwardingServiceClient(conn)
}

// Scan is the stream of a Scan.
func Scan(uid string) *forwardingv1.StreamId {
	return &forwardingv1.StreamId{ClusterId: "cluster-1", Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: uid, Revision: 1}
}

// Records are all records of a Scan with n findings: the summary, the findings, the closing record.
func Records(id *forwardingv1.StreamId, n int) []*forwardingv1.Record {
	list := make([]*forwardingv1.Record, 0, n+2)
	list = append(list, &forwardingv1.Record{Body: &forwardingv1.Record_ScanSummary{ScanSummary: &forwardingv1.ScanSummary{Findings: uint64(n)}}})
	for i := range n {
		list = append(list, &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{Title: fmt.Sprint("finding ", i), Severity: "high"}}})
	}
	var chain []byte
	for i, record := range list {
		Seal(id, record, uint64(i+1))
		chain = forwardingv1.AppendChain(chain, record.GetDigest())
	}
	closing := &forwardingv1.Closing{Records: uint64(n + 1), Chain: chain, FindingsTotal: uint64(n)}
	last := &forwardingv1.Record{Body: &forwardingv1.Record_Closing{Closing: closing}}
	Seal(id, last, uint64(n+2))
	return append(list, last)
}

// Seal gives a record its sequence, its id and its digest.
func Seal(id *forwardingv1.StreamId, record *forwardingv1.Record, sequence uint64) {
	record.Sequence, record.EventId = sequence, forwardingv1.EventID(id, sequence)
	record.Schema, record.Digest = forwardingv1.Schema, forwardingv1.Digest(record)
}
