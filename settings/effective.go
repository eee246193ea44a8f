// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Effective is what holds for the Scans of one namespace: its own settings inside of the
// cluster's, inside of the operator's flags. It is shared: nobody changes one.
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
	// Schedules bound what ScheduledScans ask for.
	Schedules Schedules
	// StatusLinks says whether presigned links are written into the status.
	StatusLinks bool
	Storage     Storage
	// ChoosesPlace says that the cluster lets namespaces choose where their results lie.
	ChoosesPlace bool
	// Buckets are those that may be used with the operator's credentials, beside its own.
	Buckets []string

	Phases  map[settingsv1alpha2.Phase]settingsv1alpha2.PhaseDefaults
	Jobs    Additions
	Allowed Allowed
	Patches []Patch
	// Forwarding says where results go, beside the cluster.
	Forwarding Forwarding
}

// Limits bound how many Scans run at a time.
type Limits struct {
	// MaxRunning bounds all Scans; nil for no bound.
	MaxRunning *int32
	// ScanTypes bound those of one spec.scanType.
	ScanTypes map[string]int32
	// Targets bound, for the key of a label, those of each of its values.
	Targets map[string]int32
}

// Schedules bound what ScheduledScans ask for.
type Schedules struct {
	// MinInterval is the least time between two planned runs.
	MinInterval time.Duration
	// MaxHistory is how many Scans of each outcome are kept at most.
	MaxHistory int32
}

// TTL bounds how long ended Scans are kept; nil for no bound.
type TTL struct{ Default, Max *int32 }

// Seconds returns how long a Scan that asks for own is kept; nil for ever.
func (t TTL) Seconds(own *int32) *int32 {
	if own == nil {
		own = t.Default
	}
	return lower(own, t.Max)
}

// Deadlines are those of each phase.
type Deadlines struct{ Start, Scanner, Parser, Hook Deadline }

// Deadline is the bound of a phase.
type Deadline struct {
	// Default holds for Scans that set none.
	Default time.Duration
	// Max is the most that counts of what a Scan sets; zero for no bound.
	Max time.Duration
}

// For returns the bound for a Scan that sets own, in seconds.
func (d Deadline) For(own *int64) time.Duration {
	if own == nil {
		return d.Default
	}
	// What does not fit into a Duration is longer than any bound.
	want := time.Duration(min(*own, int64(longest/time.Second))) * time.Second
	if d.Max > 0 {
		return min(want, d.Max)
	}
	return want
}

// longest is more than anybody waits: a Duration ends at 292 years.
const longest = 100 * 365 * 24 * time.Hour

// Storage is where the results of the namespace's Scans go. The zero value means where the
// operator's own settings say.
type Storage struct{ Bucket, Prefix, CredentialsSecret string }

// Additions are added to every Job.
type Additions struct {
	PullSecrets   []string
	Env           []corev1.EnvVar
	Proxy         *settingsv1alpha2.Proxy
	CACertificate *settingsv1alpha2.CACertificate
}

// Patch is one entry of jobPatches.
type Patch struct {
	settingsv1alpha2.JobPatch

	// Origin names the entry, as ClusterScanSetting spec.jobPatches[0].
	Origin string
	// Tenant says that a team wrote it, and not a cluster admin.
	Tenant bool

	selector labels.Selector
}

// lower returns the smaller one of two bounds, of which nil is none.
func lower[T int32 | int64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(min(*a, *b))
}
