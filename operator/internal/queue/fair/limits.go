// SPDX-License-Identifier: Apache-2.0

package fair

import "time"

// Patience is how long a Scan waits before it may go ahead of others because it has waited
// longest.
const Patience = time.Hour

// Limits bound how many Scans run at the same time. The zero value has no bounds.
type Limits struct {
	// Cluster bounds the Scans of all namespaces together.
	Cluster Bounds
	// Namespaces are the bounds and shares of single namespaces, as a whole.
	Namespaces map[string]Tenant
	// Default applies to every namespace that is not among Namespaces.
	Default Tenant
}

// Bounds bound how many Scans run at the same time. Zero lets none start.
type Bounds struct {
	// MaxRunning bounds all Scans; nil for no bound.
	MaxRunning *int32
	// ScanTypes bound the Scans of one spec.scanType.
	ScanTypes map[string]int32
	// Targets bound, by the key of a label, the Scans with the same value of that label. Scans
	// without the label are not bound.
	Targets map[string]int32
}

// Tenant is what applies to one namespace.
type Tenant struct {
	Bounds

	// Weight is the share of the namespace among the waiting ones; below 1 counts as 1.
	Weight int32
	// ByPriority says that priorities of Scans count.
	ByPriority bool
	// MaxPriority is the highest priority that counts; nil for no bound.
	MaxPriority *int32
}

// None reports whether nothing is bounded, so that no Scan ever waits.
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

// of returns what applies to a namespace.
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
	// NoLimit means that no limit holds a Scan: the Scan was not decided about yet.
	NoLimit Kind = iota
	// NamespaceLimit bounds all Scans of a namespace.
	NamespaceLimit
	// ScanTypeLimit bounds the Scans of a scan type.
	ScanTypeLimit
	// TargetLimit bounds the Scans with one value of a label.
	TargetLimit
	// ClusterLimit bounds all Scans.
	ClusterLimit
)

// Limit is one limit.
type Limit struct {
	Kind Kind
	// Namespace is the namespace that the limit belongs to; empty for limits of the cluster.
	Namespace string
	// Name is the scan type, or the key of the label.
	Name string
	// Value is the value of the label.
	Value string
}
