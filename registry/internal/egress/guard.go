// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MaxRedirects is how many redirects of a request are followed.
const MaxRedirects = 5

const (
	portHTTP      = 80
	portHTTPS     = 443
	firstFreePort = 1024
)

// Kept is an address of the cluster itself: the API server, NATS. Nothing opens it.
type Kept struct {
	Class   Class
	Address netip.Addr
	// Port is the one that is kept; 0: all.
	Port uint16
}

// Rules say where to connections may go. The zero Rules allow all names, and all addresses that are not refused always.
type Rules struct {
	// AllowedHosts are lists of patterns of hosts, perhaps with a port, such as *.example.com; a host must fit one of each list. So
	// the chart's list and the namespace's hold both. An empty list holds nobody up.
	AllowedHosts [][]string
	// AllowCIDRs are exceptions, DenyCIDRs are refused in any case.
	AllowCIDRs, DenyCIDRs []netip.Prefix
	Kept                  []Kept
	// RefusePrivate refuses private networks: allowPrivate is false.
	RefusePrivate bool
}

// Error is a connection that is not allowed.
type Error struct {
	// Class is why an address is refused; "" where the address is not the reason.
	Class   Class
	message string
}

// Error gives the message for conditions, which begins with the reason HostNotAllowed.
func (e *Error) Error() string { return Reason + ": " + e.message }

// Reason is that of conditions.
const Reason = "HostNotAllowed"

func refuse(class Class, format string, arguments ...any) *Error {
	return &Error{Class: class, message: fmt.Sprintf(format, arguments...)}
}

// Validate tells whether all patterns can be read.
func (r Rules) Validate() error {
	for _, list := range r.AllowedHosts {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("allowedHosts: %q is not a pattern of hosts", pattern)
			}
		}
	}
	return nil
}

// Host decides on the host of a url or of a realm, by name and port. The dialer decides on its addresses.
func (r Rules) Host(u *url.URL) error {
	host, port := canonical(u.Hostname()), portOf(u)
	for _, list := range r.AllowedHosts {
		if len(list) > 0 && !slices.ContainsFunc(list, func(pattern string) bool { return fits(pattern, host, port) }) {
			return refuse("", "%s is not in allowedHosts", host)
		}
	}
	return checkPort(host, port)
}

// Redirect decides whether a redirect is followed: the hop counts from 1. The dialer decides on the addresses.
func (r Rules) Redirect(from, to *url.URL, hop int) error {
	switch {
	case hop > MaxRedirects:
		return refuse("", "%s redirects more than %d times", from.Hostname(), MaxRedirects)
	case to.Scheme != "https" && to.Scheme != "http", to.Host == "":
		return refuse("", "%s redirects to what is not an https address", from.Hostname())
	case from.Scheme == "https" && to.Scheme == "http":
		return refuse("", "%s redirects from https to http", from.Hostname())
	}
	if checkPort(to.Hostname(), portOf(to)) != nil {
		return refuse("", "%s redirects to a port that is not allowed", from.Hostname())
	}
	return nil
}

func canonical(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return strconv.Itoa(portHTTP)
	}
	return strconv.Itoa(portHTTPS)
}

// fits tells whether a pattern, which Validate has seen, fits a host with or without its port.
func fits(pattern, host, port string) bool {
	pattern = canonical(pattern)
	plain, err := path.Match(pattern, host)
	whole, errWhole := path.Match(pattern, net.JoinHostPort(host, port))
	return err == nil && plain || errWhole == nil && whole
}

func checkPort(host, port string) error {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number < firstFreePort && number != portHTTP && number != portHTTPS {
		return refuse("", "%s: port %s is not allowed: ports are 80, 443, 1024 and above", host, port)
	}
	return nil
}

// class decides on an address; "" is allowed.
func (r Rules) class(address netip.AddrPort) Class {
	all := faces(address.Addr())
	for _, a := range all {
		for _, kept := range r.Kept {
			if kept.Address.Unmap() == a && (kept.Port == 0 || kept.Port == address.Port()) {
				return kept.Class
			}
		}
		if contain(r.DenyCIDRs, a) {
			return Denied
		}
	}
	for _, a := range all {
		class := classify(a)
		if class == "" || class == Private && !r.RefusePrivate || r.opens(a, class) {
			continue
		}
		return class
	}
	return ""
}

// opens tells whether allowCIDRs make an exception.
func (r Rules) opens(a netip.Addr, class Class) bool {
	if class == Metadata {
		return slices.ContainsFunc(r.AllowCIDRs, func(p netip.Prefix) bool { return p.IsSingleIP() && p.Contains(a) })
	}
	return contain(r.AllowCIDRs, a)
}

func contain(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
