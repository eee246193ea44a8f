// SPDX-License-Identifier: Apache-2.0

package life

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// wholeRun is how all Jobs of a Scan end well.
var wholeRun = map[string]Outcome{"scanner": Complete, "parser": Complete, "a": Complete, "b": Complete}

// ended returns a Scan that has gone through its life with two hooks, and counts.
func ended(t *testing.T, how map[string]Outcome) *Observation {
	t.Helper()
	o := observationOf(testobjects.Scan("s"), catalogHooks(hookOn("a", "", ""), hookOn("b", "", "")))
	live(t, o, how)
	if !o.Scan.Settled() {
		t.Fatalf("the Scan is %s", o.Scan.Status.State)
	}
	o.Scan.Status.Findings = executionv1.FindingStats{Count: ptr.To[int64](2), FindingCategories: map[string]int64{"Open Port": 2}}
	o.Scan.Status.FindingDownloadLink = "https://s3.example.com/old"
	return o
}

func withStored(o *Observation) { o.StoredRaw, o.StoredFindings = true, true }

// attemptsByRole are the numbers of the Jobs of each role, as "1,2".
func attemptsByRole(jobs []Job) string {
	by := map[string]string{}
	for _, j := range jobs {
		by[j.endsAs()] += string(rune('0' + j.Attempt))
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, name+":"+by[name])
	}
	return strings.Join(parts, " ")
}

func TestRerunOfAPhase(t *testing.T) {
	scannerFails := map[string]Outcome{"scanner": Failed}
	hookFails := map[string]Outcome{"scanner": Complete, "parser": Complete, "a": Complete, "b": Failed}
	cases := map[string]struct {
		reason string
		first  map[string]Outcome
		asked  string
		with   func(*Observation)
		second map[string]Outcome
		steps  string
		state  executionv1.ScanState
		jobs   string
	}{
		"Parser": {
			"the scanner does not run again, the hooks do", wholeRun, "parser", withStored, wholeRun,
			"Rerun Scanned Parsed Hooks", executionv1.ScanStateDone, "a:12 b:12 parser:12 scanner:1",
		},
		"ParserAfterHookFailed": {
			"a new verdict replaces the old one", hookFails, "parser@x", withStored, wholeRun,
			"Rerun Scanned Parsed Hooks", executionv1.ScanStateDone, "a:12 b:12 parser:12 scanner:1",
		},
		"ParserFails": {
			"the Scan ends as its last run does", wholeRun, "parser", withStored,
			map[string]Outcome{"parser": Failed},
			"Rerun Scanned ParserFailed", executionv1.ScanStateErrored, "a:1 b:1 parser:12 scanner:1",
		},
		"ParserOverOldRaw": {
			"the scanner failed, yet a raw result is stored from before", scannerFails, "parser", withStored, wholeRun,
			"Rerun Scanned Parsed Hooks", executionv1.ScanStateDone, "a:2 b:2 parser:2 scanner:1",
		},
		"Scanner": {
			"everything runs again", wholeRun, "scanner", nil, wholeRun,
			"Rerun Start Scanned Parsed Hooks", executionv1.ScanStateDone, "a:12 b:12 parser:12 scanner:12",
		},
		"ScannerAfterFailure": {
			"a Scan whose scanner failed is tried again", scannerFails, "scanner", nil, wholeRun,
			"Rerun Start Scanned Parsed Hooks", executionv1.ScanStateDone, "a:2 b:2 parser:2 scanner:12",
		},
		"ScannerFails": {
			"old Jobs of later phases do not count", wholeRun, "scanner", nil, scannerFails,
			"Rerun Start ScannerFailed", executionv1.ScanStateErrored, "a:1 b:1 parser:1 scanner:12",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := ended(t, tc.first)
			if tc.with != nil {
				tc.with(o)
			}
			askRerun(tc.asked)(o)
			first := Decide(o)
			if first.Step != "Rerun" || !first.FreshLinks || len(first.Create) > 0 {
				t.Fatalf("%s: decision %+v", tc.reason, first)
			}
			if f := first.Status.Findings; f.Count != nil || len(f.FindingCategories) > 0 {
				t.Errorf("%s: the counts are still there: %+v", tc.reason, f)
			}
			if conditionOf(first.Status, executionv1.ConditionRerun) != "True/RerunStarted" || first.Status.LastRerun != tc.asked {
				t.Errorf("%s: condition Rerun %s, lastRerun %q", tc.reason, conditionOf(first.Status, executionv1.ConditionRerun), first.Status.LastRerun)
			}
			steps, notices := live(t, o, tc.second)
			if steps != tc.steps || o.Scan.Status.State != tc.state {
				t.Errorf("%s: %s by %q, want %s by %q", tc.reason, o.Scan.Status.State, steps, tc.state, tc.steps)
			}
			if got := attemptsByRole(o.Jobs); got != tc.jobs {
				t.Errorf("%s: Jobs %q, want %q", tc.reason, got, tc.jobs)
			}
			if want := map[bool]int{true: 1}[tc.state == executionv1.ScanStateErrored]; len(notices) != want {
				t.Errorf("%s: Events %q, want %d", tc.reason, notices, want)
			}
			if again, _ := live(t, o, nil); again != "" {
				t.Errorf("%s: the same annotation is acted upon twice: %s", tc.reason, again)
			}
		})
	}
}

// TestRerunAgainAndAgain: numbers only grow, whatever is run again.
func TestRerunAgainAndAgain(t *testing.T) {
	o := ended(t, wholeRun)
	withStored(o)
	for _, what := range []string{"parser", "hook/a", "scanner"} {
		askRerun(what)(o)
		live(t, o, wholeRun)
	}
	if got, want := attemptsByRole(o.Jobs), "a:1234 b:124 parser:124 scanner:14"; got != want {
		t.Errorf("Jobs %q, want %q", got, want)
	}
	if a := o.Scan.Status.Attempts; a == nil || *a != (executionv1.PhaseAttempts{Scanner: 4, Parser: 4}) || o.Scan.Status.State != executionv1.ScanStateDone {
		t.Errorf("state %s, attempts %v", o.Scan.Status.State, a)
	}
}

func TestRerunRefused(t *testing.T) {
	done := func(changes ...func(*Observation)) func(*testing.T) *Observation {
		return func(t *testing.T) *Observation {
			o := ended(t, wholeRun)
			for _, c := range changes {
				c(o)
			}
			return o
		}
	}
	cases := map[string]struct {
		reason string
		start  func(*testing.T) *Observation
		asked  string
		want   string
	}{
		"NothingStored":  {"there is nothing to parse", done(), "parser", "storage has no raw result of this Scan (nmap-results.xml)"},
		"NothingToLink":  {"a link to nothing helps nobody", done(), "links", "nothing is stored"},
		"LinksOff":       {"who can change it is named", done(withStored, func(o *Observation) { o.Settings.StatusLinks = false }), "links", "--status-links"},
		"StillCancelled": {"it would be ended at once", done(cancelled, func(o *Observation) { refused := Decide(o); o.Scan.Status = *refused.Status }), "scanner", "set it to false first"},
		"Expired": {
			"it is about to go", done(withStored, func(o *Observation) {
				o.Scan.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
				o.Now = o.Now.Add(time.Hour)
			}),
			"parser", "about to be deleted",
		},
		"PodsStay": {
			"waiting for old pods has an end", done(withJob(hookRole("z"), Running, func(j *Job) { j.Deleted = testobjects.Epoch.Add(-time.Hour) })),
			"scanner", "the pods of Job job-read-only-hookz do not end",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := tc.start(t)
			before := o.Scan.Status.DeepCopy()
			askRerun(tc.asked)(o)
			d := Decide(o)
			if d.Step != "Rerun" || d.AnswerEvent == nil || !strings.Contains(d.AnswerEvent.Message, tc.want) || len(d.Create) > 0 {
				t.Fatalf("%s: step %q, Event %v, want %q", tc.reason, d.Step, d.AnswerEvent, tc.want)
			}
			if got := conditionOf(d.Status, executionv1.ConditionRerun); got != "False/RerunRefused" || d.Status.LastRerun != tc.asked {
				t.Errorf("%s: condition Rerun %s, lastRerun %q", tc.reason, got, d.Status.LastRerun)
			}
			after := &Status{d.Status.DeepCopy()}
			after.forget(executionv1.ConditionRerun)
			after.LastRerun = ""
			if diff := diffStatus(before, after.ScanStatus); diff != "" {
				t.Errorf("%s: something else has changed (-before +after):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRerunWaitsForOldPods: what still runs is asked to go, and waited for.
func TestRerunWaitsForOldPods(t *testing.T) {
	o := ended(t, wholeRun)
	withStored(o)
	withJob(ScannerRole, Running, func(j *Job) { j.Name, j.Suspended = "overdue", true })(o)
	askRerun("parser")(o)
	d := Decide(o)
	if jobNames(d.DeleteJobs) != "overdue" || d.Status.State != executionv1.ScanStateDone || conditionOf(d.Status, executionv1.ConditionRerun) != "Unknown/RerunWaits" {
		t.Fatalf("deletes %q, state %s, Rerun %s", jobNames(d.DeleteJobs), d.Status.State, conditionOf(d.Status, executionv1.ConditionRerun))
	}
	o.Scan.Status = *d.Status
	o.Jobs[len(o.Jobs)-1].Deleted = o.Now
	o.Now = o.Now.Add(time.Minute)
	d = Decide(o)
	if len(d.DeleteJobs) > 0 || d.RequeueAfter != 9*time.Minute || diffStatus(&o.Scan.Status, d.Status) != "" {
		t.Errorf("deletes %q, again in %s", jobNames(d.DeleteJobs), d.RequeueAfter)
	}
	o.Jobs = o.Jobs[:len(o.Jobs)-1]
	if d = Decide(o); d.Status.State != executionv1.ScanStateScanCompleted {
		t.Errorf("state %s when it is gone", d.Status.State)
	}
}

// TestRerunOfARunningScan is refused, but for links.
func TestRerunOfARunningScan(t *testing.T) {
	cases := map[string]struct {
		reason, asked string
		off           bool
		want          string
	}{
		"Scanner":  {"it runs already", "scanner", false, "False/RerunRefused"},
		"Hooks":    {"their turn comes", "hooks", false, "False/RerunRefused"},
		"Links":    {"links can be had at any time", "links", false, "True/LinksWritten"},
		"LinksOff": {"unless they are switched off", "links@1", true, "False/RerunRefused"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), withJob(ScannerRole, Running))
			o.Scan.Status = *Decide(o).Status
			o.Settings.StatusLinks = !tc.off
			askRerun(tc.asked)(o)
			d := Decide(o)
			if got := conditionOf(d.Status, executionv1.ConditionRerun); got != tc.want || d.Status.LastRerun != tc.asked {
				t.Errorf("%s: condition Rerun %s, lastRerun %q; want %s", tc.reason, got, d.Status.LastRerun, tc.want)
			}
			if d.Step != "ScannerRuns" || d.Status.State != executionv1.ScanStateScanning || d.FreshLinks != (name == "Links") || (d.AnswerEvent == nil) != (name == "Links") {
				t.Errorf("%s: decision %+v", tc.reason, d)
			}
			o.Scan.Status = *d.Status
			if d = Decide(o); d.AnswerEvent != nil || d.FreshLinks {
				t.Errorf("%s: it is answered again", tc.reason)
			}
		})
	}
}

// TestRerunThroughWipedStatus wipes the whole status after each pass of a re-run in turn.
// The Scan ends Done, and no Job is made twice.
func TestRerunThroughWipedStatus(t *testing.T) {
	for what, want := range map[string]string{
		"scanner": "a:12 b:12 parser:12 scanner:12",
		"parser":  "a:12 b:12 parser:12 scanner:1",
		"hook/a":  "a:12 b:1 parser:1 scanner:1",
	} {
		for at := range 8 {
			t.Run(what+"/"+string(rune('0'+at)), func(t *testing.T) {
				o := ended(t, wholeRun)
				withStored(o)
				askRerun(what)(o)
				for pass := range 20 {
					d := Decide(o)
					if d.Status == nil {
						break
					}
					o.afterPass(d, wholeRun)
					if pass == at {
						o.Scan.Status = executionv1.ScanStatus{}
					}
				}
				if o.Scan.Status.State != executionv1.ScanStateDone || attemptsByRole(o.Jobs) != want || o.Scan.Status.LastRerun != what {
					t.Errorf("%s with Jobs %q and lastRerun %q, want Done with %q", o.Scan.Status.State, attemptsByRole(o.Jobs), o.Scan.Status.LastRerun, want)
				}
			})
		}
	}
}

// TestRerunJobsGone: Jobs go by their TTL; the numbers are remembered, and what earlier
// runs have stored is not taken for the result of this one.
func TestRerunJobsGone(t *testing.T) {
	o := ended(t, wholeRun)
	o.Jobs = nil
	askRerun("scanner")(o)
	o.afterPass(Decide(o), nil)
	d := Decide(o)
	if d.Step != "Start" || o.Attempts().For(ScannerRole) != 2 {
		t.Fatalf("step %q, run %d", d.Step, o.Attempts().For(ScannerRole))
	}
	if since, ok := StoredSince(o, ScannerRole); ok {
		t.Errorf("a raw result of %s is taken for one of a scanner that was not started", since)
	}
	o.Scan.Status = *d.Status // and the Job is gone, too
	if since, ok := StoredSince(o, ScannerRole); !ok || since.Before(o.Now) {
		t.Errorf("a raw result counts since %s, now is %s", since, o.Now)
	}
	if d = Decide(o); d.Step != "ScannerLost" {
		t.Errorf("step %q", d.Step)
	}
}

// TestRerunOfAnAdoptedScan: a Scan that another operator ran has no conditions and numbers.
func TestRerunOfAnAdoptedScan(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone)), withStored,
		catalogHooks(hookOn("a", "", ""), hookOn("b", "", "")))
	o.Scan.Status.ReadAndWriteHookStatus = []executionv1.HookStatus{{HookName: "a", State: executionv1.HookStateCompleted}}
	askRerun("parser")(o)
	live(t, o, wholeRun)
	if got := attemptsByRole(o.Jobs); got != "a:2 b:2 parser:2" || o.Scan.Status.State != executionv1.ScanStateDone {
		t.Errorf("%s with Jobs %q", o.Scan.Status.State, got)
	}
}

// TestCancelOfARerun: old results stay, and the next re-run needs spec.cancel to be false.
func TestCancelOfARerun(t *testing.T) {
	o := ended(t, wholeRun)
	withStored(o)
	askRerun("scanner")(o)
	o.afterPass(Decide(o), nil)
	o.afterPass(Decide(o), nil)
	cancelled(o)
	d := Decide(o)
	if d.Step != "Cancel" || len(d.DeleteJobs) != 1 || d.DeleteJobs[0].Attempt != 2 {
		t.Fatalf("step %q deletes %+v", d.Step, d.DeleteJobs)
	}
	o.afterPass(d, nil)
	o.Jobs = slices.DeleteFunc(o.Jobs, func(j Job) bool { return j.Outcome == Running })
	o.Scan.Spec.Cancel = nil
	askRerun("parser")(o)
	live(t, o, wholeRun)
	if o.Scan.Status.State != executionv1.ScanStateDone || conditionOf(&o.Scan.Status, executionv1.ConditionCancelled) != "" {
		t.Errorf("%s, condition Cancelled %s", o.Scan.Status.State, conditionOf(&o.Scan.Status, executionv1.ConditionCancelled))
	}
	if got := attemptsByRole(o.Jobs); got != "a:13 b:13 parser:13 scanner:1" {
		t.Errorf("Jobs %q", got)
	}
}
