// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// farEnd is a web server that hooks send to, which answers as a test wants it to.
type farEnd struct {
	*httptest.Server

	mu  sync.Mutex
	got []exchange
}

// exchange is one request with the status that was its answer.
type exchange struct {
	*http.Request

	body   []byte
	status int
}

// reply is how a far end answers. Status 0 is 200.
type reply struct {
	status int
	text   string
}

// startFarEnd starts a server for the test. Its answers may be asked for at the same time.
func startFarEnd(answer func(exchange) reply) *farEnd {
	GinkgoHelper()
	f := &farEnd{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the hook broke off: there is nobody to answer
		}
		e := exchange{Request: r, body: body}
		said := answer(e)
		e.status = cmp.Or(said.status, http.StatusOK)
		f.mu.Lock()
		f.got = append(f.got, e)
		f.mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(e.status)
		_, _ = io.WriteString(rw, said.text) // who has gone needs no answer
	}))
	DeferCleanup(f.Close)
	return f
}

// host is where it listens, as errors of hooks name it.
func (f *farEnd) host() string { return f.Listener.Addr().String() }

// all returns the requests that were answered.
func (f *farEnd) all() []exchange {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

// payload is what generic-webhook sends. Its findings are nil where it sent none, not
// even an empty list.
type payload struct {
	Scan     executionv1.Scan
	Findings []struct{ ID, Category string }
}

func (e *exchange) payload() payload {
	GinkgoHelper()
	var p payload
	Expect(json.Unmarshal(e.body, &p)).To(Succeed(), "the webhook got %.200q", e.body)
	return p
}

// accepted lists what it took about one Scan at a path, in order.
func (f *farEnd) accepted(path string, s *executionv1.Scan) []payload {
	GinkgoHelper()
	var out []payload
	for _, e := range f.all() {
		if e.status/100 != 2 || !strings.HasPrefix(e.URL.Path, path) {
			continue
		}
		if p := e.payload(); p.Scan.UID == s.UID {
			out = append(out, p)
		}
	}
	return out
}
