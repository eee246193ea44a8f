// SPDX-License-Identifier: Apache-2.0

package persistencedependencytrack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/hooks/sdk"
)

// bom is what is read of an SBOM before it is sent.
type bom struct {
	format        string
	name, version string // of what it is about
}

// readBOM walks through the raw result. It is nil for what is not CycloneDX.
func readBOM(ctx context.Context, s *sdk.Session) (b *bom, err error) {
	raw, err := s.RawResult(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	source := &source{from: bufio.NewReaderSize(raw, bufferSize)}
	b, err = parseBOM(source)
	switch {
	case source.err != nil:
		return nil, fmt.Errorf("read raw result: %w", source.err)
	case err != nil, b.format != "CycloneDX":
		return nil, nil // what is not an SBOM is ignored, and nil says so
	}
	return b, nil
}

const bufferSize = 64 << 10

// source remembers an error of what it reads from, to distinguish it from an error in the text.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// parseBOM reads one JSON document to its end.
func parseBOM(r io.Reader) (*bom, error) {
	b := &bom{}
	w := &walker{decoder: json.NewDecoder(r)}
	w.decoder.UseNumber() // numbers of any size are fine
	w.object(func(key string) {
		switch key {
		case "bomFormat":
			b.format = w.text()
		case "metadata":
			w.object(func(key string) {
				if key != "component" {
					w.skip()
					return
				}
				w.object(func(key string) {
					switch key {
					case "name":
						b.name = w.text()
					case "version":
						b.version = w.text()
					default:
						w.skip()
					}
				})
			})
		default:
			w.skip()
		}
	})
	if w.err == nil {
		if _, err := w.decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("there is more than one document")
		}
	}
	return b, w.err
}

// walker goes through JSON without keeping it. After its first error it does nothing more.
type walker struct {
	decoder *json.Decoder
	err     error
}

func (w *walker) next() json.Token {
	if w.err != nil {
		return nil
	}
	var token json.Token
	token, w.err = w.decoder.Token()
	return token
}

// object calls a function for each member of an object, which has to take the value. Anything else is passed over.
func (w *walker) object(member func(key string)) {
	first := w.next()
	if first != json.Delim('{') {
		w.rest(first)
		return
	}
	for w.err == nil && w.decoder.More() {
		if key, ok := w.next().(string); ok {
			member(key)
		}
	}
	w.next()
}

// text is a value, or the empty text if that is none.
func (w *walker) text() string {
	first := w.next()
	text, _ := first.(string)
	w.rest(first)
	return text
}

func (w *walker) skip() { w.rest(w.next()) }

// rest passes over what is left of a value after its first token.
func (w *walker) rest(first json.Token) {
	depth := 0
	for token := first; ; token = w.next() {
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth <= 0 || w.err != nil {
			return
		}
	}
}

// compact copies a JSON document without the white space between its tokens.
func compact(to io.Writer, from io.Reader) error {
	chunk := make([]byte, bufferSize)
	inText, escaped := false, false
	for {
		n, err := from.Read(chunk)
		kept := chunk[:0]
		for _, c := range chunk[:n] {
			switch {
			case inText:
				inText = escaped || c != '"'
				escaped = !escaped && c == '\\'
			case c == '"':
				inText = true
			case c == ' ', c == '\t', c == '\n', c == '\r':
				continue
			}
			kept = append(kept, c)
		}
		if _, err := to.Write(kept); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read raw result: %w", err)
		}
	}
}
