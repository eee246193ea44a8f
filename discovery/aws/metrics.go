// SPDX-License-Identifier: Apache-2.0

package aws

import "github.com/prometheus/client_golang/prometheus"

// Results of messages, as labels of metrics.
const (
	resultProcessed = "processed"
	resultIgnored   = "ignored"
	resultFailed    = "failed"
	resultDiscarded = "discarded"
)

// Metrics are the metrics of discovery. Labels never name an object.
type Metrics struct {
	messages, changes, syncs   *prometheus.CounterVec
	stale, errors              prometheus.Counter
	images, containers, scheds prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	const prefix = "scanyard_autodiscovery_aws_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	single := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	m := &Metrics{
		messages: counter(
			"messages_total",
			"Messages by result: processed, ignored (another type of event), failed (stays in the queue), discarded (failed too often).",
			"result",
		),
		changes:    counter("changes_total", "ScheduledScans created, updated and deleted.", "change"),
		syncs:      counter("syncs_total", "Listings of ECS tasks by result (ok, error).", "result"),
		stale:      single("stale_containers_total", "States of containers that were older than what was known, and changed nothing."),
		errors:     single("queue_errors_total", "Calls to the queue that failed."),
		images:     gauge("images", "Images that run."),
		containers: gauge("containers", "Containers that run."),
		scheds:     gauge("scheduledscans", "ScheduledScans of this discovery."),
	}
	r.MustRegister(m.messages, m.changes, m.syncs, m.stale, m.errors, m.images, m.containers, m.scheds)
	for _, result := range []string{resultProcessed, resultIgnored, resultFailed, resultDiscarded} {
		m.messages.WithLabelValues(result)
	}
	for _, c := range []string{changeCreated, changeUpdated, changeDeleted} {
		m.changes.WithLabelValues(c)
	}
	return m
}
