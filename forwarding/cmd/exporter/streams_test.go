// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/scanyard/scanyard/apis/decision"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

// TestStreamsOfProducers: what each producer has handed in is a stream of its own at a receiver, in its order, and has its own source as CloudEvents.
// A record has the same number there and there: that of the queue, which all streams together have once.
func TestStreamsOfProducers(t *testing.T) {
	const each = 300
	var mutex sync.Mutex
	sources := map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var events []struct{ Source string }
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &events) != nil {
			t.Errorf("%s, %v", body, err)
		}
		mutex.Lock()
		defer mutex.Unlock()
		for _, e := range events {
			sources[e.Source]++
		}
	}))
	defer web.Close()
	far := receivertest.Start(t, receivertest.Options{})
	dir := t.TempDir()
	p := place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock")}
	r := p.start(t, "--sink", "hub=grpc://"+far.Address+",insecure=true", "--sink", "web="+web.URL+",insecure=true")
	producers := []string{"gatekeeper", "operator", ""}
	var sending sync.WaitGroup
	for _, name := range producers {
		client, err := decision.Dial("unix://"+p.socket, decision.Config{Producer: name})
		if err != nil {
			t.Fatal(err)
		}
		sending.Go(func() {
			for i := range each {
				if err := client.Send(t.Context(), &decision.Record{EventType: "audit_violation", Message: strconv.Itoa(i)}); err != nil {
					t.Error(err)
				}
			}
			if err := client.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	sending.Wait()
	r.waitFor(t, "all is delivered", isEmpty)
	queue := r.queue(t).ID
	next, numbers := map[string]int{}, map[uint64]bool{}
	if err := far.Store.Records(0, far.Store.LastNumber(), func(a store.Arrival) error {
		name := a.Stream.GetName()
		if said := a.Record.GetDecision().GetMessage(); said != strconv.Itoa(next[name]) || a.Stream.GetUid() != queue || a.Stream.GetKind() != forwardingv1.StreamKind_STREAM_KIND_DECISIONS {
			t.Errorf("stream %s of queue %s has %s, want %d of queue %s", name, a.Stream.GetUid(), said, next[name], queue)
		}
		next[name]++
		if numbers[a.Record.GetSequence()] {
			t.Errorf("the number %d is there twice", a.Record.GetSequence())
		}
		numbers[a.Record.GetSequence()] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gatekeeper", "operator", "exporter"} {
		if next[name] != each || sources["/scanyard/c/default/"+name] < each {
			t.Errorf("of %d records of %s %d came by gRPC, %d by HTTP", each, name, next[name], sources["/scanyard/c/default/"+name])
		}
	}
	if len(next) != len(producers) || len(sources) != len(producers) || len(numbers) != each*len(producers) {
		t.Errorf("streams %v, sources %v, %d numbers", next, sources, len(numbers))
	}
}
