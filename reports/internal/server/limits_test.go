// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

func TestBodiesAreBounded(t *testing.T) {
	d := serve(t, dbtest.New(t, sqldb.SQLite), func(o *server.Options) { o.Limits = server.Limits{RequestBytes: 1 << 20, InflightBytes: 1 << 20} })
	collection := path(policyReports, "team-a")
	large := strings.Repeat(" ", 1<<20) + "{}"
	tooLarge := d.ask(t, request{method: http.MethodPost, path: collection, body: large}).is(http.StatusRequestEntityTooLarge)
	if tooLarge.at("reason") != "RequestEntityTooLarge" || !strings.Contains(tooLarge.at("message"), "1048576") {
		t.Errorf("too large: %s", tooLarge.body)
	}
	// Of unknown length: the bytes are counted while they are read.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+collection, io.MultiReader(strings.NewReader(large)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", "application/json")
	response, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("of unknown length: %d", response.StatusCode)
	}
	// While one body is on its way, another one finds no room.
	body, writer := io.Pipe()
	slow, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+collection, body)
	if err != nil {
		t.Fatal(err)
	}
	slow.Header = req.Header.Clone()
	slow.Header.Set("Expect", "100-continue") // the body is sent once the server reads it, and so counts it
	answered := make(chan int, 1)
	go func() {
		// A client of its own: the server has closed connections whose bodies it did not read.
		response, err := (&http.Client{Transport: &http.Transport{ExpectContinueTimeout: patience}}).Do(slow)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		response.Body.Close()
		answered <- response.StatusCode
	}()
	if _, err := io.WriteString(writer, " "); err != nil {
		t.Fatal(err)
	}
	refused := d.ask(t, request{method: http.MethodPost, path: collection + "?dryRun=All", body: report("b")}).is(http.StatusTooManyRequests)
	if refused.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: %q", refused.header.Get("Retry-After"))
	}
	if _, err := io.WriteString(writer, `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"slow"}}`); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if code := <-answered; code != http.StatusCreated {
		t.Errorf("the slow one: %d", code)
	}
	d.create(t, policyReports, "team-a", report("after"))
}

// refusals is an Observer that counts what is refused.
type refusals struct {
	mu    sync.Mutex
	count map[string]int
}

func (*refusals) Watching(string) func(int) { return func(int) {} }

func (*refusals) Stalled() {}

func (r *refusals) Refused(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[reason]++
}

func (r *refusals) of(reason string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[reason]
}

// More requests at once than are allowed are refused, and counted apart from those that are too many of other things.
func TestRequestsAtOnceAreCounted(t *testing.T) {
	counted := &refusals{count: map[string]int{}}
	d := serve(t, dbtest.New(t, sqldb.SQLite), func(o *server.Options) {
		o.Observer = counted
		o.Limits = server.Limits{Reading: 1, Watches: 1, UserWatches: 1}
	})
	collection := path(policyReports, "team-a")
	// A list of what is not there yet waits for it some seconds. Of two, one is let in.
	ahead := request{path: collection + "?resourceVersion=999999", token: tenantToken}
	deadline := time.After(patience)
	for counted.of("inflight") == 0 {
		select {
		case <-deadline:
			t.Fatal("never refused")
		default:
		}
		var codes [2]int
		var both sync.WaitGroup
		for i := range codes {
			both.Go(func() { codes[i] = d.ask(t, ahead).code })
		}
		both.Wait()
		refused := 0
		for _, code := range codes {
			switch code {
			case http.StatusTooManyRequests:
				refused++
			case http.StatusGatewayTimeout:
			default:
				t.Fatalf("a list ahead: %d", code)
			}
		}
		if refused != counted.of("inflight") {
			t.Errorf("%d refused, %d counted", refused, counted.of("inflight"))
		}
	}
	watching, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+collection+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	watching.Header.Set("Authorization", "Bearer "+tenantToken)
	open, err := d.client.Do(watching)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	d.ask(t, request{path: collection + "?watch=true&timeoutSeconds=1", token: tenantToken}).is(http.StatusTooManyRequests)
	if counted.of("inflight") > 1 || counted.of("watches") != 1 {
		t.Errorf("a watch too many: %v", counted.count)
	}
}

func TestLongListsAreRefused(t *testing.T) {
	d := serve(t, dbtest.New(t, sqldb.SQLite), func(o *server.Options) { o.Limits = server.Limits{ListBytes: 1 << 10} })
	for i := range 501 {
		d.create(t, policyReports, "team-a", object{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": object{"name": "r" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)}})
	}
	refused := d.ask(t, request{path: path(policyReports, "team-a")}).is(http.StatusRequestEntityTooLarge)
	if !strings.Contains(refused.at("message"), "use limit and continue") {
		t.Errorf("message: %s", refused.body)
	}
	d.ask(t, request{path: path(policyReports, "team-a") + "?limit=500"}).is(http.StatusOK)
	d.ask(t, request{path: path(policyReports, "team-a"), header: accept(metadataOf)}).is(http.StatusOK)
}
