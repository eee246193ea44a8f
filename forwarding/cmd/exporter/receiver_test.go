// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// TestFaultIncompatible has a far end that refuses every call for a while, or is something else than a receiver: all is kept, and all
// arrives once the right one is there.
func TestFaultIncompatible(t *testing.T) {
	const n = 500
	refuses := func(code codes.Code) []grpc.ServerOption {
		return []grpc.ServerOption{grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(code, "no") })}
	}
	for name, c := range map[string]struct {
		options []grpc.ServerOption
		state   string
	}{
		"WrongService":      {nil, "Incompatible"},
		"Unimplemented":     {refuses(codes.Unimplemented), "Incompatible"},
		"NotFound":          {refuses(codes.NotFound), "Incompatible"},
		"Unauthenticated":   {refuses(codes.Unauthenticated), "AuthFailed"},
		"PermissionDenied":  {refuses(codes.PermissionDenied), "AuthFailed"},
		"ResourceExhausted": {refuses(codes.ResourceExhausted), "Overloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			listen := func(address string) net.Listener {
				listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				return listener
			}
			wrong, listener := grpc.NewServer(c.options...), listen("127.0.0.1:0")
			served := make(chan error, 1)
			go func() { served <- wrong.Serve(listener) }()
			dir := t.TempDir()
			p := place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock")}
			r := p.start(t, "--sink", "hub=grpc://"+listener.Addr().String()+",insecure=true")
			send(t, p, n)
			r.waitFor(t, "the state is told", func(v queueView) bool {
				return v.Sinks[0].State == c.state && v.Records == n && v.Sinks[0].DeadLetters == 0
			})
			wrong.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			far := receivertest.Start(t, receivertest.Options{Listener: listen(listener.Addr().String())})
			r.waitFor(t, "all is delivered", isEmpty)
			if c := far.Store.Counters(); c.Stored != n || c.Received != n {
				t.Errorf("of %d records the receiver has %+v", n, c)
			}
		})
	}
}
