// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

// Action is what a Change does.
type Action string

const (
	// Create makes a ScheduledScan, which starts a Scan.
	Create Action = "create"
	// Update makes one that exists what it should be.
	Update Action = "update"
	// Delete removes one that is not wanted.
	Delete Action = "delete"
)

// Change is a write that is needed.
type Change struct {
	Action Action
	Key    types.NamespacedName
	// Want is what the ScheduledScan should be; nil for Delete.
	Want *executionv1.ScheduledScan
	// Have is what it is; nil for Create.
	Have *Existing
	// Restart holds where the target has another version, so that it is scanned at once.
	Restart bool
}

// Decision is what a pass over a namespace has decided.
type Decision struct {
	// Changes are in the order in which they are written.
	Changes []Change
	// Results are the results of all targets.
	Results []Result
	// Missing are ScanTypes that targets need.
	Missing []Missing
	// Unwanted are ScheduledScans that wait for their deletion, with the time since when.
	Unwanted map[types.NamespacedName]time.Time
	// RequeueAfter is when the deletion of the first of them is due; 0 where there is none.
	RequeueAfter time.Duration
}

// Decide says what a namespace's ScheduledScans should be, and what to write. It is a
// pure function.
func Decide(v *Observation, c *config.Compiled) Decision {
	if v.Namespace.DeletionTimestamp != nil {
		return Decision{Results: []Result{{
			Kind: "Namespace", Name: v.Namespace.Name, Outcome: Skipped, Reason: NamespaceTerminating, Message: "it is being deleted",
		}}}
	}
	s := discover(v, c)
	p := Decision{Missing: s.missing}
	for _, key := range sortedKeys(s.wanted) {
		want, have := s.wanted[key], v.Existing[key]
		if have == nil {
			p.Changes = append(p.Changes, Change{Action: Create, Key: key, Want: want})
			continue
		}
		if have.DeletionTimestamp != nil {
			continue // its going brings another pass
		}
		if restart, changed := s.compare(have, want); changed {
			p.Changes = append(p.Changes, Change{Action: Update, Key: key, Want: want, Have: have, Restart: restart})
		}
	}
	s.removals(&p)
	s.limit(&p)
	p.Results = s.results
	return p
}

func sortedKeys[V any](m map[types.NamespacedName]V) []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return keys
}

// removals deletes ScheduledScans that are not wanted any more.
func (s *search) removals(p *Decision) {
	if s.Removal.Policy == config.KeepUnwanted {
		return
	}
	p.Unwanted = map[types.NamespacedName]time.Time{}
	for _, key := range sortedKeys(s.Existing) {
		have := s.Existing[key]
		if s.wanted[key] != nil || have.DeletionTimestamp != nil || !s.removable(key, have) {
			continue
		}
		since, known := s.UnwantedSince[key]
		if !known {
			since = s.Now
		}
		p.Unwanted[key] = since
		if wait := s.Removal.Delay.Duration - s.Now.Sub(since); wait > 0 {
			if p.RequeueAfter == 0 || wait < p.RequeueAfter {
				p.RequeueAfter = wait
			}
			continue
		}
		p.Changes = append(p.Changes, Change{Action: Delete, Key: key, Have: have})
	}
}

// removable says whether a ScheduledScan may be deleted where it is not wanted: only
// where it was made by a discovery that is switched on, and where its target is not just
// waited for.
func (s *search) removable(key types.NamespacedName, have *Existing) bool {
	if s.held.names.Has(key) {
		return false
	}
	kind, target := have.Target()
	if !s.isEnabled(kind) || s.held.targets.Has(targetKey(kind, target)) || s.held.targets.Has(configKey(kind, target, have.Labels[LabelScanConfigName])) {
		return false
	}
	if name := key.Name; kind == KindContainer &&
		(s.heldApp(name) || key.Namespace != s.Namespace.Name && s.heldApp(strings.TrimPrefix(name, s.Namespace.Name+"-"))) {
		return false
	}
	if have.Ours {
		return true
	}
	return have.Upstream && have.Labels[LabelManagedBy] == ManagedBy && s.knows(kind, have)
}

// Target is what a ScheduledScan scans, by its labels.
func (e *Existing) Target() (Kind, string) {
	for label, kind := range map[string]Kind{LabelTargetService: KindService, LabelTargetIngress: KindIngress, LabelTargetHTTPRoute: KindHTTPRoute} {
		if name, ok := e.Labels[label]; ok {
			return kind, name
		}
	}
	return KindContainer, ""
}

func (s *search) isEnabled(kind Kind) bool {
	switch kind {
	case KindService:
		return s.ServiceAutoDiscovery.Enabled
	case KindIngress:
		return s.IngressAutoDiscovery.Enabled
	case KindHTTPRoute:
		return s.GatewayAutoDiscovery.Enabled
	case KindContainer:
		return s.ContainerAutoDiscovery.Enabled
	}
	return false
}

// heldApp says whether a pod is about to run what an image scan is for.
func (s *search) heldApp(name string) bool {
	for app := range s.held.apps {
		app = dashes(app)
		if strings.HasPrefix(name, app[:min(len(app), maxAppName)]+"-") {
			return true
		}
	}
	return false
}

// knows says whether a ScheduledScan of secureCodeBox's is for one of our scanConfigs:
// another instance with others may be at work.
func (s *search) knows(kind Kind, have *Existing) bool {
	rules := s.ImageRules
	if kind == KindService {
		rules = s.ServiceRules
	}
	return slices.ContainsFunc(rules, func(r *config.Rule) bool {
		if kind == KindService {
			return have.Labels[LabelScanConfigName] == r.Name
		}
		return strings.Contains(have.Name, "-"+dashes(r.Name)+"-at-")
	})
}

// limit leaves out what would be more ScheduledScans than are allowed, the last by name first.
func (s *search) limit(p *Decision) {
	ours, deleted := 0, 0
	for _, e := range s.Existing {
		if e.Ours || e.Upstream {
			ours++
		}
	}
	for _, c := range p.Changes {
		if c.Action == Delete {
			deleted++
		}
	}
	room := func(limit, have int) int {
		if limit == 0 {
			return len(p.Changes)
		}
		return max(limit-have+deleted, 0)
	}
	left := min(room(s.Limits.MaxScheduledScansPerNamespace, ours), room(s.Limits.MaxScheduledScans, s.Total))
	over := sets.New[string]()
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		if c.Action != Create {
			return false
		}
		if left--; left < 0 {
			over.Insert(s.display(c.Key))
			return true
		}
		return false
	})
	for i := range s.results {
		if v := &s.results[i]; over.Has(v.ScheduledScan) {
			v.Outcome, v.Reason, v.Message = Waiting, LimitReached, "limits.maxScheduledScans or limits.maxScheduledScansPerNamespace allows no further ScheduledScan"
		}
	}
}
