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

// ClusterInForce returns what is in force of the settings of the cluster: the spec, or, where it
// has a mistake, the last one that had none. Nil where there is neither.
func ClusterInForce(s *settingsv1alpha2.ClusterScanSetting) *settingsv1alpha2.ClusterScanSettingSpec {
	switch {
	case s == nil:
		return nil
	case len(ReviewCluster(s).All()) > 0, isHeldBack(s.Generation, s.Status.ObservedGeneration, s.Status.Conditions):
		return s.Status.InForce
	}
	return &s.Spec
}

// InForce returns what is in force of the settings of a namespace, under what is in force for
// the cluster.
func InForce(cluster *settingsv1alpha2.ClusterScanSettingSpec, s *settingsv1alpha2.ScanSetting) *settingsv1alpha2.ScanSettingSpec {
	switch {
	case s == nil:
		return nil
	case len(Review(cluster, s).All()) > 0, isHeldBack(s.Generation, s.Status.ObservedGeneration, s.Status.Conditions):
		return s.Status.InForce
	}
	return &s.Spec
}

// isHeldBack says whether the controller has found a mistake in this very spec that cannot be
// seen in it: a patch for a ScanType or hook that is not installed.
func isHeldBack(generation, observed int64, conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, settingsv1alpha2.ConditionReady)
	return c != nil && observed == generation && c.ObservedGeneration == generation &&
		c.Status == metav1.ConditionFalse && c.Reason == settingsv1alpha2.ReasonPatchMatchesNothing
}

// Verdict is what the controller has found of a setting, as the reason of its condition; "" for
// anything else.
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

// Known are the names that targets of patches may refer to. Nil does not ask.
type Known struct{ ScanTypes, Hooks []string }

// UnmatchedPatches returns the targets that name only what is not installed, so that their patch
// is for no Job at all. Path is that of jobPatches.
func UnmatchedPatches(patches []settingsv1alpha2.JobPatch, known *Known, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if known == nil {
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
			check(i, "scanTypes", "ScanType or ClusterScanType", p.Target.ScanTypes, known.ScanTypes)
			check(i, "hooks", "ScanCompletionHook or ClusterScanCompletionHook", p.Target.Hooks, known.Hooks)
		}
	}
	return errs
}

// AddUnmatched adds the patches whose targets name only what is not installed.
func (p *Problems) AddUnmatched(patches []settingsv1alpha2.JobPatch, known *Known) *Problems {
	p.matches = append(p.matches, UnmatchedPatches(patches, known, field.NewPath("spec", "jobPatches"))...)
	return p
}
