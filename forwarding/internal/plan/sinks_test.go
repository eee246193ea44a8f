// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func TestSettings(t *testing.T) {
	at := func(ago time.Duration) *metav1.Time { return timeOf(now.Add(-ago)) }
	healthy := Health{Phase: Healthy, Acknowledged: now}
	failed := Health{Phase: Failing, Reason: sink.TokenRejected, Message: "the far end does not know the token"}
	hub := settingsv1alpha2.SinkStatus{Name: "hub", Provider: "grpc", Healthy: "True", Reason: reasonOK, Since: at(time.Hour), LastAcknowledgedTime: at(0)}
	broken := hub
	broken.Healthy, broken.Reason, broken.Message = "False", "TokenRejected", "the far end does not know the token"
	allHealthy := metav1.Condition{Type: "ForwardingHealthy", Status: "True", Reason: reasonAll, Message: "1 sinks are healthy", ObservedGeneration: 2, LastTransitionTime: *at(time.Hour)}
	ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "Accepted"}
	tests := map[string]struct {
		setting Setting
		write   bool
		healthy corev1.ConditionStatus
		since   *metav1.Time
		events  string
	}{
		"Nothing":      {setting: Setting{}},
		"New":          {setting: Setting{Sinks: []SinkFacts{{Name: "hub", Provider: "grpc"}}}, write: true, healthy: "Unknown", since: at(0), events: EventSinkAdded},
		"FromTheFirst": {setting: Setting{Generation: 1, Sinks: []SinkFacts{{Name: "hub", Provider: "grpc"}}}, write: true, healthy: "Unknown", since: at(2 * time.Hour), events: EventSinkAdded},
		"Same":         {setting: Setting{Sinks: []SinkFacts{{Name: "hub", Provider: "grpc", Health: healthy}}, Status: []settingsv1alpha2.SinkStatus{hub}, Conditions: []metav1.Condition{ready, allHealthy}}},
		"NumbersWait":  {setting: Setting{Sinks: []SinkFacts{{Name: "hub", Provider: "grpc", Health: healthy, Pending: 3, Oldest: now}}, Status: []settingsv1alpha2.SinkStatus{hub}, Written: now.Add(-59 * time.Second), Conditions: []metav1.Condition{ready, allHealthy}}},
		"NumbersCome":  {setting: Setting{Sinks: []SinkFacts{{Name: "hub", Provider: "grpc", Health: healthy, Pending: 3}}, Status: []settingsv1alpha2.SinkStatus{hub}, Written: now.Add(-60 * time.Second), Conditions: []metav1.Condition{ready, allHealthy}}, write: true, healthy: "True", since: at(time.Hour)},
		"Fails":        {setting: Setting{Sinks: []SinkFacts{{Name: "hub", Provider: "grpc", Health: failed}}, Status: []settingsv1alpha2.SinkStatus{hub}, Written: now, Conditions: []metav1.Condition{allHealthy}}, write: true, healthy: "False", since: at(time.Hour), events: EventForwardingFailed},
		"Recovers":     {setting: Setting{Sinks: []SinkFacts{{Name: "hub", Provider: "grpc", Health: healthy}}, Status: []settingsv1alpha2.SinkStatus{broken}, Written: now}, write: true, healthy: "True", since: at(time.Hour), events: EventRecovered},
		"Excluded":     {setting: Setting{Sinks: []SinkFacts{{Name: "hub", Provider: "grpc", OutOfBounds: "not allowed"}}, Status: []settingsv1alpha2.SinkStatus{hub}, Written: now}, write: true, healthy: "False", since: at(time.Hour), events: EventForwardingFailed},
		"Removed":      {setting: Setting{Status: []settingsv1alpha2.SinkStatus{hub}, Conditions: []metav1.Condition{ready, allHealthy}, Written: now}, write: true, events: EventSinkRemoved + " " + EventForwardingRemoved},
		"Renamed":      {setting: Setting{Sinks: []SinkFacts{{Name: "new", Provider: "grpc"}}, Status: []settingsv1alpha2.SinkStatus{hub}, Written: now}, write: true, healthy: "Unknown", since: at(0), events: EventSinkAdded + " " + EventSinkRemoved},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := tt.setting
			s.Now, s.Created, s.PendingOf = now, now.Add(-2*time.Hour), func(string) int { return 7 }
			if s.Generation == 0 {
				s.Generation = 2
			}
			d := DecideSetting(s)
			var events []string
			for _, e := range d.Events {
				events = append(events, e.Reason)
			}
			if d.Write != tt.write || strings.Join(events, " ") != tt.events {
				t.Fatalf("writes %t, events %v", d.Write, d.Events)
			}
			if !d.Write {
				return
			}
			c := Find(d.Conditions, settingsv1alpha2.ConditionForwardingHealthy)
			if len(s.Sinks) == 0 {
				if c != nil || len(d.Sinks) > 0 || len(d.Conditions) != 1 {
					t.Errorf("got %+v, %+v", d.Sinks, d.Conditions)
				}
				return
			}
			if d.Sinks[0].Healthy != tt.healthy || !d.Sinks[0].Since.Equal(tt.since) || c == nil || string(c.Status) != string(tt.healthy) {
				t.Errorf("got %+v, %+v", d.Sinks[0], c)
			}
			// What is written is not written again.
			s.Status, s.Conditions = d.Sinks, d.Conditions
			if again := DecideSetting(s); again.Write || len(again.Events) > 0 {
				t.Errorf("written again: %+v", again)
			}
		})
	}
}

// TestSinkRemovedCounts: the Event of each sink that is gone has the number of Scans that waited for that one.
func TestSinkRemovedCounts(t *testing.T) {
	waiting := map[string]int{"hub": 3, "siem": 0}
	s := Setting{Now: now, Created: now.Add(-time.Hour), PendingOf: func(name string) int { return waiting[name] }}
	for _, name := range []string{"hub", "siem"} {
		s.Status = append(s.Status, settingsv1alpha2.SinkStatus{Name: name, Provider: "grpc", Healthy: "True", Reason: reasonOK, Since: timeOf(now.Add(-time.Hour))})
	}
	var removed []string
	for _, e := range DecideSetting(s).Events {
		if e.Reason == EventSinkRemoved {
			removed = append(removed, e.Message)
		}
	}
	if want := []string{"sink hub: 3 Scans no longer wait for it", "sink siem: 0 Scans no longer wait for it"}; !slices.Equal(removed, want) {
		t.Errorf("told %q, want %q", removed, want)
	}
}

// TestNothingAcknowledged: a far end that has only answered probes, as one does that refuses every token, has acknowledged nothing.
func TestNothingAcknowledged(t *testing.T) {
	refusal := &sink.Error{Class: sink.Auth, Reason: sink.TokenRejected, Message: "the far end answered 401"}
	var h Health
	h = h.Failed(refusal, retry.Bounds{}, now, 1).Answered(now).Failed(refusal, retry.Bounds{}, now, 1)
	for what, health := range map[string]Health{"it fails": h, "nobody waits": h.Answered(now).Idle(now)} {
		d := DecideSetting(Setting{Now: now, Sinks: []SinkFacts{{Name: "hub", Provider: "http", Health: health}}})
		if at := d.Sinks[0].LastAcknowledgedTime; at != nil {
			t.Errorf("%s: acknowledged at %s", what, at)
		}
	}
	d := DecideSetting(Setting{Now: now, Sinks: []SinkFacts{{Name: "hub", Provider: "http", Health: h.Answered(now).Delivered(now)}}})
	if at := d.Sinks[0].LastAcknowledgedTime; !at.Equal(timeOf(now)) {
		t.Errorf("records were taken, and the status says %v", at)
	}
}
