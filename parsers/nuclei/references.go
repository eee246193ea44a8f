// SPDX-License-Identifier: Apache-2.0

package nuclei

import (
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// refs gathers references. Those whose value is not text go to Extra, for the schema to refuse, and the others with them.
type refs struct {
	list []finding.Reference
	odd  []any
}

func (r *refs) add(kind string, value any) {
	text, ok := value.(string)
	if ok && r.odd == nil {
		r.list = append(r.list, finding.Reference{Type: kind, Value: text})
		return
	}
	if r.odd == nil {
		r.odd = make([]any, 0, len(r.list)+1)
		for _, ref := range r.list {
			r.odd = append(r.odd, object(ref.Type, ref.Value))
		}
	}
	r.odd = append(r.odd, object(kind, value))
}

func object(kind string, value any) finding.Object {
	return finding.Object{{Key: "type", Value: kind}, {Key: "value", Value: value}}
}

// references sets the links of info, its CWE and its CVE, or null.
func (w *writer) references(info finding.Object) error {
	w.refs = refs{list: w.refs.list[:0]}
	err := each(info, "reference", func(link any) error {
		w.refs.add("URL", link)
		return nil
	})
	if err != nil {
		return err
	}
	v, _ := info.Get("classification")
	classification, _ := v.(finding.Object)
	for _, c := range []struct{ key, kind, before, after string }{
		{"cwe-id", "CWE", "https://cwe.mitre.org/data/definitions/", ".html"},
		{"cve-id", "CVE", "https://nvd.nist.gov/vuln/detail/", ""},
	} {
		err := each(classification, c.key, func(v any) error {
			id, ok := v.(string)
			if !ok {
				return fmt.Errorf("an element of %s is not a text", c.key)
			}
			w.refs.add(c.kind, ecma.ToUpper(id))
			w.refs.add("URL", c.before+id+c.after)
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch {
	case w.refs.odd != nil:
		w.f.Extra.Set("references", w.refs.odd)
	case len(w.refs.list) == 0:
		w.f.References.Null = true
	default:
		w.f.References.List = w.refs.list
	}
	return nil
}

// each calls one for every element of a member that is an array, missing or null.
func each(o finding.Object, key string, one func(any) error) error {
	v, _ := o.Get(key)
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%s is not an array", key)
	}
	for _, e := range list {
		if err := one(e); err != nil {
			return err
		}
	}
	return nil
}
