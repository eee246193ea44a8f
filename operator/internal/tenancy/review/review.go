// SPDX-License-Identifier: Apache-2.0

// Package review says of settings whether they are in force, in the words and fields of their status.
// The package has no client, no clock and no environment; lint holds that for the whole folder.
package review

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// Review is what the controller says of a setting.
type Review struct {
	Reason, Message string
	// Good says that the spec is in force.
	Good bool
}

// maxMessage is what a condition's message may be long.
const maxMessage = 32000

// Of puts problems into words. generation is that of the spec, inForce that of the settings that were in force before; 0 is none.
func Of(p *settings.Problems, generation, inForce int64) Review {
	all := p.All()
	if len(all) == 0 {
		return Review{settingsv1alpha2.ReasonAccepted, "The settings are in force.", true}
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
	return Review{p.Reason(), message, false}
}

// Unusable adds that the storage of settings that are in force cannot be used.
func (r Review) Unusable(err error) Review {
	if err == nil || !r.Good {
		return r
	}
	return Review{settingsv1alpha2.ReasonStorageUnavailable, "The settings are in force, and Scans wait: " + err.Error(), true}
}

// ready is the condition of a review.
func (r Review) ready(generation int64, now metav1.Time) metav1.Condition {
	status := metav1.ConditionFalse
	if r.Reason == settingsv1alpha2.ReasonAccepted {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type: settingsv1alpha2.ConditionReady, Status: status, Reason: r.Reason, Message: r.Message,
		ObservedGeneration: generation, LastTransitionTime: now,
	}
}

// Status returns what the status of a namespace's settings should be.
func (r Review) Status(s *settingsv1alpha2.ScanSetting, now metav1.Time) settingsv1alpha2.ScanSettingStatus {
	out := *s.Status.DeepCopy()
	meta.SetStatusCondition(&out.Conditions, r.ready(s.Generation, now))
	out.ObservedGeneration = s.Generation
	if r.Good {
		out.InForce, out.InForceGeneration = s.Spec.DeepCopy(), s.Generation
	}
	return out
}

// ClusterStatus returns what the status of the cluster's settings should be.
func (r Review) ClusterStatus(s *settingsv1alpha2.ClusterScanSetting, now metav1.Time) settingsv1alpha2.ClusterScanSettingStatus {
	out := *s.Status.DeepCopy()
	meta.SetStatusCondition(&out.Conditions, r.ready(s.Generation, now))
	out.ObservedGeneration = s.Generation
	if r.Good {
		out.InForce, out.InForceGeneration = s.Spec.DeepCopy(), s.Generation
	}
	return out
}
