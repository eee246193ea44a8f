// SPDX-License-Identifier: Apache-2.0

package mapping

import (
	"maps"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// annotationParent names the Scan that a cascade has started this one from.
const annotationParent = "cascading.securecodebox.io/parent-scan"

// clusterLabels is the domain of labels that kubectl writes for itself.
const clusterLabels = "kubectl.kubernetes.io/"

// Revision is the highest attempt of the Scan's scanner, parser and hooks, at least 1.
func Revision(scan *executionv1.Scan) uint32 {
	highest := 1
	if a := scan.Status.Attempts; a != nil {
		highest = max(highest, a.Scanner, a.Parser)
	}
	for _, group := range scan.Status.OrderedHookStatuses {
		for i := range group {
			highest = max(highest, group[i].Attempt)
		}
	}
	return uint32(min(highest, 1<<31))
}

// StreamOf is the stream of a Scan.
func StreamOf(clusterID string, scan *executionv1.Scan) *forwardingv1.StreamId {
	return &forwardingv1.StreamId{
		ClusterId: clusterID, Tenant: scan.Namespace, Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN,
		Name: scan.Name, Uid: string(scan.UID), Revision: Revision(scan),
	}
}

// summaryOf tells what the Scan says of itself. Values of env are left out.
func summaryOf(source *Source) *forwardingv1.ScanSummary {
	scan := source.Scan
	status := &scan.Status
	summary := &forwardingv1.ScanSummary{
		ScanType: scan.Spec.ScanType, ResourceMode: string(scan.Mode()), Parameters: scan.Spec.Parameters,
		State: string(status.State), ErrorDescription: status.ErrorDescription,
		CreatedAt: timeOf(&scan.CreationTimestamp), StartedAt: timeOf(status.StartedAt), FinishedAt: timeOf(status.FinishedAt),
		RawResultType: status.RawResultType, RawResultFile: status.RawResultFile,
		Findings: countOf(status.Findings.Count), Severities: severitiesOf(&status.Findings.FindingSeverities),
		Labels: map[string]string{}, Outcome: outcomeOfScan(scan), Extra: maps.Clone(source.Extra), ParentScan: scan.Annotations[annotationParent],
	}
	addStored(summary, source.Stored)
	for category, count := range status.Findings.FindingCategories {
		if summary.Categories == nil {
			summary.Categories = map[string]uint64{}
		}
		summary.Categories[category] = countOf(&count)
	}
	for key, value := range scan.Labels {
		if !strings.HasPrefix(key, clusterLabels) {
			summary.Labels[key] = value
		}
	}
	return summary
}

// Keys of the summary's further metadata that say where the results lie.
const (
	extraFindingsSize, extraFindingsETag                = "findingsSize", "findingsETag"
	extraRawResultKey, extraRawResultSize, extraRawETag = "rawResultKey", "rawResultSize", "rawResultETag"
)

// addStored says where the results lie.
func addStored(summary *forwardingv1.ScanSummary, stored *Stored) {
	if stored == nil {
		return
	}
	if summary.Extra == nil {
		summary.Extra = map[string]string{}
	}
	if f := stored.Findings; f.Key != "" {
		summary.ResultsKey = f.Key
		summary.Extra[extraFindingsSize], summary.Extra[extraFindingsETag] = strconv.FormatInt(f.Size, 10), f.ETag
	}
	if raw := stored.Raw; raw.Key != "" {
		summary.Extra[extraRawResultKey], summary.Extra[extraRawETag] = raw.Key, raw.ETag
		summary.Extra[extraRawResultSize] = strconv.FormatInt(raw.Size, 10)
	}
}

func timeOf(t *metav1.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Time)
}

func countOf(n *int64) uint64 {
	if n == nil || *n < 0 {
		return 0
	}
	return uint64(*n)
}

func severitiesOf(s *executionv1.FindingSeverities) map[string]uint64 {
	severities := map[string]uint64{}
	for name, count := range map[string]*int64{"informational": s.Informational, "low": s.Low, "medium": s.Medium, "high": s.High} {
		if count != nil {
			severities[name] = countOf(count)
		}
	}
	return severities
}

// outcomeOfScan judges the whole Scan.
func outcomeOfScan(scan *executionv1.Scan) string {
	found := &scan.Status.Findings.FindingSeverities
	if open := scan.Status.Findings.Open; open != nil { // what exceptions suppress does not count
		found = open
	}
	switch {
	case scan.Status.State == executionv1.ScanStateErrored:
		return OutcomeError
	case countOf(found.Low)+countOf(found.Medium)+countOf(found.High) > 0:
		return OutcomeFail
	}
	return OutcomePass
}
