// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"net/url"
	"strings"
)

// nextPage gives the page that a Link header calls the next one of a page; nil: there is none. foreign: the next page is said to be at
// another host, where nobody goes. A registry behind a proxy may write a scheme and a port that are its own: those of the page hold.
func nextPage(headers []string, page *url.URL) (next *url.URL, foreign bool) {
	for _, header := range headers {
		for rest := header; ; {
			start := strings.IndexByte(rest, '<')
			if start < 0 {
				break
			}
			target, after, closed := strings.Cut(rest[start+1:], ">")
			if !closed {
				break
			}
			parameters, following := cutParameters(after)
			rest = following
			if !isNext(parameters) {
				continue
			}
			u, err := page.Parse(target)
			if err != nil {
				continue
			}
			if !strings.EqualFold(u.Hostname(), page.Hostname()) || u.User != nil {
				return nil, true
			}
			u.Scheme, u.Host, u.Fragment = page.Scheme, page.Host, ""
			return u, false
		}
	}
	return nil, false
}

// cutParameters cuts what belongs to one link: up to the comma that is not quoted.
func cutParameters(text string) (parameters, rest string) {
	quoted := false
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ',' && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

func isNext(parameters string) bool {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, found := strings.Cut(parameter, "=")
		if found && strings.EqualFold(strings.TrimSpace(name), "rel") && strings.EqualFold(strings.Trim(value, "\" \t"), "next") {
			return true
		}
	}
	return false
}
