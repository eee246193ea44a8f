// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Defaults are the values of the operator's flags, for what no setting sets.
type Defaults struct {
	StartDeadline, ScannerDeadline, ParserDeadline, HookDeadline time.Duration

	StatusLinks bool
}

// Input is what the settings of a namespace are computed from. Cluster and Setting are specs
// in force; nil for none.
type Input struct {
	Namespace string
	// Labels are the labels of the Namespace, by which weights and sinks may select it.
	Labels  map[string]string
	Cluster *settingsv1alpha2.ClusterScanSettingSpec
	Setting *settingsv1alpha2.ScanSettingSpec
	// ClusterUID and SettingUID are the UIDs of the objects: a setting that was deleted and created again has other sinks.
	ClusterUID, SettingUID types.UID
	Defaults               Defaults
}

// Compute returns the settings in force for the Scans of a namespace. It is a pure function.
func Compute(in Input) *Effective {
	cluster := ptr.Deref(in.Cluster, settingsv1alpha2.ClusterScanSettingSpec{})
	own := ptr.Deref(in.Setting, settingsv1alpha2.ScanSettingSpec{})
	e := &Effective{
		Weight:      weight(cluster.Weights, in.Namespace, in.Labels),
		Deadlines:   deadlines(cluster.Deadlines, own.Deadlines, in.Defaults),
		Schedules:   schedules(cluster.Schedules),
		StatusLinks: in.Defaults.StatusLinks,
		Phases:      phases(cluster.Phases, own.Phases),
		Jobs:        additions(cluster.Jobs, own.Jobs),
		Allowed:     allowed(cluster.Allowed, own.Allowed),
		Patches:     patches(cluster.JobPatches, own.JobPatches),
		Forwarding:  forwarding(in),
		TargetScope: NewTargetScope(in.Cluster, in.Setting),
	}
	e.limit(cluster.Limits, own.Limits)
	e.queue(cluster.Queue, own.Queue)
	e.keep(cluster.TTL, own.TTL)
	e.store(cluster.Storage, own.Storage)
	return e
}

// Default bounds of ScheduledScans.
const (
	defaultMinInterval = 10 * time.Second
	defaultMaxHistory  = 1000
)

func schedules(cluster *settingsv1alpha2.Schedules) Schedules {
	s := Schedules{MinInterval: defaultMinInterval, MaxHistory: defaultMaxHistory}
	if cluster == nil {
		return s
	}
	if n := cluster.MinIntervalSeconds; n != nil {
		s.MinInterval = time.Duration(*n) * time.Second
	}
	s.MaxHistory = ptr.Deref(cluster.MaxHistory, s.MaxHistory)
	return s
}

func (e *Effective) limit(cluster *settingsv1alpha2.ClusterLimits, own *settingsv1alpha2.Limits) {
	if cluster != nil {
		e.Cluster = Limits{cluster.MaxRunning, byScanType(cluster.ScanTypes), byTarget(cluster.Targets)}
		e.Namespace.MaxRunning = cluster.MaxRunningPerNamespace
	}
	if own != nil {
		e.Namespace = Limits{lower(e.Namespace.MaxRunning, own.MaxRunning), byScanType(own.ScanTypes), byTarget(own.Targets)}
	}
}

func byScanType(limits []settingsv1alpha2.ScanTypeLimit) map[string]int32 {
	all := map[string]int32{}
	for _, l := range limits {
		all[l.Name] = l.MaxRunning
	}
	return all
}

func byTarget(limits []settingsv1alpha2.TargetLimit) map[string]int32 {
	all := map[string]int32{}
	for _, l := range limits {
		all[l.Label] = l.MaxRunning
	}
	return all
}

// weight returns the weight of the first entry that matches the namespace, or 1.
func weight(weights []settingsv1alpha2.Weight, namespace string, of map[string]string) int32 {
	for _, w := range weights {
		fits := w.Namespace == namespace
		if w.NamespaceSelector != nil {
			s, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
			fits = err == nil && s.Matches(labels.Set(of))
		}
		if fits {
			return max(w.Weight, 1)
		}
	}
	return 1
}

func (e *Effective) queue(cluster, own *settingsv1alpha2.Queue) {
	c, n := ptr.Deref(cluster, settingsv1alpha2.Queue{}), ptr.Deref(own, settingsv1alpha2.Queue{})
	e.Order = *cmp.Or(n.Order, c.Order, new(settingsv1alpha2.OrderFIFO))
	e.MaxPriority = lower(c.MaxPriority, n.MaxPriority)
}

func (e *Effective) keep(cluster, own *settingsv1alpha2.TTL) {
	c, n := ptr.Deref(cluster, settingsv1alpha2.TTL{}), ptr.Deref(own, settingsv1alpha2.TTL{})
	e.TTL = TTL{Default: cmp.Or(n.DefaultSeconds, c.DefaultSeconds), Max: lower(c.MaxSeconds, n.MaxSeconds)}
}

func deadlines(cluster, own *settingsv1alpha2.Deadlines, d Defaults) Deadlines {
	c, n := ptr.Deref(cluster, settingsv1alpha2.Deadlines{}), ptr.Deref(own, settingsv1alpha2.Deadlines{})
	return Deadlines{
		Start:   deadline(c.StartSeconds, n.StartSeconds, d.StartDeadline),
		Scanner: deadline(c.ScannerSeconds, n.ScannerSeconds, d.ScannerDeadline),
		Parser:  deadline(c.ParserSeconds, n.ParserSeconds, d.ParserDeadline),
		Hook:    deadline(c.HookSeconds, n.HookSeconds, d.HookDeadline),
	}
}

func deadline(cluster, own *int64, fallback time.Duration) Deadline {
	bound := lower(cluster, own)
	if bound == nil {
		return Deadline{Default: fallback}
	}
	d := time.Duration(*bound) * time.Second
	return Deadline{Default: d, Max: d}
}

func (e *Effective) store(cluster *settingsv1alpha2.ClusterStorage, own *settingsv1alpha2.Storage) {
	c, n := ptr.Deref(cluster, settingsv1alpha2.ClusterStorage{}), ptr.Deref(own, settingsv1alpha2.Storage{})
	if c.LinksInStatus != nil {
		e.StatusLinks = *c.LinksInStatus
	}
	e.ChoosesPlace, e.Buckets = ptr.Deref(c.AllowNamespaces, false), c.Buckets
	e.StatusLinks = e.StatusLinks && ptr.Deref(n.LinksInStatus, true)
	if len(storageProblems(c, n, nil)) == 0 {
		e.Storage = Storage{Bucket: n.Bucket, Prefix: n.Prefix, CredentialsSecret: n.CredentialsSecret}
	}
}

func phases(cluster, own *settingsv1alpha2.Phases) map[settingsv1alpha2.Phase]settingsv1alpha2.PhaseDefaults {
	c, n := ptr.Deref(cluster, settingsv1alpha2.Phases{}), ptr.Deref(own, settingsv1alpha2.Phases{})
	merge := func(c, n *settingsv1alpha2.PhaseDefaults) settingsv1alpha2.PhaseDefaults {
		base, over := ptr.Deref(c, settingsv1alpha2.PhaseDefaults{}), ptr.Deref(n, settingsv1alpha2.PhaseDefaults{})
		return settingsv1alpha2.PhaseDefaults{
			Resources:          cmp.Or(over.Resources, base.Resources),
			SecurityContext:    cmp.Or(over.SecurityContext, base.SecurityContext),
			PodSecurityContext: cmp.Or(over.PodSecurityContext, base.PodSecurityContext),
		}
	}
	return map[settingsv1alpha2.Phase]settingsv1alpha2.PhaseDefaults{
		settingsv1alpha2.PhaseScanner: merge(c.Scanner, n.Scanner),
		settingsv1alpha2.PhaseParser:  merge(c.Parser, n.Parser),
		settingsv1alpha2.PhaseHook:    merge(c.Hook, n.Hook),
	}
}

func additions(cluster, own *settingsv1alpha2.Jobs) Additions {
	c, n := ptr.Deref(cluster, settingsv1alpha2.Jobs{}), ptr.Deref(own, settingsv1alpha2.Jobs{})
	a := Additions{Proxy: cmp.Or(n.Proxy, c.Proxy), CACertificate: cmp.Or(n.CACertificate, c.CACertificate)}
	a.Separate = c.Phases == executionv1.PhasesSeparate || n.Phases == executionv1.PhasesSeparate
	for _, s := range slices.Concat(c.ImagePullSecrets, n.ImagePullSecrets) {
		if !slices.Contains(a.PullSecrets, s.Name) {
			a.PullSecrets = append(a.PullSecrets, s.Name)
		}
	}
	for _, v := range c.Env {
		if !slices.ContainsFunc(n.Env, func(o corev1.EnvVar) bool { return o.Name == v.Name }) {
			a.Env = append(a.Env, v)
		}
	}
	a.Env = append(a.Env, n.Env...)
	return a
}

func patches(cluster, own []settingsv1alpha2.JobPatch) []Patch {
	var all []Patch
	add := func(kind string, tenant bool, of []settingsv1alpha2.JobPatch) {
		for i, p := range of {
			all = append(all, Patch{
				JobPatch: p, Tenant: tenant, selector: scanSelector(p.Target),
				Origin: fmt.Sprintf("%s %s, spec.jobPatches[%d]", kind, settingsv1alpha2.Name, i),
			})
		}
	}
	add("ClusterScanSetting", false, cluster)
	add("ScanSetting", true, own)
	return all
}

// scanSelector returns the selector of a target. A selector that is not valid, which validation
// refuses, matches nothing.
func scanSelector(t *settingsv1alpha2.PatchTarget) labels.Selector {
	if t == nil || t.LabelSelector == nil {
		return labels.Everything()
	}
	s, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		return labels.Nothing()
	}
	return s
}
