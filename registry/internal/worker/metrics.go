// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of a worker.
type Metrics struct {
	work, redelivered, reused, requests, updates, crashes *prometheus.CounterVec
	seconds                                               *prometheus.HistogramVec
	doubled, bytes, throttled, uploaded                   prometheus.Counter
	databaseAge, memory                                   *prometheus.GaugeVec
	sandbox                                               prometheus.Gauge
}

const prefix = "scanyard_registry_"

// NewMetrics registers the metrics of a worker.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &Metrics{
		work:        vector("work_total", "Items that were worked on, by step and outcome.", "step", "outcome"),
		redelivered: vector("redelivered_total", "Messages that another worker had before.", "step"),
		reused:      vector("reused_total", "SBOMs and reports that were there already, by who may share them: the host's, or the namespace's.", "kind", "scope"),
		requests:    vector("requests_total", "Requests to registries.", "host_class", "method", "code"),
		updates:     vector("database_updates_total", "Looks for newer vulnerability data.", "adapter", "result"),
		crashes:     vector("adapter_restarts_total", "Adapters that ended over an item.", "adapter", "reason"),
		doubled:     counter("doubled_total", "Claims that somebody else had made before."),
		bytes:       counter("bytes_total", "Compressed bytes of layers that were fetched."),
		throttled:   counter("throttled_total", "Tries that a registry's limit has ended."),
		uploaded:    counter("uploads_bytes_total", "Uncompressed bytes of documents that were uploaded."),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "work_seconds", Help: "How long steps took.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}, []string{"step"}),
		databaseAge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "database_age_seconds", Help: "Age of the vulnerability data in use.",
		}, []string{"adapter"}),
		memory: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "adapter_rss_bytes", Help: "Resident memory of an adapter's processes, all together.",
		}, []string{"adapter"}),
		sandbox: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "sandbox", Help: "Whether adapters are confined."}),
	}
	registry.MustRegister(m.seconds, m.databaseAge, m.memory, m.sandbox)
	return m
}

// Confined tells whether adapters are confined.
func (m *Metrics) Confined(confined bool) {
	m.sandbox.Set(0)
	if confined {
		m.sandbox.Set(1)
	}
}

// Grown adds to the memory of an adapter's processes.
func (m *Metrics) Grown(adapter string, bytes int64) {
	m.memory.WithLabelValues(adapter).Add(float64(bytes))
}

// asked counts a request to a host.
func (m *Metrics) asked(host, method string, status int) {
	class := "other"
	if host == "registry-1.docker.io" || strings.HasSuffix(host, ".docker.io") {
		class = "docker"
	}
	m.requests.WithLabelValues(class, method, strconv.Itoa(status)).Inc()
}
