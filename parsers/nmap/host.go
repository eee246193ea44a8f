// SPDX-License-Identifier: Apache-2.0

package nmap

import (
	"errors"
	"math"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// span is a text in a host's arena; not ok means that there was none.
type span struct {
	from, to int32 // an arena never grows beyond the limit of a host, and there may be many spans
	ok       bool
}

type address struct {
	addr, typ span
}

type port struct {
	number                                    float64 // 0 is none
	protocol, state                           span
	service, product, version, method, tunnel span
	hasState, hasService                      bool
	firstScript, scriptCount                  int32
}

type script struct {
	id, output          span
	table, smb          bool
	firstElem, lastElem int32 // elems[firstElem:lastElem]
}

// elem is one <elem> without attributes in a script's table; mixed means that it is not plain text.
type elem struct {
	text  span
	mixed bool
}

// host is what one <host> element says. It is filled by the reader and used again for the next one; all its texts are
// in one arena, so that a host with thousands of ports costs a few allocations.
type host struct {
	limit int
	arena []byte
	text  string // the arena, when the host is complete

	addresses   []address
	ports       []port
	scripts     []script // of all ports
	hostScripts []script
	elems       []elem
	hostname    span
	system      span
	isDown      bool
	isUp        bool
	assumed     bool // up because the user has said so
	asked       bool // a port was tried
	answered    bool // a port has answered
	seen        struct {
		status, hostnames, hostname, ports, system, osmatch, hostscript bool
	}

	ips []any // texts, nil for an address without one
	mac finding.Text
}

// What the parts of a host cost beside their text, for the limit.
const (
	portCost   = 120
	scriptCost = 40
	otherCost  = 28
)

func (h *host) size() int {
	return len(h.arena) + portCost*len(h.ports) + scriptCost*(len(h.scripts)+len(h.hostScripts)) +
		otherCost*(len(h.addresses)+len(h.elems))
}

func (h *host) reset() {
	*h = host{
		limit: h.limit, arena: h.arena[:0], addresses: h.addresses[:0], ports: h.ports[:0], scripts: h.scripts[:0],
		hostScripts: h.hostScripts[:0], elems: h.elems[:0], ips: h.ips[:0],
	}
}

func (h *host) seal() { h.text = string(h.arena) }

func (h *host) get(s span) string { return h.text[s.from:s.to] }

func (h *host) optional(s span) finding.Text { return optional(h.get(s), s.ok) }

// some is the text where it is not empty, else absent.
func (h *host) some(s span) finding.Text { return optional(h.get(s), s.to > s.from) }

// someOrNull is the text where it is not empty, else null.
func (h *host) someOrNull(s span) finding.Text { return finding.StringOrNull(h.get(s)) }

// down reports that the host is left out, whatever else it holds.
func (h *host) down() bool { return h.isDown }

// check refuses what no findings can be made of, and sorts the addresses.
func (h *host) check() error {
	if len(h.addresses) == 0 {
		return errors.New("has no address")
	}
	h.ips = h.ips[:0]
	h.mac = finding.Null()
	hasMAC := false
	for _, a := range h.addresses {
		if !a.typ.ok {
			return errors.New("has an address without addrtype")
		}
		switch typ := h.get(a.typ); {
		case typ == "mac" && !hasMAC:
			hasMAC = true
			h.mac = h.someOrNull(a.addr)
		case strings.HasPrefix(typ, "ip"):
			h.ips = append(h.ips, h.textOrNil(a.addr))
		}
	}
	for i := range h.ports {
		if !h.ports[i].hasState {
			return errors.New("has a port without state")
		}
	}
	return nil
}

func (h *host) textOrNil(s span) any {
	if !s.ok {
		return nil
	}
	return h.get(s)
}

func (h *host) isKept(p *port) bool { return !p.state.ok || h.get(p.state) != "closed" }

// name is the hostname where the host has one, else its first address.
func (h *host) name() string {
	if name := h.get(h.hostname); name != "" {
		return name
	}
	if len(h.ips) > 0 {
		if ip, ok := h.ips[0].(string); ok && ip != "" {
			return ip
		}
	}
	return "unknown-address"
}

// hostnameText is null for a host without a name and absent for a name without a text.
func (h *host) hostnameText() finding.Text {
	if !h.seen.hostname {
		return finding.Null()
	}
	return h.optional(h.hostname)
}

func (h *host) systemText() finding.Text {
	if !h.system.ok {
		return finding.Null()
	}
	return finding.String(h.get(h.system))
}

// portText is the number in a composed text.
func portText(n float64) string {
	if n == 0 {
		return "undefined"
	}
	return ecma.Number(n)
}

// portValue is the number as an attribute: absent where there is none.
func portValue(n float64) any {
	switch {
	case n == 0:
		return finding.Text{}
	case n == math.Trunc(n) && math.Abs(n) < 1<<31:
		return int(n)
	}
	return n
}

// textOf is a value in a composed text.
func textOf(t finding.Text) string { return finding.ToString(t) }
