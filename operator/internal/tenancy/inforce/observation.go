// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"slices"
	"time"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// Observation is everything that is read before a decision.
type Observation struct {
	Now time.Time
	// Setting is what is decided about; nil if Cluster is.
	Setting *settingsv1alpha2.ScanSetting
	// Cluster is the settings of the cluster; nil if there are none.
	Cluster *settingsv1alpha2.ClusterScanSetting
	// Installed lists what the targets of patches may refer to; nil if NeedsInstalled is false.
	Installed *settings.Installed
	// StorageError says why the Storage cannot be used; nil if it can be used, or was not checked. Its
	// text is for users.
	StorageError error

	// problems is kept, since a validation tries every patch.
	problems *settings.Problems
}

// NeedsInstalled reports whether a patch targets ScanTypes or hooks by name.
func (o *Observation) NeedsInstalled() bool {
	return slices.ContainsFunc(o.patches(), func(p settingsv1alpha2.JobPatch) bool {
		return p.Target != nil && len(p.Target.ScanTypes)+len(p.Target.Hooks) > 0
	})
}

func (o *Observation) patches() []settingsv1alpha2.JobPatch {
	if o.Setting != nil {
		return o.Setting.Spec.JobPatches
	}
	return o.Cluster.Spec.JobPatches
}

// Problems validates the spec. Installed must be known by then.
func (o *Observation) Problems() *settings.Problems {
	if o.problems == nil {
		if o.Setting != nil {
			o.problems = settings.Review(settings.ClusterInForce(o.Cluster), o.Setting)
		} else {
			o.problems = settings.ReviewCluster(o.Cluster)
		}
		o.problems.AddUnmatched(o.patches(), o.Installed)
	}
	return o.problems
}

// Storage returns the storage of a namespace whose spec is valid, and whether it is to be checked:
// results are stored elsewhere than the operator's own settings say.
func (o *Observation) Storage() (settings.Storage, bool) {
	if o.Setting == nil || len(o.Problems().All()) > 0 {
		return settings.Storage{}, false
	}
	at := settings.Compute(settings.Input{Cluster: settings.ClusterInForce(o.Cluster), Setting: &o.Setting.Spec}).Storage
	return at, at != (settings.Storage{})
}
