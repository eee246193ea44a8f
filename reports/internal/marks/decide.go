// SPDX-License-Identifier: Apache-2.0

package marks

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/reports/internal/kinds"
)

const (
	managedBy    = "scanyard"
	labelTarget  = "scanyard.io/target"
	kindScan     = "Scan"
	sourcePrefix = managedBy + "/"
)

// scanKey says which exceptions hold.
type scanKey struct{ namespace, name, scanType, target string }

// scanOf is the Scan that a report is of; false where exceptions are not for its results.
func scanOf(report *kinds.Report) (scanKey, bool) {
	if report.Labels[policyreport.LabelManagedBy] != managedBy || report.Scope == nil || report.Scope.Kind != kindScan || len(report.Results) == 0 ||
		report.Annotations[policyreport.AnnotationExceptions] == policyreport.ExceptionsIgnored {
		return scanKey{}, false
	}
	scanType, ours := strings.CutPrefix(report.Results[0].Source, sourcePrefix)
	return scanKey{namespace: report.Namespace, name: report.Scope.Name, scanType: scanType, target: report.Labels[labelTarget]}, ours
}

// remark marks the results of a report, counts them anew, and tells whether any has changed.
func remark(report *kinds.Report, held *exception.Selection) (changed bool) {
	for i := range report.Results {
		result := &report.Results[i]
		if held.IsEmpty() && policyreport.ExceptionOf(result.Properties) == "" {
			continue
		}
		properties := maps.Clone(result.Properties)
		if properties == nil {
			properties = map[string]string{}
		}
		severity := string(result.Severity)
		var mark *exception.Mark
		if found, ok := held.MatchRemains(policyreport.Remains(result.Rule, result.Category, severity, properties)); ok {
			mark = &found
		}
		outcome := wgpolicyv1.Result(policyreport.Remark(string(result.Result), severity, properties, mark))
		if outcome != result.Result || !maps.Equal(properties, result.Properties) {
			result.Result, result.Properties, changed = outcome, properties, true
		}
	}
	if changed {
		report.Summary = summaryOf(report.Results)
	}
	return changed
}

func summaryOf(results []wgpolicyv1.PolicyReportResult) *wgpolicyv1.PolicyReportSummary {
	counts := map[wgpolicyv1.Result]int64{}
	for i := range results {
		counts[results[i].Result]++
	}
	of := func(result wgpolicyv1.Result) *int64 { n := counts[result]; return &n }
	return &wgpolicyv1.PolicyReportSummary{
		Pass: of(wgpolicyv1.ResultPass), Fail: of(wgpolicyv1.ResultFail), Warn: of(wgpolicyv1.ResultWarn), Error: of(wgpolicyv1.ResultError),
		Skip: of(wgpolicyv1.ResultSkip),
	}
}

// sums tell the sets of exceptions that hold in namespaces apart.
type sums struct {
	all        []byte
	own        map[string][]byte
	bySelector bool
	asks       asked
	// until is when another set holds without any change, as an exception begins or ends; zero for never.
	until time.Time
}

// asked is what of a Scan, beside its namespace, exceptions ask for.
type asked struct{ names, scanTypes, targets bool }

// of leaves of a Scan what is asked for: Scans that differ in nothing else have the same exceptions.
func (a asked) of(scan scanKey) scanKey {
	if !a.names {
		scan.name = ""
	}
	if !a.scanTypes {
		scan.scanType = ""
	}
	if !a.targets {
		scan.target = ""
	}
	return scan
}

// newSums sums up the exceptions that hold at a time.
func newSums(list []exception.Exception, now time.Time) (*sums, error) {
	cluster, own := sha256.New(), map[string][]byte{}
	s := &sums{own: own}
	for _, e := range inOrder(list) {
		s.begins(e.Spec.NotBefore, now)
		s.begins(e.Spec.ExpiresAt, now)
		if e.PhaseAt(now) != exception.Holds {
			continue
		}
		text, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("sum up %s: %w", e, err)
		}
		s.asks.names = s.asks.names || len(e.Scope.Scans) > 0
		s.asks.scanTypes = s.asks.scanTypes || len(e.Scope.ScanTypes) > 0
		s.asks.targets = s.asks.targets || len(e.Scope.Targets) > 0
		sum := sha256.Sum256(text)
		if e.Namespace != "" {
			own[e.Namespace] = append(own[e.Namespace], sum[:]...)
			continue
		}
		s.bySelector = s.bySelector || e.Scope.NamespaceSelector != nil
		cluster.Write(sum[:])
	}
	s.all = cluster.Sum(nil)
	return s, nil
}

// begins notes a time at which another set holds.
func (s *sums) begins(at *metav1.Time, now time.Time) {
	if at != nil && at.After(now) && (s.until.IsZero() || at.Time.Before(s.until)) {
		s.until = at.Time
	}
}

// inOrder is the list by names: a set has no order.
func inOrder(list []exception.Exception) []*exception.Exception {
	order := make([]*exception.Exception, 0, len(list))
	for i := range list {
		order = append(order, &list[i])
	}
	slices.SortFunc(order, func(a, b *exception.Exception) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return order
}

// of is the sum of a namespace.
func (s *sums) of(namespace string, labels map[string]string) (sum [sha256.Size]byte, err error) {
	text := append(append([]byte{}, s.all...), s.own[namespace]...)
	if s.bySelector {
		encoded, err := json.Marshal(labels)
		if err != nil {
			return sum, fmt.Errorf("sum up the labels of %s: %w", namespace, err)
		}
		text = append(text, encoded...)
	}
	return sha256.Sum256(text), nil
}
