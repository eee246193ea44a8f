// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
)

// Labels and annotations by which reports of scans tell what was scanned, and which part of which run they are.
const (
	labelScan        = "scanyard.io/scan"
	labelSchedule    = "scanyard.io/schedule"
	labelChunk       = "scanyard.io/chunk"
	annotationRun    = "scanyard.io/run"
	annotationChunks = "scanyard.io/chunks"
)

var severityRanks = map[wgpolicyv1.Severity]rows.Severity{
	wgpolicyv1.SeverityCritical: rows.Critical, wgpolicyv1.SeverityHigh: rows.High, wgpolicyv1.SeverityMedium: rows.Medium,
	wgpolicyv1.SeverityLow: rows.Low, wgpolicyv1.SeverityInfo: rows.Info,
}

var resultCodes = map[wgpolicyv1.Result]rows.Result{
	wgpolicyv1.ResultPass: rows.Pass, wgpolicyv1.ResultFail: rows.Fail, wgpolicyv1.ResultWarn: rows.Warn,
	wgpolicyv1.ResultError: rows.Error, wgpolicyv1.ResultSkip: rows.Skip,
}

var vulnerabilityRanks = map[string]rows.Severity{"CRITICAL": rows.Critical, "HIGH": rows.High, "MEDIUM": rows.Medium, "LOW": rows.Low}

func indexReport(obj runtime.Object) (mvcc.Indexer, error) {
	report, ok := obj.(*Report)
	if !ok {
		return nil, fmt.Errorf("%T is no Report", obj)
	}
	return setOfResults(&report.ObjectMeta, report.Source, report.Results).Indexer(), nil
}

func indexClusterReport(obj runtime.Object) (mvcc.Indexer, error) {
	report, ok := obj.(*ClusterReport)
	if !ok {
		return nil, fmt.Errorf("%T is no ClusterReport", obj)
	}
	return setOfResults(&report.ObjectMeta, report.Source, report.Results).Indexer(), nil
}

// newSet begins a set with the target and the run, where the object names them.
func newSet(meta *metav1.ObjectMeta) *rows.Set {
	set := &rows.Set{Namespace: meta.Namespace, Target: meta.Labels[labelSchedule]}
	if set.Target == "" {
		set.Target = meta.Labels[labelScan]
	}
	part, partErr := strconv.Atoi(meta.Labels[labelChunk])
	parts, partsErr := strconv.Atoi(meta.Annotations[annotationChunks])
	if run := meta.Annotations[annotationRun]; set.Target != "" && run != "" && partErr == nil && partsErr == nil && part >= 0 && part < parts {
		set.Run, set.Part, set.Parts = run, part, parts
	}
	return set
}

func setOfResults(meta *metav1.ObjectMeta, source string, results []wgpolicyv1.PolicyReportResult) *rows.Set {
	set := newSet(meta)
	set.Rows = make([]rows.Row, len(results))
	for i := range results {
		result := &results[i]
		row := &set.Rows[i]
		*row = rows.Row{
			Source: result.Source, Policy: result.Policy, Rule: result.Rule, Category: result.Category,
			Severity: severityRanks[result.Severity], Result: resultCodes[result.Result], Score: scoreOf(result.Properties),
		}
		if row.Source == "" {
			row.Source = source
		}
		if result.Timestamp != nil {
			row.Time = time.Unix(result.Timestamp.Seconds, int64(result.Timestamp.Nanos)).UTC()
		}
		if len(result.Resources) > 0 {
			resource := &result.Resources[0]
			row.ResourceKind, row.ResourceNamespace, row.ResourceName = resource.Kind, resource.Namespace, resource.Name
		}
	}
	return set
}

// scoreOf is the first score from 0 to 10 among the properties that hold one.
func scoreOf(properties map[string]string) *float64 {
	for _, name := range []string{"cvss", "cvssScore", "cvss_score", "score"} {
		score, err := strconv.ParseFloat(strings.TrimSpace(properties[name]), 64)
		if err == nil && score >= 0 && score <= 10 {
			return &score
		}
	}
	return nil
}

func indexVulnerabilityReport(obj runtime.Object) (mvcc.Indexer, error) {
	report, ok := obj.(*reportsv1.VulnerabilityReport)
	if !ok {
		return nil, fmt.Errorf("%T is no VulnerabilityReport", obj)
	}
	set := newSet(&report.ObjectMeta)
	source := ""
	if report.Spec.Provenance != nil && report.Spec.Provenance.Engine != nil {
		source = report.Spec.Provenance.Engine.Name
	}
	set.Rows = make([]rows.Row, len(report.Spec.Findings))
	for i := range report.Spec.Findings {
		finding := &report.Spec.Findings[i]
		set.Rows[i] = rows.Row{
			Source: source, Policy: finding.VulnerabilityID, Rule: finding.Package.Name, Category: finding.Class,
			Severity: vulnerabilityRanks[finding.Severity], Result: rows.Fail, Score: finding.Score,
			ResourceKind: "Image", ResourceName: report.Spec.Digest, Suppressed: finding.Suppressed != nil,
		}
		if finding.PublishedAt != nil {
			set.Rows[i].Time = finding.PublishedAt.Time
		}
	}
	return set.Indexer(), nil
}
