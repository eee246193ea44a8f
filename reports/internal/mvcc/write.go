// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Bounds of one transaction of the writer. The writer takes no further change of a batch into a transaction that has taken
// batchTime, since a change can have 50,000 rows. A single one may take transactionTimeout; whether the database is there at
// all is asked meanwhile.
const (
	batchChanges       = 128
	batchBytes         = 8 << 20
	batchTime          = time.Second
	transactionTimeout = 30 * time.Second
	// writeTimeout bounds transactions of a few rows.
	writeTimeout = 5 * time.Second
)

// Change is what is to be made of a key.
type Change struct {
	Key string
	// From is the revision that the change was made from; 0 if there must be none.
	From int64
	// To is the new state; nil deletes the key.
	To *State
}

// State is a state to be written.
type State struct {
	Head    []byte
	Payload []byte // nil if there is none
	// Size is the number of bytes of the whole, for quotas and estimates.
	Size int64
	// What is kept in columns, so that lists can be narrowed by it.
	Kind                         int
	UID, Namespace, Name         string
	Digest, Registry, Repository string
	Labels                       map[string]string
	// Created is since when the object has been there; zero is since the write.
	Created time.Time
	// Index writes what else is kept of the state; nil if there is nothing.
	Index Indexer
}

// Indexer replaces the rows that are kept beside an object, in the transaction of its change. at is the time of the write.
type Indexer func(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error

// Outcome is what became of a change.
type Outcome struct {
	// Written tells that the change was made, as Revision.
	Written  bool
	Revision int64
	// Exists tells, of a change that was not made, that the key has a state.
	Exists bool
	// Exceeded tells, of a change that was not made, which bound of its namespace is in the way.
	Exceeded *Exceeded

	frozen bool // was not made since writes are refused for now
}

// Exceeded is the bound of a namespace that a change would exceed, in bytes.
type Exceeded struct{ Used, Limit int64 }

// write is a change in the queue.
type write struct {
	ctx     context.Context //nolint:containedctx // of the request that waits: one that has gone is not written
	change  Change
	also    []*write // further changes: all are made, or none
	stored  storedState
	compact int64 // instead of a change: drop what is older
	tick    bool  // instead of a change: raise the counter
	advance int64 // instead of a change: raise the counter to this, and make all before it too old
	outcome Outcome
	err     error
	done    chan struct{}
}

// storedState is a state as the database keeps it, made before the writer is asked.
type storedState struct {
	head []byte
	blob *blob
}

// bytes is the size before compression, which says how many rows there are.
func (w *write) bytes() int {
	n := 0
	for _, part := range w.all() {
		if to := part.change.To; to != nil {
			n += len(to.Head) + len(to.Payload)
		}
	}
	return n
}

// all are the changes that are made together.
func (w *write) all() []*write { return append([]*write{w}, w.also...) }

func (s *Store) newWrite(change Change) *write {
	w := &write{change: change}
	if change.To != nil {
		w.stored.head = s.codec.pack(change.To.Head)
		if change.To.Payload != nil {
			w.stored.blob = s.codec.newBlob(change.To.Payload)
		}
	}
	return w
}

// WriteAll makes changes of different keys together, each as a revision of its own: all of them, or none. An outcome that
// is not written, while another one says why, was held back by it. Errors are as those of Write.
func (s *Store) WriteAll(ctx context.Context, changes ...Change) ([]Outcome, error) {
	first := s.newWrite(changes[0])
	for _, change := range changes[1:] {
		first.also = append(first.also, s.newWrite(change))
	}
	outcome, err := s.enqueue(ctx, first)
	if err == nil && outcome.frozen {
		err = ErrFrozen
	}
	if err != nil {
		return nil, err
	}
	outcomes := []Outcome{outcome}
	for _, w := range first.also {
		outcomes = append(outcomes, w.outcome)
	}
	return outcomes, nil
}

// Write makes a change. An error says that it is not known to have been made; ErrNotWritten in it, that it was not.
func (s *Store) Write(ctx context.Context, change Change) (Outcome, error) {
	outcome, err := s.enqueue(ctx, s.newWrite(change))
	if err == nil && outcome.frozen {
		err = ErrFrozen
	}
	return outcome, err
}

// Tick raises the counter without a change.
func (s *Store) Tick(ctx context.Context) (int64, error) {
	outcome, err := s.enqueue(ctx, &write{tick: true})
	return outcome.Revision, err
}

// Advance raises the counter to a revision, or by one where it is higher already, and makes all numbers before it too old,
// so that every watcher lists anew. It returns the counter.
func (s *Store) Advance(ctx context.Context, to int64) (int64, error) {
	outcome, err := s.enqueue(ctx, &write{advance: max(to, 1)})
	return outcome.Revision, err
}

func (s *Store) enqueue(ctx context.Context, w *write) (Outcome, error) {
	w.ctx, w.done = ctx, make(chan struct{})
	select {
	case <-s.ended:
		return Outcome{}, ErrClosed
	default:
	}
	select {
	case s.queue <- w:
	default:
		s.observer.Rejected()
		return Outcome{}, ErrQueueFull
	}
	select {
	case <-w.done:
		return w.outcome, w.err
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	case <-s.gone:
	}
	select { // the writer may have taken the change before it ended
	case <-w.done:
		return w.outcome, w.err
	default:
		return Outcome{}, ErrClosed
	}
}

// writeLoop is the one writer of this process. What is queued when the Store is closed is still written.
func (s *Store) writeLoop(ctx context.Context) {
	defer close(s.gone)
	for {
		select {
		case w := <-s.queue:
			s.commit(s.gather(w)) //nolint:contextcheck // the outcome of a commit is asked for after its request, too
		case <-ctx.Done():
			for {
				select {
				case w := <-s.queue:
					s.commit(s.gather(w)) //nolint:contextcheck // see above
				default:
					return
				}
			}
		}
	}
}

// gather takes what else is waiting into the same transaction.
func (s *Store) gather(first *write) []*write {
	batch, size := []*write{first}, first.bytes()
	for len(batch) < batchChanges && size < batchBytes {
		select {
		case w := <-s.queue:
			batch, size = append(batch, w), size+w.bytes()
		default:
			return batch
		}
	}
	return batch
}

// commit writes a batch and answers who waits for it. Where the whole fails by one change, each is tried by itself.
func (s *Store) commit(batch []*write) {
	waiting := batch[:0]
	for _, w := range batch {
		if w.err = w.ctx.Err(); w.err != nil {
			close(w.done)
			continue
		}
		waiting = append(waiting, w)
	}
	if len(waiting) == 0 {
		return
	}
	for len(waiting) > 0 {
		n, err := s.transact(waiting)
		if err != nil && len(waiting) > 1 && s.db.Classify(err) == sqldb.ClassOther {
			for _, w := range waiting {
				_, w.err = s.transact([]*write{w})
				close(w.done)
			}
			return
		}
		for _, w := range waiting[:n] {
			w.err = err
			close(w.done)
		}
		waiting = waiting[n:]
	}
}

// transact writes changes in one transaction and tells the hub. It returns how many of the batch it has dealt with: those
// that were left when the time was over are for another transaction.
func (s *Store) transact(batch []*write) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), transactionTimeout)
	defer cancel()
	begun := s.clock.Now()
	var events []Event
	var probe changeRow
	taken := len(batch)
	err := s.db.Write(ctx, func(tx *sqldb.Tx, revision int64) error {
		first := revision
		var err error
		if events, revision, taken, err = s.applyAll(ctx, tx, batch, revision, begun); err != nil {
			return err
		}
		if n := len(events); n > 0 {
			probe = changeRow{revision: revision, at: s.lastAt, key: events[n-1].Key}
		}
		if revision == first {
			return nil
		}
		if err := setMeta(ctx, tx, map[string]int64{"rv": revision}); err != nil {
			return err
		}
		return tx.Notify(ctx, revision)
	})
	if err = s.settle(err, events, probe); err != nil {
		for _, w := range batch[:taken] {
			for _, part := range w.all() {
				part.outcome = Outcome{}
			}
		}
		return taken, s.classified(context.WithoutCancel(ctx), "write", err)
	}
	s.observer.Committed(events, s.clock.Since(begun))
	if !s.hub.offer(events) {
		s.hub.wake()
	}
	return taken, nil
}

// settle tells what an error of a transaction means for its changes.
func (s *Store) settle(err error, events []Event, probe changeRow) error {
	var unknown *sqldb.CommitError
	switch committing := errors.As(err, &unknown); {
	case committing && len(events) > 0:
		return s.findOut(probe, err)
	case !committing && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w: the transaction takes more than %s", ErrBusy, ErrNotWritten, transactionTimeout)
	}
	return err
}

// applyAll makes the changes of a batch, each as a revision of its own, until they have taken long since begun. It returns
// the last revision, and how many changes it has dealt with: all, where there is an error.
func (s *Store) applyAll(ctx context.Context, tx *sqldb.Tx, batch []*write, revision int64, begun time.Time) (events []Event, last int64, n int, err error) {
	frozen, err := s.frozen(ctx, tx, batch)
	if err != nil {
		return nil, revision, len(batch), err
	}
	for i, w := range batch {
		if i > 0 && s.clock.Since(begun) > batchTime {
			return events, revision, i, nil
		}
		if w.outcome = (Outcome{frozen: frozen && s.freezable(w)}); w.outcome.frozen {
			continue
		}
		made, err := s.applyTogether(ctx, tx, w, revision)
		if err != nil {
			return nil, revision, len(batch), err
		}
		if len(made) > 0 {
			revision = made[len(made)-1].Revision
			events = append(events, made...)
		}
	}
	return events, revision, len(batch), nil
}

// applyTogether makes a change and those that belong to it, behind a revision. It makes none where one cannot be made.
func (s *Store) applyTogether(ctx context.Context, tx *sqldb.Tx, w *write, revision int64) (events []Event, err error) {
	if len(w.also) > 0 {
		if ok, err := s.possible(ctx, tx, w.all()); err != nil || !ok {
			return nil, err
		}
	}
	for _, part := range w.all() {
		event, err := s.apply(ctx, tx, part, revision+1)
		switch {
		case err != nil:
			return nil, err
		case event != nil:
			revision = event.Revision
			events = append(events, *event)
		case len(w.also) > 0:
			return nil, fmt.Errorf("%s: a change that was possible is not any more", part.change.Key)
		}
	}
	return events, nil
}

// possible tells whether each of several changes can be made, before the first one is.
func (s *Store) possible(ctx context.Context, tx *sqldb.Tx, writes []*write) (bool, error) {
	for _, w := range writes {
		w.outcome = Outcome{}
	}
	for _, w := range writes {
		var id, present int64
		err := tx.QueryRow(ctx, `SELECT id, rv FROM objects WHERE "key" = ?`, w.change.Key).Scan(&id, &present)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, fmt.Errorf("read the present revision: %w", err)
		}
		if exists := err == nil; exists != (w.change.From != 0) || present != w.change.From {
			w.outcome.Exists = exists
			s.observer.Conflict()
			return false, nil
		}
		if w.outcome.Exceeded, err = s.exceeded(ctx, tx, w.change.To, id); err != nil || w.outcome.Exceeded != nil {
			return false, err
		}
	}
	return true, nil
}

// findOut asks the database whether a transaction was committed whose commit failed. The counter's lock makes the
// question wait for a commit that is still under way.
func (s *Store) findOut(probe changeRow, cause error) error {
	// The request's time may be over; the outcome is asked for all the same.
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout) //nolint:forbidigo // see above
	defer cancel()
	var found int
	err := s.db.Write(ctx, func(tx *sqldb.Tx, _ int64) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM changes WHERE rv = ? AND at = ? AND "key" = ?`, probe.revision, probe.at, probe.key).Scan(&found)
	})
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case found == 0:
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrNotWritten, cause)
	}
	return nil
}

// apply makes one change as a revision. It returns nil if the key is not in the state that the change was made from.
func (s *Store) apply(ctx context.Context, tx *sqldb.Tx, w *write, revision int64) (*Event, error) {
	w.outcome = Outcome{}
	switch {
	case w.tick:
		w.outcome = Outcome{Written: true, Revision: revision}
		return &Event{Revision: revision, Type: tick}, s.logChange(ctx, tx, changeRow{revision: revision, kind: tick})
	case w.compact > 0:
		return s.applyCompaction(ctx, tx, w, revision)
	case w.advance > 0:
		return s.applyAdvance(ctx, tx, w, revision)
	}
	var id, present int64
	var head []byte
	var payload sql.NullString
	err := tx.QueryRow(ctx, `SELECT id, rv, head, payload FROM objects WHERE "key" = ?`, w.change.Key).Scan(&id, &present, &head, &payload)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read the present state: %w", err)
	}
	exists := err == nil
	if exists != (w.change.From != 0) || present != w.change.From {
		w.outcome.Exists = exists
		s.observer.Conflict()
		return nil, nil // no event: the outcome says why
	}
	if w.outcome.Exceeded, err = s.exceeded(ctx, tx, w.change.To, id); err != nil || w.outcome.Exceeded != nil {
		return nil, err
	}
	event := &Event{Revision: revision, Type: Added, Key: w.change.Key}
	row := changeRow{revision: revision, kind: Added, key: w.change.Key}
	if exists {
		before := &Value{Revision: present, Sha: payload.String}
		if before.Head, err = s.codec.unpack(head); err != nil {
			return nil, err
		}
		event.Type, event.Before = Modified, before
		row.kind, row.before, row.beforeHead, row.beforePayload = Modified, present, head, payload
	}
	if w.change.To == nil {
		event.Type, row.kind = Deleted, Deleted
		err = s.applyDelete(ctx, tx, id, present)
	} else {
		event.After = &Value{Revision: revision, Head: w.change.To.Head, Payload: w.change.To.Payload}
		if w.stored.blob != nil {
			event.After.Sha = w.stored.blob.sha
		}
		if !exists {
			id = revision
		}
		err = s.applyState(ctx, tx, w, id, present, revision)
	}
	if err != nil {
		return nil, err
	}
	if err := s.logChange(ctx, tx, row); err != nil {
		return nil, err
	}
	w.outcome = Outcome{Written: true, Revision: revision, Exists: w.change.To != nil}
	return event, nil
}

// exceeded tells which bound a new state would exceed. A state that is not larger than the present one may always be
// written, so that a namespace that is full can be cleaned.
func (s *Store) exceeded(ctx context.Context, tx *sqldb.Tx, to *State, id int64) (*Exceeded, error) {
	limit := s.options.NamespaceBytes
	if limit == 0 || to == nil || to.Namespace == "" {
		return nil, nil // no bound
	}
	var used, present int64
	err := tx.QueryRow(ctx, `SELECT COALESCE(SUM(size), 0), COALESCE(SUM(CASE WHEN id = ? THEN size ELSE 0 END), 0) FROM objects WHERE ns = ?`, id, to.Namespace).
		Scan(&used, &present)
	if err != nil {
		return nil, fmt.Errorf("add up the namespace: %w", err)
	}
	if to.Size <= present || used-present+to.Size <= limit {
		return nil, nil // within the bound
	}
	return &Exceeded{Used: used, Limit: limit}, nil
}

// applyDelete leaves the reference to the payload with the change.
func (s *Store) applyDelete(ctx context.Context, tx *sqldb.Tx, id, present int64) error {
	if _, err := tx.Exec(ctx, `DELETE FROM labels WHERE object = ?`, id); err != nil {
		return fmt.Errorf("delete the labels: %w", err)
	}
	if s.options.Unindex != nil {
		if err := s.options.Unindex(ctx, tx, id, s.clock.Now()); err != nil {
			return fmt.Errorf("delete the rows: %w", err)
		}
	}
	found, err := tx.Exec(ctx, `DELETE FROM objects WHERE id = ? AND rv = ?`, id, present)
	return exactlyOne("delete the object", found, err)
}

func (s *Store) applyState(ctx context.Context, tx *sqldb.Tx, w *write, id, present, revision int64) error {
	if err := s.applyObject(ctx, tx, w, id, present, revision); err != nil {
		return err
	}
	if w.change.To.Index == nil {
		return nil
	}
	if err := w.change.To.Index(ctx, tx, id, s.clock.Now()); err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	return nil
}

func (s *Store) applyObject(ctx context.Context, tx *sqldb.Tx, w *write, id, present, revision int64) error {
	to := w.change.To
	var sha sql.NullString
	if w.stored.blob != nil {
		sha = sql.NullString{String: w.stored.blob.sha, Valid: true}
		if err := s.keepBlob(ctx, tx, w.stored.blob); err != nil {
			return err
		}
	}
	if present == 0 {
		created := to.Created
		if created.IsZero() {
			created = s.clock.Now()
		}
		_, err := tx.Exec(ctx, `INSERT INTO objects (id, "key", uid, kind, ns, name, rv, created, head, payload, size, digest, registry, repository)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, w.change.Key, optional(to.UID), to.Kind, to.Namespace, to.Name, revision, created.UnixMilli(), w.stored.head, sha, to.Size,
			optional(to.Digest), optional(to.Registry), optional(to.Repository))
		if err != nil {
			return fmt.Errorf("insert the object: %w", err)
		}
		return insertLabels(ctx, tx, id, to.Labels)
	}
	found, err := tx.Exec(ctx, `UPDATE objects SET rv = ?, head = ?, payload = ?, size = ?, digest = ?, registry = ?, repository = ? WHERE id = ? AND rv = ?`,
		revision, w.stored.head, sha, to.Size, optional(to.Digest), optional(to.Registry), optional(to.Repository), id, present)
	if err := exactlyOne("update the object", found, err); err != nil {
		return err
	}
	return replaceLabels(ctx, tx, id, to.Labels)
}

func exactlyOne(doing string, found int64, err error) error {
	if err == nil && found != 1 {
		err = fmt.Errorf("%d rows instead of one", found)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// optional keeps an empty text as NULL, which unique columns may hold often.
func optional(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }

func insertLabels(ctx context.Context, tx *sqldb.Tx, id int64, labels map[string]string) error {
	if len(labels) == 0 {
		return nil
	}
	args := make([]any, 0, 3*len(labels))
	for key, value := range labels {
		args = append(args, key, value, id)
	}
	values := strings.TrimSuffix(strings.Repeat("(?, ?, ?), ", len(labels)), ", ")
	if _, err := tx.Exec(ctx, `INSERT INTO labels (k, v, object) VALUES `+values, args...); err != nil {
		return fmt.Errorf("insert the labels: %w", err)
	}
	return nil
}

// replaceLabels writes nothing where the labels are as before, as with most updates.
func replaceLabels(ctx context.Context, tx *sqldb.Tx, id int64, labels map[string]string) error {
	rows, err := tx.Query(ctx, `SELECT k, v FROM labels WHERE object = ?`, id)
	if err != nil {
		return fmt.Errorf("read the labels: %w", err)
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	same, n := true, 0
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return err
		}
		wanted, ok := labels[key]
		same, n = same && ok && wanted == value, n+1
	}
	if err := rows.Err(); err != nil || (same && n == len(labels)) {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM labels WHERE object = ?`, id); err != nil {
		return fmt.Errorf("delete the labels: %w", err)
	}
	return insertLabels(ctx, tx, id, labels)
}

// keepBlob adds a reference to a payload, and the payload itself if nobody else has it.
func (s *Store) keepBlob(ctx context.Context, tx *sqldb.Tx, b *blob) error {
	at := s.clock.Now().UnixMilli()
	found, err := tx.Exec(ctx, `UPDATE blobs SET refs = refs + 1, at = ? WHERE sha = ?`, at, b.sha)
	if err == nil && found == 0 {
		_, err = tx.Exec(ctx, `INSERT INTO blobs (sha, codec, raw_size, data, refs, at) VALUES (?, ?, ?, ?, 1, ?)`, b.sha, b.codec, b.raw, b.data, at)
	}
	if err != nil {
		return fmt.Errorf("keep the payload: %w", err)
	}
	return nil
}

// changeRow is a row of changes.
type changeRow struct {
	revision, at  int64
	kind          EventType
	key           string
	before        int64
	beforeHead    []byte
	beforePayload sql.NullString
	upTo          int64 // of a compaction, kept in before_rv
}

// logChange writes a row of changes. Times only rise, also when the clock does not, so that a row is known by its
// revision and time, and history is dropped from its old end.
func (s *Store) logChange(ctx context.Context, tx *sqldb.Tx, row changeRow) error {
	s.lastAt = max(s.lastAt+1, s.clock.Now().UnixNano())
	before := sql.NullInt64{Int64: max(row.before, row.upTo), Valid: row.before != 0 || row.kind == compaction}
	_, err := tx.Exec(ctx, `INSERT INTO changes (rv, at, "key", type, before_rv, before_head, before_payload) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		row.revision, s.lastAt, row.key, int(row.kind), before, row.beforeHead, row.beforePayload)
	if err != nil {
		return fmt.Errorf("log the change: %w", err)
	}
	return nil
}
