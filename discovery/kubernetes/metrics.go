// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanyard/scanyard/discovery/kubernetes/targets"
)

// Metrics say what the discovery sees and does. Labels never name an object.
type Metrics struct {
	writes    *prometheus.CounterVec
	postponed prometheus.Counter
	passes    prometheus.Histogram
	invalid   prometheus.Gauge

	mu sync.Mutex
	// targets are counted for each namespace, since passes go by namespace.
	targets map[string]map[targetCount]float64
	desc    *prometheus.Desc
}

type targetCount struct {
	kind    targets.Kind
	outcome targets.Outcome
	reason  targets.Reason
}

// NewMetrics registers the metrics of the discovery.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanyard_discovery_writes_total", Help: "ScheduledScans written, by action (create, update, restart, delete) and result (ok, refused, error).",
		}, []string{"action", "result"}),
		postponed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scanyard_discovery_postponed_total", Help: "How often the start of a scan was put off by limits.startsPerMinute.",
		}),
		passes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scanyard_discovery_pass_seconds", Help: "How long a pass over a namespace takes.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8), // 1 ms to 16 s
		}),
		invalid: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "scanyard_discovery_config_invalid", Help: "1 while the configuration file was changed to something that is refused, and the one before is in force.",
		}),
		targets: map[string]map[targetCount]float64{},
		desc: prometheus.NewDesc("scanyard_discovery_targets",
			"Targets by kind, outcome (Scanned, Waiting, Skipped) and reason.", []string{"kind", "outcome", "reason"}, nil),
	}
	r.MustRegister(m.writes, m.postponed, m.passes, m.invalid, m)
	return m
}

// Describe implements prometheus.Collector for the targets.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) { out <- m.desc }

// Collect implements prometheus.Collector for the targets.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := map[targetCount]float64{}
	for _, counts := range m.targets {
		for c, n := range counts {
			sum[c] += n
		}
	}
	for c, n := range sum {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, n, string(c.kind), string(c.outcome), string(c.reason))
	}
}

// passed notes what a pass over a namespace has found.
func (m *Metrics) passed(namespace string, results []targets.Result, took time.Duration) {
	counts := map[targetCount]float64{}
	for _, v := range results {
		counts[targetCount{v.Kind, v.Outcome, v.Reason}]++
	}
	m.passes.Observe(took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.targets[namespace] = counts
}

// gone forgets a namespace.
func (m *Metrics) gone(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.targets, namespace)
}

// wrote counts a write.
func (m *Metrics) wrote(c targets.Change, err error) {
	action := string(c.Action)
	if c.Restart {
		action = "restart"
	}
	result := "ok"
	switch {
	case err == nil:
	case isRefused(err):
		result = "refused"
	default:
		result = "error"
	}
	m.writes.WithLabelValues(action, result).Inc()
}
