// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/scope"
)

// Rule is a CascadingRule or ClusterCascadingRule, compiled.
type Rule struct {
	name        string
	anyOf       []any
	hasAnyOf    bool
	expression  string
	spec        finding.Object // scanSpec
	scanType    text
	parameters  []text
	env         []envTemplate
	containers  []containerTemplate
	labels      []member
	annotations []member
	// ignoresExceptions is what the annotation says.
	ignoresExceptions bool

	refused, broken error
	// options says that findings may choose options of the scanner.
	options bool
}

// member is a key with a rendered value.
type member struct {
	key   string
	value text
}

// envTemplate is one environment variable; value is nil where it comes from elsewhere.
type envTemplate struct {
	object finding.Object
	value  *text
}

// containerTemplate is one init container.
type containerTemplate struct {
	object  finding.Object
	command []text
	env     []envTemplate
}

// NewRule compiles a rule. Mistakes in it are its own: see Refused and Broken.
func NewRule(object finding.Object) *Rule {
	r := &Rule{}
	r.name, _ = objectAt(object, "metadata").Text("name").Get()
	allowed, _ := objectAt(objectAt(object, "metadata"), "annotations").Text(AnnotationOptions).Get()
	r.options = allowed == "true"
	noticed, _ := objectAt(objectAt(object, "metadata"), "annotations").Text(AnnotationExceptions).Get()
	r.ignoresExceptions = noticed == "ignore"
	spec := objectAt(object, "spec")
	r.spec = objectAt(spec, "scanSpec")
	r.refused = r.readMatches(spec)
	if r.name == "" {
		r.refused = errors.New("it has no metadata.name")
	}
	for _, m := range objectAt(spec, "scanAnnotations") {
		if strings.HasPrefix(m.Key, scope.Domain) {
			r.refused = fmt.Errorf("scanAnnotations has %s: no rule may change what bounds the scope", m.Key)
		}
	}
	c := &compiler{}
	r.scanType = c.text("scanType", textAt(r.spec, "scanType"))
	for i, p := range listAt(r.spec, "parameters") {
		r.parameters = append(r.parameters, c.text(fmt.Sprintf("parameters[%d]", i), p))
	}
	r.env = c.env("env", listAt(r.spec, "env"))
	for i, entry := range listAt(r.spec, "initContainers") {
		r.containers = append(r.containers, c.container(fmt.Sprintf("initContainers[%d]", i), entry))
	}
	for _, m := range objectAt(spec, "scanLabels") {
		r.labels = append(r.labels, member{m.Key, c.text("scanLabels."+m.Key, m.Value)})
	}
	for _, m := range objectAt(spec, "scanAnnotations") {
		r.annotations = append(r.annotations, member{m.Key, c.text("scanAnnotations."+m.Key, m.Value)})
	}
	r.broken = c.err
	return r
}

func (r *Rule) readMatches(spec finding.Object) error {
	matches := objectAt(spec, "matches")
	r.expression, _ = matches.Text("expression").Get()
	if value, ok := matches.Get("anyOf"); ok && value != nil {
		list, ok := value.([]any)
		if !ok {
			return errors.New("matches.anyOf is not a list")
		}
		for i, entry := range list {
			if _, ok := entry.(finding.Object); !ok {
				return fmt.Errorf("matches.anyOf[%d] is not an object", i)
			}
		}
		r.anyOf, r.hasAnyOf = list, true
	}
	return nil
}

// AnnotationExceptions with the value ignore says that a rule takes no notice of exceptions.
const AnnotationExceptions = "scanyard.io/exceptions"

// IgnoresExceptions says whether findings that an exception suppresses start Scans nevertheless.
func (r *Rule) IgnoresExceptions() bool { return r.ignoresExceptions }

// Name of the rule.
func (r *Rule) Name() string { return r.name }

// AnyOf are the conditions of which a finding must meet one, and whether the rule has the list at all: an empty one is
// met by nothing.
func (r *Rule) AnyOf() (conditions []any, given bool) { return r.anyOf, r.hasAnyOf }

// Expression is the CEL expression that a finding must meet as well; it may be empty.
func (r *Rule) Expression() string { return r.expression }

// Refused is the reason why the rule must not be used for any finding, if there is one.
func (r *Rule) Refused() error { return r.refused }

// Broken is the reason why no child can be built of the rule, if there is one. It is of interest only where it matches.
func (r *Rule) Broken() error { return r.broken }

// Ignored returns the fields of the rule about its children that the parent has not enabled.
func (r *Rule) Ignored(p *Parent) []string {
	var ignored []string
	for _, i := range []struct {
		key  string
		flag bool
	}{
		{"nodeSelector", p.flags.nodeSelector},
		{"resources", p.flags.resources},
		{"ttlSecondsAfterFinished", p.flags.ttl},
		{"deadlines", false},
		{"suspend", false},
		{"cascades", false},
	} {
		if says(r.spec, i.key) && !i.flag {
			ignored = append(ignored, i.key)
		}
	}
	return ignored
}

// says reports whether a user has set the key: the API server fills in false and empty objects by itself.
func says(o finding.Object, key string) bool {
	value, _ := o.Get(key)
	if object, ok := value.(finding.Object); ok {
		return len(object) > 0
	}
	return value != nil && value != false
}

// compiler keeps the first mistake.
type compiler struct{ err error }

func (c *compiler) text(where string, value any) text {
	t, err := newText(value)
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("scanSpec, scanLabels or scanAnnotations: %s: %w", where, err)
	}
	return t
}

func (c *compiler) env(where string, list []any) []envTemplate {
	var out []envTemplate
	for i, entry := range list {
		object, ok := entry.(finding.Object)
		if !ok {
			continue // the API server knows no such thing
		}
		e := envTemplate{object: object}
		if has(object, "value") {
			value, _ := object.Get("value")
			t := c.text(fmt.Sprintf("%s[%d].value", where, i), value)
			e.value = &t
		}
		out = append(out, e)
	}
	return out
}

func (c *compiler) container(where string, entry any) containerTemplate {
	object, _ := entry.(finding.Object)
	t := containerTemplate{object: object, env: c.env(where+".env", listAt(object, "env"))}
	for i, part := range listAt(object, "command") {
		t.command = append(t.command, c.text(fmt.Sprintf("%s.command[%d]", where, i), part))
	}
	return t
}

// textAt is a text that may be missing.
func textAt(o finding.Object, key string) any {
	value, ok := o.Get(key)
	if !ok || value == nil {
		return ""
	}
	return value
}
