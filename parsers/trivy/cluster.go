// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const misconfigurations = "Misconfigurations"

// readResources reads the resources of a cluster.
func (p *report) readResources(r *jsonstream.Reader) error {
	n := 0
	err := elements(r, resourcesKey, func(index int) error {
		n++
		p.looked++
		kind, err := r.Kind()
		switch {
		case err != nil:
			return err
		case kind == jsonstream.Null:
			return fmt.Errorf("resource %d is null, must be an object", index)
		case kind != jsonstream.Object:
			return nil
		}
		if err := p.readResource(r, index); err != nil {
			return fmt.Errorf("resource %d: %w", index, err)
		}
		return nil
	})
	if err == nil && n == 0 {
		return errNoResources
	}
	return err
}

func (p *report) readResource(r *jsonstream.Reader, resource int) error {
	names := finding.Object{}
	return r.Object(func(key string) error {
		switch key {
		case "Namespace", "Kind", "Name":
			return keep(r, &names, key)
		case resultsKey:
			location := ""
			return elements(r, key, func(index int) (err error) {
				if index == 0 {
					if location, err = p.locate(names, resource); err != nil {
						return err
					}
				}
				if err := p.readResult(r, place{resource, index}, location); err != nil {
					return fmt.Errorf("result %d: %w", index, err)
				}
				return nil
			})
		}
		return nil
	})
}

// locate says where a resource is. Its names may come after its results.
func (p *report) locate(names finding.Object, resource int) (string, error) {
	if len(names) < 3 {
		if p.resources == nil {
			p.resources = start(p, p.resourcesAhead)
		}
		err := p.resources.each(place{resource: resource}, func(all finding.Object) error {
			names = all
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	var parts []string
	for _, part := range []struct {
		key  string
		from finding.Object
	}{{clusterName, p.names}, {"Namespace", names}} {
		if v, _ := part.from.Get(part.key); ecma.Truthy(v) {
			parts = append(parts, part.key+"="+finding.ToString(v))
		}
	}
	parts = append(parts, "Kind="+ecma.Property(names, "Kind"), "Name="+ecma.Property(names, "Name"))
	return "scb://trivy/?" + strings.Join(parts, "&"), nil
}

// readResult reads one result of a resource.
func (p *report) readResult(r *jsonstream.Reader, at place, location string) error {
	kind, err := r.Kind()
	if err != nil {
		return err
	}
	switch kind {
	case jsonstream.Object:
		c := clusterResult{report: p, json: r, at: at, location: location}
		return r.Object(c.member)
	case jsonstream.Null:
		return errors.New("is null, must be an object")
	case jsonstream.Array: // its keys are its indexes
		return r.Array(func(index int) error { return unexpected(strconv.Itoa(index)) })
	case jsonstream.String:
		v, err := r.Value()
		if err == nil && v != "" {
			err = unexpected("0")
		}
		return err
	default: // has no keys
		return nil
	}
}

func unexpected(key string) error {
	return fmt.Errorf("Unexpected attribute '%s' on resource-item", key) //nolint:staticcheck // ST1005: as clients know it
}

// clusterResult makes the findings of one result: its vulnerabilities, then its misconfigurations.
type clusterResult struct {
	*report
	json     *jsonstream.Reader
	at       place
	location string

	known result // what has been seen of it, or all that there is to see
	whole bool   // known is all
	done  bool   // the vulnerabilities have had their turn
}

func (c *clusterResult) member(key string) error {
	switch key {
	case "Target", "Class", "Type":
		return keep(c.json, &c.known.names, key)
	case vulnerabilities:
		if c.done {
			return nil
		}
		c.done = true
		return c.list(key, "Vulnerability")
	case misconfigurations:
		if err := c.missedVulnerabilities(); err != nil {
			return err
		}
		return c.list(key, "Misconfiguration")
	case "MisconfSummary", "Packages":
		return nil
	}
	return unexpected(key)
}

// missedVulnerabilities makes the findings that go before the misconfigurations but come after them.
func (c *clusterResult) missedVulnerabilities() error {
	if c.done {
		return nil
	}
	if err := c.lookAhead(); err != nil || !c.known.swapped {
		return err
	}
	c.done = true
	if c.missed == nil {
		c.missed = start(c.report, c.missedAhead)
	}
	foundIn := c.foundIn()
	i := 0
	return c.missed.each(c.at, func(v any) error {
		i++
		return explain(c.clusterFinding(v, "Vulnerability", c.location, foundIn), "Vulnerability", i-1)
	})
}

func (c *clusterResult) list(key, category string) error {
	if len(c.known.names) < 3 {
		if err := c.lookAhead(); err != nil {
			return err
		}
	}
	foundIn := c.foundIn()
	return elements(c.json, key, func(i int) error {
		v, err := c.json.Pick(wanted)
		if err != nil {
			return err
		}
		return explain(c.clusterFinding(v, category, c.location, foundIn), category, i)
	})
}

func explain(err error, what string, index int) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %d: %w", strings.ToLower(what), index, err)
}

// lookAhead learns all of a result, once.
func (c *clusterResult) lookAhead() error {
	if c.whole {
		return nil
	}
	c.whole = true
	if c.results == nil {
		c.results = start(c.report, c.resultsAhead)
	}
	return c.results.each(c.at, func(all result) error {
		c.known = all
		return nil
	})
}

func (c *clusterResult) foundIn() string {
	parts := []string{"Target: '" + ecma.Property(c.known.names, "Target") + "'"}
	for _, key := range []string{"Class", "Type"} {
		if v, _ := c.known.names.Get(key); ecma.Truthy(v) {
			parts = append(parts, key+": '"+finding.ToString(v)+"'")
		}
	}
	return strings.Join(parts, " / ")
}

func (p *report) clusterFinding(v any, category, location, foundIn string) error {
	if v == nil {
		return errors.New("is null, must be an object")
	}
	o, _ := v.(finding.Object)
	p.begin(category, location)
	p.title(o)
	if v, _ := o.Get("Description"); ecma.Truthy(v) {
		ecma.SetText(&p.f, &p.f.Description, "description", o, "Description")
	} else {
		ecma.SetText(&p.f, &p.f.Description, "description", o, "Message")
	}
	p.severity(o)
	if v, _ := o.Get("Resolution"); ecma.Truthy(v) {
		ecma.SetText(&p.f, &p.f.Mitigation, "mitigation", o, "Resolution")
	}
	if err := p.clusterLinks(o); err != nil {
		return err
	}
	p.versions(o)
	id := "ID"
	if v, _ := o.Get("VulnerabilityID"); ecma.Truthy(v) {
		id = "VulnerabilityID"
	}
	ecma.Copy(&p.f.Attributes, "id", o, id)
	p.f.Attributes = append(p.f.Attributes, finding.Member{Key: "foundIn", Value: foundIn})
	return p.emit(&p.f)
}

func (p *report) title(o finding.Object) {
	title, _ := o.Get("Title")
	message, _ := o.Get("Message")
	switch {
	case !ecma.Truthy(title):
		p.f.Name = finding.String("Finding in Dependency " + dependency(o))
	case ecma.Truthy(message):
		p.f.Name = finding.String(finding.ToString(title) + "(" + finding.ToString(message) + ")")
	default:
		ecma.SetText(&p.f, &p.f.Name, "name", o, "Title")
	}
}

// clusterLinks puts the first link before the others. One that is not text goes to Extra, for the schema to refuse.
func (p *report) clusterLinks(o finding.Object) error {
	primary, _ := o.Get("PrimaryURL")
	link, isText := primary.(string)
	if isText && link != "" {
		p.refs = append(p.refs, finding.Reference{Type: "URL", Value: link})
	}
	if err := p.links(o, link); err != nil {
		return err
	}
	if isText || !ecma.Truthy(primary) {
		p.f.References.List = p.refs
		return nil
	}
	odd := []any{finding.Object{{Key: "type", Value: "URL"}, {Key: "value", Value: primary}}}
	for _, ref := range p.refs {
		odd = append(odd, finding.Object{{Key: "type", Value: ref.Type}, {Key: "value", Value: ref.Value}})
	}
	p.f.Extra.Set("references", odd)
	return nil
}
