// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// target is what a parameter of a Scan names: the addresses from first to last, or a host.
type target struct {
	text        string
	first, last netip.Addr
	host        string
	// unreadable says why it is not known what the text names.
	unreadable string
}

// pattern is what a setting allows or denies. The zero value fits nothing.
type pattern struct {
	first, last netip.Addr
	// host is a name; below says that the names below it are meant, and not the name itself.
	host  string
	below bool
}

// parsePattern reads an address, a network, a host, or *.DOMAIN.
func parsePattern(text string) (pattern, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return pattern{first: addr.Unmap(), last: addr.Unmap()}, nil
	}
	if network, err := netip.ParsePrefix(text); err == nil {
		if network != network.Masked() {
			return pattern{}, errors.New("is an address within a network: write the network, " + network.Masked().String())
		}
		first, last := ends(network)
		return pattern{first: first, last: last}, nil
	}
	name, below := strings.CutPrefix(strings.ToLower(strings.TrimSuffix(text, ".")), "*.")
	if !hostname.MatchString(name) || numeric.MatchString(name) {
		return pattern{}, errors.New("must be an address, a network such as 192.0.2.0/24, a host such as shop.example.com, or *.example.com")
	}
	return pattern{host: name, below: below}, nil
}

// contains reports whether all that the target names is within the pattern.
func (p pattern) contains(t target) bool {
	if t.host != "" || p.host != "" {
		return p.named(t.host)
	}
	return p.first.IsValid() && p.first.Is4() == t.first.Is4() && p.first.Compare(t.first) <= 0 && t.last.Compare(p.last) <= 0
}

// overlaps reports whether something that the target names is within the pattern.
func (p pattern) overlaps(t target) bool {
	if t.host != "" || p.host != "" {
		return p.named(t.host)
	}
	return p.first.IsValid() && p.first.Is4() == t.first.Is4() && p.first.Compare(t.last) <= 0 && t.first.Compare(p.last) <= 0
}

func (p pattern) named(host string) bool {
	if host == "" || p.host == "" {
		return false
	}
	if p.below {
		return strings.HasSuffix(host, "."+p.host)
	}
	return host == p.host
}

// ends are the first and the last address of a network.
func ends(network netip.Prefix) (first, last netip.Addr) {
	first = network.Masked().Addr()
	bytes := first.AsSlice()
	for bit := network.Bits(); bit < first.BitLen(); bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ = netip.AddrFromSlice(bytes) // as long as an address
	return first.Unmap(), last.Unmap()
}

var (
	hostname = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*$`)
	// dotted is a host that people recognize without a scheme: its last label begins with a letter.
	dotted = regexp.MustCompile(`^[a-z0-9_][a-z0-9_-]{0,62}(\.[a-z0-9_][a-z0-9_-]{0,62})*\.[a-z][a-z0-9-]{1,62}$`)
	// numeric is what some programs read as an address in parts, octal, hexadecimal or as one number.
	numeric = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}$`)
	// octets is an address as nmap writes many: 10.0.0-3.*, 192.0.2.1,7.
	octets = regexp.MustCompile(`^[0-9*,-]+\.[0-9*,-]+\.[0-9*,-]+\.[0-9*,-]+$`)
	port   = regexp.MustCompile(`:[0-9]{1,5}$`)
)

// targetsOf returns the targets that a parameter names.
func targetsOf(parameter string) []target {
	text := parameter
	if strings.HasPrefix(text, "-") {
		_, value, has := strings.Cut(text, "=")
		if at := strings.Index(text, "://"); !has && at > 0 { // -uhttps://…
			value, has = text[schemeBefore(text, at):], true
		}
		if !has {
			if strings.Contains(text, "$(") {
				return []target{{text: text, unreadable: unknownVariable}}
			}
			return nil
		}
		text = value
	}
	if octets.MatchString(text) {
		return []target{*octetRange(text, text)}
	}
	var out []target
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t\r\n,;|\"'", c) }) {
		if t := targetOf(part); t != nil {
			out = append(out, *t)
		}
	}
	return out
}

// schemeBefore is where the scheme of a URL begins whose "://" is at a place of a flag.
func schemeBefore(text string, at int) int {
	for _, scheme := range []string{"https", "http", "ftp", "ssh", "git", "ws", "wss"} {
		if strings.HasSuffix(strings.ToLower(text[:at]), scheme) {
			return at - len(scheme)
		}
	}
	return 0
}

const (
	unknownVariable = "is filled in by a variable whose value does not stand in the Scan"
	strangeAddress  = "is an address in an unusual form"
)

// targetOf reads one word; nil where the word names no target.
func targetOf(text string) *target {
	if strings.Contains(text, "$(") {
		return &target{text: text, unreadable: unknownVariable}
	}
	if strings.HasPrefix(text, "//") || strings.Contains(text, "://") {
		return targetOfURL(text)
	}
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || strings.HasPrefix(text, "~") {
		return nil // a file
	}
	if network, err := netip.ParsePrefix(text); err == nil {
		first, last := ends(network)
		return &target{text: text, first: first, last: last}
	}
	if first, last, isRange := strings.Cut(text, "-"); isRange {
		a, errA := netip.ParseAddr(first)
		b, errB := netip.ParseAddr(last)
		if errA == nil && errB == nil {
			return &target{text: text, first: a.Unmap(), last: b.Unmap()}
		}
	}
	word, _, _ := strings.Cut(text, "/") // registry.example.com/app:1.2, shop.example.com/path
	if at := strings.LastIndex(word, "@"); at >= 0 {
		word = word[at+1:]
	}
	hasPort := port.MatchString(word) && strings.Count(word, ":") == 1
	host := hostOf(word)
	switch {
	case isAddress(host), octets.MatchString(host):
		return named(text, host)
	case dotted.MatchString(strings.ToLower(strings.TrimSuffix(host, "."))), host == "localhost",
		hasPort && hostname.MatchString(strings.ToLower(host)):
		return named(text, host)
	}
	return nil
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// hostOf leaves out the port and the brackets of an IPv6 address.
func hostOf(word string) string {
	if bracketed, isIPv6 := strings.CutPrefix(word, "["); isIPv6 {
		inner, _, _ := strings.Cut(bracketed, "]")
		return inner
	}
	if strings.Count(word, ":") == 1 {
		word, _, _ = strings.Cut(word, ":")
	}
	return word
}

func targetOfURL(text string) *target {
	u, err := url.Parse(text)
	if err != nil {
		return &target{text: text, unreadable: "is not a valid URL"}
	}
	if u.Hostname() == "" {
		return nil // file:///…
	}
	return named(text, u.Hostname())
}

// named is the target of a host, which may be an address.
func named(text, host string) *target {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.WithZone("").Unmap()
		return &target{text: text, first: addr, last: addr}
	}
	if numeric.MatchString(host) && host != "" {
		return &target{text: text, unreadable: strangeAddress}
	}
	if octets.MatchString(host) {
		return octetRange(text, host)
	}
	if !hostname.MatchString(host) {
		return &target{text: text, unreadable: "is not the name of a host"}
	}
	return &target{text: text, host: host}
}

// octetRange is from the lowest to the highest address of a pattern such as 10.0.0-3.1,7; what is between counts as named.
func octetRange(text, host string) *target {
	var low, high [4]byte
	for i, octet := range strings.Split(host, ".") {
		low[i] = 255
		for part := range strings.SplitSeq(octet, ",") {
			from, to, isRange := strings.Cut(part, "-")
			switch {
			case part == "*":
				from, to = "0", "255"
			case !isRange:
				to = from
			}
			a, errA := strconv.ParseUint(cmp.Or(from, "0"), 10, 8)
			b, errB := strconv.ParseUint(cmp.Or(to, "255"), 10, 8)
			if errA != nil || errB != nil || a > b || part == "" || hasLeadingZero(from) || hasLeadingZero(to) {
				return &target{text: text, unreadable: strangeAddress}
			}
			low[i], high[i] = min(low[i], byte(a)), max(high[i], byte(b))
		}
	}
	return &target{text: text, first: netip.AddrFrom4(low), last: netip.AddrFrom4(high)}
}

// hasLeadingZero is true for what some programs read as an octal number.
func hasLeadingZero(number string) bool { return len(number) > 1 && number[0] == '0' }
