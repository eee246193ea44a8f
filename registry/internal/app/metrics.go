// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/feeder"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

const prefix = "scanyard_registry_"

// counts are the metrics of the controller. Workers have those of the work itself.
type counts struct {
	feeder   *feeder.Feeder
	backlog  *prometheus.Desc
	inFlight *prometheus.Desc
	workers  *prometheus.Desc
	paused   *prometheus.Desc
	used     *prometheus.Desc
	maxAge   prometheus.Gauge
	images   *prometheus.GaugeVec
	// quarantined are images that nobody tries any more.
	quarantined prometheus.Gauge
	ends        *prometheus.CounterVec
	dead        *prometheus.CounterVec
	unaffected  prometheus.Counter
	waits       *prometheus.HistogramVec
}

func newCounts() *counts {
	return &counts{
		backlog:  prometheus.NewDesc(prefix+"backlog", "Items that wait, as far as jobs have told of them.", []string{"step"}, nil),
		inFlight: prometheus.NewDesc(prefix+"inflight", "Items that were let in and have not ended.", []string{"step"}, nil),
		workers:  prometheus.NewDesc(prefix+"workers", "Workers that have spoken in the last 30 s.", nil, nil),
		paused:   prometheus.NewDesc(prefix+"host_paused", "Accounts at hosts that are left alone because the host has asked for it.", nil, nil),
		used: prometheus.NewDesc(
			prefix+"quota_used_ratio", "How much of a quota the namespace uses that uses most of it.", []string{"quota"}, nil,
		),
		maxAge: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "database_max_age_seconds", Help: "Age from which on vulnerability data counts as stale."}),
		images: prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: prefix + "images", Help: "Images that Registries have, as their last job says."}, []string{"state"},
		),
		quarantined: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "quarantined", Help: "Images that nobody tries any more."}),
		dead: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: prefix + "dead_total", Help: "Messages that went to the dead letters."}, []string{"step"},
		),
		unaffected: prometheus.NewCounter(
			prometheus.CounterOpts{Name: prefix + "unaffected_total", Help: "Images that ScanJobs left alone: the newer data says nothing of them."},
		),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "admission_wait_seconds", Help: "How long items have waited that were let in.", Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
		}, []string{"priority"}),
		ends: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: prefix + "ended_total", Help: "Items whose end a worker has told."}, []string{"step", "outcome"},
		),
	}
}

// Describe tells of the metrics.
func (c *counts) Describe(to chan<- *prometheus.Desc) {
	to <- c.backlog
	to <- c.inFlight
	to <- c.workers
	to <- c.paused
	to <- c.used
	for _, m := range c.kept() {
		m.Describe(to)
	}
}

// kept are those that remember what they have counted.
func (c *counts) kept() []prometheus.Collector {
	return []prometheus.Collector{c.maxAge, c.images, c.quarantined, c.ends, c.dead, c.unaffected, c.waits}
}

// Collect gives the metrics.
func (c *counts) Collect(to chan<- prometheus.Metric) {
	waiting, inFlight := c.feeder.Counts()
	for _, step := range []queue.Step{queue.Discover, queue.SBOM, queue.Match} {
		name := strings.ToLower(string(step))
		to <- prometheus.MustNewConstMetric(c.backlog, prometheus.GaugeValue, float64(waiting[step]), name)
		to <- prometheus.MustNewConstMetric(c.inFlight, prometheus.GaugeValue, float64(inFlight[step]), name)
	}
	to <- prometheus.MustNewConstMetric(c.workers, prometheus.GaugeValue, float64(c.feeder.Workers()))
	to <- prometheus.MustNewConstMetric(c.paused, prometheus.GaugeValue, float64(c.feeder.Paused()))
	to <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, c.feeder.UsedRatio(), "bytesPerDay")
	for _, m := range c.kept() {
		m.Collect(to)
	}
}

// admitted counts how long an item has waited.
func (c *counts) admitted(interactive bool, waited time.Duration) {
	priority := registryv1alpha1.Scheduled
	if interactive {
		priority = registryv1alpha1.Interactive
	}
	c.waits.WithLabelValues(string(priority)).Observe(max(waited, 0).Seconds())
}

// buried counts a dead letter.
func (c *counts) buried(step queue.Step) { c.dead.WithLabelValues(strings.ToLower(string(step))).Inc() }

// registries counts what Registries say of their images.
func (c *counts) registries(all []registryv1alpha1.Registry) {
	var sum registryv1alpha1.ImageCounts
	for i := range all {
		if n := all[i].Status.Images; n != nil {
			sum.Scanned += n.Scanned
			sum.Waiting += n.Waiting
			sum.Failed += n.Failed
			sum.Quarantined += n.Quarantined
			sum.Skipped += n.Skipped
		}
	}
	for state, n := range map[string]int64{
		"scanned": sum.Scanned, "waiting": sum.Waiting, "failed": sum.Failed, "quarantined": sum.Quarantined, "skipped": sum.Skipped,
	} {
		c.images.WithLabelValues(state).Set(float64(n))
	}
	c.quarantined.Set(float64(sum.Quarantined))
}

// ended counts the end of an item. What a worker says is not believed to be one of our words.
func (c *counts) ended(e queue.Ended) {
	step, outcome := "other", "other"
	for _, known := range []queue.Step{queue.Discover, queue.SBOM, queue.Match, queue.Database} {
		if e.Step == known {
			step = strings.ToLower(string(known))
		}
	}
	for _, known := range []string{"Done", "Transient", "Crashed", "Unscannable", "Broken", "Refused", "Throttled", "GivenBack", queue.Passed} {
		if e.Outcome == known {
			outcome = known
		}
	}
	c.ends.WithLabelValues(step, outcome).Inc()
}
