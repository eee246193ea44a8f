// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"cmp"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/scanyard/scanyard/apis/transfer"
)

const (
	maxExcerpt = 200
	// shortestHidden is the length below which a text is too short to be taken for a credential: taking out each "on"
	// or "4" would leave nothing to read.
	shortestHidden = 4
	// shortestSegment is the same for the pieces of a path. Webhooks carry tokens there, but also plain words.
	shortestSegment = 8
)

// looksSecret finds names that are followed by what they name: token=…, "api_key": "…", Authorization: Bearer ….
var looksSecret = regexp.MustCompile(
	`(?i)((?:authorization|api[-_]?key|token|secret|passw(?:or)?d|routing[-_]key|signature)["']?\s*[:=]\s*["']?)` +
		`((?:basic|bearer|token)\s+)?[^\s"',;&}]+`)

// Excerpt makes one short line of a text of a far end: no line breaks, no queries of addresses, nothing after a word
// such as token or password. Hooks use it for messages inside answers.
func Excerpt(text string) string {
	text = looksSecret.ReplaceAllString(transfer.Redact(text), "${1}…")
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsGraphic(r)
	}), " ")
	if runes := []rune(text); len(runes) > maxExcerpt {
		text = string(runes[:maxExcerpt]) + "…"
	}
	return text
}

// redactor takes out of a text what a request carried as a secret.
type redactor struct{ hidden []string }

func newRedactor(target *url.URL, header http.Header, more []string) redactor {
	var hidden []string
	hide := func(shortest int, texts ...string) {
		for _, text := range texts {
			if len(text) >= shortest {
				hidden = append(hidden, text)
			}
		}
	}
	hide(shortestHidden, more...)
	hide(shortestHidden, target.RawQuery, target.Path, target.EscapedPath())
	hide(shortestSegment, strings.Split(target.Path, "/")...)
	for _, values := range target.Query() {
		hide(shortestHidden, values...)
	}
	if password, _ := target.User.Password(); password != "" {
		hide(shortestHidden, password, target.User.String())
	} else {
		hide(shortestHidden, target.User.Username()) // a token, as some services take it
	}
	for name, values := range header {
		switch name {
		case "Content-Type", "Content-Encoding", "Accept", "User-Agent", "Idempotency-Key":
			continue
		}
		for _, value := range values {
			hide(shortestHidden, value, passwordOf(value))
			hide(shortestHidden, strings.Fields(value)...)
		}
	}
	slices.SortFunc(hidden, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return redactor{slices.Compact(hidden)}
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

func (r redactor) clean(text string) string {
	for _, secret := range r.hidden {
		text = strings.ReplaceAll(text, secret, "…")
	}
	return Excerpt(text)
}

// excerpt is what is worth showing of an answer's body: text and JSON, but not a page for browsers.
func (r redactor) excerpt(header http.Header, body []byte) string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	switch {
	case kind == "text/plain", kind == "application/json", strings.HasSuffix(kind, "+json"):
		return r.clean(string(body[:min(len(body), 4<<10)]))
	}
	return ""
}
