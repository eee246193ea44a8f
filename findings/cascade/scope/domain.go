// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// domain is a host name as its labels, the top level last.
type domain []string

// within says whether a name is the scope or below it.
func (d domain) within(scope domain) bool {
	return len(d) >= len(scope) && slices.Equal(d[len(d)-len(scope):], scope)
}

// reserved top level domains have no owner (RFC 6761, RFC 6762).
var reserved = []string{"localhost", "local", "example", "invalid", "test"}

// maxLabel and maxDomain are the lengths that DNS allows.
const (
	maxLabel  = 63
	maxDomain = 253
)

// parseDomain takes a host name, or the address of something at one, and returns the name below a public suffix.
func parseDomain(text string) (domain, error) {
	host, ok := hostOf(text)
	if !ok {
		return nil, fmt.Errorf("%q is not a domain name", text)
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxDomain {
		return nil, fmt.Errorf("%q is too long for a domain name", text)
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return nil, fmt.Errorf("%q is not a domain name", text)
		}
	}
	top := labels[len(labels)-1]
	if strings.Trim(top, "0123456789") == "" {
		return nil, fmt.Errorf("%q is not a domain name", text)
	}
	if slices.Contains(reserved, top) {
		return nil, fmt.Errorf("%q ends in a reserved name", text)
	}
	if !isListed(top) {
		return nil, fmt.Errorf("%q does not end in a public top level domain", text)
	}
	return labels, nil
}

// isLabel allows letters, digits and hyphens, the latter not at the ends.
func isLabel(label string) bool {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, c := range []byte(label) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		default:
			return false
		}
	}
	return true
}

// isListed reports whether the public suffix list has a top level domain. The lookup uses a name below the domain, since for some
// domains the list has only names below.
func isListed(top string) bool {
	_, icann := publicsuffix.PublicSuffix("name.below." + strings.ToLower(top))
	return icann
}

// hasScheme is what counts as the beginning of an address rather than of a host name.
var hasScheme = regexp.MustCompile(`(?i)^([a-z][*+.a-z-]+)://`)

// validScheme is what a scheme may look like.
var validScheme = regexp.MustCompile(`(?i)^[a-z][+.a-z-]*$`)

// blanks are what addresses may be broken by.
var blanks = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// hostNames maps international names as browsers do.
var hostNames = idna.New(idna.MapForLookup(), idna.CheckJoiners(true), idna.CheckHyphens(false),
	idna.StrictDomainName(false), idna.Transitional(false), idna.VerifyDNSLength(false))

// hostOf finds the host name in a text that is one or is the address of something there, in the way browsers read
// addresses.
func hostOf(text string) (string, bool) {
	if text != "" && isPlain(text) {
		return text, true
	}
	if strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
		return "", false // a path
	}
	text = strings.TrimRightFunc(text, func(r rune) bool { return r <= ' ' })
	text = blanks.Replace(text)
	special := true
	if m := hasScheme.FindStringSubmatch(text); m != nil {
		if !validScheme.MatchString(m[1]) {
			return "", false
		}
		special = slices.Contains([]string{"http", "https", "ws", "wss", "ftp"}, strings.ToLower(m[1]))
		text = text[len(m[0]):]
	}
	if manyColons(text) {
		return "", false
	}
	ends := "/?#"
	if special {
		ends = `/\?#`
		text = strings.TrimLeft(text, `/\`) // any number of slashes opens the host
	}
	if i := strings.IndexAny(text, ends); i >= 0 {
		text = text[:i]
	}
	text = text[strings.LastIndexByte(text, '@')+1:]
	host, ok := cutPort(text)
	if !ok || host == "" {
		return "", false
	}
	if !special {
		return host, true
	}
	if isPlain(host) {
		return host, true
	}
	host, err := url.PathUnescape(host)
	if err != nil {
		return "", false
	}
	host, err = hostNames.ToASCII(host)
	return host, err == nil
}

// isPlain says that there is nothing to map in a host name.
func isPlain(host string) bool {
	for _, c := range []byte(host) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '.':
		default:
			return false
		}
	}
	return !strings.Contains(host, "xn--")
}

// manyColons says whether what may be a host has two colons, as a bare IPv6 address has. A user with a password and a
// port looks the same, and is not a host name either.
func manyColons(text string) bool {
	if i := strings.IndexAny(text, "/?"); i >= 0 {
		text = text[:i]
	}
	return strings.Count(text, ":") > 1
}

// cutPort removes a port, which may be empty. A second colon makes the text an IPv6 address, or nothing at all.
func cutPort(text string) (host string, ok bool) {
	host, port, found := strings.Cut(text, ":")
	if !found || port == "" {
		return host, true
	}
	for _, c := range []byte(port) {
		if c < '0' || c > '9' {
			return "", false
		}
	}
	n, err := strconv.Atoi(port)
	return host, err == nil && n <= 65535
}
