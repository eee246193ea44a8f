// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Request is a request to a remote service.
type Request struct {
	Method string
	// URL is the path with the query.
	URL    string
	Header http.Header
	Body   []byte
}

// Reply is how a remote service responds to a request. The zero Reply is 200 without a body.
type Reply struct {
	Status int
	Header map[string]string
	Body   string
	// Half breaks the connection off in the middle of the response.
	Half bool
	// Drop breaks the connection off instead of a response.
	Drop bool
	// Hang sends no response, and advances the clock by this much repeatedly until the hook gives up on the request.
	Hang time.Duration
}

// Remote is a real HTTP server that a hook sends to.
type Remote struct {
	*httptest.Server

	clock *Clock
	reply func(n int, r Request) Reply

	answering sync.Mutex // one request at a time, even if the next one follows an abandoned one
	mu        sync.Mutex
	requests  []Request
}

// NewRemote starts a server that answers its n-th request, counted from 0, with what reply says. Requests come one
// after another. It ends with the test.
func (w *World) NewRemote(t testing.TB, reply func(n int, r Request) Reply) *Remote {
	f := &Remote{clock: w.Clock, reply: reply}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// NewTLSRemote is NewRemote with a certificate that only its own CA signs.
func (w *World) NewTLSRemote(t testing.TB, reply func(n int, r Request) Reply) *Remote {
	f := &Remote{clock: w.Clock, reply: reply}
	f.Server = httptest.NewTLSServer(f)
	t.Cleanup(f.Close)
	return f
}

// Requests are all that came in whole, in order.
func (f *Remote) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// ServeHTTP writes the request down and does what the reply says.
func (f *Remote) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the hook broke off: there is no client to respond to
	}
	request := Request{Method: r.Method, URL: r.URL.RequestURI(), Header: r.Header.Clone(), Body: body}
	f.mu.Lock()
	n := len(f.requests)
	f.requests = append(f.requests, request)
	f.mu.Unlock()
	f.answering.Lock()
	reply := f.reply(n, request)
	f.answering.Unlock()
	switch {
	case reply.Drop:
		panic(http.ErrAbortHandler) // net/http breaks off
	case reply.Hang > 0:
		f.hang(r, reply.Hang)
		return
	}
	for name, value := range reply.Header {
		rw.Header().Set(name, value)
	}
	text := []byte(reply.Body)
	if reply.Half {
		text = append(text, "the rest never comes"...)
		rw.Header().Set("Content-Length", strconv.Itoa(len(text)))
		text = text[:len(text)/2]
	}
	rw.WriteHeader(cmp.Or(reply.Status, http.StatusOK))
	writeAll(rw, text)
	if reply.Half && http.NewResponseController(rw).Flush() == nil {
		panic(http.ErrAbortHandler) // as above
	}
}

// hang lets time pass for the hook until a timer of its fires, and then waits until it goes away. It goes no further: the
// next request of the hook may be under way before the end of this one is seen here.
func (f *Remote) hang(r *http.Request, step time.Duration) {
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for f.clock.Advance(step) == 0 {
		select {
		case <-r.Context().Done():
			return
		case <-ticks.C:
		}
	}
	<-r.Context().Done()
}
