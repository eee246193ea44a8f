// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// maxTypes bounds the values of a label such as scan_type: any client that may write Scans chooses them,
// and each costs memory here and in Prometheus. Further values are counted as "other".
const maxTypes = 100

// Metrics counts Scans. Labels never name a Scan.
type Metrics struct {
	started, done, errored *prometheus.CounterVec
	phases                 *prometheus.HistogramVec
	orphans                prometheus.Counter
	undelivered            *prometheus.CounterVec
	waits                  *prometheus.HistogramVec
	failures               *prometheus.CounterVec

	mu                                     sync.Mutex
	types, namespaces, categories, reasons map[string]bool
}

// NewMetrics registers the metrics of Scans. The first three are metrics of secureCodeBox.
func NewMetrics(r prometheus.Registerer) *Metrics {
	byType := []string{"scan_type"}
	m := &Metrics{
		started: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "securecodebox_scans_started_count", Help: "Scans started."}, byType),
		done:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "securecodebox_scans_done_count", Help: "Scans that ended Done."}, byType),
		errored: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "securecodebox_scans_errored_count", Help: "Scans that ended Errored."}, byType),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scanyard_scan_phase_duration_seconds", Help: "Time that a phase of a Scan (scan, parse, hooks) took.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 18), // 1 s to 36 h
		}, []string{"scan_type", "phase"}),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scanyard_scans_storage_left_total", Help: "Scans deleted whose stored results could not be removed in time.",
		}),
		undelivered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanyard_forwarding_scans_lost_total", Help: "Scans that went before every sink had their results, by reason (deleted).",
		}, []string{"reason"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scanyard_queue_wait_seconds", Help: "Time from the creation of a Scan until it started, where there are limits.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 9), // 1 s to 18 h
		}, []string{"namespace"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanyard_scan_failures_total", Help: "Scans that ended Errored, by the reason of their condition Ready.",
		}, []string{"scan_type", "reason"}),
		types: map[string]bool{}, namespaces: map[string]bool{}, categories: map[string]bool{}, reasons: map[string]bool{},
	}
	r.MustRegister(m.started, m.done, m.errored, m.phases, m.orphans, m.undelivered, m.waits, m.failures)
	m.undelivered.WithLabelValues(reasonDeleted) // 0 from the start, so that an alert sees the first one
	return m
}

// typeLabel is the value of the label scan_type.
func (m *Metrics) typeLabel(scanType string) string { return m.label(m.types, scanType) }

// label returns a value that is among the first ones seen, else "other".
func (m *Metrics) label(seen map[string]bool, value string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !seen[value] {
		if len(seen) >= maxTypes {
			return other
		}
		seen[value] = true
	}
	return value
}

// other stands for all further values of a label.
const other = "other"

// began observes how long a Scan had waited when it began.
func (m *Metrics) began(s *executionv1.Scan, now time.Time) {
	m.waits.WithLabelValues(m.label(m.namespaces, s.Namespace)).Observe(max(0, now.Sub(queue.WaitsSince(s)).Seconds()))
}

func (m *Metrics) orphaned() { m.orphans.Inc() }

// reasonDeleted is the only reason for which the operator itself loses a Scan: it was deleted.
const reasonDeleted = "deleted"

func (m *Metrics) lost() { m.undelivered.WithLabelValues(reasonDeleted).Inc() }

// changed counts the changes that a written status has brought.
func (m *Metrics) changed(before *executionv1.Scan, after *executionv1.ScanStatus) {
	kind := m.typeLabel(before.Spec.ScanType)
	if before.Status.State == executionv1.ScanStateNew && after.State == executionv1.ScanStateScanning {
		m.started.WithLabelValues(kind).Inc()
	}
	if !before.Settled() && life.SettledState(after) {
		if after.State == executionv1.ScanStateDone {
			m.done.WithLabelValues(kind).Inc()
		} else {
			m.errored.WithLabelValues(kind).Inc()
			if c := life.FindCondition(after.Conditions, executionv1.ConditionReady); c != nil {
				m.failures.WithLabelValues(kind, m.label(m.reasons, c.Reason)).Inc()
			}
		}
	}
	m.durations(kind, before, after)
}

// durations observes the phases that have just ended. A phase begins when the one
// before has ended.
func (m *Metrics) durations(kind string, before *executionv1.Scan, after *executionv1.ScanStatus) {
	if after.StartedAt == nil {
		return
	}
	began := after.StartedAt.Time
	for _, p := range []struct{ condition, name string }{
		{executionv1.ConditionScanned, "scan"}, {executionv1.ConditionParsed, "parse"}, {executionv1.ConditionHooksCompleted, "hooks"},
	} {
		c := life.FindCondition(after.Conditions, p.condition)
		if c == nil || c.Status != metav1.ConditionTrue {
			return
		}
		was := life.FindCondition(before.Status.Conditions, p.condition)
		if after.LastRerun != "" && was != nil && was.LastTransitionTime.After(began) {
			began = was.LastTransitionTime.Time // the phase before may have ended long ago
		}
		if was == nil || was.Status != metav1.ConditionTrue {
			m.phases.WithLabelValues(kind, p.name).Observe(max(0, c.LastTransitionTime.Sub(began).Seconds()))
		}
		began = c.LastTransitionTime.Time
	}
}

// stateCollector counts the existing Scans, by state and type, at each scrape.
type stateCollector struct {
	reader  client.Reader
	metrics *Metrics
	desc    *prometheus.Desc
}

// NewStateCollector returns a collector of the Scans in a cache, by state and type.
func NewStateCollector(reader client.Reader, m *Metrics) prometheus.Collector {
	return &stateCollector{reader: reader, metrics: m, desc: prometheus.NewDesc(
		"scanyard_scans", "Scans that exist, by state (a Scan that has not been started has state New) and type.", []string{"state", "scan_type"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// collectTimeout bounds a read that only a cache that has not synced can delay.
const collectTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	//nolint:forbidigo // Collect is called by Prometheus without a context
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var list executionv1.ScanList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(c.desc, err)
		return
	}
	type key struct{ state, kind string }
	counts := map[key]int{}
	for i := range list.Items {
		state := string(list.Items[i].Status.State)
		if state == "" {
			state = "New"
		}
		counts[key{state, c.metrics.typeLabel(list.Items[i].Spec.ScanType)}]++
	}
	for k, n := range counts {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), k.state, k.kind)
	}
}
