// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/scanyard/scanyard/apis/decision"
)

// formatVersion is the layout that this program writes.
const formatVersion = 1

// Policy is what happens when a quota is reached.
type Policy string

// The policies.
const (
	Block      Policy = "block"
	Reject     Policy = "reject"
	DropOldest Policy = "drop-oldest"
)

const (
	maxSessions  = 10000
	sessionIdle  = 7 * 24 * time.Hour
	sinkGone     = 24 * time.Hour
	ballastBytes = 16 << 20
	verifyBytes  = 64 << 20
	lockFile     = "exporter.lock"
	ballastFile  = "ballast"
)

// Options are how a queue is opened. Dir and Now are required.
type Options struct {
	Dir            string
	FS             vfs.FS // nil: the disk
	MaxBytes       int64
	TenantMaxBytes int64
	DiskReserve    int64
	OnFull         Policy
	// SyncInterval is the time between syncs; 0: each commit is synced before it is acknowledged.
	SyncInterval time.Duration
	// Quarantine renames a damaged directory; without it Open fails.
	Quarantine bool
	// Sinks are the names of the sinks that records are kept for; nil leaves them as they are.
	Sinks []string
	Now   func() time.Time
	Log   *slog.Logger
	// Free gives the free bytes of the volume; nil: those of Dir.
	Free func() (int64, error)
	// Fatal is called when nothing can be said any more about what is on disk. It must not return. Nil: the process exits 1.
	Fatal func(error)
	// ReadOnly opens for looking only.
	ReadOnly bool
	// Keys seal what is written, by the first one, and open what any of them has sealed. None: nothing is sealed.
	Keys [][]byte
	// Committed is told of each commit: its records, and how long it took to sync them. Nil: nobody.
	Committed func(records int, took time.Duration)
}

// InUseError is a directory that another program has open.
type InUseError struct {
	Dir string
	PID int
}

// Error names the other program.
func (e *InUseError) Error() string { return fmt.Sprintf("%s is in use by pid %d", e.Dir, e.PID) }

// FormatError is a directory that a newer program has written.
type FormatError struct {
	Dir    string
	Format int
}

// Error names both formats.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format %d, and this program knows format %d: use the newer program", e.Dir, e.Format, formatVersion)
}

// DamagedError is a queue that cannot be read.
type DamagedError struct {
	Dir string
	Err error
}

// Error says what is wrong and what can be done.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %v: read what is left of it with exporter queue salvage", e.Dir, e.Err)
}

// Unwrap gives the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// meta is what a queue is.
type meta struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
}

// tenant is what the queue holds of a tenant.
type tenant struct {
	name     string
	id       uint32
	last     uint64 // sequence of the last record
	removed  uint64 // sequence through which frames are deleted
	bytes    int64  // committed
	reserved int64  // on the way to the writer
	refusing bool   // with Reject: until 5 % are free
	fresh    []*freshRecords
}

// sinkState is a sink that records are kept for.
type sinkState struct {
	name    string
	id      uint32
	gone    time.Time // zero: in use
	cursors map[uint32]cursor
	kept    map[uint32]cursor // as the cursors are on disk
	dead    map[uint32]int    // dead letters by tenant
	// deadBytes are what the dead letters of a tenant count towards its quota.
	deadBytes map[uint32]int64
}

func newSink(name string, id uint32) *sinkState {
	return &sinkState{
		name: name, id: id, cursors: map[uint32]cursor{}, kept: map[uint32]cursor{}, dead: map[uint32]int{}, deadBytes: map[uint32]int64{},
	}
}

type cursor struct{ through, delivered uint64 }

// Queue is an open queue.
type Queue struct {
	options Options
	keys    *keyring
	db      *pebble.DB
	meta    meta
	lock    *os.File
	// Quarantined is where a damaged directory was put when the queue was opened.
	Quarantined string

	mu       sync.Mutex
	tenants  map[string]*tenant
	sinks    map[string]*sinkState
	sessions map[string]session
	nextID   uint32
	total    int64 // bytes of all tenants with what is reserved
	diskFull bool
	space    chan struct{} // closed and made anew when bytes were freed
	arrived  chan struct{} // closed and made anew when records came in
	counters Counters
	damage   error

	unkept  int64           // bytes that were delivered since the cursors were put into a commit
	keeping int64           // bytes that were delivered before, while that commit is not on disk
	fresh   []*freshRecords // of all tenants, the oldest first, with some that are held no longer
	// freshCount counts those that are held, and freshBytes are their size.
	freshCount int
	freshBytes int64

	work    chan *job
	ahead   chan struct{} // has room for one: the cursors are to be written
	closed  chan struct{}
	ended   chan struct{}
	damaged chan struct{}
}

type session struct {
	through uint64
	seen    time.Time
	records uint64 // that came in under it
}

func encodeSession(s session) []byte {
	v := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.through), uint64(s.seen.UnixNano()))
	return binary.BigEndian.AppendUint64(v, s.records)
}

// decodeSession reads a session. One of an earlier program counts no records.
func decodeSession(v []byte) (session, error) {
	if len(v) < 16 {
		return session{}, errors.New("a session is cut")
	}
	s := session{through: binary.BigEndian.Uint64(v), seen: time.Unix(0, int64(binary.BigEndian.Uint64(v[8:])))}
	if len(v) >= 24 {
		s.records = binary.BigEndian.Uint64(v[16:])
	}
	return s, nil
}

// Counters count since the queue was opened.
type Counters struct {
	Dropped map[string]uint64 // by reason
	Commits uint64
}

// Open opens a queue, and makes it where there is none.
func Open(options Options) (*Queue, error) {
	q, err := open(options)
	damaged, ok := errors.AsType[*DamagedError](err)
	if !ok || !options.Quarantine || options.ReadOnly {
		return q, err
	}
	aside := strings.TrimRight(options.Dir, "/") + ".damaged-" + options.Now().UTC().Format("20060102T150405Z")
	for i := 1; exists(options.FS, aside); i++ {
		aside = strings.TrimRight(options.Dir, "/") + ".damaged-" + options.Now().UTC().Format("20060102T150405Z") + "-" + strconv.Itoa(i)
	}
	if err := fileSystem(options.FS).Rename(options.Dir, aside); err != nil {
		return nil, errors.Join(damaged, err)
	}
	if options.Log != nil {
		options.Log.Error("the queue is damaged; an empty one takes its place", "aside", aside, "error", damaged.Err)
	}
	q, err = open(options)
	if err != nil {
		return nil, err
	}
	q.Quarantined = aside
	details, _ := json.Marshal(map[string]string{"directory": filepath.Base(aside), "error": damaged.Err.Error()}) // texts are always JSON
	line, err := decision.Append(nil, &decision.Record{
		EventType: "exporter_queue_damaged", Message: "the queue was damaged and put aside: " + damaged.Err.Error(),
		DecisionID: decision.RandomID(), Details: details,
	})
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	r, _ := decision.Parse(line) // just written
	if err := q.put(defaultTenant, &Record{ID: r.DecisionID, Time: options.Now(), Line: line}); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// defaultTenant is whose the queue's own records are where nothing else is known.
const defaultTenant = "default"

func (q *Queue) put(tenant string, r *Record) error {
	answer := make(chan error, 1)
	if err := q.Reserve(tenant, r.Size()); err != nil {
		return err
	}
	q.Submit(&Submission{Entries: []Entry{{Tenant: tenant, Record: r}}, Done: func(err error) { answer <- err }})
	return <-answer
}

func fileSystem(given vfs.FS) vfs.FS {
	if given == nil {
		return vfs.Default
	}
	return given
}

func exists(given vfs.FS, path string) bool {
	_, err := fileSystem(given).Stat(path)
	return err == nil
}

func open(options Options) (*Queue, error) {
	q := &Queue{
		options: options, tenants: map[string]*tenant{}, sinks: map[string]*sinkState{}, sessions: map[string]session{}, nextID: 1,
		space: make(chan struct{}), arrived: make(chan struct{}), work: make(chan *job, 256), ahead: make(chan struct{}, 1), closed: make(chan struct{}),
		ended: make(chan struct{}), damaged: make(chan struct{}),
		counters: Counters{Dropped: map[string]uint64{}},
	}
	if options.Fatal == nil {
		q.options.Fatal = func(error) { os.Exit(1) }
	}
	if options.Log == nil {
		q.options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Committed == nil {
		q.options.Committed = func(int, time.Duration) {}
	}
	var err error
	if q.keys, err = newKeyring(options.Keys); err != nil {
		return nil, err
	}
	if err := q.checkFormat(); err != nil {
		return nil, err
	}
	if err := q.acquire(); err != nil {
		return nil, err
	}
	if err := q.load(); err != nil {
		return nil, errors.Join(err, q.release())
	}
	if !options.ReadOnly {
		go q.write()
	} else {
		close(q.ended)
	}
	return q, nil
}

// acquire makes the directory and locks it. A file system in memory has no other programs.
func (q *Queue) acquire() error {
	if q.options.FS != nil {
		return nil
	}
	dir := q.options.Dir
	if q.options.ReadOnly {
		if _, err := os.Stat(dir); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		content := make([]byte, 32)
		n, _ := f.Read(content)                                        // an unknown holder is pid 0
		pid, _ := strconv.Atoi(strings.TrimSpace(string(content[:n]))) // likewise
		return errors.Join(&InUseError{Dir: dir, PID: pid}, f.Close())
	}
	q.lock = f
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return errors.Join(err, q.release())
	}
	return nil
}

func (q *Queue) release() error {
	if q.lock == nil {
		return nil
	}
	err := q.lock.Close()
	q.lock = nil
	return err
}

// pebbleLog gives errors of Pebble to our log, and what it cannot go on from to Fatal.
type pebbleLog struct{ q *Queue }

// Infof says nothing.
func (pebbleLog) Infof(string, ...any) {}

// Errorf warns.
func (l pebbleLog) Errorf(format string, args ...any) {
	l.q.options.Log.Warn("the store of the queue reports", "message", fmt.Sprintf(format, args...))
}

// Fatalf ends the process.
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.q.fatal(fmt.Errorf(format, args...))
}

// fatal ends the process: after a failed fsync nobody can say what is on disk.
func (q *Queue) fatal(err error) {
	q.options.Log.Error("the queue cannot be written any more; what was acknowledged is there", "error", err)
	q.options.Fatal(err)
}

func (q *Queue) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS: fileSystem(q.options.FS), Logger: pebbleLog{q}, ReadOnly: q.options.ReadOnly, FormatMajorVersion: pebble.FormatNewest,
		MemTableSize: 4 << 20, MemTableStopWritesThreshold: 4, L0CompactionThreshold: 8, L0StopWritesThreshold: 64, LBaseMaxBytes: 256 << 20, MaxOpenFiles: 128,
		CacheSize: 8 << 20, BytesPerSync: 1 << 20,
		EventListener: &pebble.EventListener{DataCorruption: func(info pebble.DataCorruptionInfo) { q.setDamaged(info.Details) }},
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone }) // frames are compressed
	for i := range o.Levels {
		o.Levels[i].BlockSize = 32 << 10
	}
	return o
}

// setDamaged notes that something on disk cannot be read.
func (q *Queue) setDamaged(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.damage == nil {
		q.damage = err
		close(q.damaged)
		q.options.Log.Error("the queue is damaged", "error", err)
	}
}

// Damaged gives a channel that is closed when something on disk cannot be read. The queue is to be closed and opened anew then.
func (q *Queue) Damaged() <-chan struct{} { return q.damaged }

// load opens Pebble and reads everything but the frames.
func (q *Queue) load() error {
	db, err := pebble.Open(q.options.Dir, q.pebbleOptions())
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOSPC):
		return err
	default:
		return &DamagedError{Dir: q.options.Dir, Err: err}
	}
	q.db = db
	if err := q.read(); err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

func (q *Queue) read() error {
	damaged := func(err error) error { return &DamagedError{Dir: q.options.Dir, Err: err} }
	if err := q.readMeta(); err != nil {
		return err
	}
	if err := q.readState(); err != nil {
		return damaged(err)
	}
	if err := q.checkKeys(); err != nil {
		return err
	}
	if err := q.measureLetters(); err != nil {
		return damaged(err)
	}
	if q.total <= verifyBytes {
		if report, err := q.Verify(); err != nil {
			return damaged(err)
		} else if len(report.Problems) > 0 {
			return damaged(errors.New(report.Problems[0]))
		}
	}
	if q.options.ReadOnly {
		return nil
	}
	q.checkDisk()
	if q.options.Sinks != nil {
		if err := q.SetSinks(q.options.Sinks); err != nil {
			return err
		}
	}
	return errors.Join(q.writeFormat(), q.makeBallast())
}

// readMeta reads what the queue is, and makes it where the queue is new.
func (q *Queue) readMeta() error {
	damaged := func(err error) error { return &DamagedError{Dir: q.options.Dir, Err: err} }
	value, closer, err := q.db.Get([]byte{prefixMeta})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		if q.options.ReadOnly {
			return damaged(errors.New("it has no meta record"))
		}
		q.meta = meta{Format: formatVersion, ID: decision.RandomID(), Created: q.options.Now().UTC()}
		encoded, err := json.Marshal(q.meta)
		if err != nil {
			return err
		}
		return q.db.Set([]byte{prefixMeta}, encoded, pebble.Sync)
	case err != nil:
		return damaged(err)
	}
	if err := errors.Join(json.Unmarshal(value, &q.meta), closer.Close()); err != nil {
		return damaged(err)
	}
	if q.meta.Format > formatVersion {
		return &FormatError{Dir: q.options.Dir, Format: q.meta.Format}
	}
	return nil
}

func (q *Queue) readState() error {
	err := q.scan(prefixTenant, func(k, v []byte) error {
		if len(v) < 28 {
			return errors.New("a tenant's entry is cut")
		}
		t := &tenant{
			name: string(k), id: binary.BigEndian.Uint32(v), last: binary.BigEndian.Uint64(v[4:]), removed: binary.BigEndian.Uint64(v[12:]),
			bytes: int64(binary.BigEndian.Uint64(v[20:])),
		}
		q.tenants[t.name] = t
		q.total += t.bytes
		q.nextID = max(q.nextID, t.id+1)
		return nil
	})
	if err != nil {
		return err
	}
	byID := map[uint32]*sinkState{}
	err = q.scan(prefixSink, func(k, v []byte) error {
		if len(v) < 12 {
			return errors.New("a sink's entry is cut")
		}
		s := newSink(string(k), binary.BigEndian.Uint32(v))
		if gone := int64(binary.BigEndian.Uint64(v[4:])); gone != 0 {
			s.gone = time.Unix(0, gone)
		}
		q.sinks[s.name], byID[s.id] = s, s
		q.nextID = max(q.nextID, s.id+1)
		return nil
	})
	if err != nil {
		return err
	}
	err = q.scan(prefixCursor, func(k, v []byte) error {
		if len(k) != 8 || len(v) < 16 {
			return errors.New("a cursor is cut")
		}
		if s := byID[binary.BigEndian.Uint32(k)]; s != nil {
			at := cursor{through: binary.BigEndian.Uint64(v), delivered: binary.BigEndian.Uint64(v[8:])}
			s.cursors[binary.BigEndian.Uint32(k[4:])], s.kept[binary.BigEndian.Uint32(k[4:])] = at, at
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = q.scan(prefixDead, func(k, _ []byte) error {
		if s := byID[binary.BigEndian.Uint32(k)]; s != nil {
			s.dead[binary.BigEndian.Uint32(k[4:])]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	return q.scan(prefixSession, func(k, v []byte) error {
		s, err := decodeSession(v)
		q.sessions[string(k)] = s
		return err
	})
}

// measureLetters reads how large the dead letters are, which are a tenth of a quota at most, but for what is tried again.
func (q *Queue) measureLetters() error {
	sinks := map[uint32]*sinkState{}
	for _, s := range q.sinks {
		sinks[s.id] = s
	}
	return q.scan(prefixDead, func(k, v []byte) error {
		s := sinks[binary.BigEndian.Uint32(k)]
		if s == nil {
			return nil
		}
		d, err := q.letter(append([]byte{prefixDead}, k...), v)
		if err == nil {
			s.deadBytes[binary.BigEndian.Uint32(k[4:])] += d.Record.Size()
		}
		return err
	})
}

// scan goes over the keys with a prefix, which it takes off.
func (q *Queue) scan(prefix byte, each func(k, v []byte) error) (err error) {
	it, err := q.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := each(it.Key()[1:], v); err != nil {
			return err
		}
	}
	return it.Error()
}

// makeBallast keeps room that can be given up when the disk is full.
func (q *Queue) makeBallast() error {
	if q.options.FS != nil || q.options.DiskReserve == 0 {
		return nil
	}
	path := filepath.Join(q.options.Dir, ballastFile)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, ballastBytes); err != nil {
		q.options.Log.Warn("there is no room for the ballast of the queue", "bytes", ballastBytes, "error", err)
		return errors.Join(f.Close(), os.Remove(path))
	}
	return f.Close()
}

// ID names the queue.
func (q *Queue) ID() string { return q.meta.ID }

// Durable is true where an acknowledgement means that the record is synced.
func (q *Queue) Durable() bool { return q.options.SyncInterval == 0 }

// SetSinks says which sinks there are. One that is gone keeps its cursor for a day.
func (q *Queue) SetSinks(names []string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.db.NewBatch()
	for _, name := range names {
		s := q.sinks[name]
		if s == nil {
			s = newSink(name, q.nextID)
			q.nextID++
			q.sinks[name] = s
			for _, t := range q.tenants {
				s.cursors[t.id] = cursor{through: t.removed}
			}
		}
		s.gone = time.Time{}
		if err := batch.Set(key(prefixSink, name), encodeSink(s), nil); err != nil {
			return err
		}
	}
	for _, s := range q.sinks {
		if !slices.Contains(names, s.name) && s.gone.IsZero() {
			s.gone = q.options.Now()
			if err := batch.Set(key(prefixSink, s.name), encodeSink(s), nil); err != nil {
				return err
			}
		}
	}
	if batch.Empty() {
		return batch.Close()
	}
	return batch.Commit(pebble.Sync)
}

func encodeSink(s *sinkState) []byte {
	gone := uint64(0)
	if !s.gone.IsZero() {
		gone = uint64(s.gone.UnixNano())
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, s.id), gone)
}

func encodeTenant(t *tenant) []byte {
	v := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, t.id), t.last)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(v, t.removed), uint64(t.bytes))
}

func encodeCursor(c cursor) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, c.through), c.delivered)
}

// Close commits what was submitted and closes the directory.
func (q *Queue) Close() error {
	if !q.options.ReadOnly {
		close(q.closed)
	}
	<-q.ended
	return errors.Join(q.db.Close(), q.release())
}
