// SPDX-License-Identifier: Apache-2.0

package updatefield

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Path is a parsed field name such as `attributes.ip_addresses[0]`. It keeps the text it came from, because a finding
// that already has a member of exactly that name means that member and not the parts.
type Path struct {
	text  string
	parts []string
	plain bool
}

var (
	// plainName and deepName distinguish a single key from a path: only a name with a dot or a well formed bracket is a path.
	plainName = regexp.MustCompile(`^[A-Za-z0-9_]*$`)
	deepName  = regexp.MustCompile(`\.|\[(?:[^\[\]]*|"(?:[^"\\]|\\.)*?"|'(?:[^'\\]|\\.)*?')\]`)

	// Bracketed keys: a number, or quoted text in which a backslash keeps the next character.
	bracketNumber = regexp.MustCompile(`^\[(-?[0-9]+(?:\.[0-9]+)?)\]`)
	bracketDouble = regexp.MustCompile(`^\["((?:[^"\\]|\\[^\n\r\x{2028}\x{2029}])*?)"\]`)
	bracketSingle = regexp.MustCompile(`^\['((?:[^'\\]|\\[^\n\r\x{2028}\x{2029}])*?)'\]`)
	escaped       = regexp.MustCompile(`\\(\\)?`)

	listIndex = regexp.MustCompile(`^(?:0|[1-9][0-9]*)$`)
)

// maxPathLength and maxIndex bound what a path may ask for: a list is filled up with nulls to reach an index, so an
// unbounded one would be a way to fill memory and storage with nothing.
const (
	maxPathLength = 4096
	maxParts      = 64
	maxIndex      = 9999
)

// ParsePath reads a field name in the syntax of lodash's `set`: dots, `[0]`, `["a.b"]`. Text that is not a well formed
// path is one key. It fails only on paths beyond the bounds.
func ParsePath(text string) (Path, error) {
	if len(text) > maxPathLength {
		return Path{}, fmt.Errorf("field name is %d bytes long, the longest allowed is %d", len(text), maxPathLength)
	}
	// JSON has no other text than Unicode: what is none becomes the replacement character, as it would when written.
	text = strings.ToValidUTF8(text, "\ufffd")
	p := Path{text: text}
	if plainName.MatchString(text) || !deepName.MatchString(text) {
		p.plain, p.parts = true, []string{text}
		return p, nil
	}
	p.parts = split(text)
	if len(p.parts) > maxParts {
		return Path{}, fmt.Errorf("field name has %d levels, the most allowed are %d", len(p.parts), maxParts)
	}
	return p, nil
}

// String is the text the path was parsed from.
func (p Path) String() string { return p.text }

// keys are the levels to walk in an object; hasText says whether it has a member named like the whole path.
func (p Path) keys(hasText bool) []string {
	if p.plain || hasText {
		return []string{p.text}
	}
	return p.parts
}

// split cuts a path into its keys. The rules are those of one regular expression in lodash: a run of characters
// other than `.`, `[` and `]` is a key, so is a well formed bracket, and so is the nothing between a separator
// (`.` or `[]`) that begins here and another one or the end that follows it. Everything else is skipped.
func split(text string) []string {
	var keys []string
	if strings.HasPrefix(text, ".") {
		keys = append(keys, "")
	}
	for at := 0; at < len(text); {
		rest := text[at:]
		if n := strings.IndexAny(rest, ".[]"); n != 0 {
			if n < 0 {
				n = len(rest)
			}
			keys = append(keys, rest[:n])
			at += n
			continue
		}
		if key, n, ok := bracket(rest); ok {
			keys = append(keys, key)
			at += n
			continue
		}
		if emptyKeyAt(rest) {
			keys = append(keys, "")
		}
		at++
	}
	return keys
}

// bracket reads a well formed bracket at the start of text and says how long it is.
func bracket(text string) (key string, length int, ok bool) {
	if m := bracketNumber.FindStringSubmatch(text); m != nil {
		return m[1], len(m[0]), true
	}
	for _, quoted := range []*regexp.Regexp{bracketDouble, bracketSingle} {
		if m := quoted.FindStringSubmatch(text); m != nil {
			return escaped.ReplaceAllString(m[1], "$1"), len(m[0]), true
		}
	}
	return "", 0, false
}

// emptyKeyAt says whether a separator begins here and is followed by another one or by the end.
func emptyKeyAt(text string) bool {
	rest, found := cutSeparator(text)
	if !found {
		return false
	}
	_, again := cutSeparator(rest)
	return rest == "" || again
}

func cutSeparator(text string) (string, bool) {
	if rest, ok := strings.CutPrefix(text, "."); ok {
		return rest, true
	}
	return strings.CutPrefix(text, "[]")
}

// isIndex says whether a key names a list element; a path makes a list where the next key is one.
func isIndex(key string) bool { return listIndex.MatchString(key) }

// index is the list element a key names.
func index(key string) (int, error) {
	n, err := strconv.Atoi(key)
	if err != nil || n > maxIndex {
		return 0, fmt.Errorf("list element %s is out of reach, the highest allowed is %d", key, maxIndex)
	}
	return n, nil
}
