// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"mime"
	"strings"
	"unicode"

	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/podkit/redact"
)

// maxExcerpt is how many characters of a remote service's text are shown.
const maxExcerpt = 200

// Excerpt makes one short line of a remote service's text: no line breaks, and nothing that looks like a credential. Hooks use it
// for messages inside responses.
func Excerpt(words string) string {
	visible := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(redact.Text(words), "\uFFFD"))
	return text.CutRunes(text.Line(visible), maxExcerpt)
}

// excerptOf is the part of a response that is worth showing: text and JSON, but not a page for browsers.
func excerptOf(hide redact.Secrets, a *Answer) string {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	switch {
	case kind == "text/plain", kind == "application/json", strings.HasSuffix(kind, "+json"):
		return Excerpt(hide.Text(string(a.Body[:min(len(a.Body), 4<<10)])))
	}
	return ""
}
