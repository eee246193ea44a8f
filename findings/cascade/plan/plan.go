// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/child"
	"github.com/scanyard/scanyard/findings/cascade/expression"
	"github.com/scanyard/scanyard/findings/cascade/match"
	"github.com/scanyard/scanyard/findings/cascade/scope"
	"github.com/scanyard/scanyard/findings/exception"
)

// DefaultMaxChildren is how many Scans one Scan starts at most by default. A host that produces many findings starts one
// for each.
const DefaultMaxChildren = 1000

// Input is everything but the findings.
type Input struct {
	// Scan is the Scan that has the findings.
	Scan finding.Object
	// StartedBy is the rule that started it; nil where there is none, or none any more.
	StartedBy finding.Object
	// ParseDefinition has the aliases of the scope limiter; it may be nil.
	ParseDefinition finding.Object
	// Rules are those that spec.cascades selects, in their order.
	Rules []finding.Object
	// MaxChildren is how many children the Scan starts at most where its spec.cascades has no maxScans; 0 means no bound.
	MaxChildren int
	// Exceptions are those that hold for the Scan; nil for none. Findings that they suppress start nothing, but for rules
	// that take no notice of exceptions.
	Exceptions *exception.Selection
	// Diagnose adds to Outcomes how close the findings came to rules that none of them matched.
	Diagnose bool
}

// Plan collects findings and then yields children. It is for one goroutine.
type Plan struct {
	parent  *child.Parent
	limiter *scope.Limiter
	excepts *exception.Selection
	rules   []*rule
	index   *match.Index
	indexed []*rule // by number in the index
	always  []*rule // rules without anyOf, which only their expression decides
	active  int
	decoder *finding.Decoder

	findings   int
	outOfScope int
	refusals   map[string]int
	categories map[string]struct{}
	kept       kept
	maxScans   int
	// maxChildren holds where maxScans says nothing; started counts against it.
	maxChildren int
	started     int
	named       map[string]bool // children of this run, where equal ones are one
	whole       bool            // whether more of a finding is needed than what the rules name
}

// rule is a rule on its way through the findings.
type rule struct {
	*child.Rule
	expression *expression.Expression
	hits       bits
	outcome    Outcome
	skipped    bool
	err        error
	option     *child.OptionError
	closest    *closest
}

// New prepares for findings. An error means that nothing can be started at all.
func New(in Input) (*Plan, error) {
	parent, err := child.NewParent(in.Scan, in.StartedBy)
	if err != nil {
		return nil, err
	}
	cascades, _ := parent.Cascades()
	limiter, _ := cascades.Get("scopeLimiter")
	p := &Plan{
		parent: parent, decoder: finding.NewDecoder(0), index: match.NewIndex(), refusals: map[string]int{}, categories: map[string]struct{}{},
		kept: kept{limit: keep}, excepts: in.Exceptions,
	}
	p.limiter, err = scope.New(scope.Settings{Limiter: limiter, Annotations: parent.Annotations(), Aliases: aliasesOf(in.ParseDefinition)})
	if err != nil {
		return nil, err
	}
	maxDepth, err := bound(cascades, "maxDepth")
	if err != nil {
		return nil, err
	}
	if p.maxScans, err = bound(cascades, "maxScans"); err != nil {
		return nil, err
	}
	if p.maxScans == 0 {
		p.maxChildren = in.MaxChildren
	}
	for _, object := range in.Rules {
		p.addRule(object, maxDepth, in.Diagnose)
	}
	p.index.Watch("category")
	p.whole = p.whole || p.limiter != nil || in.Diagnose || !p.excepts.IsEmpty()
	return p, nil
}

func (p *Plan) addRule(object finding.Object, maxDepth int, diagnose bool) {
	r := &rule{Rule: child.NewRule(object)}
	r.outcome.Rule = r.Name()
	p.rules = append(p.rules, r)
	switch depth := len(p.parent.Chain()); {
	case slices.Contains(p.parent.Chain(), r.Name()):
		r.skip(StoppedDuplicate, "it is in the chain of this Scan already")
		return
	case maxDepth > 0 && depth >= maxDepth:
		r.skip(StoppedDepth, fmt.Sprintf("maxDepth is %d and this Scan is at depth %d", maxDepth, depth))
		return
	}
	if r.fail(r.Refused()) {
		return
	}
	if text := r.Expression(); text != "" {
		var err error
		if r.expression, err = expression.Compile(text); err != nil {
			r.fail(fmt.Errorf("matches.expression: %w", err))
			return
		}
	}
	p.active++
	p.whole = p.whole || r.expression != nil
	r.outcome.Ignored = r.Ignored(p.parent)
	anyOf, given := r.AnyOf()
	if diagnose {
		r.closest = newClosest(anyOf)
	}
	if !given && r.expression != nil {
		p.always = append(p.always, r)
		return
	}
	p.index.Add(anyOf)
	p.indexed = append(p.indexed, r)
}

func (r *rule) skip(stopped Stopped, reason string) {
	r.skipped, r.outcome.Reason, r.outcome.Skipped = true, reason, stopped
}

// fail notes the first error of a rule. From then on the rule starts nothing.
func (r *rule) fail(err error) bool {
	if err != nil && r.err == nil {
		r.err = err
	}
	return r.err != nil
}

// bound reads a number of spec.cascades that is at least 1; 0 is none.
func bound(cascades finding.Object, key string) (int, error) {
	value, ok := cascades.Get(key)
	if !ok || value == nil {
		return 0, nil
	}
	n, ok := value.(float64)
	if !ok || n < 1 || n > 1<<31 {
		return 0, fmt.Errorf("spec.cascades.%s is %s, want a number of at least 1", key, finding.ToString(value))
	}
	return int(n), nil
}

func aliasesOf(definition finding.Object) finding.Object {
	spec, _ := definition.Get("spec")
	object, _ := spec.(finding.Object)
	aliases, _ := object.Get("scopeLimiterAliases")
	object, _ = aliases.(finding.Object)
	return object
}

// Active says whether any rule is left to look at findings for.
func (p *Plan) Active() bool { return p.active > 0 }

// MaxScans is how many Scans a chain may have below its first; 0 means no bound.
func (p *Plan) MaxScans() int { return p.maxScans }

// Deduplicates says whether of equal children of the chain only one is started.
func (p *Plan) Deduplicates() bool { return p.parent.Deduplicates() }

// Parent is the Scan that has the findings.
func (p *Plan) Parent() *child.Parent { return p.parent }

// OutOfScope counts the findings that the scope limiter kept out.
func (p *Plan) OutOfScope() int { return p.outOfScope }

// Findings is how many were added.
func (p *Plan) Findings() int { return p.findings }

// ScopeError says that it is unknown whether a finding is in scope.
type ScopeError struct {
	// Finding is its number, from 0.
	Finding int
	// Err says why.
	Err error
}

// Error leaves the number to whoever reads the findings.
func (e *ScopeError) Error() string { return e.Err.Error() }

func (e *ScopeError) Unwrap() error { return e.Err }

// maxCategories bounds what is remembered of findings that all differ.
const maxCategories = 10_000

// Add takes the next finding. After an error, such as a ScopeError, nothing may be started.
func (p *Plan) Add(raw []byte) error {
	number := p.findings
	p.findings++
	if p.active == 0 {
		return nil
	}
	if p.whole {
		return p.addDecoded(raw, number)
	}
	hits, err := p.index.MatchRaw(raw)
	if err != nil {
		return fmt.Errorf("finding %d: %w", number, err)
	}
	p.noteCategory(p.index.Value("category"))
	hit := false
	for _, n := range hits {
		hit = p.indexed[n].meets(nil, number, false) || hit
	}
	if hit {
		p.kept.add(number, raw)
	}
	return nil
}

// addDecoded is for findings of which more is needed than what the rules name.
func (p *Plan) addDecoded(raw []byte, number int) error {
	value, err := p.decoder.Value(raw)
	if err != nil {
		return fmt.Errorf("finding %d: %w", number, err)
	}
	f, ok := value.(finding.Object)
	if !ok {
		return nil // what is not an object matches nothing
	}
	category, _ := f.Get("category")
	p.noteCategory(category)
	allowed, why, err := p.limiter.Allows(f)
	if err != nil {
		return &ScopeError{Finding: number, Err: err}
	}
	if !allowed {
		p.outOfScope++
		p.refusals[why]++
		return nil
	}
	mark, excepted := p.excepts.Match(f)
	excepted = excepted && mark.Suppresses()
	hit := false
	for _, n := range p.index.Match(f) {
		hit = p.indexed[n].meets(f, number, excepted) || hit
	}
	for _, r := range p.always {
		hit = r.meets(f, number, excepted) || hit
	}
	if hit {
		p.kept.add(number, raw)
	}
	for _, r := range p.rules {
		if r.closest != nil {
			r.closest.add(f)
		}
	}
	return nil
}

func (p *Plan) noteCategory(value any) {
	if category, ok := value.(string); ok && len(p.categories) < maxCategories {
		p.categories[category] = struct{}{}
	}
}

// meets asks the expression, if there is one, and notes the hit.
func (r *rule) meets(f finding.Object, number int, excepted bool) bool {
	if r.err != nil {
		return false
	}
	if r.expression != nil {
		ok, err := r.expression.Matches(f)
		if r.fail(err) || !ok {
			return false
		}
	}
	if excepted && !r.IgnoresExceptions() {
		r.outcome.Excepted++
		return false
	}
	r.outcome.Matched++
	r.hits.set(number)
	return true
}

// Err is what is wrong with rules, all of it; nil if nothing is.
func (p *Plan) Err() error {
	var all []error
	for _, r := range p.rules {
		if r.err != nil {
			all = append(all, fmt.Errorf("rule %s: %w", r.Name(), r.err))
		}
	}
	return errors.Join(all...)
}
