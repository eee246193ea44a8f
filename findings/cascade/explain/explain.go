// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/child"
	"github.com/scanyard/scanyard/findings/cascade/plan"
	"github.com/scanyard/scanyard/findings/cascade/selector"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/yamltext"
)

// Question is the input of Explain.
type Question struct {
	// Scan is the one that has the findings.
	Scan finding.Object
	// Findings opens its findings.json. It is called again where there are too many matches for memory.
	Findings func() (io.ReadCloser, error)
	// Rules are cascading rules, whether or not the Scan selects them.
	Rules []finding.Object
	// ParseDefinition has the aliases of the scope limiter; it may be nil.
	ParseDefinition finding.Object
	// Exceptions are those that hold for the Scan; nil for none.
	Exceptions *exception.Selection
}

// Explanation is what a hook run would do.
type Explanation struct {
	// Scan is "namespace/name" of the Scan.
	Scan string `json:"scan"`
	// Selector is the label selector of its spec.cascades; empty selects every rule.
	Selector string `json:"selector"`
	// Findings counts its findings.
	Findings int `json:"findings"`
	// Children are the Scans that would be started, in order.
	Children []finding.Object `json:"children"`
	// Rules are the results of all rules.
	Rules []plan.Outcome `json:"rules"`
	// Notes are what may make the real thing differ.
	Notes []string `json:"notes,omitempty"`
	// Error is why the hook would fail.
	Error string `json:"error,omitempty"`
}

// Explain plans like the hook, and starts nothing. An error means that the question is not valid; if the hook would fail,
// the Explanation says so.
func Explain(q Question) (*Explanation, error) {
	metadata := objectAt(q.Scan, "metadata")
	name, _ := metadata.Text("name").Get()
	namespace, _ := metadata.Text("namespace").Get()
	e := &Explanation{Scan: namespace + "/" + name, Children: []finding.Object{}, Rules: []plan.Outcome{}}
	if kind, _ := q.Scan.Text("kind").Get(); kind != "Scan" || name == "" {
		return nil, errors.New("the Scan has another kind, or no name")
	}
	spec := objectAt(q.Scan, "spec")
	if value, _ := spec.Get("cascades"); value == nil {
		e.Notes = append(e.Notes, "the Scan has no spec.cascades, so it starts nothing")
		return e, nil
	}
	in := plan.Input{Scan: q.Scan, ParseDefinition: q.ParseDefinition, Exceptions: q.Exceptions, Diagnose: true, MaxChildren: plan.DefaultMaxChildren}
	if err := e.choose(q, spec, namespace, &in); err != nil {
		return e.fails(err)
	}
	e.assume(q, in)
	p, err := plan.New(in)
	if err != nil {
		return e.fails(err)
	}
	source := func(yield func([]byte) error) error { return eachFinding(q.Findings, yield) }
	if err := source(p.Add); err != nil {
		if _, ok := errors.AsType[*plan.ScopeError](err); !ok {
			return nil, err
		}
		return e.fails(fmt.Errorf("nothing is started: %w", err))
	}
	e.Findings = p.Findings()
	budget := plan.Budget{Max: p.MaxScans(), Taken: map[string]bool{}}
	err = p.Children(source, func(c plan.Child) (plan.Result, error) {
		if !budget.Admit(c.Name) {
			return plan.Held, nil
		}
		budget.Taken[c.Name] = true
		e.Children = append(e.Children, c.Scan)
		return plan.Started, nil
	})
	if err != nil {
		return nil, err
	}
	outcomes := p.Outcomes()
	e.Rules = append(outcomes, e.Rules...)
	if err := p.Failure(outcomes); err != nil {
		e.Error = err.Error()
	}
	return e, nil
}

// fails explains that the hook would fail.
func (e *Explanation) fails(err error) (*Explanation, error) {
	e.Error = err.Error()
	return e, nil
}

// choose selects the rules that the hook would use, in its order, and adds outcomes for the others.
func (e *Explanation) choose(q Question, spec finding.Object, namespace string, in *plan.Input) error {
	text, err := selector.Text(objectAt(spec, "cascades"))
	if err != nil {
		return fmt.Errorf("spec.cascades: %w", err)
	}
	selected, err := selector.Parse(text)
	if err != nil {
		return fmt.Errorf("spec.cascades: %w", err)
	}
	e.Selector = text
	wanted := "CascadingRule"
	if mode, _ := spec.Text("resourceMode").Get(); mode == "clusterWide" {
		wanted = "ClusterCascadingRule"
	}
	for _, rule := range q.Rules {
		metadata := objectAt(rule, "metadata")
		name, _ := metadata.Text("name").Get()
		kind, _ := rule.Text("kind").Get()
		home, _ := metadata.Text("namespace").Get()
		reason := ""
		switch {
		case kind != wanted:
			reason = fmt.Sprintf("it is a %s, and a Scan of this resourceMode uses %ss only", kind, wanted)
		case kind == "CascadingRule" && home != "" && namespace != "" && home != namespace:
			reason = fmt.Sprintf("it is in namespace %s, the Scan in %s", home, namespace)
		case !selected.Selects(rule):
			reason = fmt.Sprintf("spec.cascades of the Scan does not select it: %s", text)
		}
		if reason != "" {
			e.Rules = append(e.Rules, plan.Outcome{Rule: name, Reason: reason})
			continue
		}
		in.Rules = append(in.Rules, rule)
	}
	// The API server lists by name.
	slices.SortStableFunc(in.Rules, compareNames)
	if chain := child.ChainOf(q.Scan); len(chain) > 0 {
		in.StartedBy = named(q.Rules, wanted, chain[len(chain)-1])
	}
	return nil
}

// assume notes what had to be assumed.
func (e *Explanation) assume(q Question, in plan.Input) {
	cascades := objectAt(objectAt(q.Scan, "spec"), "cascades")
	if uid, _ := objectAt(q.Scan, "metadata").Text("uid").Get(); uid == "" {
		e.Notes = append(e.Notes, "the Scan has no metadata.uid: in a cluster the names of its children end differently")
	}
	if value, _ := cascades.Get("scopeLimiter"); value != nil && q.ParseDefinition == nil {
		e.Notes = append(e.Notes, "no ParseDefinition was given: scopeLimiterAliases are taken for none, the hook would fail")
	}
	if chain := child.ChainOf(q.Scan); len(chain) > 0 && in.StartedBy == nil {
		e.Notes = append(e.Notes, fmt.Sprintf("rule %s, which started the Scan, was not given: what it had added is inherited like the rest", chain[len(chain)-1]))
	}
	if value, _ := cascades.Get("maxScans"); value != nil {
		e.Notes = append(e.Notes, "maxScans: the chain is taken to have no other Scans yet")
	}
}

func compareNames(a, b finding.Object) int {
	x, _ := objectAt(a, "metadata").Text("name").Get()
	y, _ := objectAt(b, "metadata").Text("name").Get()
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func named(rules []finding.Object, kind, name string) finding.Object {
	for _, rule := range rules {
		own, _ := objectAt(rule, "metadata").Text("name").Get()
		if k, _ := rule.Text("kind").Get(); k == kind && own == name {
			return rule
		}
	}
	return nil
}

func eachFinding(open func() (io.ReadCloser, error), yield func([]byte) error) (err error) {
	file, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	reader := finding.NewReader(file, finding.Limits{})
	for {
		raw, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read findings: %w", err)
		}
		if err := yield(raw); err != nil {
			return fmt.Errorf("finding %d: %w", reader.Count()-1, err)
		}
	}
}

// Print writes an explanation as "json" or "yaml".
func (e *Explanation) Print(w io.Writer, format string) error {
	text, err := encode(e, format)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func encode(e *Explanation, format string) ([]byte, error) {
	plain, err := finding.AppendValue(nil, e)
	if err != nil {
		return nil, fmt.Errorf("encode explanation: %w", err)
	}
	switch format {
	case "yaml":
		text, err := yamltext.Of(plain)
		if err != nil {
			return nil, fmt.Errorf("encode explanation: %w", err)
		}
		return text, nil
	case "json":
		return append(plain, '\n'), nil
	}
	return nil, fmt.Errorf("there is no format %q; there are yaml and json", format)
}

func objectAt(o finding.Object, key string) finding.Object {
	value, _ := o.Get(key)
	object, _ := value.(finding.Object)
	return object
}
