// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanyard/scanyard/operator/internal/schedule/plan"
)

// Metrics counts the runs of ScheduledScans. Labels never name an object.
type Metrics struct {
	started *prometheus.CounterVec
	delay   prometheus.Histogram
}

// NewMetrics registers the metrics of ScheduledScans.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanyard_schedule_runs_started_total",
			Help: "Scans started by ScheduledScans, by what for: schedule, client (lastScheduleTime was set back) or scantype (it has changed).",
		}, []string{"trigger"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scanyard_schedule_delay_seconds", Help: "How much later than due planned runs were started.",
			Buckets: prometheus.ExponentialBuckets(0.125, 2, 20), // 1/8 s to 18 h
		}),
	}
	r.MustRegister(m.started, m.delay)
	return m
}

func (m *Metrics) runStarted(why plan.Trigger, late time.Duration) {
	m.started.WithLabelValues(string(why)).Inc()
	if why == plan.BySchedule {
		m.delay.Observe(max(0, late.Seconds()))
	}
}
