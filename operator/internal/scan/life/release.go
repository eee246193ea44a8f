// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// The results of a Scan may go when every sink has them, as the settings say. The annotation that says so is written first,
// by the results endpoint after the forwarder's proof; pods cannot write it. From then on missing results are no sign of a
// Job that was lost, and removing goes on until nothing is left, whoever is killed in between.

// CarriesRelease says whether a Scan has the annotation of results that were given up. It is taken away when the Scan
// begins anew; whether it is of the present run, only the whole Scan tells.
func CarriesRelease(s *executionv1.Scan) bool {
	return s.Annotations[executionv1.AnnotationReleased] != ""
}

// isReleased holds where the results of the present run were given up. The numbers of runs are those that the API server has.
func isReleased(o *Observation) bool {
	return IsSettled(o) && CarriesRelease(o.Scan) && (&executionv1.Scan{ObjectMeta: o.Scan.ObjectMeta, Status: *o.Found}).Released()
}

// isReleasing holds where something may be left of results that were given up.
func isReleasing(o *Observation) bool {
	if !IsSettled(o) || !CarriesRelease(o.Scan) || saysRemoved(o.Found) {
		return false
	}
	return !o.Known.Has(NeedWhole) || isReleased(o)
}

// saysRemoved holds where nothing is left of them.
func saysRemoved(s *executionv1.ScanStatus) bool {
	c := FindCondition(s.Conditions, executionv1.ConditionResultsStored)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == executionv1.ReasonRemovedAfterForwarding
}

// releaseResults says that the results are removed, and removes them in the pass after that.
func releaseResults(o *Observation, d *Decision) {
	was := FindCondition(o.Found.Conditions, executionv1.ConditionResultsStored)
	if was == nil || was.Status != metav1.ConditionFalse || was.Reason != executionv1.ReasonRemoving || hasLinks(o.Found) {
		d.Status = Removing(o.Found, o.Scan.Generation, o.Now)
		d.RequeueAfter = ConflictRetry
		return
	}
	d.RemoveResults, d.RawResultFile = true, NewStatus(o).RawResultFile
	d.Status = withResultsStored(o.Found, o.Scan.Generation, o.Now, Cause{executionv1.ReasonRemovedAfterForwarding, was.Message})
	d.RequeueAfter, _ = untilExpiry(o)
}

// Removing is the status of a Scan whose results were given up: it says who has them, and links to none.
func Removing(s *executionv1.ScanStatus, generation int64, now time.Time) *executionv1.ScanStatus {
	next := withResultsStored(s, generation, now, Cause{executionv1.ReasonRemoving, whoHas(s)})
	next.FindingDownloadLink, next.FindingHeadLink, next.RawResultDownloadLink, next.RawResultHeadLink = "", "", "", ""
	next.ScannerLogDownloadLink = ""
	return next
}

func hasLinks(s *executionv1.ScanStatus) bool {
	return s.FindingDownloadLink+s.FindingHeadLink+s.RawResultDownloadLink+s.RawResultHeadLink+s.ScannerLogDownloadLink != ""
}

// withResultsStored is a status, unchanged but for the condition.
func withResultsStored(s *executionv1.ScanStatus, generation int64, now time.Time, t Cause) *executionv1.ScanStatus {
	at := &Observation{Now: now, Scan: &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Generation: generation}}}
	next := &Status{s.DeepCopy()}
	next.set(at, executionv1.ConditionResultsStored, metav1.ConditionFalse, t)
	return next.result()
}

// whoHas says which sinks have the results, how many records that are, and the digest of one that has proved it.
func whoHas(s *executionv1.ScanStatus) string {
	message := "The results are removed after they were forwarded to " + ForwardedTo(s)
	for i := range s.Forwarding {
		if p := &s.Forwarding[i]; p.CompletedAt != nil && p.Verdict == executionv1.VerdictComplete {
			return fmt.Sprintf("%s: %d records; proved by %s, chain %s.", message, p.Records, p.Sink, p.Chain)
		}
	}
	return message + "."
}

// ForwardedTo names the sinks that have the results of a Scan.
func ForwardedTo(s *executionv1.ScanStatus) string {
	var sinks []string
	for i := range s.Forwarding {
		if s.Forwarding[i].CompletedAt != nil {
			sinks = append(sinks, s.Forwarding[i].Sink)
		}
	}
	slices.Sort(sinks)
	return orNone(strings.Join(sinks, ", "))
}

// refusedRelease says why a Scan whose results were given up does not do again what needs them; "" where it does.
func refusedRelease(o *Observation, what string) string {
	needs := what == rerunParser || what == rerunHooks || what == rerunLinks || strings.HasPrefix(what, rerunOneHook)
	if !needs || !isReleased(o) {
		return ""
	}
	return "the results were removed after they were forwarded to " + ForwardedTo(o.Found)
}

// releasedRun is the number of the run whose results were given up last; 0 for none.
func releasedRun(s *executionv1.Scan) int {
	n, err := strconv.Atoi(s.Annotations[executionv1.AnnotationReleased])
	if err != nil || n < 0 || n > MaxRun {
		return 0
	}
	return n
}
