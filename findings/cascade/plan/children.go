// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/child"
)

// Child is a Scan to start.
type Child struct {
	// Rule is the name of the rule that starts it.
	Rule string
	// Name of the Scan.
	Name string
	// Finding is the id of the finding that matched; it may be empty.
	Finding string
	// Scan is the whole object.
	Scan finding.Object
}

// Result is what became of a child.
type Result int

const (
	// Started means it was created, now or when the hook ran before.
	Started Result = iota
	// Duplicate means the chain has an equal one.
	Duplicate
	// Held means maxScans, or the bound where nothing is said, leaves no room for it.
	Held
	// Refused means that a finding would choose an option of the scanner.
	Refused
	// Failed means it could not be created.
	Failed
)

// Source gives the findings again, from the first one on. The bytes are valid during the call.
type Source func(yield func(raw []byte) error) error

// ErrStop wrapped by the error of a Start ends everything: further children would fare no better.
var ErrStop = errors.New("nothing more can be started")

// Start is called with each child. Its error belongs to that child, unless it wraps ErrStop.
type Start func(c Child) (Result, error)

// Children builds the children and hands them on, in the order of the rules and of the findings in them.
func (p *Plan) Children(again Source, start Start) error {
	names := child.NewNames(p.parent)
	p.named = map[string]bool{}
	w := &walk{plan: p, again: again}
	for number, r := range p.rules {
		if r.skipped || r.err != nil || r.outcome.Matched == 0 || r.fail(r.Broken()) {
			continue
		}
		for i := r.hits.next(0); i >= 0; i = r.hits.next(i + 1) {
			raw, err := w.bytes(number, i)
			if err != nil {
				return err
			}
			if err := p.one(r, names, raw, start); err != nil {
				return err
			}
		}
	}
	return nil
}

// one builds one child. The error it returns ends everything; others stay with the rule.
func (p *Plan) one(r *rule, names *child.Names, raw []byte, start Start) error {
	if p.maxChildren > 0 && p.started >= p.maxChildren {
		r.outcome.count(Held)
		return nil
	}
	value, err := finding.DecodeValue(raw, 0)
	if err != nil {
		return fmt.Errorf("read a finding again: %w", err)
	}
	f, _ := value.(finding.Object)
	scan, err := p.parent.Build(r.Rule, f)
	if option, ok := errors.AsType[*child.OptionError](err); ok {
		r.outcome.count(Refused)
		r.option = option
		return nil
	}
	if err != nil {
		r.outcome.count(Failed)
		r.note(err)
		return nil
	}
	name, err := names.Set(&scan, r.Rule, f, raw)
	if err != nil {
		return err
	}
	if p.Deduplicates() {
		if p.named[name] {
			r.outcome.count(Duplicate)
			return nil
		}
		p.named[name] = true
	}
	id, _ := f.Text("id").Get()
	result, err := start(Child{Rule: r.Name(), Name: name, Finding: id, Scan: scan})
	if err != nil {
		r.outcome.count(Failed)
		r.note(err)
		if errors.Is(err, ErrStop) {
			return fmt.Errorf("rule %s: %w", r.Name(), err)
		}
		return nil
	}
	if result == Started {
		p.started++
	}
	r.outcome.count(result)
	return nil
}

// note keeps the first error of a rule's children without stopping the others.
func (r *rule) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (o *Outcome) count(result Result) {
	switch result {
	case Started:
		o.Started++
	case Duplicate:
		o.Duplicates++
	case Held:
		o.Held++
	case Refused:
		o.Refused++
	case Failed:
		o.Failed++
	}
}

// walk gets the bytes of the findings that matched, from memory or by reading again.
type walk struct {
	plan  *Plan
	again Source
}

func (w *walk) bytes(number, i int) ([]byte, error) {
	k := &w.plan.kept
	if raw, ok := k.raw[i]; ok {
		return raw, nil
	}
	wanted := w.upcoming(number, i)
	k.clear()
	at := 0
	err := w.again(func(raw []byte) error {
		if at == i {
			k.put(at, raw)
		} else if wanted.has(at) {
			k.add(at, raw)
		}
		at++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read findings again: %w", err)
	}
	raw, ok := k.raw[i]
	if !ok {
		return nil, fmt.Errorf("read findings again: finding %d is gone", i)
	}
	return raw, nil
}

// upcoming are the findings that are needed next, as many as should fit into memory.
func (w *walk) upcoming(number, i int) *bits {
	wanted := &bits{}
	room := max(1, w.plan.kept.limit/max(1, w.plan.kept.average()))
	for n := number; n < len(w.plan.rules); n++ {
		r := w.plan.rules[n]
		if r.skipped || r.err != nil && n != number {
			continue
		}
		for ; i >= 0; i = r.hits.next(i + 1) {
			if room == 0 {
				return wanted
			}
			if !wanted.has(i) {
				wanted.set(i)
				room--
			}
		}
		if n+1 < len(w.plan.rules) {
			i = w.plan.rules[n+1].hits.next(0)
		}
	}
	return wanted
}

// Budget counts the Scans of a chain against maxScans.
type Budget struct {
	// Max is the bound; 0 is none.
	Max int
	// Taken are the names of the Scans that the chain has.
	Taken map[string]bool
}

// Admit says whether there is room for a Scan. One that is there already takes no room.
func (b Budget) Admit(name string) bool {
	return b.Max == 0 || b.Taken[name] || len(b.Taken) < b.Max
}
