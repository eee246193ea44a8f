// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/internal/scans"
	"github.com/scanyard/scanyard/forwarding/internal/turns"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Metrics are those of the forwarder.
type Metrics struct {
	records, attempts *prometheus.CounterVec
	bytes             *prometheus.CounterVec
	healthy, reason   *prometheus.GaugeVec
	delivery          *prometheus.HistogramVec
	forged, released  prometheus.Counter
	foreign           prometheus.Gauge
	follower          *Follower

	mutex   sync.Mutex
	tenants map[string]bool
	reasons map[string]string
	expiry  map[ending]time.Time
}

// ending is of a certificate of a sink: "client" is ours, "server" the far end's.
type ending struct{ sink, which string }

const (
	maxTenants   = 100
	otherTenants = "other"
)

var (
	pendingDesc = prometheus.NewDesc("scanyard_forwarding_pending_scans", "Scans that the sink does not have yet.", []string{"sink"}, nil)
	oldestDesc  = prometheus.NewDesc("scanyard_forwarding_oldest_pending_seconds", "How long the oldest Scan has waited for the sink.", []string{"sink"}, nil)
	missingDesc = prometheus.NewDesc("scanyard_forwarding_incomplete_streams", "Scans of which the sink misses records.", []string{"sink"}, nil)
	expiryDesc  = prometheus.NewDesc("scanyard_forwarding_certificate_expiry_seconds", "Time until a certificate ends.", []string{"sink", "which"}, nil)
	deadDesc    = prometheus.NewDesc("scanyard_forwarding_dead_letters", "Records that the sink refused, each alone.", []string{"sink", "tenant"}, nil)
)

// NewMetrics makes and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		records:  counter("scanyard_forwarding_records_total", "Records by what became of them: delivered, duplicate, rejected.", "sink", "tenant", "outcome"),
		attempts: counter("scanyard_forwarding_attempts_total", "Streams by how they ended: ok, or the class of the error.", "sink", "class"),
		bytes:    counter("scanyard_forwarding_bytes_total", "Bytes of records that were acknowledged.", "sink"),
		healthy:  gauge("scanyard_forwarding_sink_healthy", "1 where the sink takes records.", "sink"),
		reason:   gauge("scanyard_forwarding_sink_reason", "1 for the present reason why the sink takes none.", "sink", "reason"),
		delivery: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scanyard_forwarding_delivery_seconds", Help: "From the end of a Scan to the acknowledgement of all of it.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
		}, []string{"sink"}),
		forged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scanyard_forwarding_forged_entries_total", Help: "Entries of status.forwarding that the forwarder has not written.",
		}),
		released: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scanyard_forwarding_results_released_total", Help: "Scans whose results were given up, since every sink has them.",
		}),
		foreign: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "scanyard_cluster_id_foreign", Help: "1 where the cluster has the ID of another one, as after a restored backup.",
		}),
		tenants: map[string]bool{}, reasons: map[string]string{}, expiry: map[ending]time.Time{},
	}
	registry.MustRegister(m.records, m.attempts, m.bytes, m.healthy, m.reason, m.delivery, m.forged, m.released, m.foreign, m)
	return m
}

// Foreign says that the cluster ID is that of another cluster.
func (m *Metrics) Foreign() { m.foreign.Set(1) }

// tenant bounds the values of the label.
func (m *Metrics) tenant(name string) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !m.tenants[name] {
		if len(m.tenants) >= maxTenants {
			return otherTenants
		}
		m.tenants[name] = true
	}
	return name
}

// sent counts what a stream has done.
func (m *Metrics) sent(task turns.Task, report scans.Report, err error) {
	tenant := m.tenant(task.Namespace)
	m.records.WithLabelValues(task.Sink, tenant, "delivered").Add(float64(report.Stored))
	m.records.WithLabelValues(task.Sink, tenant, "duplicate").Add(float64(report.Duplicates))
	m.records.WithLabelValues(task.Sink, tenant, "rejected").Add(float64(report.Rejected))
	class := "ok"
	if failure, ok := errors.AsType[*sink.Error](err); ok {
		class = string(failure.Class)
	}
	m.attempts.WithLabelValues(task.Sink, class).Inc()
}

// completed notes a Scan that the sink has whole.
func (m *Metrics) completed(id string, took time.Duration) {
	m.delivery.WithLabelValues(id).Observe(took.Seconds())
}

// health says how a sink is doing.
func (m *Metrics) health(id string, h plan.Health) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if before := m.reasons[id]; before != "" {
		m.reason.DeleteLabelValues(id, before)
		delete(m.reasons, id)
	}
	if !h.Fails() {
		m.healthy.WithLabelValues(id).Set(1)
		return
	}
	m.healthy.WithLabelValues(id).Set(0)
	m.reason.WithLabelValues(id, string(h.Reason)).Set(1)
	m.reasons[id] = string(h.Reason)
}

// expires notes when a certificate ends that a handshake has shown.
func (m *Metrics) expires(id, which string, notAfter time.Time) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.expiry[ending{id, which}] = notAfter
}

// certificates are those that handshakes have shown.
func (m *Metrics) certificates() map[ending]time.Time {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return maps.Clone(m.expiry)
}

// forget drops what is said of a sink that is gone.
func (m *Metrics) forget(id string) {
	labels := prometheus.Labels{"sink": id}
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.healthy, m.reason} {
		vec.DeletePartialMatch(labels)
	}
	m.mutex.Lock()
	delete(m.reasons, id)
	maps.DeleteFunc(m.expiry, func(c ending, _ time.Time) bool { return c.sink == id })
	m.mutex.Unlock()
}

// Describe is part of prometheus.Collector.
func (*Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- pendingDesc
	out <- oldestDesc
	out <- missingDesc
	out <- deadDesc
	out <- expiryDesc
}

// Collect counts what waits. The interface gives no context; the cache answers at once.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	if m.follower == nil {
		return
	}
	now := m.follower.o.Clock.Now()
	counts := m.follower.counts()
	for _, id := range m.follower.ids() {
		w, age := counts[id], 0.0
		if !w.oldest.IsZero() {
			age = max(now.Sub(w.oldest).Seconds(), 0)
		}
		out <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(w.scans), id)
		out <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, age, id)
		out <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(w.incomplete), id)
	}
	for c, notAfter := range m.certificates() {
		out <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, notAfter.Sub(now).Seconds(), c.sink, c.which)
	}
	for id, tenants := range m.follower.deadLetters(context.Background()) { //nolint:forbidigo // a Collector gets no context
		sums := map[string]int64{}
		for tenant, n := range tenants {
			sums[m.tenant(tenant)] += n
		}
		for tenant, n := range sums {
			out <- prometheus.MustNewConstMetric(deadDesc, prometheus.GaugeValue, float64(n), id, tenant)
		}
	}
}
