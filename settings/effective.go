// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Effective is the settings in force for the Scans of one namespace: its own settings within the
// cluster's, within the operator's flags. It is shared and must not be changed.
type Effective struct {
	// Namespace bounds the Scans of this namespace; Cluster those of all namespaces together.
	Namespace, Cluster Limits
	// Weight is the share of the namespace, 1 or more.
	Weight int32
	// Order is how the waiting Scans of the namespace are ordered.
	Order settingsv1alpha2.QueueOrder
	// MaxPriority is the highest spec.priority that counts; nil for no bound.
	MaxPriority *int32

	TTL       TTL
	Deadlines Deadlines
	// Schedules bound ScheduledScans.
	Schedules Schedules
	// StatusLinks says whether presigned links are written into the status.
	StatusLinks bool
	Storage     Storage
	// ChoosesPlace says that the cluster lets namespaces choose where their results are stored.
	ChoosesPlace bool
	// Buckets are the buckets that may be used with the operator's credentials, besides its own.
	Buckets []string

	Phases  map[settingsv1alpha2.Phase]settingsv1alpha2.PhaseDefaults
	Jobs    Additions
	Allowed Allowed
	Patches []Patch
	// Forwarding is where results are sent, besides the cluster.
	Forwarding Forwarding
	// TargetScope says which targets Scans may name.
	TargetScope TargetScope
}

// Limits bound how many Scans run at the same time.
type Limits struct {
	// MaxRunning bounds all Scans; nil for no bound.
	MaxRunning *int32
	// ScanTypes bound the Scans of one spec.scanType.
	ScanTypes map[string]int32
	// Targets bound, by the key of a label, the Scans with the same value of that label.
	Targets map[string]int32
}

// Schedules bound ScheduledScans.
type Schedules struct {
	// MinInterval is the least time between two planned runs.
	MinInterval time.Duration
	// MaxHistory is how many Scans of each outcome are kept at most.
	MaxHistory int32
}

// TTL bounds how long ended Scans are kept; nil for no bound.
type TTL struct{ Default, Max *int32 }

// Seconds returns how long a Scan with the given wish is kept; nil for ever.
func (t TTL) Seconds(own *int32) *int32 {
	if own == nil {
		own = t.Default
	}
	return lower(own, t.Max)
}

// Deadlines are the deadlines of each phase.
type Deadlines struct{ Start, Scanner, Parser, Hook Deadline }

// Deadline is the bound of a phase.
type Deadline struct {
	// Default applies to Scans that set none.
	Default time.Duration
	// Max is the longest deadline that a Scan can set; zero for no bound.
	Max time.Duration
}

// For returns the bound for a Scan that sets own, in seconds.
func (d Deadline) For(own *int64) time.Duration {
	if own == nil {
		return d.Default
	}
	// A number that does not fit into a Duration is longer than any bound.
	want := time.Duration(min(*own, int64(longest/time.Second))) * time.Second
	if d.Max > 0 {
		return min(want, d.Max)
	}
	return want
}

// longest is longer than any useful deadline: a Duration ends at 292 years.
const longest = 100 * 365 * 24 * time.Hour

// Storage is where the results of the namespace's Scans are stored. The zero value means where the
// operator's own settings say.
type Storage struct{ Bucket, Prefix, CredentialsSecret string }

// Additions are added to every Job.
type Additions struct {
	PullSecrets   []string
	Env           []corev1.EnvVar
	Proxy         *settingsv1alpha2.Proxy
	CACertificate *settingsv1alpha2.CACertificate
	// Separate says that parsers have pods of their own.
	Separate bool
}

// Patch is one entry of jobPatches.
type Patch struct {
	settingsv1alpha2.JobPatch

	// Origin names the entry, as ClusterScanSetting spec.jobPatches[0].
	Origin string
	// Tenant says that a team wrote the patch, and not a cluster admin.
	Tenant bool

	selector labels.Selector
}

// lower returns the smaller one of two bounds; nil means no bound.
func lower[T int32 | int64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(min(*a, *b))
}
