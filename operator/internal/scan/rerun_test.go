// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/gen"
)

// wholeRun is how all Jobs of a Scan end well.
var wholeRun = map[string]outcome{"scanner": complete, "parser": complete, "a": complete, "b": complete}

// ended returns a Scan that has gone through its life with two hooks, and counts.
func ended(t *testing.T, how map[string]outcome) *observed {
	t.Helper()
	o := observation(gen.Scan("s"), catalogHooks(hookOn("a", "", ""), hookOn("b", "", "")))
	live(t, o, how)
	if !o.scan.Settled() {
		t.Fatalf("the Scan is %s", o.scan.Status.State)
	}
	o.scan.Status.Findings = executionv1.FindingStats{Count: ptr.To[int64](2), FindingCategories: map[string]int64{"Open Port": 2}}
	o.scan.Status.FindingDownloadLink = "https://s3.example.com/old"
	return o
}

func withStored(o *observed) { o.storedRaw, o.storedFindings = true, true }

// attemptsByRole are the numbers of the Jobs of each role, as "1,2".
func attemptsByRole(jobs []job) string {
	by := map[string]string{}
	for _, j := range jobs {
		by[j.endsAs()] += string(rune('0' + j.attempt))
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, name+":"+by[name])
	}
	return strings.Join(parts, " ")
}

func TestRerunOfAPhase(t *testing.T) {
	scannerFails := map[string]outcome{"scanner": failed}
	hookFails := map[string]outcome{"scanner": complete, "parser": complete, "a": complete, "b": failed}
	cases := map[string]struct {
		reason string
		first  map[string]outcome
		asked  string
		with   func(*observed)
		second map[string]outcome
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
			map[string]outcome{"parser": failed},
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
			first := decide(o)
			if first.step != "Rerun" || !first.freshLinks || len(first.launch) > 0 {
				t.Fatalf("%s: decision %+v", tc.reason, first)
			}
			if f := first.status.Findings; f.Count != nil || len(f.FindingCategories) > 0 {
				t.Errorf("%s: the counts are still there: %+v", tc.reason, f)
			}
			if conditionOf(first.status, executionv1.ConditionRerun) != "True/RerunStarted" || first.status.LastRerun != tc.asked {
				t.Errorf("%s: condition Rerun %s, lastRerun %q", tc.reason, conditionOf(first.status, executionv1.ConditionRerun), first.status.LastRerun)
			}
			steps, notices := live(t, o, tc.second)
			if steps != tc.steps || o.scan.Status.State != tc.state {
				t.Errorf("%s: %s by %q, want %s by %q", tc.reason, o.scan.Status.State, steps, tc.state, tc.steps)
			}
			if got := attemptsByRole(o.jobs); got != tc.jobs {
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
	if got, want := attemptsByRole(o.jobs), "a:1234 b:124 parser:124 scanner:14"; got != want {
		t.Errorf("Jobs %q, want %q", got, want)
	}
	if a := o.scan.Status.Attempts; a == nil || *a != (executionv1.PhaseAttempts{Scanner: 4, Parser: 4}) || o.scan.Status.State != executionv1.ScanStateDone {
		t.Errorf("state %s, attempts %v", o.scan.Status.State, a)
	}
}

func TestRerunRefused(t *testing.T) {
	done := func(changes ...func(*observed)) func(*testing.T) *observed {
		return func(t *testing.T) *observed {
			o := ended(t, wholeRun)
			for _, c := range changes {
				c(o)
			}
			return o
		}
	}
	cases := map[string]struct {
		reason string
		start  func(*testing.T) *observed
		asked  string
		want   string
	}{
		"NothingStored":  {"there is nothing to parse", done(), "parser", "storage has no raw result of this Scan (nmap-results.xml)"},
		"NothingToLink":  {"a link to nothing helps nobody", done(), "links", "nothing is stored"},
		"LinksOff":       {"who can change it is named", done(withStored, func(o *observed) { o.settings.StatusLinks = false }), "links", "--status-links"},
		"StillCancelled": {"it would be ended at once", done(cancelled, func(o *observed) { refused := decide(o); o.scan.Status = *refused.status }), "scanner", "set it to false first"},
		"Expired": {
			"it is about to go", done(withStored, func(o *observed) {
				o.scan.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
				o.now = o.now.Add(time.Hour)
			}),
			"parser", "about to be deleted",
		},
		"PodsStay": {
			"waiting for old pods has an end", done(withJob(hookRole("z"), running, func(j *job) { j.deleted = gen.Epoch.Add(-time.Hour) })),
			"scanner", "the pods of Job job-read-only-hookz do not end",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := tc.start(t)
			before := o.scan.Status.DeepCopy()
			askRerun(tc.asked)(o)
			d := decide(o)
			if d.step != "Rerun" || d.answer == nil || !strings.Contains(d.answer.message, tc.want) || len(d.launch) > 0 {
				t.Fatalf("%s: step %q, Event %v, want %q", tc.reason, d.step, d.answer, tc.want)
			}
			if got := conditionOf(d.status, executionv1.ConditionRerun); got != "False/RerunRefused" || d.status.LastRerun != tc.asked {
				t.Errorf("%s: condition Rerun %s, lastRerun %q", tc.reason, got, d.status.LastRerun)
			}
			after := &status{d.status.DeepCopy()}
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
	withJob(scannerRole, running, func(j *job) { j.name, j.suspended = "overdue", true })(o)
	askRerun("parser")(o)
	d := decide(o)
	if jobNames(d.deleteJobs) != "overdue" || d.status.State != executionv1.ScanStateDone || conditionOf(d.status, executionv1.ConditionRerun) != "Unknown/RerunWaits" {
		t.Fatalf("deletes %q, state %s, Rerun %s", jobNames(d.deleteJobs), d.status.State, conditionOf(d.status, executionv1.ConditionRerun))
	}
	o.scan.Status = *d.status
	o.jobs[len(o.jobs)-1].deleted = o.now
	o.now = o.now.Add(time.Minute)
	d = decide(o)
	if len(d.deleteJobs) > 0 || d.requeueAfter != 9*time.Minute || diffStatus(&o.scan.Status, d.status) != "" {
		t.Errorf("deletes %q, again in %s", jobNames(d.deleteJobs), d.requeueAfter)
	}
	o.jobs = o.jobs[:len(o.jobs)-1]
	if d = decide(o); d.status.State != executionv1.ScanStateScanCompleted {
		t.Errorf("state %s when it is gone", d.status.State)
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
			o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateScanning)), withJob(scannerRole, running))
			o.scan.Status = *decide(o).status
			o.settings.StatusLinks = !tc.off
			askRerun(tc.asked)(o)
			d := decide(o)
			if got := conditionOf(d.status, executionv1.ConditionRerun); got != tc.want || d.status.LastRerun != tc.asked {
				t.Errorf("%s: condition Rerun %s, lastRerun %q; want %s", tc.reason, got, d.status.LastRerun, tc.want)
			}
			if d.step != "ScannerRuns" || d.status.State != executionv1.ScanStateScanning || d.freshLinks != (name == "Links") || (d.answer == nil) != (name == "Links") {
				t.Errorf("%s: decision %+v", tc.reason, d)
			}
			o.scan.Status = *d.status
			if d = decide(o); d.answer != nil || d.freshLinks {
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
					d := decide(o)
					if d.status == nil {
						break
					}
					o.afterPass(d, wholeRun)
					if pass == at {
						o.scan.Status = executionv1.ScanStatus{}
					}
				}
				if o.scan.Status.State != executionv1.ScanStateDone || attemptsByRole(o.jobs) != want || o.scan.Status.LastRerun != what {
					t.Errorf("%s with Jobs %q and lastRerun %q, want Done with %q", o.scan.Status.State, attemptsByRole(o.jobs), o.scan.Status.LastRerun, want)
				}
			})
		}
	}
}

// TestRerunJobsGone: Jobs go by their TTL; the numbers are remembered, and what earlier
// runs have stored is not taken for the result of this one.
func TestRerunJobsGone(t *testing.T) {
	o := ended(t, wholeRun)
	o.jobs = nil
	askRerun("scanner")(o)
	o.afterPass(decide(o), nil)
	d := decide(o)
	if d.step != "Start" || o.runs().of(scannerRole) != 2 {
		t.Fatalf("step %q, run %d", d.step, o.runs().of(scannerRole))
	}
	if since, ok := storedSince(o, scannerRole); ok {
		t.Errorf("a raw result of %s is taken for one of a scanner that was not started", since)
	}
	o.scan.Status = *d.status // and the Job is gone, too
	if since, ok := storedSince(o, scannerRole); !ok || since.Before(o.now) {
		t.Errorf("a raw result counts since %s, now is %s", since, o.now)
	}
	if d = decide(o); d.step != "ScannerLost" {
		t.Errorf("step %q", d.step)
	}
}

// TestRerunOfAnAdoptedScan: a Scan that another operator ran has no conditions and numbers.
func TestRerunOfAnAdoptedScan(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateDone)), withStored,
		catalogHooks(hookOn("a", "", ""), hookOn("b", "", "")))
	o.scan.Status.ReadAndWriteHookStatus = []executionv1.HookStatus{{HookName: "a", State: executionv1.HookStateCompleted}}
	askRerun("parser")(o)
	live(t, o, wholeRun)
	if got := attemptsByRole(o.jobs); got != "a:2 b:2 parser:2" || o.scan.Status.State != executionv1.ScanStateDone {
		t.Errorf("%s with Jobs %q", o.scan.Status.State, got)
	}
}

// TestCancelOfARerun: old results stay, and the next re-run needs spec.cancel to be false.
func TestCancelOfARerun(t *testing.T) {
	o := ended(t, wholeRun)
	withStored(o)
	askRerun("scanner")(o)
	o.afterPass(decide(o), nil)
	o.afterPass(decide(o), nil)
	cancelled(o)
	d := decide(o)
	if d.step != "Cancel" || len(d.deleteJobs) != 1 || d.deleteJobs[0].attempt != 2 {
		t.Fatalf("step %q deletes %+v", d.step, d.deleteJobs)
	}
	o.afterPass(d, nil)
	o.jobs = slices.DeleteFunc(o.jobs, func(j job) bool { return j.outcome == running })
	o.scan.Spec.Cancel = nil
	askRerun("parser")(o)
	live(t, o, wholeRun)
	if o.scan.Status.State != executionv1.ScanStateDone || conditionOf(&o.scan.Status, executionv1.ConditionCancelled) != "" {
		t.Errorf("%s, condition Cancelled %s", o.scan.Status.State, conditionOf(&o.scan.Status, executionv1.ConditionCancelled))
	}
	if got := attemptsByRole(o.jobs); got != "a:13 b:13 parser:13 scanner:1" {
		t.Errorf("Jobs %q", got)
	}
}
