// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// ClusterInForce returns the settings in force of the cluster: the spec or, if the spec has a mistake,
// the last valid one. Nil if there is neither.
func ClusterInForce(s *settingsv1alpha2.ClusterScanSetting) *settingsv1alpha2.ClusterScanSettingSpec {
	switch {
	case s == nil:
		return nil
	case len(ReviewCluster(s).All()) > 0, isHeldBack(s.Generation, s.Status.ObservedGeneration, s.Status.Conditions):
		return s.Status.InForce
	}
	return &s.Spec
}

// InForce returns the settings in force of a namespace, under the settings in force of the cluster.
func InForce(cluster *settingsv1alpha2.ClusterScanSettingSpec, s *settingsv1alpha2.ScanSetting) *settingsv1alpha2.ScanSettingSpec {
	switch {
	case s == nil:
		return nil
	case len(Review(cluster, s).All()) > 0, isHeldBack(s.Generation, s.Status.ObservedGeneration, s.Status.Conditions):
		return s.Status.InForce
	}
	return &s.Spec
}

// isHeldBack reports whether the controller has found a mistake in this very spec that the spec alone
// does not show: a patch for a ScanType or hook that is not installed.
func isHeldBack(generation, observed int64, conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, settingsv1alpha2.ConditionReady)
	return c != nil && observed == generation && c.ObservedGeneration == generation &&
		c.Status == metav1.ConditionFalse && c.Reason == settingsv1alpha2.ReasonPatchMatchesNothing
}

// Verdict returns the reason of the controller's condition on a setting; "" for any other object.
func Verdict(o runtime.Object) string {
	var conditions []metav1.Condition
	switch s := o.(type) {
	case *settingsv1alpha2.ScanSetting:
		conditions = s.Status.Conditions
	case *settingsv1alpha2.ClusterScanSetting:
		conditions = s.Status.Conditions
	}
	if c := meta.FindStatusCondition(conditions, settingsv1alpha2.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// Installed are the names that targets of patches may refer to. A nil *Installed allows every name.
type Installed struct{ ScanTypes, Hooks []string }

// UnmatchedPatches returns an error for each target that names only ScanTypes or hooks that are not
// installed, so that the patch applies to no Job. Path is the path of jobPatches.
func UnmatchedPatches(patches []settingsv1alpha2.JobPatch, installed *Installed, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if installed == nil {
		return nil
	}
	check := func(i int, name, kind string, wanted, there []string) {
		if len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(there, w) }) {
			return
		}
		errs = append(errs, field.Invalid(path.Index(i).Child("target", name), strings.Join(wanted, ", "),
			fmt.Sprintf("matches nothing: there is no such %s; there are %s. Correct the names, or install it first", kind, list(there))))
	}
	for i, p := range patches {
		if p.Target != nil {
			check(i, "scanTypes", "ScanType or ClusterScanType", p.Target.ScanTypes, installed.ScanTypes)
			check(i, "hooks", "ScanCompletionHook or ClusterScanCompletionHook", p.Target.Hooks, installed.Hooks)
		}
	}
	return errs
}

// AddUnmatched adds the errors of UnmatchedPatches.
func (p *Problems) AddUnmatched(patches []settingsv1alpha2.JobPatch, installed *Installed) *Problems {
	p.matches = append(p.matches, UnmatchedPatches(patches, installed, field.NewPath("spec", "jobPatches"))...)
	return p
}
