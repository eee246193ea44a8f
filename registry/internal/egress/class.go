// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Class is why an address is refused, in words that a message can hold.
type Class string

// The classes.
const (
	Loopback    Class = "loopback"
	LinkLocal   Class = "link-local"
	Unspecified Class = "unspecified"
	Multicast   Class = "multicast"
	Broadcast   Class = "broadcast"
	Metadata    Class = "cloud metadata"
	Private     Class = "private"
	Denied      Class = "denied"
)

// metadata are the services of clouds that give credentials to whoever asks.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
}

// private are networks that are not of the internet beyond those that netip calls private: carrier-grade NAT, benchmarks, protocol
// assignments, reserved, site-local.
var private = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"),
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	broadcast   = netip.MustParseAddr("255.255.255.255")

	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
)

// classify gives the class of one address as it is written; "" is an address of the internet.
func classify(a netip.Addr) Class {
	switch {
	case slices.Contains(metadata, a):
		return Metadata
	case a.IsLoopback():
		return Loopback
	case a.IsUnspecified(), a.Is4() && thisNetwork.Contains(a):
		return Unspecified
	case a == broadcast:
		return Broadcast
	case a.IsMulticast():
		return Multicast
	case a.IsLinkLocalUnicast():
		return LinkLocal
	case a.IsPrivate(), slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(a) }):
		return Private
	}
	return ""
}

// faces gives an address without zone and in its shortest form, and the IPv4 addresses that it carries.
func faces(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	list := []netip.Addr{a}
	if a.Is4() || a == netip.IPv6Unspecified() || a == netip.IPv6Loopback() {
		return list
	}
	b := a.As16()
	four := func(offset int) netip.Addr { return netip.AddrFrom4([4]byte(b[offset : offset+4])) }
	switch {
	case compatible.Contains(a), nat64.Contains(a):
		list = append(list, four(12))
	case nat64Local.Contains(a):
		// RFC 6052 places the address behind a prefix of 48 bits around the byte 8, which is empty; others use the last four bytes.
		// Zeros are not an address there but the place that the other form leaves empty.
		if middle := netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}); !middle.IsUnspecified() {
			list = append(list, middle)
		}
		if last := four(12); !last.IsUnspecified() {
			list = append(list, last)
		}
	case sixToFour.Contains(a):
		list = append(list, four(2))
	case teredo.Contains(a):
		var client [4]byte
		binary.BigEndian.PutUint32(client[:], ^binary.BigEndian.Uint32(b[12:]))
		list = append(list, four(4), netip.AddrFrom4(client))
	}
	return list
}
