// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// working is a job that began a minute ago and has items that wait.
func working(change ...func(*Observation)) Observation {
	o := Observation{
		Now: now, Kind: Discovery, Created: now.Add(-2 * time.Minute), Started: now.Add(-time.Minute), Deadline: time.Hour, RegistryFound: true, Asked: true,
		Items: Items{Total: 5, Waiting: 2, Working: 1, Done: 2},
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func unstarted(o *Observation)         { o.Started, o.Asked, o.Items = time.Time{}, false, Items{} }
func cancel(o *Observation)            { o.Cancel = true }
func items(i Items) func(*Observation) { return func(o *Observation) { o.Items = i } }

func holds(h ...Hold) func(*Observation) { return func(o *Observation) { o.Holds = h } }

func TestDecide(t *testing.T) {
	const (
		yes     = metav1.ConditionTrue
		no      = metav1.ConditionFalse
		unknown = metav1.ConditionUnknown
	)
	polled := now.Add(poll)
	type want struct {
		step                   string
		progressing, completed metav1.ConditionStatus
		reason                 string // of Completed where it has ended, else of Progressing
		again                  time.Time
		does                   string
	}
	suspended := Hold{Reason: registryv1alpha1.ReasonSuspended}
	limited := Hold{Reason: registryv1alpha1.ReasonRateLimited, Until: now.Add(10 * time.Second)}
	cases := map[string]struct {
		given Observation
		want  want
	}{
		"Gone":                {working(func(o *Observation) { o.Deleting, o.Ended, o.Cancel = true, true, true }), want{step: "Gone"}},
		"Ended":               {working(func(o *Observation) { o.Ended, o.Cancel = true, true }), want{step: "Ended"}},
		"CancelAtWork":        {working(cancel), want{"Cancelling", no, unknown, ReasonCancelling, now.Add(cancelWait), "tell"}},
		"CancelGoesOn":        {working(cancel, func(o *Observation) { o.CancelSeen = now.Add(-59 * time.Second) }), want{"Cancelling", no, unknown, ReasonCancelling, now.Add(time.Second), "tell"}},
		"CancelNobodyWorks":   {working(cancel, items(Items{Total: 5, Waiting: 3, Done: 2})), want{"Cancelled", yes, no, registryv1alpha1.ReasonCancelled, time.Time{}, ""}},
		"CancelTakesTooLong":  {working(cancel, func(o *Observation) { o.CancelSeen = now.Add(-cancelWait) }), want{"Cancelled", yes, no, registryv1alpha1.ReasonCancelled, time.Time{}, ""}},
		"CancelBeforeStart":   {working(unstarted, cancel), want{"Cancelled", yes, no, registryv1alpha1.ReasonCancelled, time.Time{}, ""}},
		"CancelOfUnknownWork": {working(cancel, func(o *Observation) { o.Asked = false }), want{"Cancelling", no, unknown, ReasonCancelling, now.Add(cancelWait), "tell"}},
		"CancelWhileHeld":     {working(cancel, holds(suspended), items(Items{})), want{"Cancelled", yes, no, registryv1alpha1.ReasonCancelled, time.Time{}, ""}},
		"RegistryComes":       {working(unstarted, func(o *Observation) { o.RegistryFound, o.Created = false, now.Add(-29*time.Second) }), want{"NoRegistryYet", no, unknown, registryv1alpha1.ReasonRegistryNotReady, now.Add(time.Second), ""}},
		"NoRegistry":          {working(unstarted, func(o *Observation) { o.RegistryFound, o.Created = false, now.Add(-registryWait) }), want{"RegistryNotFound", yes, no, registryv1alpha1.ReasonRegistryNotFound, time.Time{}, ""}},
		"RegistryDeleted":     {working(func(o *Observation) { o.RegistryFound = false }), want{"RegistryGone", yes, no, registryv1alpha1.ReasonRegistryGone, time.Time{}, ""}},
		"RegistryReplaced":    {working(func(o *Observation) { o.RegistryReplaced = true }), want{"RegistryGone", yes, no, registryv1alpha1.ReasonRegistryGone, time.Time{}, ""}},
		"Invalid":             {working(unstarted, func(o *Observation) { o.Invalid = "tags.expression: x" }), want{"Invalid", yes, no, registryv1alpha1.ReasonInvalid, time.Time{}, ""}},
		"TooLate":             {working(func(o *Observation) { o.Started = now.Add(-time.Hour) }), want{"TooLate", yes, no, registryv1alpha1.ReasonDeadlineExceeded, time.Time{}, ""}},
		"TooLateWhileHeld":    {working(holds(suspended), func(o *Observation) { o.Started = now.Add(-time.Hour) }), want{"TooLate", yes, no, registryv1alpha1.ReasonDeadlineExceeded, time.Time{}, ""}},
		"Suspended":           {working(holds(suspended, limited)), want{"Held", no, unknown, registryv1alpha1.ReasonSuspended, polled, ""}},
		"RateLimited":         {working(holds(limited)), want{"Held", no, unknown, registryv1alpha1.ReasonRateLimited, now.Add(10 * time.Second), ""}},
		"HeldBeforeStart":     {working(unstarted, holds(suspended)), want{"Held", no, unknown, registryv1alpha1.ReasonSuspended, polled, ""}},
		"Queued":              {working(unstarted, func(o *Observation) { o.OlderAtWork = true }), want{"Queued", no, unknown, registryv1alpha1.ReasonQueued, polled, ""}},
		"Plan":                {working(unstarted), want{"Plan", yes, unknown, registryv1alpha1.ReasonPlanning, now.Add(time.Millisecond), "start"}},
		"ReportsSayNothing":   {working(func(o *Observation) { o.Asked = false }), want{step: "Unknown", again: polled}},
		"Listing":             {working(func(o *Observation) { o.Listing = true }), want{"Work", yes, unknown, registryv1alpha1.ReasonListing, polled, "let in"}},
		"Working":             {working(), want{"Work", yes, unknown, registryv1alpha1.ReasonWorking, polled, "let in"}},
		"LastOneWorks":        {working(items(Items{Total: 5, Working: 1, Done: 4})), want{"Work", yes, unknown, registryv1alpha1.ReasonWorking, polled, "let in"}},
		"Succeeded":           {working(items(Items{Total: 5, Done: 5})), want{"End", yes, yes, registryv1alpha1.ReasonSucceeded, time.Time{}, ""}},
		"WithErrors":          {working(items(Items{Total: 5, Done: 4, Failed: 1})), want{"End", yes, yes, registryv1alpha1.ReasonCompletedWithErrors, time.Time{}, ""}},
		"Failed":              {working(items(Items{Total: 5, Failed: 5})), want{"End", yes, no, registryv1alpha1.ReasonFailed, time.Time{}, ""}},
		"NothingToDo":         {working(items(Items{})), want{"End", yes, yes, registryv1alpha1.ReasonNothingToDo, time.Time{}, ""}},
	}
	fired := map[string]bool{}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.given)
			fired[d.Step] = true
			got := want{step: d.Step, progressing: d.Progressing.Status, completed: d.Completed.Status, reason: d.Progressing.Reason, again: again(tc.given, d), does: does(d)}
			if d.Completed.Status == yes || d.Completed.Status == no {
				got.reason = d.Completed.Reason
			}
			if got != tc.want {
				t.Errorf("\n got %+v\nwant %+v", got, tc.want)
			}
		})
	}
	for _, r := range rows {
		if !fired[r.name] {
			t.Errorf("no case for the step %s", r.name)
		}
	}
}

// again is when a job is looked at again; zero: a watch tells.
func again(o Observation, d Decision) time.Time {
	if d.RequeueAfter == 0 {
		return time.Time{}
	}
	return o.Now.Add(d.RequeueAfter)
}

func does(d Decision) string {
	switch {
	case d.Start:
		return "start"
	case d.LetIn:
		return "let in"
	case d.TellWorkers:
		return "tell"
	}
	return ""
}

// TestEveryJobEndsOrIsRequeued walks everything that can be seen: a job that has not ended lets items in, begins, or knows when or by whom it is
// looked at again, and a job that has ended stays so.
func TestEveryJobEndsOrIsRequeued(t *testing.T) {
	walked := 0
	for bits := range 1 << 11 {
		on := func(i int) bool { return bits>>i&1 == 1 }
		o := working(func(o *Observation) {
			o.Deleting, o.Ended, o.Cancel, o.RegistryFound = on(0), on(1), on(2), on(3)
			o.RegistryReplaced, o.OlderAtWork, o.Asked, o.Listing = on(4), on(5), on(6), on(7)
			if on(8) {
				unstarted(o)
			}
			if on(9) {
				o.Holds = []Hold{{Reason: registryv1alpha1.ReasonSuspended}}
			}
			if on(10) {
				o.Items = Items{Total: 1, Done: 1}
			}
		})
		walked++
		d := Decide(o)
		ended := d.Completed.Status == metav1.ConditionTrue || d.Completed.Status == metav1.ConditionFalse
		switch {
		case d.Step == "":
			t.Fatalf("%+v: no step", o)
		case (o.Deleting || o.Ended) && (d.LetIn || d.Start || d.Completed != State{}):
			t.Fatalf("%+v: %+v goes on after the end", o, d)
		case d.LetIn && (o.Cancel || !o.RegistryFound || o.RegistryReplaced || len(o.Holds) > 0 || o.OlderAtWork):
			t.Fatalf("%+v: %+v lets items in", o, d)
		case o.Deleting, o.Ended, ended, d.Start:
		case d.RequeueAfter == 0:
			t.Fatalf("%+v: %+v is never looked at again", o, d)
		case d.RequeueAfter < time.Second:
			t.Fatalf("%+v: %+v looks again at once, for ever", o, d)
		}
		if !o.Deleting && !o.Ended && (d.Step != "Unknown") && (d.Progressing.Reason == "" || d.Completed.Reason == "") {
			t.Fatalf("%+v: %+v gives no reason", o, d)
		}
	}
	if walked != 2048 {
		t.Errorf("%d observations walked", walked)
	}
}
