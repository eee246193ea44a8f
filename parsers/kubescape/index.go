// SPDX-License-Identifier: Apache-2.0

package kubescape

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// index is what results refer to.
type index struct {
	limit, used int
	listed      int // how many resources there are
	looked      int // how many resources there are, or how many have results
	cluster     string
	controls    map[string]control
	// resources holds those whose id does not have all fields.
	resources map[string]resource
}

type control struct {
	name, category, description, remediation string
	score                                    float64
	scored                                   bool
}

type resource struct{ apiVersion, kind, name, namespace, file string }

func (x *index) read(ctx context.Context, in *sdk.Input) error {
	hasResults, hasSummary := false, false
	err := jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error {
			switch key {
			case "results":
				hasResults = true
				return x.countResults(r)
			case "summaryDetails":
				hasSummary = true
				return x.readSummary(r)
			case "resources":
				return jsondoc.Elements(ctx, r, "resource", x.addResource)
			case "clusterName":
				v, err := r.Value()
				x.cluster, _ = v.(string)
				return err
			case "metadata":
				v, err := r.Value()
				o, _ := v.(finding.Object)
				if name := jsondoc.Text(o, "targetMetadata", "clusterContextMetadata", "contextName"); x.cluster == "" {
					x.cluster = name
				}
				return err
			}
			return nil
		})
	})
	x.looked = max(x.looked, x.listed)
	if err == nil && (!hasResults || !hasSummary) {
		err = errNoReport
	}
	return err
}

// countResults passes over the results.
func (x *index) countResults(r *jsonstream.Reader) error {
	kind, err := r.Kind()
	if err != nil || kind != jsonstream.Array {
		return err
	}
	return r.Array(func(int) error {
		x.looked++
		return nil
	})
}

func (x *index) readSummary(r *jsonstream.Reader) error {
	return r.Object(func(key string) error {
		if key != "controls" {
			return nil
		}
		if kind, err := r.Kind(); err != nil || kind == jsonstream.Null {
			return err // a scan without controls; the null is passed over
		}
		return r.Object(func(id string) error {
			v, err := r.Value()
			if err != nil {
				return err
			}
			o, _ := v.(finding.Object)
			return x.addControl(id, o)
		})
	})
}

const entry = 200 // bytes that a struct takes in a map beside its texts

func (x *index) hold(bytes int) error {
	if x.used += entry + bytes; x.used > x.limit {
		return fmt.Errorf("%w: controls and resources that take more than %d bytes", jsonstream.ErrTooLarge, x.limit)
	}
	return nil
}

func (x *index) addControl(id string, o finding.Object) error {
	c := control{
		name:        jsondoc.Text(o, "name"),
		category:    jsondoc.Text(o, "category", "name"),
		description: jsondoc.Text(o, "description"),
		remediation: jsondoc.Text(o, "remediation"),
	}
	c.score, c.scored = jsondoc.Number(o, "scoreFactor")
	x.controls[id] = c
	return x.hold(len(id) + len(c.name) + len(c.category) + len(c.description) + len(c.remediation))
}

func (x *index) addResource(o finding.Object) error {
	x.listed++
	id, err := jsondoc.Need(o, "resourceID")
	if err != nil {
		return err
	}
	fromID := resourceOf(id)
	object := jsondoc.Object(o, "object")
	res := resource{
		apiVersion: cmp.Or(jsondoc.Text(object, "apiVersion"), jsondoc.Text(object, "apiGroup"), fromID.apiVersion),
		kind:       cmp.Or(jsondoc.Text(object, "kind"), fromID.kind),
		name:       cmp.Or(jsondoc.Text(object, "metadata", "name"), jsondoc.Text(object, "name"), fromID.name),
		namespace:  cmp.Or(jsondoc.Text(object, "metadata", "namespace"), jsondoc.Text(object, "namespace"), fromID.namespace),
		file:       cmp.Or(jsondoc.Text(o, "source", "relativePath"), jsondoc.Text(o, "source", "path")),
	}
	if res == fromID {
		return nil
	}
	x.resources[id] = res
	return x.hold(len(id) + len(res.apiVersion) + len(res.kind) + len(res.name) + len(res.namespace) + len(res.file))
}

// resourceOf reads an id: [path=HASH/api=]GROUP/VERSION/NAMESPACE/KIND/NAME, the group empty for the core group and the
// namespace for what belongs to none. Of an id in another form all of it is the name.
func resourceOf(id string) resource {
	rest := id
	if _, behind, ok := strings.Cut(id, "/api="); ok && strings.HasPrefix(id, "path=") {
		rest = behind
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 5 {
		return resource{name: id}
	}
	r := resource{apiVersion: parts[1], namespace: parts[2], kind: parts[3], name: parts[4]}
	if parts[0] != "" {
		r.apiVersion = parts[0] + "/" + parts[1]
	}
	return r
}
