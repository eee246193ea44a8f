// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/net/http/httpguts"
)

// Body is the body of a request. It is opened once per attempt and must give the same bytes each time, from a reader of its
// own. sdk.Stage makes one for bodies that do not fit in memory.
type Body interface {
	// Size is the length in bytes.
	Size() int64
	// Open starts at the beginning.
	Open() (io.ReadCloser, error)
}

// Bytes is a Body that is in memory.
type Bytes []byte

// Size is the number of bytes.
func (b Bytes) Size() int64 { return int64(len(b)) }

// Open reads from the beginning.
func (b Bytes) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }

// Pieces is a Body of several pieces, one after another, without copying them together.
type Pieces [][]byte

// Size is the number of bytes of all pieces.
func (p Pieces) Size() (size int64) {
	for _, piece := range p {
		size += int64(len(piece))
	}
	return size
}

// Open reads from the beginning.
func (p Pieces) Open() (io.ReadCloser, error) {
	return io.NopCloser(&pieces{left: slices.Clone(p)}), nil
}

type pieces struct{ left [][]byte }

func (p *pieces) Read(into []byte) (n int, err error) {
	for n < len(into) && len(p.left) > 0 {
		copied := copy(into[n:], p.left[0])
		n += copied
		if p.left[0] = p.left[0][copied:]; len(p.left[0]) == 0 {
			p.left = p.left[1:]
		}
	}
	if n == 0 && len(into) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// JSON makes a Body of a value. It writes & < and > as they are, as every other implementation does.
func JSON(v any) (Bytes, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Request is one delivery.
type Request struct {
	// Method is the method; empty means POST.
	Method string
	// URL is where to send the request. All of it but scheme and host counts as secret.
	URL string
	// Header is sent unchanged. All values but those of content headers count as secret.
	Header http.Header
	// Body may be nil.
	Body Body
	// Key identifies the delivery across attempts and retries of the Job, see [Key]. It is sent as Idempotency-Key; an empty
	// key sends no such header.
	Key string
	// Signer signs each attempt. Nil does not sign. It needs Key.
	Signer *Signer
	// Accept lists statuses that count as success like 2xx, such as 404 for a lookup or 409 for an object that exists.
	Accept []int
	// Check checks a response with an accepted status. Its error is the delivery's error; one made by [TryAgain] is retried
	// like a status.
	Check func(*Answer) error
	// StatusIsEnough takes a 2xx for success even if the rest of the response is lost on the way. It is for services that cannot
	// detect a repetition: it avoids sending an accepted request twice.
	StatusIsEnough bool
}

// Answer is the response of the remote service.
type Answer struct {
	Status int
	Header http.Header
	// Body holds the first bytes, up to the Client's MaxAnswer.
	Body []byte
	// Cut says that the response was longer.
	Cut bool
}

// JSON decodes the answer's body.
func (a *Answer) JSON(into any) error {
	if a.Cut {
		return fmt.Errorf("the response is longer than %d bytes", len(a.Body))
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("the response is not the expected JSON: %w", err)
	}
	return nil
}

// prepare refuses a request that can never be sent, without repeating anything that may be secret.
func (r *Request) prepare() (*url.URL, error) {
	target, err := ParseURL(r.URL)
	if err != nil {
		return nil, fmt.Errorf("the address %w", err)
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, errors.New("a header has a name that is not allowed")
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("the header %s has a value that a header cannot carry, perhaps a line break at its end", name)
			}
		}
	}
	if r.Signer != nil && r.Key == "" {
		return nil, errors.New("a signed request needs a key")
	}
	return target, nil
}

// ParseURL reads the address of a remote service. Its errors do not repeat the address, which may contain a secret, and read
// well after the name of a variable: "is not an http:// or https:// address".
func ParseURL(address string) (*url.URL, error) {
	target, err := url.Parse(address)
	if err != nil || target.Hostname() == "" || (target.Scheme != "http" && target.Scheme != "https") {
		return nil, errors.New("is not an http:// or https:// address")
	}
	return target, nil
}

func (r *Request) method() string {
	if r.Method == "" {
		return http.MethodPost
	}
	return r.Method
}

func (r *Request) accepts(status int) bool {
	return status >= 200 && status <= 299 || slices.Contains(r.Accept, status)
}
