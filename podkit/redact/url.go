// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"errors"
	"fmt"
	"io"
	"net/url"
)

// URL is an address whose query is a credential, such as a presigned URL. It prints itself without query and user
// information with every verb, and as JSON.
type URL string

// String is the address without query and user information.
func (u URL) String() string {
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Host == "" {
		return "(unreadable URL)"
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

// GoString is for %#v.
func (u URL) GoString() string { return fmt.Sprintf("redact.URL(%q)", u.String()) }

// Format keeps the query out of every verb, those that ignore String included.
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

// MarshalText keeps the query out of structured logs and JSON.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Check returns an error if the address cannot be used. The error does not repeat the address.
func (u URL) Check() error {
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil:
		return errors.New("the URL cannot be read")
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return errors.New("the URL does not begin with http:// or https://")
	case parsed.Host == "":
		return errors.New("the URL has no host")
	}
	return nil
}
