// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what happens in the storage and to queries, for Prometheus.
//
//	mvcc, findingqueries, sqlstorage ─► Metrics: counters, histograms ─┐
//	GET /metrics ─► Metrics.Watch: what the Store has in work, what the ├─► scanyard_reports_…
//	                database holds (asked for once a minute at most) ───┘
//
// What it decides:
//
//   - Labels never hold namespaces, users or names.
//   - A scrape does not wait for a database that is away: it tells so, and leaves out what only the database knows.
package metrics

import (
	"context"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/reports/internal/findingqueries"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const (
	namespace = "scanyard"
	subsystem = "reports"
	// askAfter is how old may be what the database was asked for, and askFor how long asking may take.
	askAfter = time.Minute
	askFor   = 5 * time.Second
	pingFor  = 3 * time.Second
)

// Registry is where metrics are registered.
type Registry interface {
	Register(metrics.Registerable) error
	CustomRegister(metrics.StableCollector) error
}

// processRegistry is the one that k8s.io/apiserver registers its own metrics at.
type processRegistry struct{}

// OfProcess are the metrics that the generic server serves at /metrics.
var OfProcess = sync.OnceValues(func() (*Metrics, error) { return New(processRegistry{}) })

// Register implements Registry.
func (processRegistry) Register(m metrics.Registerable) error { return legacyregistry.Register(m) }

// CustomRegister implements Registry.
func (processRegistry) CustomRegister(c metrics.StableCollector) error {
	return legacyregistry.CustomRegister(c)
}

// Metrics counts. Its methods may be called concurrently.
type Metrics struct {
	scrape collector

	changes       *metrics.CounterVec
	commitSeconds *metrics.Histogram
	commitBatch   *metrics.Histogram
	conflicts     *metrics.Counter
	rejected      *metrics.CounterVec
	watchers      *metrics.GaugeVec
	expired       *metrics.Counter
	stalled       *metrics.Counter
	databaseError *metrics.CounterVec
	damaged       *metrics.Counter
	querySeconds  *metrics.HistogramVec
	queryRejected *metrics.Counter
}

var (
	_ mvcc.Observer           = (*Metrics)(nil)
	_ findingqueries.Observer = (*Metrics)(nil)
)

// New registers what is counted as it happens.
func New(registry Registry) (*Metrics, error) {
	counter := func(name, help string) *metrics.CounterOpts {
		return &metrics.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}
	}
	histogram := func(name, help string, buckets []float64) *metrics.HistogramOpts {
		return &metrics.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}
	}
	seconds := metrics.ExponentialBuckets(0.001, 2, 15) // to 16 seconds
	m := &Metrics{
		changes:       metrics.NewCounterVec(counter("changes_total", "Changes that were committed by this replica, by type."), []string{"type"}),
		commitSeconds: metrics.NewHistogram(histogram("commit_seconds", "How long transactions of the writer took.", seconds)),
		commitBatch:   metrics.NewHistogram(histogram("commit_batch", "Changes in one transaction of the writer.", metrics.ExponentialBuckets(1, 2, 8))),
		conflicts:     metrics.NewCounter(counter("conflicts_total", "Changes that were made from another state than the present one.")),
		rejected: metrics.NewCounterVec(
			counter("rejected_total", "Requests that were refused because of too many others, by what there was too much of."), []string{"reason"},
		),
		watchers: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "watchers", Help: "Watches that are open at this replica, by kind.", StabilityLevel: metrics.ALPHA,
		}, []string{"kind"}),
		expired:       metrics.NewCounter(counter("watch_expired_total", "Watches that fell behind the compaction.")),
		stalled:       metrics.NewCounter(counter("watch_stalled_total", "Watches that were ended because their client took nothing for too long.")),
		databaseError: metrics.NewCounterVec(counter("db_errors_total", "Errors of the database, by what they mean."), []string{"class"}),
		damaged:       metrics.NewCounter(counter("damaged_payloads", "Payloads that were read and were not what had been written.")),
		querySeconds: metrics.NewHistogramVec(
			histogram("query_seconds", "How long answers to queries took, by the table that answered.", seconds), []string{"plan"},
		),
		queryRejected: metrics.NewCounter(counter("query_rejected_total", "Queries that were refused because too many were in work.")),
	}
	for _, metric := range []metrics.Registerable{
		m.changes, m.commitSeconds, m.commitBatch, m.conflicts, m.rejected, m.watchers, m.expired, m.stalled, m.databaseError, m.damaged, m.querySeconds,
		m.queryRejected,
	} {
		if err := registry.Register(metric); err != nil {
			return nil, err
		}
	}
	if err := registry.CustomRegister(&m.scrape); err != nil {
		return nil, err
	}
	for _, reason := range []string{"inflight", "queue", "bytes", "watches"} {
		m.rejected.WithLabelValues(reason)
	}
	for _, class := range []sqldb.Class{sqldb.ClassAway, sqldb.ClassBusy, sqldb.ClassFull, sqldb.ClassOther} {
		m.databaseError.WithLabelValues(class.String())
	}
	return m, nil
}

// Committed implements mvcc.Observer.
func (m *Metrics) Committed(events []mvcc.Event, took time.Duration) {
	for i := range events {
		m.changes.WithLabelValues(events[i].Type.String()).Inc()
	}
	m.commitSeconds.Observe(took.Seconds())
	m.commitBatch.Observe(float64(len(events)))
}

// Conflict implements mvcc.Observer.
func (m *Metrics) Conflict() { m.conflicts.Inc() }

// Rejected implements mvcc.Observer.
func (m *Metrics) Rejected() { m.Refused("queue") }

// Refused counts a request that was refused because of too many others: inflight, queue, bytes or watches.
func (m *Metrics) Refused(reason string) { m.rejected.WithLabelValues(reason).Inc() }

// DatabaseError implements mvcc.Observer.
func (m *Metrics) DatabaseError(class sqldb.Class) {
	m.databaseError.WithLabelValues(class.String()).Inc()
}

// Damaged implements mvcc.Observer.
func (m *Metrics) Damaged() { m.damaged.Inc() }

// Expired implements mvcc.Observer.
func (m *Metrics) Expired() { m.expired.Inc() }

// Stalled counts a watch that was ended because its client took nothing for too long.
func (m *Metrics) Stalled() { m.stalled.Inc() }

// Watching returns what counts the open watches of a kind.
func (m *Metrics) Watching(kind string) func(delta int) {
	gauge := m.watchers.WithLabelValues(kind)
	return func(delta int) { gauge.Add(float64(delta)) }
}

// Answered implements findingqueries.Observer.
func (m *Metrics) Answered(plan string, took time.Duration) {
	m.querySeconds.WithLabelValues(plan).Observe(took.Seconds())
}

// QueryRejected implements findingqueries.Observer.
func (m *Metrics) QueryRejected() { m.queryRejected.Inc() }

// Watch has scrapes ask a store, until another one is watched. kinds are the names of kinds by their numbers in the
// database.
func (m *Metrics) Watch(store *mvcc.Store, kinds map[int64]string, now clock.PassiveClock) {
	m.scrape.mu.Lock()
	defer m.scrape.mu.Unlock()
	m.scrape.store, m.scrape.kinds, m.scrape.clock, m.scrape.held = store, kinds, now, nil
}

func desc(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc(metrics.BuildFQName(namespace, subsystem, name), help, labels, nil, metrics.ALPHA, "")
}

var (
	descObjects     = desc("objects", "Objects that are stored, by kind.", "kind")
	descResults     = desc("results", "Results that are stored.")
	descBytes       = desc("bytes", "Bytes that are stored.", "what")
	descDedup       = desc("blob_dedup_ratio", "Bytes of all payloads that objects have, over the bytes of those that are kept.")
	descRevision    = desc("resource_version", "The newest change that this replica has seen.")
	descCompacted   = desc("compacted_version", "The change up to which history has been dropped.")
	descQueue       = desc("write_queue", "Changes that wait for the writer of this replica.")
	descTailLag     = desc("tail_lag_seconds", "How long ago this replica has last seen all changes of the others.")
	descMigration   = desc("migration_state", "1 while reports are being moved here from CRDs and the switch has not been made, else 0.")
	descUp          = desc("db_up", "Whether the database answers.")
	descConnections = desc("db_connections", "Connections of readers of this replica.", "state")
)

// collector tells what the store holds and has in work.
type collector struct {
	metrics.BaseStableCollector

	mu    sync.Mutex // held by a scrape, so that scrapes that come at once ask once
	store *mvcc.Store
	kinds map[int64]string
	clock clock.PassiveClock
	asked time.Time
	held  *held
}

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{
		descObjects, descResults, descBytes, descDedup, descRevision, descCompacted, descQueue, descTailLag,
		descMigration, descUp, descConnections,
	} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		return
	}
	gauge := func(d *metrics.Desc, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(d, metrics.GaugeValue, value, labels...)
	}
	work := c.store.InWork()
	gauge(descRevision, float64(c.store.Revision()))
	gauge(descCompacted, float64(c.store.Compacted()))
	gauge(descQueue, float64(work.Queued))
	gauge(descTailLag, work.TailLag.Seconds())
	gauge(descConnections, float64(work.InUse), "in_use")
	gauge(descConnections, float64(work.Idle), "idle")
	up, found := c.ask()
	gauge(descUp, up)
	if found == nil {
		return
	}
	for number, name := range c.kinds {
		gauge(descObjects, float64(found.objects[number]), name)
	}
	gauge(descResults, float64(found.results))
	gauge(descMigration, float64(found.moving))
	for what, bytes := range found.bytes {
		gauge(descBytes, float64(bytes), what)
	}
	if found.kept > 0 {
		gauge(descDedup, float64(found.named)/float64(found.kept))
	}
}

// ask asks the database, and tells what it has last said.
func (c *collector) ask() (up float64, found *held) {
	background := context.Background() //nolint:forbidigo // a scrape hands no context to a collector
	ping, cancelPing := context.WithTimeout(background, pingFor)
	defer cancelPing()
	if err := c.store.Ping(ping); err != nil {
		return 0, nil
	}
	if now := c.clock.Now(); c.held == nil || now.Sub(c.asked) >= askAfter {
		ctx, cancel := context.WithTimeout(background, askFor)
		defer cancel()
		if fresh, err := readHeld(ctx, c.store); err == nil { // an error is counted by the store
			c.held, c.asked = fresh, now
		}
	}
	return 1, c.held
}

// held is what the database holds.
type held struct {
	objects     map[int64]int64
	results     int64
	moving      int64
	bytes       map[string]int64
	named, kept int64 // bytes of payloads as objects name them, and as they are kept
}

func readHeld(ctx context.Context, store *mvcc.Store) (*held, error) {
	h := &held{objects: map[int64]int64{}, bytes: map[string]int64{}}
	err := store.Query(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT kind, COUNT(*) FROM objects GROUP BY kind`)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // errors of reading are those of Err
		for rows.Next() {
			var kind, n int64
			if err := rows.Scan(&kind, &n); err != nil {
				return err
			}
			h.objects[kind] = n
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT COALESCE(SUM(n), 0) FROM counts WHERE ns = 0`).Scan(&h.results); err != nil {
			return err
		}
		for what, query := range map[string]string{
			"heads":   `SELECT COALESCE(SUM(LENGTH(head)), 0) FROM objects`,
			"blobs":   `SELECT COALESCE(SUM(LENGTH(data)), 0) FROM blobs`,
			"changes": `SELECT COALESCE(SUM(LENGTH(before_head)), 0) FROM changes`,
		} {
			var bytes int64
			if err := tx.QueryRow(ctx, query).Scan(&bytes); err != nil {
				return err
			}
			h.bytes[what] = bytes
		}
		return tx.QueryRow(ctx, `SELECT COALESCE(SUM(raw_size * refs), 0), COALESCE(SUM(raw_size), 0) FROM blobs WHERE refs > 0`).Scan(&h.named, &h.kept)
	})
	if err == nil {
		h.moving, err = store.MigrationState(ctx)
	}
	return h, err
}
