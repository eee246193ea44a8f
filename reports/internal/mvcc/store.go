// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Options are what a Store can do without: the zero value has the defaults.
type Options struct {
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Observer counts what happens. Default: nobody.
	Observer Observer
	// RingEvents and RingBytes bound the events held in memory. Defaults 4,096 and 64 MiB.
	RingEvents int
	RingBytes  int64
	// Queue is how many changes may wait. Default 256.
	Queue int
	// Poll is how often a database that other processes write to is asked for changes. Default 1 second.
	Poll time.Duration
	// History is how long changes are kept. Default 5 minutes. KeepChanges of them are kept in any case, default 1,000.
	History     time.Duration
	KeepChanges int64
	// HistoryBytes bounds what the states in the log take in the database; above it changes are dropped that are not old yet.
	// Default 256 MiB.
	HistoryBytes int64
	// CompactEvery is the time between compactions. Default 1 minute; negative switches them off.
	CompactEvery time.Duration
	// Unindex removes what is kept beside an object that is deleted; nil if nothing is.
	Unindex Indexer
	// NamespaceBytes bounds what the objects of a namespace take; a change that needs more is not made. 0 means no bound.
	NamespaceBytes int64
	// Freezable names the keys whose changes Freeze refuses; nil names none.
	Freezable func(key string) bool
	// Restored says that the database is an older copy: the counter jumps, so that every watcher lists anew.
	Restored bool
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	setDefault(&o.RingEvents, 4096)
	setDefault(&o.RingBytes, 64<<20)
	setDefault(&o.Queue, 256)
	setDefault(&o.Poll, time.Second)
	setDefault(&o.History, 5*time.Minute)
	setDefault(&o.KeepChanges, 1000)
	setDefault(&o.HistoryBytes, 256<<20)
	setDefault(&o.CompactEvery, time.Minute)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// jump is by how much the counter is raised where numbers may have been given out that the database does not know.
const jump = 1_000_000

// Store is an open database of versioned values.
type Store struct {
	db       *sqldb.DB
	codec    *codec
	clock    clock.WithTicker
	observer Observer
	options  Options
	hub      *hub
	queue    chan *write
	instance int64

	stop   context.CancelFunc
	ended  <-chan struct{} // closed when Close begins
	gone   chan struct{}   // closed when the writer has ended
	loops  sync.WaitGroup
	failed chan error // of one error: why the process has to end
	lastAt int64      // the writer's last time stamp

	seenAt   atomic.Int64 // when the tail has last read the log to its end, in nanoseconds
	choresMu sync.Mutex
	chores   []func(context.Context)
}

// Open opens a database and begins to serve it. Errors that end the process are *sqldb.StartError.
func Open(ctx context.Context, config sqldb.Config, options Options) (*Store, error) {
	options = options.withDefaults()
	db, err := sqldb.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	packer, err := newCodec()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Store{
		db: db, codec: packer, clock: options.Clock, observer: options.Observer, options: options,
		queue: make(chan *write, options.Queue), stop: stop, ended: running.Done(), gone: make(chan struct{}), failed: make(chan error, 1),
	}
	s.seenAt.Store(s.clock.Now().UnixNano())
	if err := s.begin(ctx); err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("begin with the database: %w", err), db.Close())
	}
	loops := []func(context.Context){s.writeLoop, s.tailLoop}
	if options.CompactEvery > 0 {
		loops = append(loops, s.compactLoop)
	}
	if db.Shared() {
		loops = append(loops, s.listenLoop)
	}
	for _, loop := range loops {
		s.loops.Go(func() { loop(running) })
	}
	return s, nil
}

// begin reads where the counter is. After an unclean end of the only process (SQLite loses its last commits with the
// power), and after a restore, numbers may be known to watchers that the database has not seen: the counter jumps.
func (s *Store) begin(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *sqldb.Tx, revision int64) error {
		meta, err := readMeta(ctx, tx)
		if err != nil {
			return err
		}
		s.instance = meta["instance"]
		unclean := !s.db.Shared() && meta["clean"] == 0
		compacted := meta["compacted"]
		if unclean || s.options.Restored {
			revision += jump
			compacted = revision
			if err := s.logChange(ctx, tx, changeRow{revision: revision, kind: compaction, upTo: revision}); err != nil {
				return err
			}
			if err := setMeta(ctx, tx, map[string]int64{"rv": revision, "compacted": compacted}); err != nil {
				return err
			}
		}
		if !s.db.Shared() {
			if err := setMeta(ctx, tx, map[string]int64{"clean": 0}); err != nil {
				return err
			}
		}
		s.hub = newHub(revision, compacted, s.options.RingEvents, s.options.RingBytes)
		return nil
	})
}

func readMeta(ctx context.Context, tx *sqldb.Tx) (map[string]int64, error) {
	rows, err := tx.Query(ctx, `SELECT k, v FROM meta`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	meta := map[string]int64{}
	for rows.Next() {
		var key string
		var value int64
		if err := rows.Scan(&key, &value); err != nil {
			return nil, err
		}
		meta[key] = value
	}
	return meta, rows.Err()
}

func setMeta(ctx context.Context, tx *sqldb.Tx, values map[string]int64) error {
	var errs []error
	for key, value := range values {
		_, err := tx.Exec(ctx, `UPDATE meta SET v = ? WHERE k = ?`, value, key)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Close ends all watches, finishes the writes in work, and closes the database.
func (s *Store) Close(ctx context.Context) error {
	s.stop()
	s.hub.end()
	s.loops.Wait()
	var err error
	if !s.db.Shared() {
		err = s.db.Write(ctx, func(tx *sqldb.Tx, _ int64) error { return setMeta(ctx, tx, map[string]int64{"clean": 1}) })
	}
	return errors.Join(err, s.db.Close())
}

// EndWatches ends the watches that there are; later ones begin as usual. Servers call it when they are asked to stop.
func (s *Store) EndWatches() { s.hub.end() }

// Failed gives an error when the process must end: the database was replaced under it.
func (s *Store) Failed() <-chan error { return s.failed }

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.classified(ctx, "ping the database", s.db.Ping(ctx))
}

// Revision is the newest change that watchers of this process have been told of.
func (s *Store) Revision() int64 { revision, _ := s.hub.state(); return revision }

// Compacted is the revision up to which changes have been dropped, as far as this process has seen.
func (s *Store) Compacted() int64 { _, compacted := s.hub.state(); return compacted }

// Query runs fn in a snapshot, for questions about what is kept beside the objects. The connection is held until fn returns.
func (s *Store) Query(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return s.classified(ctx, "query", s.db.Read(ctx, fn))
}

// InWork is how much a Store has in work.
type InWork struct {
	// Queued is the number of changes that wait for the writer.
	Queued int
	// TailLag is how long ago this process has last seen all changes of other replicas; 0 where there are none.
	TailLag time.Duration
	// InUse and Idle are connections of readers.
	InUse, Idle int
}

// InWork returns how much the Store has in work. It asks nobody, so it may be called at any time.
func (s *Store) InWork() InWork {
	stats := s.db.Stats()
	work := InWork{Queued: len(s.queue), InUse: stats.InUse, Idle: stats.Idle}
	if s.db.Shared() {
		work.TailLag = s.clock.Since(time.Unix(0, s.seenAt.Load()))
	}
	return work
}

// AddChore has fn called after each compaction, by the replica that has made it.
func (s *Store) AddChore(fn func(context.Context)) {
	s.choresMu.Lock()
	defer s.choresMu.Unlock()
	s.chores = append(s.chores, fn)
}

func (s *Store) doChores(ctx context.Context) {
	s.choresMu.Lock()
	chores := slices.Clone(s.chores)
	s.choresMu.Unlock()
	for _, fn := range chores {
		fn(ctx)
	}
}

// Maintain runs fn in a transaction that keeps all writers waiting, for what is kept beside the objects. It must be short.
func (s *Store) Maintain(ctx context.Context, doing string, fn func(*sqldb.Tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.classified(ctx, doing, s.db.Write(bounded, func(tx *sqldb.Tx, _ int64) error { return fn(tx) }))
}

// GiveBackMemory forgets what SQLite keeps of pages that were written, for who writes much that nobody reads soon.
func (s *Store) GiveBackMemory(ctx context.Context) error {
	return s.classified(ctx, "give back memory", s.db.GiveBackMemory(ctx))
}

// NextNumber draws the next number of a sequence, in a transaction that holds the counter. Numbers are never drawn twice.
func NextNumber(ctx context.Context, tx *sqldb.Tx, sequence string) (number int64, err error) {
	if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(v), 0) + 1 FROM meta WHERE k = ?`, sequence).Scan(&number); err != nil {
		return 0, err
	}
	return number, putMeta(ctx, tx, sequence, number)
}

// movingKey is 1 in the table of numbers while reports are moved here and nobody is sent to them yet.
const movingKey = "moving"

// Moving notes whether reports are being moved here. What is noted already is not written again.
func (s *Store) Moving(ctx context.Context, moving bool) error {
	var wanted int64
	if moving {
		wanted = 1
	}
	present, err := s.MigrationState(ctx)
	if err != nil || present == wanted {
		return err
	}
	return s.Maintain(ctx, "note the state of a migration", func(tx *sqldb.Tx) error {
		return putMeta(ctx, tx, movingKey, wanted)
	})
}

// MigrationState is 1 while reports are being moved here and nobody is sent to them yet, else 0.
func (s *Store) MigrationState(ctx context.Context) (state int64, err error) {
	err = s.Query(ctx, func(tx *sqldb.Tx) error {
		return tx.QueryRow(ctx, `SELECT COALESCE(MAX(v), 0) FROM meta WHERE k = ?`, movingKey).Scan(&state)
	})
	return state, err
}

// Current asks the database for the counter.
func (s *Store) Current(ctx context.Context) (int64, error) {
	var revision int64
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		return tx.QueryRow(ctx, `SELECT v FROM meta WHERE k = 'rv'`).Scan(&revision)
	})
	return revision, s.classified(ctx, "read the counter", err)
}
