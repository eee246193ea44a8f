// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Guard keeps foreign pages out.
type Guard struct {
	// Hosts are the names that the console is reached by, with their ports. Empty: every name, where a proxy before the
	// console knows its names.
	Hosts []string
}

// Wrap lets only those requests through that a page of the console, or nobody's page, has made.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(g.Hosts) > 0 && !slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, r.Host) }):
			http.Error(w, "This console is not reached by that name.", http.StatusMisdirectedRequest)
		case isChange(r.Method) && isForeign(r):
			http.Error(w, "A page of another site has asked for this change.", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func isChange(method string) bool { return method != http.MethodGet && method != http.MethodHead }

// isForeign says whether another site has made a request. Browsers send one of the two headers with every change. Pages
// without a referrer, as ours are, send an Origin of "null" even to their own site: where Sec-Fetch-Site is there, that decides.
func isForeign(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "same-origin" && site != "none"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	parsed, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(parsed.Host, r.Host)
}
