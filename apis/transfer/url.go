// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
)

// URL is a presigned URL. It prints as scheme://host/path wherever it is printed, logged or marshalled; only
// string(u) gives the whole.
type URL string

// String leaves out the query, the fragment and any user.
func (u URL) String() string {
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Host == "" {
		return "(unreadable URL)"
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

// GoString keeps %#v from showing the query.
func (u URL) GoString() string { return fmt.Sprintf("transfer.URL(%q)", u.String()) }

// Format keeps every verb from showing the query.
func (u URL) Format(f fmt.State, verb rune) {
	text := u.String()
	switch {
	case verb == 'q':
		text = fmt.Sprintf("%q", text)
	case verb == 'v' && f.Flag('#'):
		text = u.GoString()
	}
	_, _ = io.WriteString(f, text) // a fmt.State has no errors to report
}

// MarshalText keeps JSON and structured logs from showing the query.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// check refuses what no request can be made of, without repeating the URL.
func (u URL) check() error {
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil:
		return errors.New("the URL can not be read")
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return errors.New("the URL does not begin with http:// or https://")
	case parsed.Host == "":
		return errors.New("the URL has no host")
	}
	return nil
}

var query = regexp.MustCompile(`\?[^\s"'<>]+`)

// redact removes everything that may be a query from a text.
func redact(text string) string { return query.ReplaceAllString(text, "?…") }

// redacted prints an error without queries and keeps what it wraps.
type redacted struct{ err error }

func (r redacted) Error() string { return redact(r.err.Error()) }

func (r redacted) Unwrap() error { return r.err }

// withoutURL drops the *url.Error that net/http wraps around everything, since that one carries the URL.
func withoutURL(err error) error {
	var wrapper *url.Error
	for errors.As(err, &wrapper) {
		err = wrapper.Err
	}
	return redacted{err}
}

// Redact removes everything that may be the query of a URL from a text.
func Redact(text string) string { return redact(text) }
