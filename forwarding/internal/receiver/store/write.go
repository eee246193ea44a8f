// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

const (
	// queued is how many batches may wait for the writer; more make their senders wait.
	queued = 256
	// commitBytes is from where on a commit gathers no further batch.
	commitBytes = 8 << 20
	// keptStreams bounds the states in memory.
	keptStreams = 4096
	// diskReserve is the free space of the volume that is never used, and that lets the database tidy up.
	diskReserve = 64 << 20
)

// Batch is what a sender wants to have stored. Its records are known to be well formed.
type Batch struct {
	// Authority is who the sender proved to be; "" if it proved nothing.
	Authority string
	// Number is the batch that rejections name.
	Number  uint64
	Stream  *forwardingv1.StreamId
	Records []*forwardingv1.Record
	// Refused counts the records of the batch that were refused before.
	Refused uint64
	// Bytes is the size of the batch with these, for which all its messages were measured; 0: they were not.
	Bytes int
}

// Outcome is what became of a batch.
type Outcome struct {
	Stored, Duplicates uint64
	Rejections         []*forwardingv1.Rejection
	// State is given where the verdict of the stream changed to other than open, or where the batch held the closing record.
	State *forwardingv1.StreamState
}

// request is a batch on its way through the writer.
type request struct {
	batch   Batch
	encoded [][]byte
	bytes   int
	outcome Outcome
	err     error
	done    chan struct{}
}

// Pending is a batch that was handed to the writer.
type Pending struct{ request *request }

// Wait waits until the batch is on disk.
func (p Pending) Wait(ctx context.Context) (Outcome, error) {
	select {
	case <-p.request.done:
		return p.request.outcome, p.request.err
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// Done is closed when the batch is on disk, or is not going to be.
func (p Pending) Done() <-chan struct{} { return p.request.done }

// Append stores a batch and waits for the disk.
func (s *Store) Append(ctx context.Context, batch Batch) (Outcome, error) {
	pending, err := s.Start(ctx, batch)
	if err != nil {
		return Outcome{}, err
	}
	return pending.Wait(ctx)
}

// Start hands a batch to the writer. It waits where too many batches are on their way.
func (s *Store) Start(ctx context.Context, batch Batch) (Pending, error) {
	r := &request{batch: batch, done: make(chan struct{}), encoded: make([][]byte, len(batch.Records))}
	for i, record := range batch.Records {
		encoded, err := proto.Marshal(record)
		if err != nil {
			return Pending{}, fmt.Errorf("encode record %s: %w", record.GetEventId(), err)
		}
		r.encoded[i] = encoded
		r.bytes += len(encoded) + 128
	}
	select {
	case <-s.stop:
		return Pending{}, ErrClosed
	default:
	}
	select {
	case s.requests <- r:
		return Pending{r}, nil
	case <-ctx.Done():
		return Pending{}, ctx.Err()
	case <-s.stop:
		return Pending{}, ErrClosed
	}
}

// write is the one writer.
func (s *Store) write() {
	defer close(s.stopped)
	for {
		select {
		case first := <-s.requests:
			s.commit(s.gather(first))
		case <-s.stop:
			s.refuse()
			return
		}
	}
}

// gather takes what waits, up to the size of a commit.
func (s *Store) gather(first *request) []*request {
	group, size := []*request{first}, first.bytes
	for size < commitBytes {
		select {
		case next := <-s.requests:
			group, size = append(group, next), size+next.bytes
		default:
			return group
		}
	}
	return group
}

// refuse answers what waits when the store is closed. A batch that comes in at the same moment is answered by nobody; its sender's context ends it.
func (s *Store) refuse() {
	for {
		select {
		case r := <-s.requests:
			r.err = ErrClosed
			close(r.done)
		default:
			return
		}
	}
}

// commit stores the batches of a group in one write.
func (s *Store) commit(group []*request) {
	c := &commit{store: s, batch: s.db.NewBatch(), counters: s.counters, fresh: map[string]identity{}, changed: map[string]*stream{}}
	err := c.gather(group)
	for _, r := range group {
		if r.err == nil {
			r.err = err
		}
		if r.err == nil {
			r.err = c.tell(r)
		}
		close(r.done)
	}
	if err == nil {
		s.remember(c.changed)
	}
}

// gather puts the batches of a group into the commit and writes it. Its error is that of all batches; a batch that has no room has its own.
func (c *commit) gather(group []*request) error {
	for _, r := range group {
		err := c.add(r)
		if errors.Is(err, ErrFull) {
			r.err = err
			continue
		}
		if err != nil {
			return errors.Join(err, c.batch.Close())
		}
	}
	return c.finish()
}

// remember keeps the states of streams that are likely to be written again.
func (s *Store) remember(changed map[string]*stream) {
	if len(s.streams) > keptStreams {
		clear(s.streams)
	}
	for key, state := range changed {
		state.turned = false
		s.streams[key] = state
	}
}

// commit is one write of the database.
type commit struct {
	store    *Store
	batch    *pebble.Batch
	counters counters
	// fresh are the identities of this commit, which the database does not know yet.
	fresh   map[string]identity
	changed map[string]*stream
	bytes   uint64
}

// add puts a batch into the commit. After ErrFull nothing of the batch is in it.
func (c *commit) add(r *request) error {
	if len(r.batch.Records) > 0 {
		if err := c.store.room(c.bytes + uint64(r.bytes)); err != nil {
			return err
		}
	}
	c.counters.Received += r.batch.Refused
	c.counters.Rejected += r.batch.Refused
	if len(r.batch.Records) == 0 {
		return nil
	}
	c.bytes += uint64(r.bytes)
	key := string(streamKey(r.batch.Authority, r.batch.Stream))
	target, err := c.stream(key, r.batch)
	if err != nil {
		return err
	}
	now := c.store.options.Now().UnixNano()
	for i, record := range r.batch.Records {
		if err := c.record(r, target, record, r.encoded[i], now); err != nil {
			return err
		}
	}
	return nil
}

// room tells whether the disk takes further bytes.
func (s *Store) room(further uint64) error {
	if limit := s.options.MaxBytes; limit > 0 && s.used+further > limit {
		s.used = s.Bytes()
		if s.used+further > limit {
			return fmt.Errorf("%w: %d of %d bytes are used", ErrFull, s.used, limit)
		}
	}
	if s.options.FileSystem != nil {
		return nil
	}
	var volume syscall.Statfs_t
	if err := syscall.Statfs(s.options.Directory, &volume); err != nil {
		return fmt.Errorf("store: free space: %w", err)
	}
	if free := volume.Bavail * uint64(volume.Bsize); free < diskReserve+further {
		return fmt.Errorf("%w: the volume has %d bytes left", ErrFull, free)
	}
	return nil
}

// stream gives the state of the batch's stream and remembers that it changes.
func (c *commit) stream(key string, batch Batch) (*stream, error) {
	if known := c.changed[key]; known != nil {
		return known, nil
	}
	known := c.store.streams[key]
	if known == nil {
		value, closer, err := c.store.db.Get([]byte(key))
		switch {
		case err == nil:
			known, err = decodeStream(value)
			if err = errors.Join(err, closer.Close()); err != nil {
				return nil, err
			}
		case errors.Is(err, pebble.ErrNotFound):
			id, err := proto.Marshal(batch.Stream)
			if err != nil {
				return nil, err
			}
			c.counters.lastStream++
			known = &stream{
				Number: c.counters.lastStream, Authority: batch.Authority, ID: id, id: batch.Stream, Completeness: forwardingv1.Completeness_COMPLETENESS_OPEN,
			}
		default:
			return nil, err
		}
	}
	changed := *known
	c.changed[key] = &changed
	return &changed, nil
}

func (c *commit) record(r *request, target *stream, record *forwardingv1.Record, encoded []byte, now int64) error {
	c.counters.Received++
	key := identityKey(r.batch.Authority, r.batch.Stream, record.GetEventId())
	known, found, err := c.known(key)
	if err != nil {
		return err
	}
	if found && bytes.Equal(known.digest, record.GetDigest()) {
		c.counters.Duplicates++
		r.outcome.Duplicates++
		return nil
	}
	closes := record.GetClosing()
	if found || closes != nil && target.Closing != nil {
		c.counters.Conflicts++
		r.outcome.Rejections = append(r.outcome.Rejections, &forwardingv1.Rejection{
			Batch: r.batch.Number, EventId: record.GetEventId(), Reason: forwardingv1.RejectionReason_REJECTION_REASON_CONFLICT,
			Message: "another record is stored under this identity: it stays, and this one is set aside",
		})
		return c.batch.Set(conflictKey(key, record.GetDigest()), appendRecord(nil, target.Number, now, encoded), nil)
	}
	c.counters.lastRecord++
	number := c.counters.lastRecord
	fresh := identity{digest: record.GetDigest(), number: number}
	c.fresh[string(key)] = fresh
	if closes != nil {
		target.Closing = &closing{Sequence: record.GetSequence(), Records: closes.GetRecords(), Chain: closes.GetChain(), Filter: closes.GetFilter()}
	} else {
		target.add(record.GetSequence(), record.GetDigest())
		if err := c.batch.Set(placeKey(target.Number, record.GetSequence(), number), record.GetDigest(), nil); err != nil {
			return err
		}
	}
	c.counters.Stored++
	r.outcome.Stored++
	value := appendRecord(make([]byte, 0, recordHeader+len(encoded)), target.Number, now, encoded)
	return errors.Join(c.batch.Set(key, fresh.encode(), nil), c.batch.Set(recordKey(number), value, nil))
}

func (c *commit) known(key []byte) (identity, bool, error) {
	if fresh, ok := c.fresh[string(key)]; ok {
		return fresh, true, nil
	}
	value, closer, err := c.store.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return identity{}, false, nil
	}
	if err != nil {
		return identity{}, false, err
	}
	known, err := decodeIdentity(value)
	return known, true, errors.Join(err, closer.Close())
}

// finish writes everything, waits for the disk and gives the verdicts.
func (c *commit) finish() error {
	for key, changed := range c.changed {
		if err := c.save(c.batch, key, changed); err != nil {
			return errors.Join(err, c.batch.Close())
		}
	}
	if err := c.batch.Set([]byte{prefixCounters}, c.counters.encode(), nil); err != nil {
		return errors.Join(err, c.batch.Close())
	}
	if err := c.batch.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	s := c.store
	s.used += c.bytes
	s.mutex.Lock()
	s.counters = c.counters
	s.mutex.Unlock()
	return c.judge()
}

func (c *commit) save(to pebble.Writer, key string, state *stream) error {
	value, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return to.Set([]byte(key), value, pebble.NoSync)
}

// judge gives the verdicts of changed streams from what is stored. A verdict that is lost with the power is given again when it is asked for.
func (c *commit) judge() error {
	for key, changed := range c.changed {
		before, unordered := changed.Completeness, changed.Unordered
		if err := changed.judge(c.store.db); err != nil {
			return err
		}
		changed.turned = changed.Completeness != before
		if !changed.turned && changed.Unordered == unordered {
			continue
		}
		if err := c.save(c.store.db, key, changed); err != nil {
			return err
		}
	}
	return nil
}

// tell adds to the outcome what the sender has to know of its stream.
func (c *commit) tell(r *request) error {
	if len(r.batch.Records) == 0 {
		return nil
	}
	state := c.changed[string(streamKey(r.batch.Authority, r.batch.Stream))]
	closes := slices.ContainsFunc(r.batch.Records, func(record *forwardingv1.Record) bool { return record.GetClosing() != nil })
	if state.Closing == nil || !state.turned && !closes {
		return nil
	}
	told, err := state.state(c.store.db)
	r.outcome.State = told
	return err
}

// Finished is a batch whose outcome is known.
func Finished(outcome Outcome) Pending {
	done := make(chan struct{})
	close(done)
	return Pending{&request{outcome: outcome, done: done}}
}

// Handed is a batch that another keeper has taken. finish tells once what became of it.
func Handed() (pending Pending, finish func(Outcome, error)) {
	r := &request{done: make(chan struct{})}
	return Pending{r}, func(outcome Outcome, err error) {
		r.outcome, r.err = outcome, err
		close(r.done)
	}
}
