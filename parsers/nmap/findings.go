// SPDX-License-Identifier: Apache-2.0

package nmap

import (
	"math"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// portWriter writes the findings of section 1. It uses one finding again and again.
type portWriter struct {
	emit sdk.Emit
	f    finding.Finding
}

func (w *portWriter) write(h *host) error {
	name := h.name()
	shared := portContext{
		hostname: h.hostnameText(), system: h.systemText(), mac: h.mac, ips: h.ips, name: name,
	}
	for i := range h.ports {
		p := &h.ports[i]
		if !h.isKept(p) {
			continue
		}
		if err := w.one(h, p, &shared); err != nil {
			return err
		}
	}
	return nil
}

// portContext is what all ports of a host share, boxed once.
type portContext struct {
	hostname, system, mac any
	ips                   any
	name                  string
}

func (w *portWriter) one(h *host, p *port, c *portContext) error {
	number, protocol, state := portText(p.number), textOf(h.optional(p.protocol)), textOf(h.optional(p.state))
	title := "Open Port: " + number
	if service := h.get(p.service); service != "" {
		title += " (" + service + ")"
	}
	tunnel := h.get(p.tunnel)
	if tunnel == "" {
		tunnel = "none"
	}
	w.f = finding.Finding{
		Name:        finding.String(title),
		Description: finding.String("Port " + number + " is " + state + " using " + protocol + " protocol."),
		Category:    finding.String(categoryIP),
		Location:    finding.String(protocol + "://" + c.name + ":" + number),
		OSILayer:    finding.String(network),
		Severity:    finding.String(finding.Informational),
		Attributes: append(w.f.Attributes[:0],
			finding.Member{Key: "port", Value: portValue(p.number)},
			finding.Member{Key: "state", Value: h.optional(p.state)},
			finding.Member{Key: "ip_addresses", Value: c.ips},
			finding.Member{Key: "mac_address", Value: c.mac},
			finding.Member{Key: "protocol", Value: h.optional(p.protocol)},
			finding.Member{Key: "hostname", Value: c.hostname},
			finding.Member{Key: "method", Value: h.some(p.method)},
			finding.Member{Key: "operating_system", Value: c.system},
			finding.Member{Key: "service", Value: h.some(p.service)},
			finding.Member{Key: "serviceProduct", Value: h.someOrNull(p.product)},
			finding.Member{Key: "serviceVersion", Value: h.someOrNull(p.version)},
			finding.Member{Key: "scripts", Value: h.scriptOutputs(p)},
			finding.Member{Key: "tunnel", Value: tunnel},
		),
	}
	return w.emit(&w.f)
}

// scriptOutputs is the object of id and output of a port's scripts, or nil.
func (h *host) scriptOutputs(p *port) any {
	if p.scriptCount == 0 {
		return nil
	}
	scripts := h.scripts[p.firstScript : p.firstScript+p.scriptCount]
	outputs := make(finding.Object, 0, len(scripts))
	index := map[string]int{}
	for i := range scripts {
		id := textOf(h.optional(scripts[i].id))
		at, ok := index[id]
		if !ok {
			at = len(outputs)
			index[id] = at
			outputs = append(outputs, finding.Member{Key: id})
		}
		outputs[at].Value = h.optional(scripts[i].output)
	}
	return outputs
}

// hostSummary is what section 2 needs of a host.
type hostSummary struct {
	name     string
	hostname finding.Text
	system   finding.Text
	ips      []any
}

// summary copies what it needs, so that it can outlive the host.
func (h *host) summary() hostSummary {
	s := h.view()
	s.name = strings.Clone(s.name)
	s.hostname = cloneText(s.hostname)
	s.system = cloneText(s.system)
	ips := make([]any, len(s.ips))
	for i, ip := range s.ips {
		if text, ok := ip.(string); ok {
			ips[i] = strings.Clone(text)
		}
	}
	s.ips = ips
	return s
}

// view is the summary without copies.
func (h *host) view() hostSummary {
	return hostSummary{name: h.name(), hostname: h.hostnameText(), system: h.systemText(), ips: h.ips}
}

func cloneText(t finding.Text) finding.Text {
	if s, ok := t.Get(); ok {
		return finding.String(strings.Clone(s))
	}
	return t
}

// size estimates the memory of a held summary.
func (s hostSummary) size() int {
	const fixed, perIP = 160, 64
	size := fixed + 2*len(s.name) + len(s.system.Or(""))
	for _, ip := range s.ips {
		text, _ := ip.(string)
		size += perIP + len(text)
	}
	return size
}

type hostWriter struct {
	emit sdk.Emit
	f    finding.Finding
}

func (w *hostWriter) write(h hostSummary) error {
	w.f = finding.Finding{
		Name:        finding.String("Host: " + h.name),
		Category:    finding.String("Host"),
		Description: finding.String("Found a host"),
		Location:    finding.String(h.name),
		Severity:    finding.String(finding.Informational),
		OSILayer:    finding.String(network),
		Attributes: append(w.f.Attributes[:0],
			finding.Member{Key: "ip_addresses", Value: h.ips},
			finding.Member{Key: "hostname", Value: h.hostname},
			finding.Member{Key: "operating_system", Value: h.system},
		),
	}
	return w.emit(&w.f)
}

// scriptFinding is a finding of section 3 that owns its memory.
type scriptFinding struct{ f finding.Finding }

func (s scriptFinding) finding() *finding.Finding { return &s.f }

// size estimates the memory of a held finding.
func (s scriptFinding) size() int {
	const fixed, perMember = 600, 80
	size := fixed + len(s.f.Location.Or("")) + len(s.f.Name.Or("")) + len(s.f.Description.Or(""))
	for _, m := range s.f.Attributes {
		size += perMember
		switch v := m.Value.(type) {
		case finding.Text:
			size += len(v.Or(""))
		case string:
			size += len(v)
		case []any:
			size += perMember * len(v)
		}
	}
	return size
}

// firstPort is what all script findings of a host speak of.
type firstPort struct {
	*port
	number, state, protocol string
	name                    string
}

// scriptFindings gives the findings of section 3 of a host.
func (h *host) scriptFindings(give func(scriptFinding) error) error {
	scripts := h.hostScripts
	if len(scripts) == 0 {
		scripts = h.lastScripts()
	}
	for i := range scripts {
		var err error
		switch s := &scripts[i]; h.get(s.id) {
		case scriptFTPAnon:
			err = h.ftpAnon(give)
		case scriptBanner:
			err = h.banner(s, give)
		case scriptSMB:
			err = h.smbProtocols(s, give)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lastScripts are those of the last port that has any, closed or not.
func (h *host) lastScripts() []script {
	for _, v := range slices.Backward(h.ports) {
		if p := v; p.scriptCount > 0 {
			return h.scripts[p.firstScript : p.firstScript+p.scriptCount]
		}
	}
	return nil
}

func (h *host) firstPort() (firstPort, error) {
	for i := range h.ports {
		if p := &h.ports[i]; h.isKept(p) {
			return firstPort{
				port: p, name: strings.Clone(h.name()), number: portText(p.number),
				state: textOf(h.optional(p.state)), protocol: textOf(h.optional(p.protocol)),
			}, nil
		}
	}
	return firstPort{}, errNoPort
}

func (h *host) ftpAnon(give func(scriptFinding) error) error {
	p, err := h.firstPort()
	if err != nil {
		return err
	}
	return give(scriptFinding{finding.Finding{
		Name:        finding.String("Anonymous FTP Login possible"),
		Description: finding.String("Port " + p.number + " allows anonymous FTP login"),
		Severity:    finding.String(finding.Medium),
		Category:    finding.String("FTP"),
		Location:    finding.String("ftp://" + p.name + ":" + p.number),
		OSILayer:    finding.String(network),
		Attributes:  finding.Object{{Key: "script", Value: scriptFTPAnon}},
	}})
}

func (h *host) banner(s *script, give func(scriptFinding) error) error {
	p, err := h.firstPort()
	if err != nil {
		return err
	}
	category, scheme := "TCP", "tcp://"
	if p.port.number == 21 {
		category, scheme = "FTP", "ftp://"
	}
	return give(scriptFinding{finding.Finding{
		Name:        finding.String("Server banner found"),
		Description: finding.String("Port " + p.number + " displays banner"),
		Severity:    finding.String(finding.Informational),
		Category:    finding.String(category),
		Location:    finding.String(scheme + p.name + ":" + p.number),
		OSILayer:    finding.String(network),
		Attributes: finding.Object{
			{Key: "banner", Value: cloneText(h.someOrNull(s.output))},
			{Key: "script", Value: scriptBanner},
		},
	}})
}

func (h *host) smbProtocols(s *script, give func(scriptFinding) error) error {
	for _, e := range h.elems[s.firstElem:s.lastElem] {
		if e.mixed {
			continue
		}
		text := h.get(e.text)
		version := ecma.ParseFloat(text)
		if strings.Contains(text, "SMBv1") {
			version = 1
		}
		if !(version > 0) { // also NaN
			continue
		}
		p, err := h.firstPort()
		if err != nil {
			return err
		}
		if err := give(h.smbProtocol(p, strings.Clone(text), version)); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) smbProtocol(p firstPort, text string, version float64) scriptFinding {
	v := ecma.Number(version)
	name, old, severity := "SMB Protocol Version Finding v"+v, "an old version: "+v, finding.Low
	switch {
	case strings.Contains(text, "SMBv1"):
		name, old, severity = "SMB Dangerous Protocol Version Finding SMBv1", "an old version: SMBv1", finding.High
	case version < 2:
		name, severity = "SMB Dangerous Protocol Version Finding v"+v, finding.Medium
	case version >= 3:
		old, severity = "version: "+v, finding.Informational
	}
	whole := h.summary()
	var number any = version
	if math.IsInf(version, 0) {
		number = nil
	}
	return scriptFinding{finding.Finding{
		Name:        finding.String(name),
		Description: finding.String("Port " + p.number + " is " + p.state + " using SMB protocol with " + old),
		Category:    finding.String("SMB"),
		Location:    finding.String(p.protocol + "://" + p.name + ":" + p.number),
		OSILayer:    finding.String(network),
		Severity:    finding.String(severity),
		Attributes: finding.Object{
			{Key: "hostname", Value: whole.hostname},
			{Key: "mac_address", Value: cloneText(h.mac)},
			{Key: "ip_addresses", Value: whole.ips},
			{Key: "port", Value: portValue(p.port.number)},
			{Key: "state", Value: cloneText(h.optional(p.port.state))},
			{Key: "protocol", Value: cloneText(h.optional(p.port.protocol))},
			{Key: "method", Value: cloneText(h.some(p.method))},
			{Key: "operating_system", Value: whole.system},
			{Key: "service", Value: cloneText(h.some(p.service))},
			{Key: "serviceProduct", Value: cloneText(h.someOrNull(p.product))},
			{Key: "serviceVersion", Value: cloneText(h.someOrNull(p.version))},
			{Key: "scripts", Value: text},
			{Key: "smb_protocol_version", Value: number},
		},
	}}
}
