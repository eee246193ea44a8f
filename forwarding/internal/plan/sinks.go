// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Reasons of Events on settings.
const (
	EventRecovered         = "ForwardingRecovered"
	EventSinkAdded         = "SinkAdded"
	EventSinkRemoved       = "SinkRemoved"
	EventForwardingRemoved = "ForwardingRemoved"
)

const (
	// statusEvery is how often the numbers of a sink are written down while its health is the same.
	statusEvery    = 60 * time.Second
	maxSinkMessage = 256
	reasonOK       = "Acknowledged"
	reasonNew      = "NotYetTried"
	reasonAll      = "AllHealthy"
)

// SinkFacts is what is known of one sink of a setting.
type SinkFacts struct {
	Name        string
	Provider    settingsv1alpha2.Provider
	OutOfBounds string
	Health      Health
	Pending     int
	Oldest      time.Time
	DeadLetters int64
	Proving     bool
}

// Setting is a ClusterScanSetting or a ScanSetting, as far as its sinks go.
type Setting struct {
	Now        time.Time
	Created    time.Time
	Generation int64
	// Sinks are those in the spec, Status is what was last written, Conditions those of the setting.
	Sinks      []SinkFacts
	Status     []settingsv1alpha2.SinkStatus
	Conditions []metav1.Condition
	// Written is when the status was last written by this process.
	Written time.Time
	// PendingOf counts the Scans that wait for a sink that was removed.
	PendingOf func(name string) int
}

// SettingDecision is what to do about a setting.
type SettingDecision struct {
	// Write says that the status is written.
	Write        bool
	Sinks        []settingsv1alpha2.SinkStatus
	Conditions   []metav1.Condition
	Events       []Event
	RequeueAfter time.Duration
}

// DecideSetting looks at the sinks of one setting.
func DecideSetting(s Setting) SettingDecision {
	d := SettingDecision{RequeueAfter: statusEvery}
	if len(s.Sinks) == 0 && len(s.Status) == 0 {
		return d
	}
	before := map[string]*settingsv1alpha2.SinkStatus{}
	for i := range s.Status {
		before[s.Status[i].Name] = &s.Status[i]
	}
	urgent := len(s.Status) != len(s.Sinks)
	for i := range s.Sinks {
		present, known := before[s.Sinks[i].Name]
		next := s.statusOf(&s.Sinks[i], present)
		d.Sinks = append(d.Sinks, next)
		delete(before, next.Name)
		if !known {
			urgent = true
			d.Events = append(d.Events, Event{Reason: EventSinkAdded, Message: fmt.Sprintf("sink %s: Scans that end from now on are sent to it", next.Name)})
			present = &settingsv1alpha2.SinkStatus{}
		}
		if present.Healthy != next.Healthy || present.Reason != next.Reason {
			urgent = true
			d.Events = append(d.Events, healthEvents(present, &next)...)
		}
	}
	for i := range s.Status {
		if name := s.Status[i].Name; before[name] != nil {
			urgent = true
			d.Events = append(d.Events, Event{Reason: EventSinkRemoved, Message: fmt.Sprintf("sink %s: %d Scans no longer wait for it", name, s.PendingOf(name))})
		}
	}
	if len(s.Sinks) == 0 {
		d.Events = append(d.Events, Event{Warning: true, Reason: EventForwardingRemoved, Message: "the setting has no resultForwarding any more: " +
			"where nobody has removed it, an old client has written the setting as v1alpha1; write it again as v1alpha2"})
	}
	d.Conditions = s.conditions(d.Sinks)
	if equality.Semantic.DeepEqual(d.Sinks, s.Status) && equality.Semantic.DeepEqual(d.Conditions, s.Conditions) {
		return SettingDecision{RequeueAfter: statusEvery}
	}
	if left := s.Written.Add(statusEvery).Sub(s.Now); !urgent && !s.Written.IsZero() && left > 0 {
		return SettingDecision{RequeueAfter: left}
	}
	d.Write = true
	return d
}

// healthEvents tells when a sink begins to fail, fails for another reason, or takes records again.
func healthEvents(before, after *settingsv1alpha2.SinkStatus) []Event {
	switch {
	case after.Healthy == corev1.ConditionFalse:
		return []Event{{Warning: true, Reason: EventForwardingFailed, Message: fmt.Sprintf("sink %s: %s: %s", after.Name, after.Reason, after.Message)}}
	case after.Healthy == corev1.ConditionTrue && before.Healthy == corev1.ConditionFalse:
		return []Event{{Reason: EventRecovered, Message: fmt.Sprintf("sink %s takes records again", after.Name)}}
	}
	return nil
}

func (s *Setting) statusOf(f *SinkFacts, present *settingsv1alpha2.SinkStatus) settingsv1alpha2.SinkStatus {
	next := settingsv1alpha2.SinkStatus{
		Name: f.Name, Provider: f.Provider, PendingScans: int32(min(f.Pending, 1<<31-1)), DeadLetters: f.DeadLetters, Proving: f.Proving,
		LastAcknowledgedTime: timeOf(f.Health.Acknowledged), OldestPendingTime: timeOf(f.Oldest),
	}
	switch {
	case f.OutOfBounds != "":
		next.Healthy, next.Reason, next.Message = corev1.ConditionFalse, ReasonOutOfBounds, f.OutOfBounds
	case f.Health.Fails():
		next.Healthy, next.Reason, next.Message = corev1.ConditionFalse, string(f.Health.Reason), f.Health.Message
	case f.Health.IsHealthy():
		next.Healthy, next.Reason = corev1.ConditionTrue, reasonOK
	default:
		next.Healthy, next.Reason = corev1.ConditionUnknown, reasonNew
	}
	next.Message = strings.ToValidUTF8(next.Message[:min(len(next.Message), maxSinkMessage)], "")
	switch {
	case present != nil:
		next.Since = present.Since
		if next.LastAcknowledgedTime == nil {
			next.LastAcknowledgedTime = present.LastAcknowledgedTime
		}
		next.Proving = next.Proving || f.Health.Phase == Unknown && present.Proving
	case s.Generation == 1:
		next.Since = timeOf(s.Created) // the sink is as old as its setting
	default:
		next.Since = timeOf(s.Now)
	}
	return next
}

// timeOf is a time as Kubernetes writes it.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.Truncate(time.Second)))
}

// conditions are those of the setting with ForwardingHealthy; without, where there are no sinks.
func (s *Setting) conditions(sinks []settingsv1alpha2.SinkStatus) []metav1.Condition {
	var conditions []metav1.Condition
	var present *metav1.Condition
	for i := range s.Conditions {
		if s.Conditions[i].Type == settingsv1alpha2.ConditionForwardingHealthy {
			present = &s.Conditions[i]
			continue
		}
		conditions = append(conditions, s.Conditions[i])
	}
	if len(sinks) == 0 {
		return conditions
	}
	c := metav1.Condition{
		Type: settingsv1alpha2.ConditionForwardingHealthy, Status: metav1.ConditionTrue, Reason: reasonAll,
		Message: fmt.Sprintf("%d sinks are healthy", len(sinks)), ObservedGeneration: s.Generation, LastTransitionTime: metav1.NewTime(s.Now.Truncate(time.Second)),
	}
	for i := range sinks {
		switch sinks[i].Healthy {
		case corev1.ConditionFalse:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, sinks[i].Reason, sinks[i].Name+": "+sinks[i].Message
		case corev1.ConditionUnknown:
			if c.Status == metav1.ConditionTrue {
				c.Status, c.Reason, c.Message = metav1.ConditionUnknown, reasonNew, sinks[i].Name+" was not yet asked"
			}
		case corev1.ConditionTrue:
		}
		if c.Status == metav1.ConditionFalse {
			break
		}
	}
	if present != nil && present.Status == c.Status {
		c.LastTransitionTime = present.LastTransitionTime
	}
	return append(conditions, c)
}
