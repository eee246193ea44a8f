// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/match"
	"github.com/scanyard/scanyard/findings/cascade/scope"
)

// Annotations that children carry.
const (
	annotationHook    = "securecodebox.io/hook"
	annotationParent  = "cascading.securecodebox.io/parent-scan"
	annotationFinding = "cascading.securecodebox.io/matched-finding"
	annotationChain   = "cascading.securecodebox.io/chain"
)

// parentOnly are annotations about the parent itself, which are never inherited: kubectl's copy of the applied object, the
// request of a re-run, and the place of results.
var parentOnly = []string{"kubectl.kubernetes.io/last-applied-configuration", "scanyard.io/rerun", "storage.scanyard.io/place"}

// LabelRoot names the first Scan of a chain, by UID, on every Scan that was started below it. Children have the label if the
// chain is bounded or without duplicates, since only then they are counted.
const LabelRoot = "cascading.scanyard.io/root"

const (
	apiVersion = "execution.securecodebox.io/v1"
	kind       = "Scan"
)

// Parent is a Scan whose findings start others.
type Parent struct {
	// object is the Scan without what the rule that started it had added.
	object      finding.Object
	metadata    finding.Object
	spec        finding.Object
	cascades    finding.Object
	annotations finding.Object
	name, uid   string
	namespace   string
	chain       []string
	flags       flags
}

// flags say what children inherit.
type flags struct {
	labels, annotations, env, volumes, initContainers, hookSelector, affinity, tolerations bool

	nodeSelector, resources, ttl, deduplicate, bounded bool
}

// NewParent reads a Scan. startedBy is the rule that started it, or nil.
func NewParent(scan, startedBy finding.Object) (*Parent, error) {
	scan = purge(scan, startedBy)
	p := &Parent{object: scan, metadata: objectAt(scan, "metadata"), spec: objectAt(scan, "spec")}
	p.name, _ = p.metadata.Text("name").Get()
	p.uid, _ = p.metadata.Text("uid").Get()
	p.namespace, _ = p.metadata.Text("namespace").Get()
	if p.name == "" {
		return nil, errors.New("the Scan has no metadata.name")
	}
	p.annotations = objectAt(p.metadata, "annotations")
	p.chain = chainOf(p.annotations)
	p.cascades = objectAt(p.spec, "cascades")
	p.flags = readFlags(p.cascades)
	return p, nil
}

func readFlags(c finding.Object) flags {
	return flags{
		labels: flag(c, "inheritLabels", true), annotations: flag(c, "inheritAnnotations", true),
		env: flag(c, "inheritEnv", false), volumes: flag(c, "inheritVolumes", false),
		initContainers: flag(c, "inheritInitContainers", false), hookSelector: flag(c, "inheritHookSelector", false),
		affinity: flag(c, "inheritAffinity", true), tolerations: flag(c, "inheritTolerations", true),
		nodeSelector: flag(c, "inheritNodeSelector", false), resources: flag(c, "inheritResources", false),
		ttl: flag(c, "inheritTTLSecondsAfterFinished", false), deduplicate: flag(c, "deduplicate", false),
		bounded: has(c, "maxScans"),
	}
}

func flag(o finding.Object, key string, absent bool) bool {
	value, ok := o.Get(key)
	if !ok || value == nil {
		return absent
	}
	return value == true
}

func has(o finding.Object, key string) bool {
	value, ok := o.Get(key)
	return ok && value != nil
}

// Name of the Scan.
func (p *Parent) Name() string { return p.name }

// Chain names the rules that led to the Scan, the first one first.
func (p *Parent) Chain() []string { return p.chain }

// Cascades is its spec.cascades, and whether it has one. Without one it starts nothing.
func (p *Parent) Cascades() (cascades finding.Object, given bool) {
	return p.cascades, has(p.spec, "cascades")
}

// Deduplicates says whether equal children of the chain have equal names.
func (p *Parent) Deduplicates() bool { return p.flags.deduplicate }

// Annotations of the Scan.
func (p *Parent) Annotations() finding.Object { return p.annotations }

// Root is the UID of the first Scan of the chain.
func (p *Parent) Root() string {
	if root, _ := objectAt(p.metadata, "labels").Text(LabelRoot).Get(); root != "" && len(p.chain) > 0 {
		return root
	}
	return p.uid
}

// ChainOf names the rules that led to a Scan.
func ChainOf(scan finding.Object) []string {
	return chainOf(objectAt(objectAt(scan, "metadata"), "annotations"))
}

func chainOf(annotations finding.Object) []string {
	text, _ := annotations.Text(annotationChain).Get()
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// scopeAnnotations are those that no rule may touch.
func (p *Parent) scopeAnnotations() finding.Object {
	var scopes finding.Object
	for _, m := range p.annotations {
		if strings.HasPrefix(m.Key, scope.Domain) {
			scopes = append(scopes, m)
		}
	}
	return scopes
}

// purge takes away what a rule had added to the Scan it started. What the rule had rendered differs from what it says
// and stays.
func purge(scan, rule finding.Object) finding.Object {
	added := objectAt(objectAt(rule, "spec"), "scanSpec")
	if len(added) == 0 {
		return scan
	}
	spec := slices.Clone(objectAt(scan, "spec"))
	for _, key := range []string{"env", "volumes", "volumeMounts"} {
		purgeList(&spec, key, listAt(added, key))
	}
	if has(spec, "hookSelector") {
		selector := slices.Clone(objectAt(spec, "hookSelector"))
		rules := objectAt(added, "hookSelector")
		purgeList(&selector, "matchExpressions", listAt(rules, "matchExpressions"))
		if has(selector, "matchLabels") {
			labels := slices.Clone(objectAt(selector, "matchLabels"))
			for _, m := range objectAt(rules, "matchLabels") {
				labels.Delete(m.Key)
			}
			selector.Set("matchLabels", labels)
		}
		spec.Set("hookSelector", selector)
	}
	scan = slices.Clone(scan)
	scan.Set("spec", spec)
	return scan
}

func purgeList(o *finding.Object, key string, gone []any) {
	if !has(*o, key) || len(gone) == 0 {
		return
	}
	o.Set(key, slices.DeleteFunc(slices.Clone(listAt(*o, key)), func(e any) bool {
		return slices.ContainsFunc(gone, func(g any) bool { return match.Equal(e, g) })
	}))
}

// objectAt is the object below a key. Whatever else is there counts as none.
func objectAt(o finding.Object, key string) finding.Object {
	value, _ := o.Get(key)
	object, _ := value.(finding.Object)
	return object
}

// listAt is the list below a key. Whatever else is there counts as none.
func listAt(o finding.Object, key string) []any {
	value, _ := o.Get(key)
	list, _ := value.([]any)
	return list
}
