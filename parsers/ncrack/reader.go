// SPDX-License-Identifier: Apache-2.0

package ncrack

import (
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/xmlsax"
)

// credentials are one pair that a service accepts.
type credentials struct{ username, password finding.Text }

// service is what one <service> says. Of its addresses and ports the first counts.
type service struct {
	addr                 finding.Text
	name, port, protocol finding.Text
	hasAddress, hasPort  bool
	credentials          []credentials
	size                 int
}

// credentialsCost is what a pair costs beside its texts, for the limit.
const credentialsCost = 64

// place says what an open element means to us.
type place uint8

const (
	elsewhere place = iota
	inRun
	inService
)

// reader turns the tags of a result into services, one at a time.
type reader struct {
	xml      *xmlsax.Reader
	limit    int
	places   []place // of the open elements
	services int
	service  service
}

// next reads up to the end of the next service. io.EOF means that there is none.
func (r *reader) next() error {
	for {
		kind, err := r.xml.Next()
		if err != nil {
			return err
		}
		switch kind {
		case xmlsax.Start:
			here, err := r.start()
			if err != nil {
				return r.fail(err)
			}
			r.places = append(r.places, here)
		case xmlsax.Text:
		case xmlsax.End:
			last := r.places[len(r.places)-1]
			r.places = r.places[:len(r.places)-1]
			if err := r.end(last); err != nil {
				return r.fail(err)
			}
			if last == inService {
				return nil
			}
		}
	}
}

func (r *reader) fail(err error) error { return fmt.Errorf("line %d: %w", r.xml.Line(), err) }

// start takes the attributes of an element and says what it means.
func (r *reader) start() (place, error) {
	name := string(r.xml.Name())
	if len(r.places) == 0 {
		if name != "ncrackrun" {
			return elsewhere, fmt.Errorf("the root element is %q, not \"ncrackrun\"", name)
		}
		return inRun, nil
	}
	switch r.places[len(r.places)-1] {
	case inRun:
		if name == "service" {
			r.services++
			r.service = service{credentials: r.service.credentials[:0]}
			return inService, nil
		}
	case inService:
		return elsewhere, r.inService(name)
	case elsewhere:
	}
	return elsewhere, nil
}

func (r *reader) inService(name string) error {
	s := &r.service
	switch name {
	case "address":
		if s.hasAddress {
			return nil
		}
		s.hasAddress = true
		s.addr = r.keep("addr")
	case "port":
		if s.hasPort {
			return nil
		}
		s.hasPort = true
		s.name, s.port, s.protocol = r.keep("name"), r.keep("portid"), r.keep("protocol")
	case "credentials":
		s.credentials = append(s.credentials, credentials{r.keep("username"), r.keep("password")})
		s.size += credentialsCost
	default:
		return nil
	}
	switch {
	case r.xml.AttrCount() == 0:
		return fmt.Errorf("%s of service %d without attributes", name, r.services)
	case s.size > r.limit:
		return fmt.Errorf("%w: a service with more than %d bytes", xmlsax.ErrTooLarge, r.limit)
	}
	return nil
}

// keep copies an attribute of the current tag.
func (r *reader) keep(name string) finding.Text {
	value, ok := r.xml.Attr(name)
	if !ok {
		return finding.Text{}
	}
	r.service.size += len(value)
	return finding.String(string(value))
}

// end handles the end of an element.
func (r *reader) end(last place) error {
	switch last {
	case inRun:
		if r.services == 0 {
			return errors.New("the result has no service; Ncrack has probably not started one")
		}
	case inService:
		switch {
		case !r.service.hasAddress:
			return fmt.Errorf("service %d has no address", r.services)
		case !r.service.hasPort:
			return fmt.Errorf("service %d has no port", r.services)
		}
	case elsewhere:
	}
	return nil
}
