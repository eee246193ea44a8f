// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// Build makes the Scan that a rule starts for a finding. The Scan has generateName, as every Scan of a cascade, and no
// name yet: see [Names].
func (p *Parent) Build(r *Rule, f finding.Object) (finding.Object, error) {
	if r.broken != nil {
		return nil, r.broken
	}
	b := &builder{parent: p, rule: r, view: viewOf(p, f)}
	scanType := b.render(r.scanType)
	metadata := finding.Object{
		{Key: "generateName", Value: p.prefix(scanType) + "-" + r.name + "-"},
		{Key: "labels", Value: b.labels()},
		{Key: "annotations", Value: b.annotations(f)},
		{Key: "ownerReferences", Value: []any{finding.Object{
			{Key: "apiVersion", Value: apiVersion},
			{Key: "blockOwnerDeletion", Value: true},
			{Key: "controller", Value: true},
			{Key: "kind", Value: kind},
			{Key: "name", Value: p.name},
			{Key: "uid", Value: p.uid},
		}}},
	}
	scan := finding.Object{
		{Key: "apiVersion", Value: apiVersion},
		{Key: "kind", Value: kind},
		{Key: "metadata", Value: metadata},
		{Key: "spec", Value: b.spec(scanType)},
	}
	return scan, b.err
}

// prefix is the parent's name, with the scan type of the child where it begins with its own.
func (p *Parent) prefix(scanType string) string {
	own, _ := p.spec.Text("scanType").Get()
	if rest, ok := strings.CutPrefix(p.name, own); ok {
		return scanType + rest
	}
	return p.name
}

// viewOf is what templates see: the finding, the parent over it, and the helper $.
func viewOf(p *Parent, f finding.Object) finding.Object {
	view := make(finding.Object, 0, len(f)+len(p.object)+1)
	view = append(view, finding.Member{Key: "$", Value: finding.Object{{Key: "hostOrIP", Value: hostOrIP(f)}}})
	view = append(view, p.object...) // the first member of a name counts
	return append(view, f...)
}

// hostOrIP is what a scanner can be pointed at: the host name of a finding, else the first of its addresses.
func hostOrIP(f finding.Object) any {
	attributes := objectAt(f, "attributes")
	if host, _ := attributes.Get("hostname"); isTruthy(host) {
		return host
	}
	addresses := listAt(attributes, "ip_addresses")
	if len(addresses) == 0 {
		return ""
	}
	return slices.MinFunc(addresses, func(a, b any) int { return strings.Compare(finding.ToString(a), finding.ToString(b)) })
}

// isTruthy is what JavaScript takes for true.
func isTruthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case float64:
		return v != 0
	case bool:
		return v
	}
	return true
}

// builder renders for one finding and keeps the first error.
type builder struct {
	parent *Parent
	rule   *Rule
	view   finding.Object
	err    error
}

func (b *builder) render(t text) string {
	rendered, err := t.render(b.view)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("render %q: %w", t.source, err)
	}
	return rendered
}

func (b *builder) labels() finding.Object {
	labels := inheritMap(objectAt(b.parent.metadata, "labels"), b.parent.flags.labels)
	for _, m := range b.rule.labels {
		labels.Set(m.key, b.render(m.value))
	}
	if b.parent.flags.bounded || b.parent.flags.deduplicate {
		labels.Set(LabelRoot, b.parent.Root())
	}
	return labels
}

func (b *builder) annotations(f finding.Object) finding.Object {
	annotations := inheritMap(b.parent.annotations, b.parent.flags.annotations)
	for _, key := range parentOnly {
		annotations.Delete(key)
	}
	for _, m := range b.rule.annotations {
		annotations.Set(m.key, b.render(m.value))
	}
	annotations.Set(annotationHook, "cascading-scans")
	annotations.Set(annotationParent, b.parent.name)
	annotations.Delete(annotationFinding) // the parent's would be wrong here
	if id, ok := f.Get("id"); ok && id != nil {
		annotations.Set(annotationFinding, finding.ToString(id))
	}
	annotations.Set(annotationChain, strings.Join(append(slices.Clone(b.parent.chain), b.rule.name), ","))
	for _, m := range b.parent.scopeAnnotations() {
		annotations.Set(m.Key, m.Value)
	}
	return annotations
}

func (b *builder) spec(scanType string) finding.Object {
	p, r, on := b.parent, b.rule, b.parent.flags
	parameters := make([]any, len(r.parameters))
	for i, t := range r.parameters {
		value := b.render(t)
		if b.err == nil && !r.options && t.becomesOption(value) {
			b.err = &OptionError{Parameter: i, Template: t.source}
		}
		parameters[i] = value
	}
	spec := finding.Object{
		{Key: "hookSelector", Value: hookSelector(objectAt(p.spec, "hookSelector"), objectAt(r.spec, "hookSelector"), on.hookSelector)},
		{Key: "scanType", Value: scanType},
		{Key: "parameters", Value: parameters},
		{Key: "cascades", Value: p.cascades},
		{Key: "env", Value: inheritList(listAt(p.spec, "env"), b.env(r.env), on.env)},
		{Key: "volumes", Value: inheritList(listAt(p.spec, "volumes"), listAt(r.spec, "volumes"), on.volumes)},
		{Key: "volumeMounts", Value: inheritList(listAt(p.spec, "volumeMounts"), listAt(r.spec, "volumeMounts"), on.volumes)},
		{Key: "initContainers", Value: inheritList(listAt(p.spec, "initContainers"), b.containers(), on.initContainers)},
	}
	if !has(p.spec, "cascades") {
		spec.Delete("cascades")
	}
	// Absent and empty are different here: the former takes what the ScanType says, the latter clears it.
	if list, ok := b.tolerations(); ok {
		spec.Set("tolerations", list)
	}
	setFirst(&spec, "affinity", r.spec, p.spec, on.affinity)
	if mode, _ := p.spec.Text("resourceMode").Get(); mode != "" {
		spec.Set("resourceMode", mode)
	} else {
		spec.Set("resourceMode", "namespaceLocal")
	}
	b.additions(&spec)
	return spec
}

// additions are what secureCodeBox never hands on.
func (b *builder) additions(spec *finding.Object) {
	p, r, on := b.parent, b.rule, b.parent.flags
	if on.nodeSelector && (has(p.spec, "nodeSelector") || has(r.spec, "nodeSelector")) {
		nodes := inheritMap(objectAt(p.spec, "nodeSelector"), true)
		for _, m := range objectAt(r.spec, "nodeSelector") {
			nodes.Set(m.Key, m.Value)
		}
		spec.Set("nodeSelector", nodes)
	}
	if on.resources {
		setFirst(spec, "resources", r.spec, p.spec, true)
	}
	if on.ttl {
		setFirst(spec, "ttlSecondsAfterFinished", r.spec, p.spec, true)
	}
}

// setFirst takes what the rule says, else what the parent says where that is inherited.
func setFirst(spec *finding.Object, key string, rule, parent finding.Object, inherit bool) {
	switch {
	case has(rule, key):
		value, _ := rule.Get(key)
		spec.Set(key, value)
	case inherit && has(parent, key):
		value, _ := parent.Get(key)
		spec.Set(key, value)
	}
}

func (b *builder) tolerations() (list []any, given bool) {
	inherited := b.parent.flags.tolerations && has(b.parent.spec, "tolerations")
	if !inherited && !has(b.rule.spec, "tolerations") {
		return nil, false
	}
	return inheritList(listAt(b.parent.spec, "tolerations"), listAt(b.rule.spec, "tolerations"), inherited), true
}

func (b *builder) env(templates []envTemplate) []any {
	out := make([]any, len(templates))
	for i, e := range templates {
		out[i] = e.object
		if e.value != nil {
			rendered := slices.Clone(e.object)
			rendered.Set("value", b.render(*e.value))
			out[i] = rendered
		}
	}
	return out
}

func (b *builder) containers() []any {
	out := make([]any, len(b.rule.containers))
	for i, c := range b.rule.containers {
		rendered := slices.Clone(c.object)
		if has(rendered, "command") {
			command := make([]any, len(c.command))
			for j, t := range c.command {
				command[j] = b.render(t)
			}
			rendered.Set("command", command)
		}
		if has(rendered, "env") {
			rendered.Set("env", b.env(c.env))
		}
		out[i] = rendered
	}
	return out
}

func inheritMap(parent finding.Object, inherit bool) finding.Object {
	if !inherit || len(parent) == 0 {
		return finding.Object{}
	}
	return slices.Clone(parent)
}

func inheritList(parent, rule []any, inherit bool) []any {
	if !inherit {
		parent = nil
	}
	// Never nil: an empty list of tolerations is not the same as none.
	return append(append(make([]any, 0, len(parent)+len(rule)), parent...), rule...)
}

// hookSelector has a part when either side has it, whether or not the parent's is inherited.
func hookSelector(parent, rule finding.Object, inherit bool) finding.Object {
	selector := finding.Object{}
	if has(parent, "matchExpressions") || has(rule, "matchExpressions") {
		selector.Set("matchExpressions", inheritList(listAt(parent, "matchExpressions"), listAt(rule, "matchExpressions"), inherit))
	}
	if has(parent, "matchLabels") || has(rule, "matchLabels") {
		labels := inheritMap(objectAt(parent, "matchLabels"), inherit)
		for _, m := range objectAt(rule, "matchLabels") {
			labels.Set(m.Key, m.Value)
		}
		selector.Set("matchLabels", labels)
	}
	return selector
}
