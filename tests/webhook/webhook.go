// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
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

func (r *Receiver) receive(rw http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(r.At(req.URL.Path)) // who has gone needs no answer
		return
	}
	var body struct {
		Scan     executionv1.Scan  `json:"scan"`
		Findings []json.RawMessage `json:"findings"`
	}
	err := json.NewDecoder(http.MaxBytesReader(rw, req.Body, maxBody)).Decode(&body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || req.Method != http.MethodPost {
		r.bad++
		http.Error(rw, "want a POST of {scan, findings}", http.StatusBadRequest)
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

// Address is where a receiver listens, perhaps in another process.
type Address string

// Address says where the receiver listens.
func (r *Receiver) Address() Address { return Address(r.server.URL) }

// URL is the address of a path, which starts with a slash.
func (a Address) URL(path string) string { return string(a) + path }

// At asks the receiver what was posted to a path.
func (a Address) At(ctx context.Context, path string) ([]Delivery, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL(path), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the receiver: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the receiver: %w", err)
	}
	defer resp.Body.Close()
	var out []Delivery
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, fmt.Errorf("ask the receiver: %w", err)
	}
	return out, nil
}

// Refused counts requests that were no deliveries.
func (r *Receiver) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// Close ends the server.
func (r *Receiver) Close() { r.server.Close() }
