// SPDX-License-Identifier: Apache-2.0

package zap

import (
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/xmlsax"
)

// place says what an open element means to us.
type place uint8

const (
	elsewhere place = iota
	inReport
	inSite
	inAlerts
	inAlert
	inInstances
	inInstance
	inValue // an element that is read as a value, or one inside it
)

// site is what the alerts of a site share.
type site struct {
	name, host, port finding.Text
	hasAlerts        bool
}

// reader turns the tags of a report into alerts, one at a time.
type reader struct {
	xml    *xmlsax.Reader
	limit  int
	places []place // of the open elements
	sites  int
	alerts int
	site   site
	alert  alert

	field   field     // that is being read
	open    []element // those read as values, from the outermost; their buffers are used again
	depth   int       // how many of them are open
	own     []byte    // text of the open instance
	members names     // of the open instance
	known   map[string]string
}

func newReader(xml *xmlsax.Reader, limit int) *reader {
	return &reader{xml: xml, limit: limit, known: map[string]string{}}
}

// next reads up to the end of the next alert. io.EOF means that there is none.
func (r *reader) next() error {
	for {
		kind, err := r.xml.Next()
		if err != nil {
			return err
		}
		switch kind {
		case xmlsax.Start:
			if err := r.start(); err != nil {
				return r.fail(err)
			}
		case xmlsax.Text:
			if err := r.text(); err != nil {
				return r.fail(err)
			}
		case xmlsax.End:
			last := r.places[len(r.places)-1]
			r.places = r.places[:len(r.places)-1]
			if err := r.end(last); err != nil {
				return r.fail(err)
			}
			if last == inAlert {
				return nil
			}
		}
	}
}

func (r *reader) fail(err error) error { return fmt.Errorf("line %d: %w", r.xml.Line(), err) }

func (r *reader) start() error {
	here, err := r.child()
	if err != nil {
		return err
	}
	r.places = append(r.places, here)
	return r.checkSize()
}

// checkSize bounds what one alert may take.
func (r *reader) checkSize() error {
	if r.alert.size() > r.limit {
		return fmt.Errorf("%w: an alert with more than %d bytes", xmlsax.ErrTooLarge, r.limit)
	}
	return nil
}

// child says what the element that starts means.
func (r *reader) child() (place, error) {
	if len(r.places) == 0 {
		if string(r.xml.Name()) != "OWASPZAPReport" {
			return elsewhere, fmt.Errorf("the root element is %q, not \"OWASPZAPReport\"", r.xml.Name())
		}
		return inReport, nil
	}
	switch parent := r.places[len(r.places)-1]; parent {
	case inReport:
		if string(r.xml.Name()) == "site" {
			return inSite, r.startSite()
		}
	case inSite:
		if string(r.xml.Name()) == "alerts" {
			r.site.hasAlerts = true
			return inAlerts, nil
		}
	case inAlerts:
		if string(r.xml.Name()) == "alertitem" {
			r.alerts++
			r.alert.reset()
			return inAlert, nil
		}
	case inAlert:
		return r.inAlert(), nil
	case inInstances:
		if string(r.xml.Name()) == "instance" {
			r.startInstance()
			return inInstance, nil
		}
	case inInstance, inValue:
		r.push()
		return inValue, nil
	case elsewhere:
	}
	return elsewhere, nil
}

func (r *reader) startSite() error {
	r.sites++
	if r.xml.AttrCount() == 0 {
		return fmt.Errorf("site %d has no attributes", r.sites)
	}
	r.site = site{name: r.attr("name"), host: r.attr("host"), port: r.attr("port")}
	return nil
}

func (r *reader) attr(name string) finding.Text {
	if v, ok := r.xml.Attr(name); ok {
		return finding.String(string(v))
	}
	return finding.Text{}
}

// inAlert: of each child of an alert the first counts.
func (r *reader) inAlert() place {
	if string(r.xml.Name()) == "instances" {
		if r.alert.hasInstances {
			return elsewhere
		}
		r.alert.hasInstances = true
		return inInstances
	}
	field, ok := fields[string(r.xml.Name())]
	if !ok || r.alert.fields[field].there {
		return elsewhere
	}
	r.field = field
	r.push()
	return inValue
}

func (r *reader) startInstance() {
	members := int32(len(r.alert.members))
	r.alert.instances = append(r.alert.instances, instance{attrs: attributes(r.xml), from: members, to: members})
	r.own = r.own[:0]
	r.members.reset()
	r.countAttributes()
}

// push begins to read an element as a value.
func (r *reader) push() {
	if r.depth == len(r.open) {
		r.open = append(r.open, element{})
	}
	r.open[r.depth].reset(r.name(), r.xml)
	r.depth++
	if r.depth > 1 {
		r.alert.more += objectCost
	}
	r.countAttributes()
}

func (r *reader) countAttributes() {
	for i := range r.xml.AttrCount() {
		name, value := r.xml.AttrAt(i)
		r.alert.more += objectCost + len(name) + len(value)
	}
}

// maxKnown bounds the memory for names.
const maxKnown = 256

// name is that of the current element. There are few different ones, so that most cost nothing.
func (r *reader) name() string {
	if name, ok := r.known[string(r.xml.Name())]; ok {
		return name
	}
	name := string(r.xml.Name())
	if len(r.known) < maxKnown {
		r.known[name] = name
	}
	r.alert.more += len(name)
	return name
}

func (r *reader) text() error {
	buffer := &r.own
	switch r.places[len(r.places)-1] {
	case inValue:
		buffer = &r.open[r.depth-1].text
	case inInstance:
	default:
		return nil
	}
	*buffer = append(*buffer, r.xml.Text()...)
	if r.alert.size()+len(*buffer) > r.limit {
		return fmt.Errorf("%w: an alert with more than %d bytes", xmlsax.ErrTooLarge, r.limit)
	}
	return nil
}

// end handles the end of an element.
func (r *reader) end(last place) error {
	switch last {
	case inReport:
		if r.sites == 0 {
			return errors.New("the report has no site; ZAP has probably reached none")
		}
	case inSite:
		if !r.site.hasAlerts {
			return fmt.Errorf("site %d has no alerts element", r.sites)
		}
	case inAlert:
		if err := r.alert.seal(); err != nil {
			return fmt.Errorf("alert %d %w", r.alerts, err)
		}
	case inInstance:
		r.endInstance()
	case inValue:
		r.pop()
	case elsewhere, inAlerts, inInstances:
	}
	return nil
}

// endInstance: text between the children counts only where it is not blank.
func (r *reader) endInstance() {
	i := &r.alert.instances[len(r.alert.instances)-1]
	if i.attrs == nil && i.from == i.to || !isBlank(r.own) {
		i.text = r.alert.keepText(r.own)
	}
}

// pop gives the value that has ended to what it is in.
func (r *reader) pop() {
	r.depth--
	e := &r.open[r.depth]
	switch {
	case r.depth > 0:
		if e.isText() {
			r.alert.more += len(e.text)
		}
		r.open[r.depth-1].add(e.name, e.value())
	case r.places[len(r.places)-1] == inInstance:
		if _, isNew := r.members.find(e.name); isNew {
			r.alert.members = append(r.alert.members, member{name: e.name, value: r.alert.keep(e)})
			r.alert.instances[len(r.alert.instances)-1].to++
		}
	default:
		r.alert.fields[r.field] = r.alert.keep(e)
	}
}

// reportReach reports what was reached. Passive and active rules alike need an answer to raise an alert.
func (r *reader) reportReach(in *sdk.Input) {
	sites := sdk.Counted(r.sites, "site", "sites")
	if r.alerts == 0 {
		in.ReachUnknown("ZAP lists %s and no alerts, and does not report whether a site answered", sites)
		return
	}
	in.Reached("%s, %s", sites, sdk.Counted(r.alerts, "alert", "alerts"))
}
