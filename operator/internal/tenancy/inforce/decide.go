// SPDX-License-Identifier: Apache-2.0

// Package inforce decides whether settings are in force, and what their status says. The package has no
// client, no clock and no environment; lint holds that for the whole folder.
//
//	Observation ─► Decide ─► Decision: the status to write, the Event to send, when to look again
//
// What it decides: which settings are in force (valid ones; else the last valid ones stay), the reason and
// the message of the condition, and how soon storage is checked again.
package inforce

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// Storage is checked again after this time, since no watch shows when it can be used.
const (
	storageRetry = 15 * time.Second
	storageCheck = 10 * time.Minute
)

// maxMessage is how long the message of a condition may be, in bytes.
const maxMessage = 32000

// Decision is what follows from an Observation.
type Decision struct {
	// Step is the reason of the condition, for logs and tests; no code reads it.
	Step string
	// Status is written to the settings of a namespace, ClusterStatus to those of the cluster; nil if
	// the status is already correct.
	Status        *settingsv1alpha2.ScanSettingStatus
	ClusterStatus *settingsv1alpha2.ClusterScanSettingStatus
	// Event is sent after the status was written; nil for none.
	Event *Event
	// RequeueAfter is when storage is checked again; 0 if no storage is checked.
	RequeueAfter time.Duration
}

// Event is a Warning for users.
type Event struct{ Reason, Message string }

// verdict is the condition of a setting, and whether its spec is in force.
type verdict struct {
	reason, message string
	inForce         bool
}

// Decide returns what the status of the observed settings should be.
func Decide(o *Observation) Decision {
	if o.Setting == nil {
		return decideCluster(o)
	}
	s := o.Setting
	v := storage(o, validity(o.Problems(), s.Generation, s.Status.InForceGeneration))
	d := Decision{Step: v.reason}
	if _, checked := o.Storage(); checked {
		d.RequeueAfter = storageCheck
		if o.StorageError != nil {
			d.RequeueAfter = storageRetry
		}
	}
	status := *s.Status.DeepCopy()
	meta.SetStatusCondition(&status.Conditions, v.ready(s.Generation, o.Now))
	status.ObservedGeneration = s.Generation
	if v.inForce {
		status.InForce, status.InForceGeneration = s.Spec.DeepCopy(), s.Generation
	}
	if !equality.Semantic.DeepEqual(s.Status, status) {
		d.Status, d.Event = &status, v.event(settings.Verdict(s))
	}
	return d
}

func decideCluster(o *Observation) Decision {
	s := o.Cluster
	v := validity(o.Problems(), s.Generation, s.Status.InForceGeneration)
	d := Decision{Step: v.reason}
	status := *s.Status.DeepCopy()
	meta.SetStatusCondition(&status.Conditions, v.ready(s.Generation, o.Now))
	status.ObservedGeneration = s.Generation
	if v.inForce {
		status.InForce, status.InForceGeneration = s.Spec.DeepCopy(), s.Generation
	}
	if !equality.Semantic.DeepEqual(s.Status, status) {
		d.ClusterStatus, d.Event = &status, v.event(settings.Verdict(s))
	}
	return d
}

// validity describes the problems of a spec. generation is that of the spec, inForce that of the settings
// that were in force before; 0 is none.
func validity(p *settings.Problems, generation, inForce int64) verdict {
	all := p.All()
	if len(all) == 0 {
		return verdict{settingsv1alpha2.ReasonAccepted, "The settings are in force.", true}
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
	return verdict{p.Reason(), message, false}
}

// storage adds that the storage of settings that are in force cannot be used.
func storage(o *Observation, v verdict) verdict {
	if o.StorageError == nil || !v.inForce {
		return v
	}
	return verdict{settingsv1alpha2.ReasonStorageUnavailable, "The settings are in force, and Scans wait: " + o.StorageError.Error(), true}
}

// ready returns the condition Ready.
func (v verdict) ready(generation int64, now time.Time) metav1.Condition {
	status := metav1.ConditionFalse
	if v.reason == settingsv1alpha2.ReasonAccepted {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type: settingsv1alpha2.ConditionReady, Status: status, Reason: v.reason, Message: v.message,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	}
}

// event returns an Event if the condition has a new reason and is not True.
func (v verdict) event(before string) *Event {
	if v.reason == settingsv1alpha2.ReasonAccepted || v.reason == before {
		return nil
	}
	return &Event{Reason: v.reason, Message: v.message}
}
