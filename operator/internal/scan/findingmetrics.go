// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// annotationFindings keeps, in the cache only, how many findings a Scan has that is Done. A string of some dozens of bytes
// costs less than the maps and pointers of a status, and there may be a hundred thousand such Scans.
const annotationFindings = "cache.scanyard.io/findings"

// manyCategories is how many categories of one Scan are counted by their name; what is in smaller ones is counted as other.
const manyCategories = 16

// foundCounts is what annotationFindings holds, as JSON.
type foundCounts struct {
	// Open counts the findings that no exception suppresses, by severity.
	Open executionv1.FindingSeverities `json:"o,omitzero"`
	// Categories counts all findings by category.
	Categories map[string]int64 `json:"c,omitempty"`
}

// countsOf returns the counts of a Scan as text; "" where the Scan has no findings.
func countsOf(s *executionv1.Scan) string {
	found := &s.Status.Findings
	if found.Count == nil || *found.Count == 0 {
		return ""
	}
	counts := foundCounts{Open: found.FindingSeverities, Categories: largest(found.FindingCategories, manyCategories)}
	if found.Open != nil {
		counts.Open = *found.Open
	}
	text, err := json.Marshal(counts)
	if err != nil {
		return "" // numbers and strings only: it cannot happen
	}
	return string(text)
}

// largest returns the categories with the most findings, and the sum of the others as other.
func largest(categories map[string]int64, most int) map[string]int64 {
	if len(categories) <= most {
		return categories
	}
	names := slices.SortedFunc(maps.Keys(categories), func(a, b string) int {
		return cmp.Or(cmp.Compare(categories[b], categories[a]), strings.Compare(a, b))
	})
	kept := map[string]int64{}
	for i, name := range names {
		if i >= most {
			name = other
		}
		kept[name] += categories[names[i]]
	}
	return kept
}

// findingCollector counts the findings of the last Scan of each target, at each scrape.
type findingCollector struct {
	reader               client.Reader
	metrics              *Metrics
	severities, category *prometheus.Desc
}

// NewFindingCollector returns a collector of the findings in a cache of Scans. Of the Scans of one target only the last one
// that is Done counts, so that a daily scan does not add up.
func NewFindingCollector(reader client.Reader, m *Metrics) prometheus.Collector {
	return &findingCollector{
		reader: reader, metrics: m,
		severities: prometheus.NewDesc("scanyard_findings",
			"Findings that no exception covers, of the last Scan of each target, by severity.", []string{"namespace", "scan_type", "severity"}, nil),
		category: prometheus.NewDesc("scanyard_findings_by_category",
			"Findings of the last Scan of each target, those that exceptions cover included, by category.", []string{"namespace", "category"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *findingCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.severities; ch <- c.category }

// Collect implements prometheus.Collector.
func (c *findingCollector) Collect(ch chan<- prometheus.Metric) {
	//nolint:forbidigo // Collect is called by Prometheus without a context
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var list executionv1.ScanList
	err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy)
	if err == nil {
		err = c.count(ch, lastOfTargets(list.Items))
	}
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.severities, err)
	}
}

// lastOfTargets returns of the Scans of each target the one that is Done and was created last.
func lastOfTargets(scans []executionv1.Scan) []*executionv1.Scan {
	last := map[runsKey]*executionv1.Scan{}
	for i := range scans {
		s := &scans[i]
		if s.Status.State != executionv1.ScanStateDone || !s.DeletionTimestamp.IsZero() {
			continue
		}
		key := runsKey{s.Namespace, cmp.Or(TargetOf(s), string(s.UID))}
		if was := last[key]; was == nil || byCreation(store.OwnerOf(was), store.OwnerOf(s)) < 0 {
			last[key] = s
		}
	}
	return slices.Collect(maps.Values(last))
}

// count sends the sums over Scans as the cache keeps them. A series of a type without findings is 0: a graph falls to the
// ground and does not end.
func (c *findingCollector) count(ch chan<- prometheus.Metric, scans []*executionv1.Scan) error {
	type bySeverity struct{ namespace, kind, severity string }
	type byCategory struct{ namespace, category string }
	severities, categories := map[bySeverity]int64{}, map[byCategory]int64{}
	for _, s := range scans {
		text := s.Annotations[annotationFindings]
		if text == "" {
			text = cmp.Or(countsOf(s), "{}") // not in the form of the cache yet, or nothing found
		}
		var counts foundCounts
		if err := json.Unmarshal([]byte(text), &counts); err != nil {
			return fmt.Errorf("scan %s/%s: %w", s.Namespace, s.Name, err)
		}
		namespace := c.metrics.label(c.metrics.namespaces, s.Namespace)
		kind := c.metrics.typeLabel(s.Spec.ScanType)
		for severity, n := range map[string]*int64{
			"informational": counts.Open.Informational, "low": counts.Open.Low, "medium": counts.Open.Medium, "high": counts.Open.High,
		} {
			key := bySeverity{namespace, kind, severity}
			severities[key] += 0
			if n != nil {
				severities[key] += *n
			}
		}
		for category, n := range counts.Categories {
			categories[byCategory{namespace, c.metrics.label(c.metrics.categories, category)}] += n
		}
	}
	for k, n := range severities {
		ch <- prometheus.MustNewConstMetric(c.severities, prometheus.GaugeValue, float64(n), k.namespace, k.kind, k.severity)
	}
	for k, n := range categories {
		ch <- prometheus.MustNewConstMetric(c.category, prometheus.GaugeValue, float64(n), k.namespace, k.category)
	}
	return nil
}
