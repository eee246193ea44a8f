// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

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
	ends     *prometheus.CounterVec
}

func newCounts(f *feeder.Feeder) *counts {
	return &counts{
		feeder:   f,
		backlog:  prometheus.NewDesc(prefix+"backlog", "Items that wait, as far as jobs have told of them.", []string{"step"}, nil),
		inFlight: prometheus.NewDesc(prefix+"inflight", "Items that were let in and have not ended.", []string{"step"}, nil),
		workers:  prometheus.NewDesc(prefix+"workers", "Workers that have spoken in the last 30 s.", nil, nil),
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
	c.ends.Describe(to)
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
	c.ends.Collect(to)
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
