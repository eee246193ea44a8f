// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanyard/scanyard/operator/internal/queue/fair"
)

// maxNamespaces bounds the values of the label namespace. The namespaces with most waiting Scans
// have a value of their own, the others are summed up as "other".
const maxNamespaces = 100

// otherNamespaces is the value for the others.
const otherNamespaces = "other"

// collector counts the waiting and running Scans of each namespace at each scrape.
type collector struct {
	queue                    *Queue
	waiting, running, oldest *prometheus.Desc
}

// NewCollector returns a collector of the waiting and running Scans of a Queue.
func NewCollector(q *Queue) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"namespace"}, nil)
	}
	return &collector{
		queue:   q,
		waiting: desc("scanyard_queue_waiting", "Scans that wait for their turn."),
		running: desc("scanyard_queue_running", "Scans that hold a slot."),
		oldest:  desc("scanyard_queue_oldest_wait_seconds", "How long the Scan has waited that has waited longest."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.waiting
	ch <- c.running
	ch <- c.oldest
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	now := c.queue.clock.Now()
	gauge := func(d *prometheus.Desc, v float64, namespace string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, namespace)
	}
	for _, t := range bounded(c.queue.tenancies()) {
		gauge(c.waiting, float64(t.Waiting), t.Namespace)
		gauge(c.running, float64(t.Running), t.Namespace)
		if t.Waiting > 0 {
			gauge(c.oldest, max(0, now.Sub(t.Oldest).Seconds()), t.Namespace)
		}
	}
}

func (q *Queue) tenancies() []fair.Tenancy {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.listing.Tenancies()
}

// bounded sums up the namespaces beyond maxNamespaces.
func bounded(all []fair.Tenancy) []fair.Tenancy {
	if len(all) <= maxNamespaces {
		return all
	}
	rest := fair.Tenancy{Namespace: otherNamespaces}
	for _, t := range all[maxNamespaces-1:] {
		rest.Waiting += t.Waiting
		rest.Running += t.Running
		if t.Waiting > 0 && (rest.Oldest.IsZero() || t.Oldest.Before(rest.Oldest)) {
			rest.Oldest = t.Oldest
		}
	}
	return append(all[:maxNamespaces-1:maxNamespaces-1], rest)
}
