// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanyard/scanyard/forwarding/internal/delivery"
)

// maxTenants have labels of their own.
const maxTenants = 100

// metrics are what /metrics shows: counters of what happened, and gauges that are read from the queue when somebody asks.
type metrics struct {
	p        *program
	registry *prometheus.Registry

	records, attempts, enqueued, rejected *prometheus.CounterVec
	delivered                             *prometheus.HistogramVec
	fsync, commits                        prometheus.Histogram
	paused                                atomic.Int64

	mu      sync.Mutex
	tenants map[string]bool
	expiry  map[certificate]time.Time
}

// certificate is one that a sink shows or is shown.
type certificate struct{ sink, which string }

func newMetrics(p *program) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		p: p, registry: prometheus.NewRegistry(), tenants: map[string]bool{}, expiry: map[certificate]time.Time{},
		records:  counter("scanyard_forwarding_records_total", "Records by what became of them: delivered, duplicate, rejected.", "sink", "tenant", "outcome"),
		attempts: counter("scanyard_forwarding_attempts_total", "Calls of a sink by class: ok, or the class of the error.", "sink", "class"),
		enqueued: counter("scanyard_exporter_enqueued_total", "Records that are on disk.", "intake", "tenant"),
		rejected: counter("scanyard_exporter_rejected_lines_total", "Lines that were refused.", "code"),
		delivered: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scanyard_forwarding_delivery_seconds", Help: "Time from intake to the sink's answer.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}, []string{"sink"}),
	}
	m.fsync = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "scanyard_exporter_fsync_seconds", Help: "Time in which a commit was synced.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
	})
	m.commits = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "scanyard_exporter_commit_records", Help: "Records that were committed together.", Buckets: prometheus.ExponentialBuckets(1, 4, 8),
	})
	m.registry.MustRegister(m.fsync, m.commits, m.records, m.attempts, m.enqueued, m.rejected, m.delivered, m)
	return m
}

// tenant bounds the number of labels.
func (m *metrics) tenant(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.tenants[name] {
		if len(m.tenants) >= maxTenants {
			return "other"
		}
		m.tenants[name] = true
	}
	return name
}

// Attempt counts a call of a sink.
func (m *metrics) Attempt(sink, class string) { m.attempts.WithLabelValues(sink, class).Inc() }

// Records counts what became of records.
func (m *metrics) Records(sink, tenant, outcome string, n int) {
	if n > 0 {
		m.records.WithLabelValues(sink, m.tenant(tenant), outcome).Add(float64(n))
	}
}

// Delivered notes how long a record waited.
func (m *metrics) Delivered(sink string, waited time.Duration) {
	m.delivered.WithLabelValues(sink).Observe(waited.Seconds())
}

// Committed notes a commit. One without records moves cursors only.
func (m *metrics) Committed(records int, took time.Duration) {
	m.fsync.Observe(took.Seconds())
	if records > 0 {
		m.commits.Observe(float64(records))
	}
}

// expires gives who notes when the certificates of a sink end.
func (m *metrics) expires(sink string) func(which string, notAfter time.Time) {
	return func(which string, notAfter time.Time) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.expiry[certificate{sink, which}] = notAfter
	}
}

// certificates gives when those of a sink end.
func (m *metrics) certificates(sink string) map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]time.Time{}
	for c, notAfter := range m.expiry {
		if c.sink == sink {
			found[c.which] = notAfter
		}
	}
	return found
}

// Enqueued counts records that are on disk.
func (m *metrics) Enqueued(intake, tenant string, n int) {
	m.enqueued.WithLabelValues(intake, m.tenant(tenant)).Add(float64(n))
}

// Rejected counts a line that was refused.
func (m *metrics) Rejected(code string) { m.rejected.WithLabelValues(code).Inc() }

// Paused counts connections that are not read.
func (m *metrics) Paused(by int) { m.paused.Add(int64(by)) }

// Describe describes nothing: which gauges there are depends on the sinks.
func (*metrics) Describe(chan<- *prometheus.Desc) {}

// Collect reads the queue.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	if m.p.queue == nil {
		return
	}
	u := m.p.queue.Usage()
	value := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		names, values := []string(nil), []string(nil)
		for i := 0; i+1 < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, v, values...)
	}
	gauge := func(name, help string, v float64, labels ...string) {
		value(prometheus.GaugeValue, name, help, v, labels...)
	}
	flag := map[bool]float64{true: 1}
	gauge("scanyard_exporter_queue_limit_bytes", "Bound of the queue.", float64(m.p.s.queueMax))
	if disk, err := m.p.queue.FreeBytes(); err == nil {
		gauge("scanyard_exporter_disk_free_bytes", "Free bytes of the volume.", float64(disk))
	}
	toFull := m.p.filling.secondsToFull(sample{m.p.o.Now(), u.Bytes}, m.p.free(u.Bytes))
	gauge("scanyard_exporter_seconds_to_full", "Time until the queue is full, by the rate of ten minutes.", toFull)
	gauge("scanyard_exporter_sessions", "Sessions that are known.", float64(u.Sessions))
	gauge("scanyard_exporter_durable", "1 where what is acknowledged is synced, and survives the pod.", flag[m.p.durable()])
	gauge("scanyard_exporter_config_valid", "1 where the configuration file is valid.", flag[m.p.configValid.Load()])
	gauge("scanyard_exporter_paused_connections", "Connections that are not read, because a quota is reached.", float64(m.paused.Load()))
	value(prometheus.CounterValue, "scanyard_exporter_quarantined_total", "Damaged queues that were put aside.", float64(m.p.quarantined))
	for _, reason := range []string{"quota", "sink_removed", "deleted", "command"} {
		value(prometheus.CounterValue, "scanyard_forwarding_dropped_total", "Records that were given up.", float64(u.Counters.Dropped[reason]), "reason", reason)
	}
	m.collectSinks(gauge)
}

func (m *metrics) collectSinks(gauge func(name, help string, v float64, labels ...string)) {
	backlogs, err := m.p.queue.Backlogs()
	if err != nil {
		return // damage is told by the log and by the exit code
	}
	now := m.p.o.Now()
	healthy, reasons := map[string]float64{}, map[string]string{}
	other := map[string]bool{}
	for _, b := range backlogs {
		s := m.p.sinks.state(b.Sink, b.Tenant)
		if _, known := healthy[b.Sink]; !known {
			healthy[b.Sink] = 1
		}
		if s.Health != delivery.Healthy && s.Health != delivery.Unknown {
			healthy[b.Sink], reasons[b.Sink] = 0, string(s.Reason)
		}
		tenant := m.tenant(b.Tenant)
		if tenant == "other" && other[b.Sink] {
			continue // one of those that share the label
		}
		other[b.Sink] = other[b.Sink] || tenant == "other"
		age := 0.0
		if !b.Oldest.IsZero() {
			age = math.Max(0, now.Sub(b.Oldest).Seconds())
		}
		gauge("scanyard_exporter_queue_records", "Records that wait.", float64(b.Records), "sink", b.Sink, "tenant", tenant)
		gauge("scanyard_exporter_queue_bytes", "Bytes that wait.", float64(b.Bytes), "sink", b.Sink, "tenant", tenant)
		gauge("scanyard_exporter_queue_oldest_seconds", "Age of the oldest record that waits.", age, "sink", b.Sink, "tenant", tenant)
		gauge("scanyard_forwarding_dead_letters", "Records that the sink refused.", float64(b.DeadLetters), "sink", b.Sink, "tenant", tenant)
	}
	for _, name := range m.p.sinks.names() {
		for which, notAfter := range m.certificates(name) {
			gauge("scanyard_forwarding_certificate_expiry_seconds", "Time until a certificate ends.", notAfter.Sub(now).Seconds(), "sink", name, "which", which)
		}
	}
	for name, v := range healthy {
		gauge("scanyard_forwarding_sink_healthy", "1 where the sink takes records.", v, "sink", name)
		if reason := reasons[name]; reason != "" {
			gauge("scanyard_forwarding_sink_reason", "1 for the present reason.", 1, "sink", name, "reason", reason)
		}
	}
}
