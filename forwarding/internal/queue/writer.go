// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/scanyard/scanyard/apis/decision"
)

const (
	commitBytes   = 4 << 20        // of one commit
	removeRecords = 512            // passed by every sink, before frames are deleted
	mostUnkept    = 1 << 20        // delivered without cursors on disk, before deliveries wait for the disk
	aheadBytes    = mostUnkept / 2 // delivered, before the cursors are written without anything else to write
	tick          = 200 * time.Millisecond
)

// EventDropped is the event type of the record that stands where records were dropped.
const EventDropped = "exporter_dropped"

// ErrClosed is the error of what was submitted to a queue that is closed.
var ErrClosed = errors.New("the queue is closed")

// QuotaError says which bound a record met.
type QuotaError struct {
	Tenant string
	// Total is true where no tenant can put anything.
	Total   bool
	Message string
}

// Error says which bound it is.
func (e *QuotaError) Error() string { return e.Message }

// Entry is a record on its way in, whose size was reserved.
type Entry struct {
	Tenant string
	Record *Record
}

// Submission is committed as a whole: its records, and the number through which a session has everything.
type Submission struct {
	Entries []Entry
	Session string
	Through uint64
	// Done is called by the writer when all is synced. It must not block.
	Done func(error)
}

// job is work for the writer: a submission, or a change of something else.
type job struct {
	submission *Submission
	apply      func(*pebble.Batch) error
	done       func(error)
	size       int64
}

// Reserve takes room for a record, or tells by a *QuotaError that there is none.
func (q *Queue) Reserve(name string, size int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenant(name)
	o := q.options
	if q.diskFull {
		return &QuotaError{Tenant: name, Total: true, Message: fmt.Sprintf("the volume of the queue has less than %d free bytes, which are reserved", o.DiskReserve)}
	}
	if o.OnFull != DropOldest {
		limit, total := o.TenantMaxBytes, o.MaxBytes
		if t.refusing {
			limit, total = limit-limit/20, total-total/20
		}
		over := t.bytes+t.reserved+size > limit
		if all := q.total+size > total; over || all {
			t.refusing = o.OnFull == Reject
			message := fmt.Sprintf("the queue holds %d bytes of tenant %s, and may hold %d", t.bytes+t.reserved, name, o.TenantMaxBytes)
			if all {
				message = fmt.Sprintf("the queue holds %d bytes, and may hold %d", q.total, o.MaxBytes)
			}
			return &QuotaError{Tenant: name, Total: all, Message: message}
		}
		t.refusing = false
	}
	t.reserved += size
	q.total += size
	return nil
}

// Release gives room back that no record will take.
func (q *Queue) Release(name string, size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tenant(name).reserved -= size
	q.total -= size
	q.freed()
}

// Space gives a channel that is closed when there may be room again.
func (q *Queue) Space() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.space
}

func (q *Queue) freed() {
	close(q.space)
	q.space = make(chan struct{})
}

// tenant gives the state of a tenant, and makes it. The caller holds the lock.
func (q *Queue) tenant(name string) *tenant {
	t := q.tenants[name]
	if t == nil {
		t = &tenant{name: name, id: q.nextID}
		q.nextID++
		q.tenants[name] = t
	}
	return t
}

// Submit hands records to the writer. It blocks while the writer is far behind.
func (q *Queue) Submit(s *Submission) {
	j := &job{submission: s, done: s.Done}
	for _, e := range s.Entries {
		j.size += e.Record.Size()
	}
	q.submit(j)
}

func (q *Queue) submit(j *job) {
	select {
	case <-q.closed:
		j.done(ErrClosed)
		return
	default:
	}
	select {
	case q.work <- j:
	case <-q.ended:
		j.done(ErrClosed)
	}
}

// write is the only writer. It commits together what came while the commit before was on its way.
func (q *Queue) write() {
	defer close(q.ended)
	c, err := newCodec(q.keys)
	if err != nil {
		q.fatal(err)
		return
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case first := <-q.work:
			q.commit(c, q.gather(first))
		case <-q.ahead:
			q.commit(c, nil)
		case <-ticker.C:
			q.maintain(c)
		case <-q.closed:
			for {
				select {
				case first := <-q.work:
					q.commit(c, q.gather(first))
				default:
					q.keepCursors(c)
					return
				}
			}
		}
	}
}

func (q *Queue) gather(first *job) []*job {
	jobs, size := []*job{first}, first.size
	for size < commitBytes {
		select {
		case j := <-q.work:
			jobs = append(jobs, j)
			size += j.size
		default:
			return jobs
		}
	}
	return jobs
}

// incoming is what one commit adds to a tenant.
type incoming struct {
	tenant  *tenant
	records []*Record
	size    int64
	last    uint64
}

func (q *Queue) commit(c *codec, jobs []*job) {
	batch := q.db.NewBatch()
	order := q.number(jobs)
	for _, in := range order {
		if q.options.OnFull == DropOldest {
			q.makeRoom(c, in)
		}
	}
	sessions, err := q.change(batch, jobs)
	if err != nil {
		q.fatal(err)
		return
	}
	for _, in := range order { // last, so that a tenant's entry has both what was changed and what came in
		q.putFrames(c, batch, in)
	}
	moved, err := q.putCursors(batch)
	if err != nil {
		q.fatal(err)
		return
	}
	options := pebble.Sync
	if q.options.SyncInterval > 0 {
		options = pebble.NoSync
	}
	began, records := q.options.Now(), 0
	for _, in := range order {
		records += len(in.records)
	}
	if err := batch.Commit(options); err != nil {
		q.noRoom(err)
		q.fatal(err)
		return
	}
	_ = batch.Close() // which keeps its memory for the next one
	q.options.Committed(records, q.options.Now().Sub(began))
	q.publish(order, sessions, moved)
	for _, j := range jobs {
		j.done(nil)
	}
	q.checkDisk()
	q.remove(false)
}

// keepCursors writes the cursors that are not on disk as they are here.
func (q *Queue) keepCursors(c *codec) {
	q.mu.Lock()
	moved := false
	for _, s := range q.sinks {
		moved = moved || !maps.Equal(s.cursors, s.kept)
	}
	q.mu.Unlock()
	if moved {
		q.commit(c, nil)
	}
}

// movedCursor is a cursor that a commit brings to the disk.
type movedCursor struct {
	sink   *sinkState
	tenant uint32
	cursor cursor
}

// putCursors puts into the batch the cursors that have moved since they were written.
func (q *Queue) putCursors(batch *pebble.Batch) (moved []movedCursor, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keeping, q.unkept = q.unkept, 0
	for _, s := range q.sinks {
		for tenant, at := range s.cursors {
			if s.kept[tenant] != at {
				moved = append(moved, movedCursor{s, tenant, at})
				err = errors.Join(err, batch.Set(key(prefixCursor, s.id, tenant), encodeCursor(at), nil))
			}
		}
	}
	return moved, err
}

// change puts into the batch what the jobs change beside the frames, and gives the sessions that have moved.
func (q *Queue) change(batch *pebble.Batch, jobs []*job) (map[string]session, error) {
	now, sessions := q.options.Now(), map[string]session{}
	for _, j := range jobs {
		var err error
		if s := j.submission; s != nil && s.Session != "" {
			sessions[s.Session] = q.moved(sessions, s, now)
			err = batch.Set(key(prefixSession, s.Session), encodeSession(sessions[s.Session]), nil)
		} else if j.apply != nil {
			err = j.apply(batch)
		}
		if err != nil {
			return nil, err
		}
	}
	return sessions, nil
}

// moved is a session after a submission. Its number never goes back.
func (q *Queue) moved(sessions map[string]session, s *Submission, now time.Time) session {
	before, known := sessions[s.Session]
	if !known {
		q.mu.Lock()
		before = q.sessions[s.Session]
		q.mu.Unlock()
	}
	return session{through: max(before.through, s.Through), seen: now, records: before.records + uint64(len(s.Entries))}
}

// number gives each record its sequence.
func (q *Queue) number(jobs []*job) []*incoming {
	tenants, order := map[string]*incoming{}, []*incoming(nil)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range jobs {
		if j.submission == nil {
			continue
		}
		for _, e := range j.submission.Entries {
			in := tenants[e.Tenant]
			if in == nil {
				t := q.tenant(e.Tenant)
				in = &incoming{tenant: t, last: t.last}
				tenants[e.Tenant], order = in, append(order, in)
			}
			in.last++
			e.Record.Sequence = in.last
			in.records = append(in.records, e.Record)
			in.size += e.Record.Size()
		}
	}
	return order
}

func (q *Queue) putFrames(c *codec, batch *pebble.Batch, in *incoming) {
	now := q.options.Now()
	for records := in.records; len(records) > 0; {
		n, size := 1, records[0].Size()
		for n < len(records) && size+records[n].Size() <= frameBytes {
			size += records[n].Size()
			n++
		}
		place := key(prefixFrame, in.tenant.id, records[n-1].Sequence)
		c.frame = c.encode(c.frame[:0], place, records[:n], now)
		if err := batch.Set(place, c.frame, nil); err != nil { // which copies the frame
			q.fatal(err)
			return
		}
		if cap(c.frame) > 4*frameBytes {
			c.frame = nil
		}
		records = records[n:]
	}
	q.mu.Lock()
	stored := *in.tenant
	q.mu.Unlock()
	stored.last, stored.bytes = in.last, stored.bytes+in.size
	if err := batch.Set(key(prefixTenant, stored.name), encodeTenant(&stored), nil); err != nil {
		q.fatal(err)
	}
}

// publish makes visible what is synced.
func (q *Queue) publish(order []*incoming, sessions map[string]session, moved []movedCursor) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counters.Commits++
	q.keeping = 0
	for _, in := range order {
		in.tenant.last = in.last
		in.tenant.bytes += in.size
		in.tenant.reserved -= in.size
		q.keepFresh(in)
	}
	for _, m := range moved {
		m.sink.kept[m.tenant] = m.cursor
	}
	maps.Copy(q.sessions, sessions)
	if len(order) > 0 {
		close(q.arrived)
		q.arrived = make(chan struct{})
	}
}

// noRoom gives up the ballast where the disk is full after all, so that the next start has room.
func (q *Queue) noRoom(err error) {
	if q.options.FS == nil && errors.Is(err, syscall.ENOSPC) {
		if err := os.Remove(filepath.Join(q.options.Dir, ballastFile)); err != nil {
			q.options.Log.Warn("the ballast of the queue could not be given up", "error", err)
		}
	}
}

// checkDisk sees whether the volume has more than what is reserved.
func (q *Queue) checkDisk() {
	if q.options.Free == nil && (q.options.FS != nil || q.options.DiskReserve == 0) {
		return
	}
	free, err := q.FreeBytes()
	if err != nil {
		return // a volume that does not tell is seen by the next write
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	full := free < q.options.DiskReserve
	if full != q.diskFull {
		q.diskFull = full
		q.options.Log.Info("the volume of the queue", "full", full, "free", free, "reserve", q.options.DiskReserve)
		q.freed()
	}
}

// FreeBytes is what is free on the volume.
func (q *Queue) FreeBytes() (int64, error) {
	if q.options.Free != nil {
		return q.options.Free()
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(q.options.Dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}

// maintain does what only time brings.
func (q *Queue) maintain(c *codec) {
	q.checkDisk()
	q.keepCursors(c)
	if q.options.SyncInterval > 0 {
		if err := q.db.LogData(nil, pebble.Sync); err != nil {
			q.fatal(err)
			return
		}
	}
	q.forget()
	q.remove(true)
}

// forget drops sessions that were idle for long, and sinks that are gone for a day.
func (q *Queue) forget() {
	now := q.options.Now()
	batch := q.db.NewBatch()
	q.mu.Lock()
	for id, s := range q.sessions {
		if now.Sub(s.seen) > sessionIdle || len(q.sessions) > maxSessions && q.isOldest(s) {
			delete(q.sessions, id)
			_ = batch.Delete(key(prefixSession, id), nil) // an indexless batch in memory takes everything
		}
	}
	for name, s := range q.sinks {
		if s.gone.IsZero() || now.Sub(s.gone) < sinkGone {
			continue
		}
		for _, t := range q.tenants {
			q.counters.Dropped["sink_removed"] += t.last - s.through(t) + uint64(s.dead[t.id])
		}
		delete(q.sinks, name)
		_ = batch.Delete(key(prefixSink, name), nil)
		_ = batch.DeleteRange(key(prefixCursor, s.id), key(prefixCursor, s.id+1), nil)
		_ = batch.DeleteRange(key(prefixDead, s.id), key(prefixDead, s.id+1), nil)
		q.freed()
		q.options.Log.Info("a sink that was removed a day ago lets its data go", "sink", name)
	}
	q.mu.Unlock()
	if batch.Empty() {
		_ = batch.Close() // nothing was in it
		return
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		q.fatal(err)
	}
}

func (q *Queue) isOldest(s session) bool {
	for _, other := range q.sessions {
		if other.seen.Before(s.seen) {
			return false
		}
	}
	return true
}

func (s *sinkState) through(t *tenant) uint64 { return max(s.cursors[t.id].through, t.removed) }

// remove deletes the frames that every sink has passed by a cursor that is on disk.
func (q *Queue) remove(all bool) {
	type span struct {
		t    *tenant
		upTo uint64
	}
	var spans []span
	q.mu.Lock()
	for _, t := range q.tenants {
		lowest := t.last
		for _, s := range q.sinks {
			lowest = min(lowest, max(s.kept[t.id].through, t.removed))
		}
		if len(q.sinks) > 0 && lowest > t.removed && (all || lowest == t.last || lowest-t.removed >= removeRecords) {
			spans = append(spans, span{t, lowest})
		}
	}
	q.mu.Unlock()
	for _, s := range spans {
		if err := q.removeFrames(s.t, s.upTo); err != nil {
			q.options.Log.Warn("frames that were delivered could not be deleted", "tenant", s.t.name, "error", err)
		}
	}
}

func (q *Queue) removeFrames(t *tenant, upTo uint64) error {
	first, last, size, _, err := q.measure(t, func(frame, uint64) bool { return true }, upTo)
	if err != nil || last == 0 {
		return err
	}
	batch := q.db.NewBatch()
	if err := batch.DeleteRange(key(prefixFrame, t.id, first), key(prefixFrame, t.id, last+1), nil); err != nil {
		return err
	}
	q.mu.Lock()
	t.removed = max(t.removed, last)
	q.forgetFresh(t, last)
	t.bytes -= size
	q.total -= size
	err = batch.Set(key(prefixTenant, t.name), encodeTenant(t), nil)
	q.freed()
	q.mu.Unlock()
	return errors.Join(err, batch.Commit(pebble.NoSync))
}

// measure goes over the oldest frames of a tenant, through the sequence upTo at most, as long as more says so.
func (q *Queue) measure(t *tenant, more func(frame, uint64) bool, upTo uint64) (first, last uint64, size int64, count uint64, err error) {
	q.mu.Lock()
	first = t.removed + 1
	q.mu.Unlock()
	it, err := q.db.NewIter(&pebble.IterOptions{LowerBound: key(prefixFrame, t.id, first), UpperBound: key(prefixFrame, t.id, upTo+1)})
	if err != nil {
		return 0, 0, 0, 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return 0, 0, 0, 0, errors.Join(err, it.Close())
		}
		head, err := decodeHead(value)
		if err != nil {
			return 0, 0, 0, 0, errors.Join(err, it.Close())
		}
		if !more(head, binary.BigEndian.Uint64(it.Key()[5:])) {
			break
		}
		last = binary.BigEndian.Uint64(it.Key()[5:])
		size += head.size
		count += uint64(head.count)
	}
	return first, last, size, count, it.Close()
}

// makeRoom drops the oldest frames of a tenant, and puts a record in their place that tells of the hole.
func (q *Queue) makeRoom(c *codec, in *incoming) {
	t := in.tenant
	q.mu.Lock()
	need := max(t.bytes+in.size-q.options.TenantMaxBytes, q.total-q.options.MaxBytes)
	upTo := t.last
	q.mu.Unlock()
	if need <= 0 || upTo == 0 {
		return
	}
	need += need/20 + 512 // so that not every record drops another
	gone := int64(0)
	first, last, size, count, err := q.measure(t, func(f frame, _ uint64) bool {
		more := gone < need
		gone += f.size
		return more
	}, upTo)
	if err != nil || last == 0 {
		q.options.Log.Warn("no frames could be dropped", "tenant", t.name, "error", err)
		return
	}
	hole := q.hole(c, t, first, last, count)
	batch := q.db.NewBatch()
	q.mu.Lock()
	err = batch.DeleteRange(key(prefixFrame, t.id, first), key(prefixFrame, t.id, last+1), nil)
	place := key(prefixFrame, t.id, last)
	err = errors.Join(err, batch.Set(place, c.encode(nil, place, []*Record{hole.record}, q.options.Now()), nil))
	for _, s := range q.sinks {
		if cur := s.cursors[t.id]; cur.through < last-1 {
			cur.through = last - 1
			s.cursors[t.id], s.kept[t.id] = cur, cur
			err = errors.Join(err, batch.Set(key(prefixCursor, s.id, t.id), encodeCursor(cur), nil))
		}
	}
	t.removed = last - 1
	q.forgetFresh(t, last)
	t.bytes += hole.record.Size() - size
	q.total += hole.record.Size() - size
	q.counters.Dropped["quota"] += hole.dropped
	err = errors.Join(err, batch.Set(key(prefixTenant, t.name), encodeTenant(t), nil))
	q.freed()
	q.mu.Unlock()
	if err := errors.Join(err, batch.Commit(pebble.Sync)); err != nil {
		q.fatal(err)
	}
}

// hole is the record that stands where records were dropped. It counts those that earlier holes stood for, too.
type hole struct {
	record  *Record
	dropped uint64 // this time
}

type holeDetails struct {
	Count uint64 `json:"count"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

func (q *Queue) hole(c *codec, t *tenant, first, last, count uint64) hole {
	details, dropped := holeDetails{Count: count, First: first, Last: last}, count
	place := key(prefixFrame, t.id, first)
	if value, closer, err := q.db.Get(place); err == nil {
		if records, err := c.decode(place, value); err == nil && len(records) == 1 {
			var before holeDetails
			r, err := decision.Parse(records[0].Line)
			if err == nil && r.EventType == EventDropped && json.Unmarshal(r.Details, &before) == nil {
				details.First, details.Count = before.First, count-1+before.Count
				dropped--
			}
		}
		_ = closer.Close() // only read
	}
	encoded, _ := json.Marshal(details) // numbers are always JSON
	id := decision.RandomID()
	line, _ := decision.Append(nil, &decision.Record{ // all its parts are ours
		EventType: EventDropped, DecisionID: id, Details: encoded, TimeStamp: q.options.Now().UTC().Format(time.RFC3339Nano),
		Message: fmt.Sprintf("%d records were dropped: the queue of tenant %s was full", details.Count, t.name),
	})
	return hole{record: &Record{Sequence: last, ID: id, Time: q.options.Now(), Line: line}, dropped: dropped}
}
