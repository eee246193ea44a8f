// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Reader reads one tenant's records in their order. A Reader is for one goroutine.
type Reader struct {
	q      *Queue
	tenant string
	codec  *codec
	rest   []*Record // of the frame that was read last
}

// Reader makes a reader of a tenant.
func (q *Queue) Reader(tenant string) (*Reader, error) {
	c, err := newCodec(q.keys)
	return &Reader{q: q, tenant: tenant, codec: c}, err
}

// Next gives records after a sequence: at most maxRecords, and at most maxBytes unless one is larger. None: there are no more.
// A *DamagedError says that what is on disk cannot be read.
func (r *Reader) Next(after uint64, maxRecords int, maxBytes int64) ([]*Record, error) {
	var records []*Record
	size := int64(0)
	for len(records) < maxRecords {
		if len(r.rest) == 0 || r.rest[0].Sequence > after+1 && len(records) == 0 {
			if err := r.fill(after); err != nil {
				return nil, err
			}
		}
		for len(r.rest) > 0 && r.rest[0].Sequence <= after {
			r.rest = r.rest[1:]
		}
		if len(r.rest) == 0 {
			return records, nil
		}
		next := r.rest[0]
		if size += next.Size(); len(records) > 0 && size > maxBytes {
			return records, nil
		}
		records, after, r.rest = append(records, next), next.Sequence, r.rest[1:]
	}
	return records, nil
}

// fill reads the frame that holds the record after a sequence.
func (r *Reader) fill(after uint64) (err error) {
	r.rest = nil
	r.q.mu.Lock()
	t := r.q.tenants[r.tenant]
	var id uint32
	var last uint64
	if t != nil {
		id, last = t.id, t.last
		r.rest = t.freshAfter(after)
	}
	r.q.mu.Unlock()
	if len(r.rest) > 0 {
		return nil
	}
	if t == nil || after >= last {
		return nil
	}
	it, err := r.q.db.NewIter(&pebble.IterOptions{LowerBound: key(prefixFrame, id, after+1), UpperBound: key(prefixFrame, id, last+1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.First() {
		if err := it.Error(); err != nil {
			return &DamagedError{Dir: r.q.options.Dir, Err: err}
		}
		return nil
	}
	value, err := it.ValueAndErr()
	if err == nil {
		r.rest, err = r.codec.decode(it.Key(), value)
	}
	if err != nil {
		r.q.setDamaged(err)
		return &DamagedError{Dir: r.q.options.Dir, Err: err}
	}
	return nil
}

// Tail gives the last records of a tenant that are here, the newest frame first, until they have this many bytes.
func (q *Queue) Tail(tenant string, bytes int64, each func(*Record)) (err error) {
	q.mu.Lock()
	t := q.tenants[tenant]
	q.mu.Unlock()
	if t == nil {
		return nil
	}
	c, err := newCodec(q.keys)
	if err != nil {
		return err
	}
	it, err := q.db.NewIter(&pebble.IterOptions{LowerBound: key(prefixFrame, t.id), UpperBound: key(prefixFrame, t.id+1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.Last(); ok && bytes > 0; ok = it.Prev() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		records, err := c.decode(it.Key(), value)
		if err != nil {
			return err
		}
		for _, r := range records {
			bytes -= r.Size()
			each(r)
		}
	}
	return it.Error()
}

// Arrived gives a channel that is closed when records come in.
func (q *Queue) Arrived() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.arrived
}

// Tenants lists the tenants that the queue knows, sorted.
func (q *Queue) Tenants() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	names := make([]string, 0, len(q.tenants))
	for name := range q.tenants {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Cursor gives the sequence through which a sink has everything of a tenant.
func (q *Queue) Cursor(sink, tenant string) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, t := q.sinks[sink], q.tenants[tenant]
	if s == nil || t == nil {
		return 0
	}
	return s.through(t)
}

// Last gives the sequence of a tenant's last record.
func (q *Queue) Last(tenant string) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.tenants[tenant]; t != nil {
		return t.last
	}
	return 0
}

// Session gives the number through which a session's records are here, and how many came in under it; false where the session is not known.
func (q *Queue) Session(id string) (through, records uint64, known bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, known := q.sessions[id]
	return s.through, s.records, known
}

// DeadLetter is a record that a sink refused.
type DeadLetter struct {
	Record   *Record   `json:"record"`
	Class    string    `json:"class"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Attempts int       `json:"attempts"`
	Time     time.Time `json:"time"`
	// Replay is set when the record is to be tried again.
	Replay bool `json:"replay,omitempty"`
}

// Settlement is what became of records of one tenant at one sink.
type Settlement struct {
	Sink, Tenant string
	// Through moves the cursor; 0 leaves it.
	Through uint64
	// Delivered counts the records that the sink took, and Bytes their size.
	Delivered uint64
	Bytes     int64
	// Dead are the records that it refused, Gone the sequences of dead letters that are none any more.
	Dead []*DeadLetter
	Gone []uint64
}

// Settle moves a cursor and keeps dead letters, at once. Done is called when that is synced. Where it is no more than what a sink took, Done is called
// at once: the cursor is written with the next records, after aheadBytes, or after a tick, and until then no frames are deleted because of it.
// A cursor that is lost with the process or the power has its records delivered once more. These are less than mostUnkept: from there on Done is called
// when the cursor is synced, so that a slow disk slows deliveries down.
func (q *Queue) Settle(s Settlement, done func(error)) {
	if s.Delivered > 0 && len(s.Dead)+len(s.Gone) == 0 {
		if q.delivered(s) {
			done(nil)
			return
		}
		q.submit(&job{done: done})
		return
	}
	q.submit(&job{apply: func(b *pebble.Batch) error { return q.settle(b, s) }, done: done})
}

// delivered moves a cursor in memory, and tells whether that is enough for now.
func (q *Queue) delivered(s Settlement) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	state, t := q.sinks[s.Sink], q.tenants[s.Tenant]
	if state == nil || t == nil {
		return true // the sink was removed meanwhile
	}
	state.move(t, s)
	q.unkept += s.Bytes
	if q.unkept+q.keeping >= mostUnkept {
		return false
	}
	if q.unkept >= aheadBytes {
		select {
		case q.ahead <- struct{}{}:
		default:
		}
	}
	return true
}

// move moves the cursor of a tenant, never back.
func (s *sinkState) move(t *tenant, by Settlement) {
	at := s.cursors[t.id]
	at.through = max(at.through, by.Through, t.removed)
	at.delivered += by.Delivered
	s.cursors[t.id] = at
}

func (q *Queue) settle(b *pebble.Batch, s Settlement) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	state, t := q.sinks[s.Sink], q.tenants[s.Tenant]
	if state == nil || t == nil {
		return nil // the sink was removed meanwhile
	}
	state.move(t, s)
	var err error
	for _, d := range s.Dead {
		encoded, e := json.Marshal(d)
		k := key(prefixDead, state.id, t.id, d.Record.Sequence, uint32(0))
		if _, known := q.deadValue(k); !known {
			state.dead[t.id]++
			state.deadBytes[t.id] += d.Record.Size()
			t.bytes += d.Record.Size()
			q.total += d.Record.Size()
		}
		err = errors.Join(err, e, b.Set(k, q.keys.sealLetter(k, encoded), nil))
	}
	for _, sequence := range s.Gone {
		k := key(prefixDead, state.id, t.id, sequence, uint32(0))
		d, known := q.deadValue(k)
		if !known {
			continue
		}
		state.dead[t.id]--
		state.deadBytes[t.id] -= d.Record.Size()
		t.bytes -= d.Record.Size()
		q.total -= d.Record.Size()
		err = errors.Join(err, b.Delete(k, nil))
	}
	if len(s.Dead)+len(s.Gone) > 0 {
		q.freed()
		err = errors.Join(err, b.Set(key(prefixTenant, t.name), encodeTenant(t), nil))
	}
	return err
}

func (q *Queue) deadValue(k []byte) (*DeadLetter, bool) {
	value, closer, err := q.db.Get(k)
	if err != nil {
		return nil, false
	}
	d, err := q.letter(k, value)
	err = errors.Join(err, closer.Close())
	return d, err == nil
}

// letter reads a dead letter.
func (q *Queue) letter(k, value []byte) (*DeadLetter, error) {
	text, err := q.keys.openLetter(k, value)
	if err != nil {
		return nil, err
	}
	d := &DeadLetter{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	if d.Record == nil {
		return nil, errors.New("the dead letter has no record")
	}
	return d, nil
}

// DeadLetters lists what a sink refused of a tenant, in the order of the records; with replay only what is to be tried again.
func (q *Queue) DeadLetters(sink, tenant string, replay bool, limit int) (letters []*DeadLetter, err error) {
	q.mu.Lock()
	s, t := q.sinks[sink], q.tenants[tenant]
	if s == nil || t == nil || s.dead[t.id] == 0 {
		q.mu.Unlock()
		return nil, nil
	}
	lower, upper := key(prefixDead, s.id, t.id), key(prefixDead, s.id, t.id+1)
	q.mu.Unlock()
	it, err := q.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok && len(letters) < limit; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		d, err := q.letter(it.Key(), value)
		if err != nil {
			return nil, &DamagedError{Dir: q.options.Dir, Err: err}
		}
		if d.Replay || !replay {
			letters = append(letters, d)
		}
	}
	return letters, it.Error()
}

// Selection names dead letters: of a sink, of a tenant or of all, by the ids of their records or all.
type Selection struct {
	Sink, Tenant string
	IDs          []string
	All          bool
}

func (q *Queue) selected(s Selection, each func(tenant string, d *DeadLetter) error) error {
	if !q.HasSink(s.Sink) {
		return fmt.Errorf("there is no sink %s in this queue", s.Sink)
	}
	for _, tenant := range q.Tenants() {
		if s.Tenant != "" && s.Tenant != tenant {
			continue
		}
		letters, err := q.DeadLetters(s.Sink, tenant, false, 1<<30)
		if err != nil {
			return err
		}
		for _, d := range letters {
			if s.All || slices.Contains(s.IDs, d.Record.ID) {
				if err := each(tenant, d); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// deadShare is the part of a tenant's quota that dead letters of one sink may have.
const deadShare = 10

// TooManyDeadLetters tells whether the dead letters of a sink have a tenth of the tenant's quota, and how many bytes that is.
func (q *Queue) TooManyDeadLetters(sink, tenant string) (bytes int64, tooMany bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, t := q.sinks[sink], q.tenants[tenant]
	if s == nil || t == nil {
		return 0, false
	}
	bytes = s.deadBytes[t.id]
	return bytes, bytes > 0 && bytes >= q.options.TenantMaxBytes/deadShare
}

// HasSink tells whether records are kept for a sink.
func (q *Queue) HasSink(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sinks[name] != nil
}

func (q *Queue) settleNow(s Settlement) error {
	answer := make(chan error, 1)
	q.Settle(s, func(err error) { answer <- err })
	return <-answer
}

// Replay puts dead letters to the head of the sink's work, and tells how many.
func (q *Queue) Replay(s Selection) (int, error) {
	n := 0
	err := q.selected(s, func(tenant string, d *DeadLetter) error {
		d.Replay = true
		n++
		return q.settleNow(Settlement{Sink: s.Sink, Tenant: tenant, Dead: []*DeadLetter{d}})
	})
	q.Wake()
	return n, err
}

// Wake makes readers look again.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// DropDeadLetters removes dead letters, or with dry only tells which. It gives the ids of their records.
func (q *Queue) DropDeadLetters(s Selection, dry bool) ([]string, error) {
	var ids []string
	err := q.selected(s, func(tenant string, d *DeadLetter) error {
		ids = append(ids, d.Record.ID)
		if dry {
			return nil
		}
		return q.settleNow(Settlement{Sink: s.Sink, Tenant: tenant, Gone: []uint64{d.Record.Sequence}})
	})
	if !dry {
		q.countDropped("command", len(ids))
	}
	return ids, err
}

func (q *Queue) countDropped(reason string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counters.Dropped[reason] += uint64(n)
}

// DropBefore passes over what came in before a time and was not delivered to a sink, or with dry only tells what. It gives the ids.
func (q *Queue) DropBefore(sink, tenant string, before time.Time, dry bool) ([]string, error) {
	if !q.HasSink(sink) {
		return nil, fmt.Errorf("there is no sink %s in this queue", sink)
	}
	var all []string
	for _, name := range q.Tenants() {
		if tenant != "" && tenant != name {
			continue
		}
		ids, through, err := q.before(sink, name, before)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
		if len(ids) == 0 || dry {
			continue
		}
		if err := q.settleNow(Settlement{Sink: sink, Tenant: name, Through: through}); err != nil {
			return nil, err
		}
		q.countDropped("command", len(ids))
	}
	q.Wake()
	return all, nil
}

// DropTenant removes everything that is here of a tenant: its records and its dead letters, for all sinks; or with dry only tells how many records
// wait and how many dead letters there are. Its records are numbered on, so that far ends take no new record for an old one.
func (q *Queue) DropTenant(ctx context.Context, name string, dry bool) (records uint64, letters int, err error) {
	q.mu.Lock()
	t := q.tenants[name]
	if t == nil {
		q.mu.Unlock()
		return 0, 0, fmt.Errorf("there is no tenant %s in this queue", name)
	}
	records, letters = q.held(t)
	q.mu.Unlock()
	if dry {
		return records, letters, nil
	}
	answer := make(chan error, 1)
	q.submit(&job{
		apply: func(b *pebble.Batch) (err error) {
			records, letters, err = q.removeTenant(b, t)
			return err
		},
		done: func(err error) { answer <- err },
	})
	if err := <-answer; err != nil {
		return 0, 0, err
	}
	q.countDropped("deleted", int(records)+letters)
	return records, letters, q.compactTenant(ctx, t.id)
}

// held is what is here of a tenant and not delivered to every sink. The caller holds the lock.
func (q *Queue) held(t *tenant) (records uint64, letters int) {
	lowest := t.last
	for _, s := range q.sinks {
		lowest = min(lowest, s.through(t))
		letters += s.dead[t.id]
	}
	return t.last - lowest, letters
}

// removeTenant is done by the writer.
func (q *Queue) removeTenant(b *pebble.Batch, t *tenant) (records uint64, letters int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	records, letters = q.held(t)
	err = b.DeleteRange(key(prefixFrame, t.id), key(prefixFrame, t.id, t.last+1), nil)
	for _, s := range q.sinks {
		err = errors.Join(err, b.DeleteRange(key(prefixDead, s.id, t.id), key(prefixDead, s.id, t.id+1), nil))
		delete(s.dead, t.id)
		delete(s.deadBytes, t.id)
	}
	q.total -= t.bytes
	t.bytes, t.removed = 0, t.last
	q.forgetFresh(t, t.last)
	q.freed()
	return records, letters, errors.Join(err, b.Set(key(prefixTenant, t.name), encodeTenant(t), nil))
}

// compactTenant has Pebble write its files anew without what is deleted, so that it is not on disk any more.
func (q *Queue) compactTenant(ctx context.Context, id uint32) error {
	if err := q.db.Flush(); err != nil {
		return err
	}
	err := q.db.Compact(ctx, key(prefixFrame, id), key(prefixFrame, id+1), false)
	q.mu.Lock()
	sinks := make([]uint32, 0, len(q.sinks))
	for _, s := range q.sinks {
		sinks = append(sinks, s.id)
	}
	q.mu.Unlock()
	for _, sink := range sinks {
		err = errors.Join(err, q.db.Compact(ctx, key(prefixDead, sink, id), key(prefixDead, sink, id+1), false))
	}
	return err
}

// before lists what a sink has not got of a tenant and came in before a time, and the last sequence of that.
func (q *Queue) before(sink, tenant string, before time.Time) (ids []string, through uint64, err error) {
	r, err := q.Reader(tenant)
	if err != nil {
		return nil, 0, err
	}
	through = q.Cursor(sink, tenant)
	for {
		records, err := r.Next(through, 1000, 1<<20)
		if err != nil || len(records) == 0 {
			return ids, through, err
		}
		for _, record := range records {
			if !record.Time.Before(before) {
				return ids, through, nil
			}
			ids, through = append(ids, record.ID), record.Sequence
		}
	}
}

// Backlog is what waits for one sink of one tenant.
type Backlog struct {
	Sink, Tenant string
	Records      uint64
	// Bytes are exact for the sink that is furthest behind, and in proportion to the records for the others.
	Bytes       int64
	Oldest      time.Time // zero: nothing waits
	Cursor      uint64
	Delivered   uint64
	DeadLetters int
}

// Backlogs lists what waits, by sink and tenant. Sinks that are gone are left out.
func (q *Queue) Backlogs() ([]Backlog, error) {
	var all []Backlog
	q.mu.Lock()
	ids := map[string]uint32{}
	for _, t := range q.tenants {
		if t.last == 0 {
			continue
		}
		ids[t.name] = t.id
		for _, s := range q.sinks {
			if !s.gone.IsZero() {
				continue
			}
			through := s.through(t)
			b := Backlog{Sink: s.name, Tenant: t.name, Records: t.last - through, Cursor: through, Delivered: s.cursors[t.id].delivered, DeadLetters: s.dead[t.id]}
			if left := t.last - t.removed; left > 0 {
				b.Bytes = int64(float64(t.bytes) * float64(b.Records) / float64(left))
			}
			all = append(all, b)
		}
	}
	q.mu.Unlock()
	slices.SortFunc(all, func(a, b Backlog) int {
		if c := strings.Compare(a.Sink, b.Sink); c != 0 {
			return c
		}
		return strings.Compare(a.Tenant, b.Tenant)
	})
	for i := range all {
		if all[i].Records == 0 {
			continue
		}
		oldest, err := q.oldest(ids[all[i].Tenant], all[i].Cursor)
		if err != nil {
			return nil, err
		}
		all[i].Oldest = oldest
	}
	return all, nil
}

func (q *Queue) oldest(id uint32, after uint64) (oldest time.Time, err error) {
	it, err := q.db.NewIter(&pebble.IterOptions{LowerBound: key(prefixFrame, id, after+1), UpperBound: key(prefixFrame, id+1)})
	if err != nil {
		return time.Time{}, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.First() {
		return time.Time{}, it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return time.Time{}, err
	}
	head, err := decodeHead(value)
	return head.time, err
}

// Usage is what the queue holds, of all tenants and of each.
type Usage struct {
	Records  uint64
	Bytes    int64
	Tenants  map[string]TenantUsage
	Sessions int
	DiskFull bool
	Counters Counters
}

// TenantUsage is what the queue holds of a tenant that is not delivered to every sink.
type TenantUsage struct {
	Records uint64
	Bytes   int64
}

// Usage tells what is in the queue.
func (q *Queue) Usage() Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := Usage{Tenants: map[string]TenantUsage{}, Sessions: len(q.sessions), DiskFull: q.diskFull, Counters: q.counters}
	u.Counters.Dropped = maps.Clone(q.counters.Dropped)
	for _, t := range q.tenants {
		if t.last == 0 {
			continue
		}
		used := q.usage(t)
		u.Tenants[t.name] = used
		u.Records += used.Records
		u.Bytes += used.Bytes
	}
	return u
}

// usage is what waits of a tenant, and its dead letters. Frames that are delivered in part, or are to be deleted, count for the records in them that
// wait. The caller holds the lock.
func (q *Queue) usage(t *tenant) TenantUsage {
	lowest, dead := t.last, int64(0)
	for _, s := range q.sinks {
		lowest = min(lowest, s.through(t))
		dead += s.deadBytes[t.id]
	}
	waiting, here := t.last-lowest, t.last-t.removed
	if waiting == here {
		return TenantUsage{Records: waiting, Bytes: t.bytes}
	}
	return TenantUsage{Records: waiting, Bytes: dead + int64(float64(t.bytes-dead)*float64(waiting)/float64(here))}
}
