// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
	"github.com/scanyard/scanyard/settings"
)

// review is what the controller says of a setting.
type review struct {
	reason, message string
	// good says that the spec is in force.
	good bool
}

// maxMessage is what a condition's message may be long.
const maxMessage = 32000

// reviewOf puts problems into words.
func reviewOf(p *settings.Problems, generation, inForce int64) review {
	all := p.All()
	if len(all) == 0 {
		return review{settingsv1alpha1.ReasonAccepted, "The settings are in force.", true}
	}
	lines := make([]string, 0, len(all))
	for _, e := range all {
		lines = append(lines, e.Error())
	}
	message := strings.Join(lines, "; ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	switch inForce {
	case 0:
		message = "These settings are not in force, none are: " + message
	case generation:
		message = "These settings were in force and stay so: " + message
	default:
		message = "These settings are not in force; the ones before them, in status.inForce, are: " + message
	}
	return review{p.Reason(), message, false}
}

// unusable adds that the storage of settings that are in force cannot be used.
func (r review) unusable(err error) review {
	if err == nil || !r.good {
		return r
	}
	return review{settingsv1alpha1.ReasonStorageUnavailable, "The settings are in force, and Scans wait: " + err.Error(), true}
}

// ready is the condition of a review.
func (r review) ready(generation int64, now metav1.Time) metav1.Condition {
	status := metav1.ConditionFalse
	if r.reason == settingsv1alpha1.ReasonAccepted {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type: settingsv1alpha1.ConditionReady, Status: status, Reason: r.reason, Message: r.message,
		ObservedGeneration: generation, LastTransitionTime: now,
	}
}

// status returns what the status of a namespace's settings should be.
func (r review) status(s *settingsv1alpha1.ScanSetting, now metav1.Time) settingsv1alpha1.ScanSettingStatus {
	out := *s.Status.DeepCopy()
	meta.SetStatusCondition(&out.Conditions, r.ready(s.Generation, now))
	out.ObservedGeneration = s.Generation
	if r.good {
		out.InForce, out.InForceGeneration = s.Spec.DeepCopy(), s.Generation
	}
	return out
}

// clusterStatus returns what the status of the cluster's settings should be.
func (r review) clusterStatus(s *settingsv1alpha1.ClusterScanSetting, now metav1.Time) settingsv1alpha1.ClusterScanSettingStatus {
	out := *s.Status.DeepCopy()
	meta.SetStatusCondition(&out.Conditions, r.ready(s.Generation, now))
	out.ObservedGeneration = s.Generation
	if r.good {
		out.InForce, out.InForceGeneration = s.Spec.DeepCopy(), s.Generation
	}
	return out
}
