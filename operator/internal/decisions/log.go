// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"encoding/json"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/apis/decision"
)

// Event types of the operator's own records.
const (
	ScanRefused            = "scan_refused"
	ScanWaited             = "scan_waited"
	ScanCancelled          = "scan_cancelled"
	ScanDeletedUnforwarded = "scan_deleted_unforwarded"
	ResultsReleased        = "results_released"
)

// closeTimeout bounds how long the end of the operator waits until its last records are on the exporter's disk.
const closeTimeout = 3 * time.Second

// Log hands records to an exporter. A nil Log does nothing.
type Log struct {
	client *decision.Client
	clock  clock.PassiveClock
}

// Open starts a Log that sends to the exporter at url, such as unix:///run/scanyard/exporter/exporter.sock, and registers its metric.
// The empty url gives a nil Log.
func Open(url string, now clock.PassiveClock, registry prometheus.Registerer) (*Log, error) {
	c, err := decision.Dial(url, decision.Config{Producer: "operator"})
	if err != nil || c == nil {
		return nil, err
	}
	l := &Log{client: c, clock: now}
	return l, registry.Register(collector{l})
}

// Close waits a moment until the exporter has acknowledged all records, and ends the connection.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return l.client.Close(ctx)
}

// log hands over one record, with details that are encoded as JSON.
func (l *Log) log(r decision.Record, details any) {
	r.TimeStamp = l.clock.Now().UTC().Format(time.RFC3339Nano)
	if text, err := json.Marshal(details); err == nil { // else the record goes without: it says what happened by itself
		r.Details = text
	}
	l.client.Log(&r)
}

var dropped = prometheus.NewDesc("scanyard_decisions_dropped_total",
	"Records of decisions that the exporter never got, by reason (buffer: full; invalid; closed: at the end).", []string{"reason"}, nil)

// collector shows what the client has counted.
type collector struct{ log *Log }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- dropped }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	counts := c.log.client.Stats().Dropped
	for _, reason := range []string{"buffer", "invalid", "closed"} {
		ch <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(counts[reason]), reason)
	}
}
