// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Delivery is one POST.
type Delivery struct {
	// Path tells receivers apart.
	Path string
	// Scan is the Scan as it was sent.
	Scan executionv1.Scan
	// Findings are the findings as they were sent.
	Findings []json.RawMessage
}

// Receiver is a running web server.
type Receiver struct {
	server *httptest.Server

	mu  sync.Mutex
	got []Delivery
	bad int
}

// maxBody is more than any test sends.
const maxBody = 64 << 20

// Start listens on a free loopback port.
func Start() *Receiver {
	r := &Receiver{}
	r.server = httptest.NewServer(http.HandlerFunc(r.receive))
	return r
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Scan     executionv1.Scan  `json:"scan"`
		Findings []json.RawMessage `json:"findings"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxBody)).Decode(&body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || req.Method != http.MethodPost {
		r.bad++
		http.Error(w, "want a POST of {scan, findings}", http.StatusBadRequest)
		return
	}
	r.got = append(r.got, Delivery{Path: req.URL.Path, Scan: body.Scan, Findings: body.Findings})
}

// URL is the address of a path, which starts with a slash.
func (r *Receiver) URL(path string) string { return r.server.URL + path }

// At returns what was posted to a path.
func (r *Receiver) At(path string) []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Delivery
	for _, d := range r.got {
		if d.Path == path {
			out = append(out, d)
		}
	}
	return slices.Clip(out)
}

// Refused counts requests that were no deliveries.
func (r *Receiver) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// Close ends the server.
func (r *Receiver) Close() { r.server.Close() }
