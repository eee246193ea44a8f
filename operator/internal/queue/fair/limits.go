// SPDX-License-Identifier: Apache-2.0

package fair

import "time"

// Patience is how long a Scan waits before it may go ahead of others for having waited
// longest.
const Patience = time.Hour

// Limits are what bounds the Scans that run at a time. The zero value has no bounds.
type Limits struct {
	// Cluster bounds the Scans of all namespaces together.
	Cluster Bounds
	// Namespaces are the bounds and shares of single namespaces, as a whole.
	Namespaces map[string]Tenant
	// Default holds for every namespace that is not among Namespaces.
	Default Tenant
}

// Bounds bound how many Scans run at a time. Zero lets none start.
type Bounds struct {
	// MaxRunning bounds all Scans; nil for no bound.
	MaxRunning *int32
	// ScanTypes bound those of one spec.scanType.
	ScanTypes map[string]int32
	// Targets bound, for the key of a label, those of each of its values. Scans without the
	// label are not bound.
	Targets map[string]int32
}

// Tenant is what holds for one namespace.
type Tenant struct {
	Bounds

	// Weight is the share of the namespace among those that wait; below 1 counts as 1.
	Weight int32
	// ByPriority says that priorities of Scans count.
	ByPriority bool
	// MaxPriority is the highest priority that counts; nil for no bound.
	MaxPriority *int32
}

// None says that nothing is bounded, so that nothing ever waits.
func (l *Limits) None() bool {
	if !l.Cluster.none() || !l.Default.none() {
		return false
	}
	for _, t := range l.Namespaces {
		if !t.none() {
			return false
		}
	}
	return true
}

func (b *Bounds) none() bool {
	return b.MaxRunning == nil && len(b.ScanTypes) == 0 && len(b.Targets) == 0
}

// of returns what holds for a namespace.
func (l *Limits) of(namespace string) Tenant {
	t, ok := l.Namespaces[namespace]
	if !ok {
		t = l.Default
	}
	t.Weight = max(t.Weight, 1)
	return t
}

// Kind is the kind of a limit.
type Kind int

// Kinds of limits, in the order in which they are named to the user.
const (
	// NoLimit means that no limit holds a Scan: it was not decided about yet.
	NoLimit Kind = iota
	// NamespaceLimit bounds all Scans of a namespace.
	NamespaceLimit
	// ScanTypeLimit bounds those of a scan type.
	ScanTypeLimit
	// TargetLimit bounds those with one value of a label.
	TargetLimit
	// ClusterLimit bounds all Scans.
	ClusterLimit
)

// Limit is one limit.
type Limit struct {
	Kind Kind
	// Namespace is whose limit it is; empty for those of the cluster.
	Namespace string
	// Name is the scan type, or the key of the label.
	Name string
	// Value is that of the label.
	Value string
}
