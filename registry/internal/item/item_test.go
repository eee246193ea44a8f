// SPDX-License-Identifier: Apache-2.0

package item

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// observed is an image that waits for its SBOM.
func observed(change ...func(*Observation)) Observation {
	o := Observation{Step: SBOM, Now: now, State: reportsv1.ImagePending}
	for _, c := range change {
		c(&o)
	}
	return o
}

func match(o *Observation) { o.Step, o.State = Match, reportsv1.ImageWaitingForMatch }

func scanned(o *Observation) { o.Step, o.State, o.Scanned = Match, reportsv1.ImageScanned, true }

func repository(o *Observation) { o.Step, o.State = Discover, reportsv1.RepositoryWaiting }

// claimed gives the item to another worker, with a lease for that long.
func claimed(lease time.Duration) func(*Observation) {
	return func(o *Observation) {
		o.Claimed, o.Lease, o.State, o.Attempt = true, now.Add(lease), statesOf[o.Step].working, 1
	}
}

func mine(o *Observation)        { o.Mine = true }
func redelivered(o *Observation) { o.Redelivered = true }
func again(o *Observation)       { o.Again = true }

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		reason string
		given  Observation
		want   Decision
	}{
		"Deleted": {
			"there is nothing to write to", observed(func(o *Observation) { o.Gone = true }),
			Decision{Row: "Deleted", State: "Pending"},
		},
		"DeletedWhileIWork": {
			"a claim held is released", observed(claimed(time.Minute), mine, func(o *Observation) { o.Gone = true }),
			Decision{Row: "Deleted", Action: Release, State: "Pending", Attempt: 1},
		},
		"CancelledWhileIWork": {
			"state as before the claim", observed(scanned, claimed(time.Minute), mine, func(o *Observation) { o.Cancelled = true }),
			Decision{Row: "Cancelled", Action: Release, State: "Scanned", Attempt: 1},
		},
		"CancelledBeforeWork": {
			"nobody wants it any more", observed(func(o *Observation) { o.Cancelled = true }),
			Decision{Row: "Cancelled", State: "Pending"},
		},
		"CancelledWhileAnotherWorks": {
			"the other worker hears of it itself", observed(claimed(time.Minute), func(o *Observation) { o.Cancelled = true }),
			Decision{Row: "Busy", State: "GeneratingSBOM", Attempt: 1},
		},
		"NotBefore": {
			"the controller asks again then", observed(func(o *Observation) { o.NotBefore, o.Attempt = now.Add(time.Second), 3 }),
			Decision{Row: "NotNow", State: "Pending", Attempt: 3},
		},
		"NotBeforeHasPassed": {
			"the time has come", observed(func(o *Observation) { o.NotBefore, o.Attempt = now, 3 }),
			Decision{Row: "MakeSBOM", Action: Claim, State: "GeneratingSBOM", Attempt: 4},
		},
		"Paused": {
			"suspended, closed or the host paused", observed(func(o *Observation) { o.Paused = true }),
			Decision{Row: "NotNow", State: "Pending"},
		},
		"PausedWhileIWork": {
			"what has begun goes on", observed(claimed(time.Minute), mine, func(o *Observation) { o.Paused = true }),
			Decision{Row: "Mine", State: "GeneratingSBOM", Attempt: 1},
		},
		"ClaimOfAnotherStep": {
			"a late message for the SBOM does not touch the match", observed(match, claimed(0), func(o *Observation) { o.Step = SBOM }),
			Decision{Row: "Settled", State: "Matching", Attempt: 1},
		},
		"Busy": {
			"somebody works on it", observed(claimed(time.Second)),
			Decision{Row: "Busy", State: "GeneratingSBOM", Attempt: 1},
		},
		"Takeover": {
			"the last holder has not spoken for 60 s", observed(claimed(time.Minute), redelivered),
			Decision{Row: "MakeSBOM", Action: Claim, State: "GeneratingSBOM", Attempt: 2, Lost: 1, TakenOver: true},
		},
		"Lost": {
			"worker and queue are both gone", observed(match, claimed(0)),
			Decision{Row: "Match", Action: Claim, State: "Matching", Attempt: 2, Lost: 1, TakenOver: true},
		},
		"LostWithoutAClaim": {
			"a state of work that nobody has claimed is none", observed(func(o *Observation) { o.State = reportsv1.ImageGeneratingSBOM }),
			Decision{Row: "MakeSBOM", Action: Claim, State: "GeneratingSBOM", Attempt: 1},
		},
		"PoisonByCrashes": {
			"the adapter died over it twice", observed(func(o *Observation) { o.Crashes, o.Attempt = 2, 2 }),
			Decision{Row: "Poison", Action: Settle, State: "Quarantined", Reason: ReasonAdapterCrashed, Crashes: 2, Attempt: 2},
		},
		"PoisonByWorkers": {
			"its workers vanished: this is the fourth", observed(claimed(-time.Second), func(o *Observation) { o.Lost, o.Attempt = 3, 4 }),
			Decision{Row: "Poison", Action: Settle, State: "Quarantined", Reason: ReasonWorkerLost, Lost: 4, Attempt: 4, TakenOver: true},
		},
		"Quarantined": {
			"it stays there", observed(func(o *Observation) { o.State, o.Crashes = reportsv1.ImageQuarantined, 2 }),
			Decision{Row: "Poison", State: "Quarantined", Crashes: 2},
		},
		"QuarantinedAndRetried": {
			"it begins anew", observed(again, func(o *Observation) { o.State, o.Crashes, o.Attempt, o.Lost = reportsv1.ImageQuarantined, 2, 5, 4 }),
			Decision{Row: "MakeSBOM", Action: Claim, State: "GeneratingSBOM", Attempt: 1},
		},
		"Alone": {
			"this worker does other things: blame would not be certain", observed(func(o *Observation) { o.Lost = 2 }),
			Decision{Row: "Alone", State: "Pending", Lost: 2},
		},
		"AloneAfterALoss": {
			"the claim ends, so that its loss counts once", observed(claimed(0), func(o *Observation) { o.Lost = 1 }),
			Decision{Row: "Alone", Action: Release, State: "Pending", Attempt: 1, Lost: 2, TakenOver: true},
		},
		"AloneAtAnIdleWorker": {
			"blame is certain", observed(func(o *Observation) { o.Lost, o.Idle = 2, true }),
			Decision{Row: "MakeSBOM", Action: Claim, State: "GeneratingSBOM", Attempt: 1, Lost: 2},
		},
		"UsedUp": {
			"six tries are enough", observed(func(o *Observation) { o.Attempt, o.Reason = 6, "Timeout" }),
			Decision{Row: "UsedUp", Action: Settle, State: "Failed", Reason: "Timeout", Attempt: 6},
		},
		"UsedUpOfUnknownReason": {
			"a reason there must be", observed(repository, func(o *Observation) { o.Attempt = 6 }),
			Decision{Row: "UsedUp", Action: Settle, State: "Failed", Reason: ReasonAttemptsUsedUp, Attempt: 6},
		},
		"FailedStays": {
			"until a job wants it again", observed(func(o *Observation) { o.State, o.Attempt = reportsv1.ImageFailed, 6 }),
			Decision{Row: "Settled", State: "Failed", Attempt: 6},
		},
		"FailedAndWantedAgain": {
			"the next job takes it up", observed(again, func(o *Observation) { o.State, o.Attempt, o.NotBefore = reportsv1.ImageFailed, 6, now.Add(time.Hour) }),
			Decision{Row: "MakeSBOM", Action: Claim, State: "GeneratingSBOM", Attempt: 1},
		},
		"TooLarge": {
			"until the bound changes", observed(func(o *Observation) { o.Unfit = "TooLarge" }),
			Decision{Row: "Unfit", Action: Settle, State: "Skipped", Reason: "TooLarge"},
		},
		"RepositoryThatIsNone": {
			"repositories are not skipped", observed(repository, func(o *Observation) { o.Unfit = "InvalidRepository" }),
			Decision{Row: "Unfit", Action: Settle, State: "Failed", Reason: "InvalidRepository"},
		},
		"OverQuota": {
			"it waits until the quota begins anew", observed(func(o *Observation) { o.QuotaUntil = now.Add(time.Hour) }),
			Decision{Row: "OverQuota", Action: Wait, State: "Pending", Reason: ReasonQuotaExceeded, NotBefore: now.Add(time.Hour)},
		},
		"MatchingFetchesNothing": {
			"the quota is one of bytes", observed(match, func(o *Observation) { o.QuotaUntil = now.Add(time.Hour) }),
			Decision{Row: "Match", Action: Claim, State: "Matching", Attempt: 1},
		},
		"MakeSBOM": {"", observed(), Decision{Row: "MakeSBOM", Action: Claim, State: "GeneratingSBOM", Attempt: 1}},
		"NoDatabase": {
			"it says why it waits", observed(match, func(o *Observation) { o.Database = DatabaseMissing }),
			Decision{Row: "NoDatabase", Action: Wait, State: "WaitingForMatch", Reason: ReasonDatabaseMissing},
		},
		"NoDatabaseStill": {
			"nothing is written twice", observed(match, func(o *Observation) { o.Database, o.Reason = DatabaseMissing, ReasonDatabaseMissing }),
			Decision{Row: "NoDatabase", State: "WaitingForMatch", Reason: ReasonDatabaseMissing},
		},
		"StaleDatabase": {
			"the installation stops then", observed(match, func(o *Observation) { o.Database = DatabaseStale }),
			Decision{Row: "NoDatabase", Action: Wait, State: "WaitingForMatch", Reason: ReasonDatabaseStale},
		},
		"Match": {"", observed(match), Decision{Row: "Match", Action: Claim, State: "Matching", Attempt: 1}},
		"MatchAgain": {
			"a job wants it", observed(scanned, func(o *Observation) { o.Wanted = true }),
			Decision{Row: "Match", Action: Claim, State: "Matching", Attempt: 1},
		},
		"Scanned": {
			"nothing is wanted", observed(scanned), Decision{Row: "Settled", State: "Scanned"},
		},
		"MessageOfAnEarlierStep": {
			"the SBOM is made already", observed(func(o *Observation) { o.State = reportsv1.ImageWaitingForMatch }),
			Decision{Row: "Settled", State: "WaitingForMatch"},
		},
		"Discover": {"", observed(repository), Decision{Row: "Discover", Action: Claim, State: "Working", Attempt: 1}},
		"DiscoverAgain": {
			"the next job reads it anew", observed(repository, again, func(o *Observation) { o.State = reportsv1.RepositoryDone }),
			Decision{Row: "Discover", Action: Claim, State: "Working", Attempt: 1},
		},
		"Discovered": {
			"it is done", observed(repository, func(o *Observation) { o.State = reportsv1.RepositoryDone }), Decision{Row: "Settled", State: "Done"},
		},
	}
	fired := map[string]bool{}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.given)
			fired[got.Row] = true
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	for _, r := range slices.Concat(before, after) {
		if !fired[r.name] {
			t.Errorf("no case for the row %s", r.name)
		}
	}
}

// TestDecideOverAllStates walks every state with everything that can be seen: a claim of another worker is never ended while its
// holder speaks, a try never begins for what is away or waits, and no item is tried for ever.
func TestDecideOverAllStates(t *testing.T) {
	walked := 0
	for o := range everything() {
		walked++
		d := Decide(o)
		switch {
		case d.Row == "":
			t.Fatalf("%+v: no row", o)
		case held(o) && d.Action != Nothing:
			t.Fatalf("%+v: %+v takes from a worker that speaks", o, d)
		case d.Action == Claim && (o.Gone || o.Cancelled || o.Paused || o.NotBefore.After(o.Now) && !o.Again || o.Mine):
			t.Fatalf("%+v: %+v begins what must not begin", o, d)
		case d.Action == Claim && (d.Attempt > maxAttempts || d.Lost >= maxLost || d.Crashes >= maxCrashes):
			t.Fatalf("%+v: %+v tries once more", o, d)
		case d.Action == Claim && d.State != statesOf[o.Step].working:
			t.Fatalf("%+v: %+v claims for another state", o, d)
		case d.Action == Settle && d.Reason == "":
			t.Fatalf("%+v: %+v gives no reason", o, d)
		case d.Action == Settle && d.State == o.State && !o.Claimed:
			t.Fatalf("%+v: %+v writes what stands there", o, d)
		case d.TakenOver && d.Action == Nothing:
			t.Fatalf("%+v: %+v leaves a claim that nobody holds", o, d)
		}
	}
	if walked < 100_000 {
		t.Errorf("only %d observations walked", walked)
	}
}

// everything gives every combination of what an observation may hold and a worker may meet.
func everything() func(yield func(Observation) bool) {
	booleans := []bool{false, true}
	var all []Observation
	grow := func(set func(o *Observation, b bool)) {
		var next []Observation
		for _, b := range booleans {
			for _, o := range all {
				set(&o, b)
				next = append(next, o)
			}
		}
		all = next
	}
	for step, s := range statesOf {
		for _, state := range []string{s.waiting, s.working, s.done, s.failed, reportsv1.ImageQuarantined, reportsv1.ImageSkipped} {
			for _, counts := range [][3]int32{{0, 0, 0}, {6, 0, 0}, {2, 2, 0}, {3, 0, 2}, {4, 0, 3}} {
				all = append(all, Observation{Step: step, Now: now, State: state, Attempt: counts[0], Crashes: counts[1], Lost: counts[2], Lease: now})
			}
		}
	}
	grow(func(o *Observation, b bool) { o.Gone = b })
	grow(func(o *Observation, b bool) { o.Claimed = b })
	grow(func(o *Observation, b bool) { o.Mine = b && o.Claimed })
	grow(func(o *Observation, b bool) { o.Redelivered = b })
	grow(func(o *Observation, b bool) { o.Cancelled = b })
	grow(func(o *Observation, b bool) { o.Paused = b })
	grow(func(o *Observation, b bool) { o.Again = b })
	grow(func(o *Observation, b bool) { o.Idle = b })
	grow(func(o *Observation, b bool) { o.Wanted = b })
	grow(func(o *Observation, b bool) { o.Scanned = b && o.Step == Match })
	grow(func(o *Observation, b bool) {
		if b {
			o.Lease = now.Add(time.Minute)
		}
	})
	grow(func(o *Observation, b bool) {
		if b {
			o.NotBefore = now.Add(time.Minute)
		}
	})
	return slices.Values(all)
}

func TestAfter(t *testing.T) {
	tried := func(o Outcome, change ...func(*Tried)) Tried {
		r := Tried{Step: SBOM, Now: now, Outcome: o, Reason: "Because", Attempt: 3, Crashes: 1, Lost: 1, Chance: 0.5}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	for name, tc := range map[string]struct {
		given Tried
		want  Next
	}{
		"Done":           {tried(Done), Next{State: "WaitingForMatch"}},
		"DoneMatching":   {tried(Done, func(t *Tried) { t.Step = Match }), Next{State: "Scanned"}},
		"Transient":      {tried(Transient), Next{State: "Pending", Reason: "Because", NotBefore: now.Add(2 * time.Minute), Attempt: 3, Crashes: 1, Lost: 1}},
		"FirstTransient": {tried(Transient, func(t *Tried) { t.Attempt, t.Chance = 1, 0 }), Next{State: "Pending", Reason: "Because", NotBefore: now.Add(24 * time.Second), Attempt: 1, Crashes: 1, Lost: 1}},
		"LateTransient":  {tried(Transient, func(t *Tried) { t.Attempt = 40 }), Next{State: "Pending", Reason: "Because", NotBefore: now.Add(time.Hour), Attempt: 40, Crashes: 1, Lost: 1}},
		"RetryAfter":     {tried(Transient, func(t *Tried) { t.RetryAfter = time.Second }), Next{State: "Pending", Reason: "Because", NotBefore: now.Add(time.Second), Attempt: 3, Crashes: 1, Lost: 1}},
		"RetryNextYear":  {tried(Throttled, func(t *Tried) { t.RetryAfter = 9000 * time.Hour }), Next{State: "Pending", Reason: "Because", NotBefore: now.Add(time.Hour), Attempt: 2, Crashes: 1, Lost: 1}},
		"Crashed":        {tried(Crashed), Next{State: "Pending", Reason: "Because", NotBefore: now.Add(2 * time.Minute), Attempt: 3, Crashes: 2, Lost: 1}},
		"Unscannable":    {tried(Unscannable), Next{State: "Skipped", Reason: "Because", Attempt: 3, Crashes: 1, Lost: 1}},
		"NoRepository":   {tried(Unscannable, func(t *Tried) { t.Step = Discover }), Next{State: "Failed", Reason: "Because", Attempt: 3, Crashes: 1, Lost: 1}},
		"Broken":         {tried(Broken), Next{State: "Failed", Reason: "Because", Attempt: 3, Crashes: 1, Lost: 1}},
		"Refused":        {tried(Refused), Next{State: "Pending", Reason: "Because", Attempt: 2, Crashes: 1, Lost: 1}},
		"GivenBack":      {tried(GivenBack, func(t *Tried) { t.Attempt = 0 }), Next{State: "Pending", Reason: "Because", Crashes: 1, Lost: 1}},
		"OldReportStays": {tried(Transient, func(t *Tried) { t.Step, t.Scanned = Match, true }), Next{State: "Scanned", Reason: "Because", NotBefore: now.Add(2 * time.Minute), Attempt: 3, Crashes: 1, Lost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, After(tc.given)); diff != "" {
				t.Errorf("next (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryTryEnds: whatever a try ends with, again and again, the item is settled at some time, but for what is not a fault of its own.
func TestEveryTryEnds(t *testing.T) {
	for _, step := range []Step{Discover, SBOM, Match} {
		for _, outcome := range []Outcome{Transient, Crashed, Unscannable, Broken} {
			o := observed(func(o *Observation) { o.Step, o.State, o.Idle = step, statesOf[step].waiting, true })
			tries := 0
			for {
				d := Decide(o)
				if d.Action != Claim {
					if d.Action != Settle && d.State != reportsv1.ImageSkipped && d.State != reportsv1.ImageFailed {
						t.Errorf("%s ends with %+v", step, d)
					}
					break
				}
				if tries++; tries > maxAttempts {
					t.Fatalf("%s is tried %d times after outcome %d", step, tries, outcome)
				}
				n := After(Tried{Step: step, Now: o.Now, Outcome: outcome, Reason: "x", Attempt: d.Attempt, Crashes: d.Crashes, Lost: d.Lost})
				o.State, o.Attempt, o.Crashes, o.Lost, o.NotBefore = n.State, n.Attempt, n.Crashes, n.Lost, n.NotBefore
				if n.NotBefore.After(o.Now) {
					o.Now = n.NotBefore
				}
			}
		}
	}
}
