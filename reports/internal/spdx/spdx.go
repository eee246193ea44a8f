// SPDX-License-Identifier: Apache-2.0

// Package spdx reads SPDX documents of any length: what of them is asked for, one package at a time.
package spdx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// maxDepth is how deep the values of a document may be nested.
	maxDepth = 64
	// maxValue is how long one value may be: a package, a relationship, a text.
	maxValue = 4 << 20
)

// Errors of documents. Both are in errors of Read.
var (
	ErrNotSPDX = errors.New("must be an SPDX document in JSON")
	ErrTooLong = errors.New("holds a value of more than 4 MiB")
)

// Package is what is read of a package.
type Package struct {
	ID       string     `json:"SPDXID"`
	Name     string     `json:"name"`
	Version  string     `json:"versionInfo"`
	License  string     `json:"licenseConcluded"`
	External []External `json:"externalRefs"`
}

// External names a package in another system.
type External struct {
	Type    string `json:"referenceType"`
	Locator string `json:"referenceLocator"`
}

// PURL is the package URL; "" if there is none.
func (p *Package) PURL() string {
	for _, ref := range p.External {
		if ref.Type == "purl" {
			return ref.Locator
		}
	}
	return ""
}

// window bounds what the decoder holds: how far it may read beyond what it has given out.
type window struct {
	from   io.Reader
	read   int64
	marked int64
}

// Read implements io.Reader.
func (w *window) Read(p []byte) (int, error) {
	if w.read-w.marked > maxValue {
		return 0, ErrTooLong
	}
	n, err := w.from.Read(p)
	w.read += int64(n)
	return n, err
}

// reader reads a document.
type reader struct {
	window  *window
	decoder *json.Decoder
	depth   int
	version string
	visit   func(*Package) error
	raw     json.RawMessage // the value read last, whose memory the next one takes
}

// Read reads a document to its end and hands out its packages. It returns the document's version of SPDX.
func Read(from io.Reader, visit func(*Package) error) (version string, err error) {
	w := &window{from: from}
	r := &reader{window: w, decoder: json.NewDecoder(w), visit: visit}
	if err := r.document(); err != nil {
		return "", err
	}
	if r.version == "" {
		return "", fmt.Errorf("%w: spdxVersion is missing", ErrNotSPDX)
	}
	return r.version, nil
}

func (r *reader) token() (json.Token, error) {
	token, err := r.decoder.Token()
	r.window.marked = r.decoder.InputOffset()
	if err != nil {
		return nil, broken(err)
	}
	switch token {
	case json.Delim('{'), json.Delim('['):
		if r.depth++; r.depth > maxDepth {
			return nil, fmt.Errorf("%w: it is nested deeper than %d", ErrNotSPDX, maxDepth)
		}
	case json.Delim('}'), json.Delim(']'):
		r.depth--
	}
	return token, nil
}

// broken is an error of the decoder. Errors of the connection stay what they are.
func broken(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrNotSPDX, err)
	}
	return err
}

func (r *reader) document() error {
	token, err := r.token()
	if err != nil {
		return err
	}
	if token != json.Delim('{') {
		return fmt.Errorf("%w: it is not an object", ErrNotSPDX)
	}
	for r.decoder.More() {
		name, err := r.token()
		if err != nil {
			return err
		}
		if name == "packages" {
			err = r.packages()
		} else {
			err = r.member(name == "spdxVersion")
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.token(); err != nil {
		return err
	}
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the document", ErrNotSPDX)
	}
	return nil
}

func (r *reader) packages() error {
	token, err := r.token()
	if err != nil {
		return err
	}
	if token != json.Delim('[') {
		return fmt.Errorf("%w: packages must be a list", ErrNotSPDX)
	}
	for r.decoder.More() {
		if err := r.decode(); err != nil {
			return err
		}
		var found Package
		if err := json.Unmarshal(r.raw, &found); err != nil {
			return fmt.Errorf("%w: %w", ErrNotSPDX, err)
		}
		if err := r.visit(&found); err != nil {
			return err
		}
	}
	_, err = r.token()
	return err
}

// decode reads a value at once.
func (r *reader) decode() error {
	err := r.decoder.Decode(&r.raw)
	r.window.marked = r.decoder.InputOffset()
	if err != nil {
		return broken(err)
	}
	if r.depth+depthOf(r.raw) > maxDepth {
		return fmt.Errorf("%w: it is nested deeper than %d", ErrNotSPDX, maxDepth)
	}
	return nil
}

// depthOf is how deep a valid value is nested.
func depthOf(value []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// member reads over a member. A list is read value by value, whatever its length.
func (r *reader) member(isVersion bool) error {
	token, err := r.token()
	if err != nil {
		return err
	}
	text, isText := token.(string)
	switch {
	case isVersion && isText:
		r.version = text
	case token == json.Delim('['):
		for r.decoder.More() {
			if err := r.decode(); err != nil {
				return err
			}
		}
		_, err = r.token()
	case token == json.Delim('{'):
		for r.decoder.More() && err == nil {
			if _, err = r.token(); err == nil {
				err = r.decode()
			}
		}
		if err == nil {
			_, err = r.token()
		}
	}
	return err
}
