// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// ipSuffix is the prefix length behind an address. In front of the zone of an IPv6 address it may stand too.
var (
	ipv4Suffix = regexp.MustCompile(`/\d{1,2}$`)
	ipv6Suffix = regexp.MustCompile(`/\d{1,3}(%|$)`)
)

// parseNetwork reads an address or a network. Bits behind the prefix length do not matter.
func parseNetwork(text string) (netip.Prefix, error) {
	bad := fmt.Errorf("%q is not an IP address or network", text)
	if at := ipv4Suffix.FindStringIndex(text); at != nil || !strings.Contains(text, ":") {
		address, length := text, "32"
		if at != nil {
			address, length = text[:at[0]], text[at[0]+1:]
		}
		if ip, err := netip.ParseAddr(address); err == nil && ip.Is4() {
			return prefix(ip, length, bad)
		}
		if at == nil {
			return netip.Prefix{}, bad
		}
	}
	address, length := text, "128"
	if at := ipv6Suffix.FindStringSubmatchIndex(text); at != nil {
		address, length = text[:at[0]]+text[at[2]:], text[at[0]+1:at[2]]
	}
	address, _, _ = strings.Cut(address, "%") // the zone says which interface, not which address
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is6() {
		return netip.Prefix{}, bad
	}
	return prefix(ip, length, bad)
}

func prefix(ip netip.Addr, length string, bad error) (netip.Prefix, error) {
	bits, err := strconv.Atoi(length)
	if err != nil {
		return netip.Prefix{}, bad
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}, bad
	}
	return p, nil
}

// within says whether all addresses of a network are in the scope; both are of the same family.
func within(network, scope netip.Prefix) bool {
	return network.Bits() >= scope.Bits() && scope.Contains(network.Addr())
}

// sameFamily compares as written: an IPv4 address in an IPv6 one is an IPv6 address.
func sameFamily(a, b netip.Prefix) bool { return a.Addr().Is4() == b.Addr().Is4() }
