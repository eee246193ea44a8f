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

// Body is what a request carries. It is opened once per attempt and must give the same bytes each time, from a reader
// of its own. What sdk.Stage makes is one, for bodies that do not fit in memory.
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

// Request is one thing to deliver.
type Request struct {
	// Method is POST where it is empty.
	Method string
	// URL is where to send it. All of it but scheme and host counts as secret.
	URL string
	// Header is sent as it is. All values but those of content headers count as secret.
	Header http.Header
	// Body may be nil.
	Body Body
	// Key identifies the delivery across attempts and Job retries, see [Key]. It is sent as Idempotency-Key; where it
	// is empty no such header is sent.
	Key string
	// Signer signs each attempt. Nil does not sign. It needs Key.
	Signer *Signer
	// Accept lists statuses that are answers like 2xx, such as 404 for a question or 409 for "there already".
	Accept []int
	// Check looks at an answer that has an accepted status. Its error is the delivery's; one made by [TryAgain] is
	// repeated like a status.
	Check func(*Answer) error
	// StatusIsEnough takes a 2xx for success even if the rest of the answer is lost on the way. It is for far ends that
	// cannot tell a repetition: there it avoids sending twice what was taken.
	StatusIsEnough bool
}

// Answer is what the far end said.
type Answer struct {
	Status int
	Header http.Header
	// Body holds the first bytes, up to the Client's MaxAnswer.
	Body []byte
	// Cut says that there was more.
	Cut bool
}

// JSON decodes the answer's body.
func (a *Answer) JSON(into any) error {
	if a.Cut {
		return fmt.Errorf("the answer is longer than %d bytes", len(a.Body))
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("the answer is not the expected JSON: %w", err)
	}
	return nil
}

// prepare refuses what can never be sent, without repeating what may be secret.
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

// ParseURL reads the address of a far end. Its errors do not repeat the address, which may hold a secret, and read well
// after its name: "is not an http:// or https:// address".
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
