// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	// shortestHidden is the length below which a text is too short to be a credential: hiding each "on" or "4" would leave
	// nothing to read.
	shortestHidden = 4
	// shortestSegment is the same for the pieces of a path. Webhooks carry tokens there, but also plain words.
	shortestSegment = 8
)

// Secrets are texts that are known to be credentials. The zero value has none.
type Secrets struct{ hidden []string }

// Of returns Secrets with the given texts.
func Of(texts ...string) Secrets {
	var s Secrets
	s.hide(shortestHidden, texts...)
	return s.sorted()
}

// OfRequest returns Secrets with the parts of a request: its address without scheme and host, its headers except those of
// content, and more texts.
func OfRequest(target *url.URL, header http.Header, more ...string) Secrets {
	var s Secrets
	s.hide(shortestHidden, more...)
	s.hide(shortestHidden, target.RawQuery, target.Path, target.EscapedPath())
	s.hide(shortestSegment, strings.Split(target.Path, "/")...)
	for _, values := range target.Query() {
		s.hide(shortestHidden, values...)
	}
	if password, _ := target.User.Password(); password != "" {
		s.hide(shortestHidden, password, target.User.String())
	} else {
		s.hide(shortestHidden, target.User.Username()) // some services expect the token here
	}
	for name, values := range header {
		switch name {
		case "Content-Type", "Content-Encoding", "Accept", "User-Agent", "Idempotency-Key":
			continue
		}
		for _, value := range values {
			s.hide(shortestHidden, value, passwordOf(value))
			s.hide(shortestHidden, strings.Fields(value)...)
		}
	}
	return s.sorted()
}

func (s *Secrets) hide(shortest int, texts ...string) {
	for _, text := range texts {
		if len(text) >= shortest {
			s.hidden = append(s.hidden, text)
		}
	}
}

// sorted has the longest first: a shorter one may be a part of it.
func (s Secrets) sorted() Secrets {
	slices.SortFunc(s.hidden, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return Secrets{slices.Compact(s.hidden)}
}

// passwordOf is the password in a header of basic authentication, or the empty text.
func passwordOf(value string) string {
	encoded, _ := strings.CutPrefix(value, "Basic ")
	pair, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	_, password, _ := strings.Cut(string(pair), ":")
	return password
}

// Text removes the known credentials from a text, and those that the function Text removes.
func (s Secrets) Text(text string) string {
	for _, secret := range s.hidden {
		text = strings.ReplaceAll(text, secret, Mark)
	}
	return Text(text)
}
