// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"fmt"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
)

// Miss says why an exception does not match a finding.
type Miss struct {
	Name, Kind string
	// Fields are those that are not met: one of the exception as a whole, such as spec.expiresAt or
	// spec.scope.scanTypes, else the first of each entry, such as spec.match.anyOf[0].names.
	Fields []string
	// Err is set where the exception matches nothing as the field is wrong.
	Err error
}

// Explainer says of exceptions why they do not match. It is for one goroutine.
type Explainer struct {
	rows    []explained
	subject subject
}

// explained is an exception: either its miss is the same for all findings, or its entries say.
type explained struct {
	miss    Miss
	entries []*entry
}

// NewExplainer takes exceptions, whether they hold or not.
func NewExplainer(list []Exception, now time.Time, scan Scan) *Explainer {
	x := &Explainer{rows: make([]explained, len(list))}
	for i := range list {
		e := &list[i]
		row := explained{miss: Miss{Name: e.Name, Kind: e.Kind()}}
		entries, problem := compile(*e)
		switch phase := e.PhaseAt(now); {
		case phase == Expired:
			row.miss.Fields = []string{"spec.expiresAt"}
		case phase == NotYet:
			row.miss.Fields = []string{"spec.notBefore"}
		case problem != nil:
			row.miss.Fields, row.miss.Err = []string{problem.Field}, problem.Err
		default:
			row.entries = entries
			if field := entries[0].owner.reaches(&scan); field != "" {
				row.miss.Fields, row.entries = []string{field}, nil
			}
		}
		x.rows[i] = row
	}
	return x
}

// Explain gives for each exception, in their order, why it does not match a finding; nil for one that matches, also where
// another one wins.
func (x *Explainer) Explain(f finding.Object) []*Miss {
	x.subject.read(f)
	misses := make([]*Miss, len(x.rows))
	for i := range x.rows {
		misses[i] = x.rows[i].explain(&x.subject)
	}
	return misses
}

func (r *explained) explain(s *subject) *Miss {
	if r.entries == nil {
		return &r.miss
	}
	fields := make([]string, 0, len(r.entries))
	for _, e := range r.entries {
		field := e.fails(s)
		if field == "" {
			return nil
		}
		fields = append(fields, fmt.Sprintf("spec.match.anyOf[%d].%s", e.index, field))
	}
	return &Miss{Name: r.miss.Name, Kind: r.miss.Kind, Fields: fields}
}
