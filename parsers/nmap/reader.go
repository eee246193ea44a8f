// SPDX-License-Identifier: Apache-2.0

package nmap

import (
	"fmt"
	"math"

	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/xmlsax"
)

// place says what an open element means to us.
type place uint8

const (
	elsewhere place = iota
	inRun
	inRunstats
	inHost
	inHostnames
	inPorts
	inPort
	inOS
	inHostscript
	inScript
	inTable
	inElem
)

// reader turns the tags of a result into hosts, one at a time.
type reader struct {
	xml    *xmlsax.Reader
	places []place // of the open elements
	host   host
	script *script // the open one, if any
	reach  reach
}

// next reads up to the end of the next host. io.EOF means that there is none.
func (r *reader) next() error {
	r.host.reset()
	for {
		kind, err := r.xml.Next()
		if err != nil {
			return err
		}
		switch kind {
		case xmlsax.Start:
			if err := r.start(); err != nil {
				return err
			}
		case xmlsax.Text:
			if len(r.places) > 0 && r.places[len(r.places)-1] == inElem {
				if err := r.elemText(); err != nil {
					return err
				}
			}
		case xmlsax.End:
			last := r.places[len(r.places)-1]
			r.places = r.places[:len(r.places)-1]
			if last == inHost {
				r.host.seal()
				r.reach.add(&r.host)
				return nil
			}
		}
	}
}

func (r *reader) start() error {
	var here place
	if len(r.places) == 0 {
		if string(r.xml.Name()) != "nmaprun" {
			return r.fail(fmt.Errorf("the root element is %q, not \"nmaprun\"", r.xml.Name()))
		}
		here = inRun
	} else {
		here = r.child(r.places[len(r.places)-1])
	}
	r.places = append(r.places, here)
	if r.host.size() > r.host.limit {
		return r.fail(fmt.Errorf("%w: a host with more than %d bytes of ports and scripts", xmlsax.ErrTooLarge, r.host.limit))
	}
	return nil
}

func (r *reader) fail(err error) error { return fmt.Errorf("line %d: %w", r.xml.Line(), err) }

// child takes the attributes of an element inside parent and says what the element means.
func (r *reader) child(parent place) place {
	name := string(r.xml.Name())
	switch parent {
	case inRun:
		return inRunOf(name)
	case inRunstats:
		if name == "hosts" {
			total, _ := r.xml.Attr("total")
			r.reach.count(total)
		}
	case inHost:
		return r.inHost(name)
	case inHostnames:
		if name == "hostname" && !r.host.seen.hostname {
			r.host.seen.hostname = true
			r.host.hostname = r.keep("name")
		}
	case inPorts:
		return r.inPorts(name)
	case inPort:
		return r.inPort(name)
	case inOS:
		if name == "osmatch" && !r.host.seen.osmatch {
			r.host.seen.osmatch = true
			r.host.system = r.keep("name")
		}
	case inHostscript:
		if name == "script" {
			r.host.hostScripts = append(r.host.hostScripts, r.newScript())
			r.script = &r.host.hostScripts[len(r.host.hostScripts)-1]
			return inScript
		}
	case inScript:
		if name == "table" && !r.script.table {
			r.script.table = true
			return inTable
		}
	case inTable:
		if name == "elem" && r.xml.AttrCount() == 0 && r.script.smb {
			r.host.elems = append(r.host.elems, elem{text: r.spanFrom(len(r.host.arena))})
			r.script.lastElem = int32(len(r.host.elems))
			return inElem
		}
	case inElem:
		r.host.elems[len(r.host.elems)-1].mixed = true
	case elsewhere:
	}
	return elsewhere
}

func inRunOf(name string) place {
	switch name {
	case "host":
		return inHost
	case "runstats":
		return inRunstats
	}
	return elsewhere
}

func (r *reader) inPorts(name string) place {
	switch name {
	case "extraports": // those that are not listed, since they are all alike
		r.portState()
	case "port":
		r.host.ports = append(r.host.ports, port{
			number:      r.portNumber(),
			protocol:    r.keep("protocol"),
			firstScript: int32(len(r.host.scripts)),
		})
		return inPort
	}
	return elsewhere
}

func (r *reader) inHost(name string) place {
	seen := &r.host.seen
	switch name {
	case "status":
		if first(&seen.status) {
			state, _ := r.xml.Attr("state")
			r.host.isDown = string(state) == "down"
			r.host.isUp = string(state) == "up"
			reason, _ := r.xml.Attr("reason")
			r.host.assumed = string(reason) == "user-set"
		}
	case "address":
		r.host.addresses = append(r.host.addresses, address{addr: r.keep("addr"), typ: r.keep("addrtype")})
	case "hostnames":
		if first(&seen.hostnames) {
			return inHostnames
		}
	case "ports":
		if first(&seen.ports) {
			return inPorts
		}
	case "os":
		if first(&seen.system) {
			return inOS
		}
	case "hostscript":
		if first(&seen.hostscript) {
			return inHostscript
		}
	}
	return elsewhere
}

func (r *reader) inPort(name string) place {
	p := &r.host.ports[len(r.host.ports)-1]
	switch name {
	case "state":
		if first(&p.hasState) {
			p.state = r.keep("state")
			r.portState()
		}
	case "service":
		if first(&p.hasService) {
			p.service = r.keep("name")
			p.product = r.keep("product")
			p.version = r.keep("version")
			p.method = r.keep("method")
			p.tunnel = r.keep("tunnel")
		}
	case "script":
		r.host.scripts = append(r.host.scripts, r.newScript())
		r.script = &r.host.scripts[len(r.host.scripts)-1]
		p.scriptCount++
		return inScript
	}
	return elsewhere
}

// portState takes the state of a port, or of several: what is open, closed or unfiltered has answered. What is filtered
// has not, or something on the way has answered for it.
func (r *reader) portState() {
	state, _ := r.xml.Attr("state")
	r.host.asked = true
	switch string(state) {
	case "open", "closed", "unfiltered":
		r.host.answered = true
	}
}

// first reports whether an element is the first of its kind.
func first(seen *bool) bool {
	was := *seen
	*seen = true
	return !was
}

func (r *reader) newScript() script {
	elems := int32(len(r.host.elems))
	s := script{id: r.keep("id"), output: r.keep("output"), firstElem: elems, lastElem: elems}
	s.smb = string(r.host.arena[s.id.from:s.id.to]) == scriptSMB
	return s
}

// keep copies an attribute of the current tag into the host.
func (r *reader) keep(attribute string) span {
	value, ok := r.xml.Attr(attribute)
	if !ok {
		return span{}
	}
	from := len(r.host.arena)
	r.host.arena = append(r.host.arena, value...)
	return r.spanFrom(from)
}

// spanFrom is the end of the arena.
func (r *reader) spanFrom(from int) span {
	return span{from: int32(from), to: int32(len(r.host.arena)), ok: true}
}

// portNumber is 0 for what counts as none.
func (r *reader) portNumber() float64 {
	value, _ := r.xml.Attr("portid")
	n := 0
	for _, c := range value {
		if c < '0' || c > '9' || n > 1<<40 {
			return numberOrNone(ecma.ParseInt(string(value)))
		}
		n = n*10 + int(c-'0')
	}
	return float64(n)
}

func numberOrNone(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}

func (r *reader) elemText() error {
	e := &r.host.elems[len(r.host.elems)-1]
	r.host.arena = append(r.host.arena, r.xml.Text()...)
	e.text.to = int32(len(r.host.arena))
	if r.host.size() > r.host.limit {
		return r.fail(fmt.Errorf("%w: a script element of more than %d bytes", xmlsax.ErrTooLarge, r.host.limit))
	}
	return nil
}
