// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

// TestFaultKillReceiver ends the streams of a receiver and kills the exporter while records are on their way: the receiver has each record
// once and in order, and none that differs from another one of its id.
func TestFaultKillReceiver(t *testing.T) {
	const n, rounds = 6000, 3
	far := receivertest.Start(t, receivertest.Options{})
	dir := t.TempDir()
	p := place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock")}
	flags := []string{"--sink", "hub=grpc://" + far.Address + ",insecure=true,maxRecords=10"}
	r := p.start(t, flags...)
	send(t, p, n)
	server := far.Server
	for round := range rounds {
		r.waitFor(t, "records arrive", func(queueView) bool { return far.Store.Counters().Stored >= uint64((round+1)*n/(rounds+1)) })
		server.Stop()
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", far.Address)
		if err != nil {
			t.Fatal(err)
		}
		server = receivertest.Start(t, receivertest.Options{Listener: listener, Receiver: receiver.Options{Keeper: far.Store}}).Server
		if err := r.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-r.ended
		r = p.start(t, flags...)
	}
	r.waitFor(t, "all is delivered", isEmpty)
	if c := far.Store.Counters(); c.Stored != n || c.Conflicts+c.Rejected > 0 {
		t.Errorf("of %d records the receiver has %+v", n, c)
	}
	last := uint64(0)
	if err := far.Store.Records(0, far.Store.LastNumber(), func(a store.Arrival) error {
		if a.Record.GetSequence() <= last {
			t.Errorf("record %d came after %d", a.Record.GetSequence(), last)
		}
		last = a.Record.GetSequence()
		return nil
	}); err != nil {
		t.Error(err)
	}
}
