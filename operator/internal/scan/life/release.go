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

// If the settings say so, the results of a Scan are removed when every sink has them. First the results endpoint writes the
// annotation that releases the results, after the forwarder's proof; pods cannot write that annotation. From then on missing
// results do not mean that a Job was lost, and the removal goes on until nothing is left, even if a program is killed.

// HasReleaseAnnotation reports whether a Scan has the annotation of released results. A re-run removes the annotation;
// whether it belongs to the current run can be decided only from the whole Scan.
func HasReleaseAnnotation(s *executionv1.Scan) bool {
	return s.Annotations[executionv1.AnnotationReleased] != ""
}

// isReleased reports whether the results of the current run were released. The number of the run is that of the API server.
func isReleased(o *Observation) bool {
	return IsSettled(o) && HasReleaseAnnotation(o.Scan) && (&executionv1.Scan{ObjectMeta: o.Scan.ObjectMeta, Status: *o.Found}).Released()
}

// isReleasing reports whether released results may still be in storage.
func isReleasing(o *Observation) bool {
	if !IsSettled(o) || !HasReleaseAnnotation(o.Scan) || isRemoved(o.Found) {
		return false
	}
	return !o.Known.Has(NeedWhole) || isReleased(o)
}

// isRemoved reports whether the released results are gone from storage.
func isRemoved(s *executionv1.ScanStatus) bool {
	c := FindCondition(s.Conditions, executionv1.ConditionResultsStored)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == executionv1.ReasonRemovedAfterForwarding
}

// releaseResults first reports that the results are removed; the next pass removes them.
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

// Removing returns the status of a Scan whose results were released: it names the sinks that have them, and has no links.
func Removing(s *executionv1.ScanStatus, generation int64, now time.Time) *executionv1.ScanStatus {
	next := withResultsStored(s, generation, now, Cause{executionv1.ReasonRemoving, forwardedMessage(s)})
	next.FindingDownloadLink, next.FindingHeadLink, next.RawResultDownloadLink, next.RawResultHeadLink = "", "", "", ""
	next.ScannerLogDownloadLink = ""
	return next
}

func hasLinks(s *executionv1.ScanStatus) bool {
	return s.FindingDownloadLink+s.FindingHeadLink+s.RawResultDownloadLink+s.RawResultHeadLink+s.ScannerLogDownloadLink != ""
}

// withResultsStored returns a copy of the status with the condition ResultsStored.
func withResultsStored(s *executionv1.ScanStatus, generation int64, now time.Time, t Cause) *executionv1.ScanStatus {
	at := &Observation{Now: now, Scan: &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Generation: generation}}}
	next := &Status{s.DeepCopy()}
	next.set(at, executionv1.ConditionResultsStored, metav1.ConditionFalse, t)
	return next.result()
}

// forwardedMessage names the sinks that have the results, with the number of records and the digest that one of them proved.
func forwardedMessage(s *executionv1.ScanStatus) string {
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

// refusedRelease returns why a part of a Scan cannot be run again: it needs results that were released. "" if it can.
func refusedRelease(o *Observation, what string) string {
	needs := what == rerunParser || what == rerunHooks || what == rerunLinks || strings.HasPrefix(what, rerunOneHook)
	if !needs || !isReleased(o) {
		return ""
	}
	return "the results were removed after they were forwarded to " + ForwardedTo(o.Found)
}

// releasedRun returns the number of the last run whose results were released; 0 for none.
func releasedRun(s *executionv1.Scan) int {
	n, err := strconv.Atoi(s.Annotations[executionv1.AnnotationReleased])
	if err != nil || n < 0 || n > MaxRun {
		return 0
	}
	return n
}
