// SPDX-License-Identifier: Apache-2.0

package exception_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	findings "github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func observed(notBefore, expiresAt time.Duration, names ...string) exception.Observation {
	o := exception.Observation{Now: now, Generation: 3, Exception: findings.Exception{Namespace: "team-a", Name: "x"}}
	o.Exception.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: names}}
	at := func(d time.Duration) *metav1.Time {
		if d == 0 {
			return nil
		}
		t := metav1.NewTime(now.Add(d))
		return &t
	}
	o.Exception.Spec.NotBefore, o.Exception.Spec.ExpiresAt = at(notBefore), at(expiresAt)
	return o
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		observation          exception.Observation
		active, ends, events string
		after                time.Duration
		message              string
	}{
		"without an end":           {observed(0, 0, "a"), "True Holds", "False Holds", "", 0, "holds without an end"},
		"with an end far away":     {observed(0, 30*day, "a"), "True Holds", "False Holds", "", 16 * day, "until 2026-12-23T12:00:00Z"},
		"with an end near":         {observed(0, 10*day, "a"), "True Holds", "True ExpiresSoon", "ExpiresSoon", 10 * day, "until 2026-12-03T12:00:00Z"},
		"with an end in 14 days":   {observed(0, 14*day, "a"), "True Holds", "True ExpiresSoon", "ExpiresSoon", 14 * day, "until"},
		"over":                     {observed(0, -1, "a"), "False Expired", "False Expired", "", 0, "its findings are open again"},
		"over and invalid":         {observed(0, -1, "*"), "False Expired", "False Expired", "", 0, "its findings are open again"},
		"not yet":                  {observed(day, 0, "a"), "False NotYet", "False Holds", "", day, "begins at 2026-11-24T12:00:00Z"},
		"not yet, and then soon":   {observed(day, 15*day, "a"), "False NotYet", "False Holds", "", day, "begins at"},
		"soon, and not yet":        {observed(2*day, 15*day, "a"), "False NotYet", "False Holds", "", day, "begins at"},
		"invalid":                  {observed(0, 0, "*"), "False Invalid", "False Holds", "Invalid", 0, "spec.match.anyOf[0].names[0]: a glob of * alone"},
		"invalid with an end near": {observed(0, day, "*"), "False Invalid", "True ExpiresSoon", "Invalid ExpiresSoon", day, "matches nothing"},
	} {
		d := exception.Decide(c.observation)
		var told []string
		for _, e := range d.Events {
			told = append(told, e.Reason)
		}
		active, ends := meta.FindStatusCondition(d.Conditions, "Active"), meta.FindStatusCondition(d.Conditions, "ExpiresSoon")
		if got := string(active.Status) + " " + active.Reason; got != c.active {
			t.Errorf("%s: Active %s, want %s", name, got, c.active)
		}
		if got := string(ends.Status) + " " + ends.Reason; got != c.ends {
			t.Errorf("%s: ExpiresSoon %s, want %s", name, got, c.ends)
		}
		if got := strings.Join(told, " "); got != c.events {
			t.Errorf("%s: Events %q, want %q", name, got, c.events)
		}
		if d.RequeueAfter != c.after || !strings.Contains(active.Message, c.message) || active.ObservedGeneration != 3 {
			t.Errorf("%s: after %s, %+v", name, d.RequeueAfter, active)
		}
		// Deciding again on what was decided tells nothing and changes nothing.
		c.observation.Conditions, c.observation.Now = d.Conditions, now.Add(time.Nanosecond)
		again := exception.Decide(c.observation)
		for i := range d.Conditions {
			if len(again.Events) > 0 || again.Conditions[i] != d.Conditions[i] {
				t.Errorf("%s: the second time %v, %+v", name, again.Events, again.Conditions)
			}
		}
	}
}

// TestStamped says whether it is known who made an exception, and why it is not.
func TestStamped(t *testing.T) {
	for name, c := range map[string]struct {
		made      stamp.Stamp
		admission bool
		want      string
	}{
		"stamped":                              {stamp.Stamp{CreatedBy: "alice", ChangedBy: "bob"}, true, "True Stamped"},
		"stamped before admission went":        {stamp.Stamp{CreatedBy: "alice", ChangedBy: "bob"}, false, "True Stamped"},
		"made without":                         {stamp.Stamp{}, true, "False NotStamped"},
		"made without, changed with admission": {stamp.Stamp{ChangedBy: "bob"}, true, "False NotStamped"},
		"changed without":                      {stamp.Stamp{CreatedBy: "alice"}, true, "False ChangeNotStamped"},
		"no admission":                         {stamp.Stamp{}, false, "False NoAdmission"},
		"changed after admission went":         {stamp.Stamp{CreatedBy: "alice"}, false, "False NoAdmission"},
	} {
		o := observed(0, 0, "a")
		o.Made, o.Admission = c.made, c.admission
		got := meta.FindStatusCondition(exception.Decide(o).Conditions, "Stamped")
		if text := string(got.Status) + " " + got.Reason; text != c.want || got.Message == "" || got.ObservedGeneration != 3 {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}
