// SPDX-License-Identifier: Apache-2.0

package validity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
	"github.com/scanyard/scanyard/operator/internal/exception/validity"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func observed(notBefore, expiresAt time.Duration, names ...string) *validity.Observation {
	e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "x", Generation: 3}}
	e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: names}}
	at := func(d time.Duration) *metav1.Time {
		if d == 0 {
			return nil
		}
		return new(metav1.NewTime(now.Add(d)))
	}
	e.Spec.NotBefore, e.Spec.ExpiresAt = at(notBefore), at(expiresAt)
	return &validity.Observation{Now: now, Exception: e}
}

// decide returns a decision that writes a status.
func decide(t *testing.T, o *validity.Observation) *validity.Decision {
	t.Helper()
	d := validity.Decide(o)
	if d.Status == nil {
		t.Fatalf("got %+v, want a status", d)
	}
	return &d
}

func condition(t *testing.T, s *settingsv1alpha2.FindingExceptionStatus, name string) *metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(s.Conditions, name)
	if c == nil || c.ObservedGeneration != 3 || c.Message == "" {
		t.Fatalf("condition %s: got %+v, want one of generation 3 with a message", name, c)
	}
	return c
}

func TestDecide(t *testing.T) {
	type result struct {
		Active, ExpiresSoon, Events string
		RequeueAfter                time.Duration
	}
	for name, c := range map[string]struct {
		observation *validity.Observation
		want        result
		message     string
	}{
		"without an end":           {observed(0, 0, "a"), result{"True Holds", "False Holds", "", 0}, "holds without an end"},
		"with an end far away":     {observed(0, 30*day, "a"), result{"True Holds", "False Holds", "", 16 * day}, "until 2026-12-23T12:00:00Z"},
		"with an end near":         {observed(0, 10*day, "a"), result{"True Holds", "True ExpiresSoon", "ExpiresSoon", 10 * day}, "until 2026-12-03T12:00:00Z"},
		"with an end in 14 days":   {observed(0, 14*day, "a"), result{"True Holds", "True ExpiresSoon", "ExpiresSoon", 14 * day}, "until"},
		"over":                     {observed(0, -1, "a"), result{"False Expired", "False Expired", "", 0}, "its findings are open again"},
		"over and invalid":         {observed(0, -1, "*"), result{"False Expired", "False Expired", "", 0}, "its findings are open again"},
		"not yet":                  {observed(day, 0, "a"), result{"False NotYet", "False Holds", "", day}, "begins at 2026-11-24T12:00:00Z"},
		"not yet, and then soon":   {observed(day, 15*day, "a"), result{"False NotYet", "False Holds", "", day}, "begins at"},
		"soon, and not yet":        {observed(2*day, 15*day, "a"), result{"False NotYet", "False Holds", "", day}, "begins at"},
		"invalid":                  {observed(0, 0, "*"), result{"False Invalid", "False Holds", "Invalid", 0}, "spec.match.anyOf[0].names[0]: a glob of * alone"},
		"invalid with an end near": {observed(0, day, "*"), result{"False Invalid", "True ExpiresSoon", "Invalid ExpiresSoon", day}, "matches nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, c.observation)
			var events []string
			for _, e := range d.Events {
				events = append(events, e.Reason)
			}
			active, ends := condition(t, d.Status, "Active"), condition(t, d.Status, "ExpiresSoon")
			got := result{
				string(active.Status) + " " + active.Reason, string(ends.Status) + " " + ends.Reason, strings.Join(events, " "), d.RequeueAfter,
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !strings.Contains(active.Message, c.message) || d.Step != active.Reason {
				t.Errorf("got step %s and message %q, want the reason and a message with %q", d.Step, active.Message, c.message)
			}
			// Deciding again on what was decided writes nothing.
			c.observation.Exception.Status, c.observation.Now = *d.Status, now.Add(time.Nanosecond)
			if again := validity.Decide(c.observation); again.Status != nil || len(again.Events) > 0 {
				t.Errorf("the second time: got %+v, want nothing to write", again)
			}
		})
	}
}

func TestMatched(t *testing.T) {
	at := func(minute int) *metav1.Time {
		return new(metav1.NewTime(now.Add(time.Duration(minute) * time.Minute)))
	}
	for name, c := range map[string]struct {
		reason  string
		before  *metav1.Time
		matches []validity.Match
		want    int64
		last    *metav1.Time
	}{
		"no Scan":         {"0 differs from a count that is not made", nil, nil, 0, nil},
		"two targets":     {"findings of all targets are added up", nil, []validity.Match{{3, true, at(1)}, {4, true, at(2)}}, 7, at(2)},
		"an earlier Scan": {"only the latest Scan of a target counts", nil, []validity.Match{{3, false, at(1)}, {4, true, nil}}, 4, at(1)},
		"Scans are gone":  {"the time of the last match stays", at(5), nil, 0, at(5)},
		"older Scans":     {"the time of the last match never moves back", at(5), []validity.Match{{3, true, at(1)}}, 3, at(5)},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed(0, 0, "a")
			o.Exception.Status.LastMatched, o.Matches, o.Counted = c.before, c.matches, true
			got := decide(t, o).Status
			if got.Matched == nil || *got.Matched != c.want {
				t.Errorf("%s: got %+v findings, want %d", c.reason, got.Matched, c.want)
			}
			if diff := cmp.Diff(c.last, got.LastMatched); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
	if got := decide(t, observed(0, 0, "a")).Status.Matched; got != nil {
		t.Errorf("nothing is counted: got %d, want none", *got)
	}
}

func TestDecideOfTheCluster(t *testing.T) {
	e := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{Name: "x", Generation: 3}}
	e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: []string{"a"}}}
	d := decide(t, &validity.Observation{Now: now, ClusterException: e})
	if c := condition(t, d.Status, "Active"); c.Status != metav1.ConditionTrue || d.Status.ObservedGeneration != 3 {
		t.Errorf("got %+v, want an exception that holds", d.Status)
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
		got := decide(t, o).Status
		stamped := condition(t, got, "Stamped")
		if text := string(stamped.Status) + " " + stamped.Reason; text != c.want || got.CreatedBy != c.made.CreatedBy || got.ChangedBy != c.made.ChangedBy {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}
