// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// Whole is a stream that is complete, and who has sent it.
type Whole struct {
	Authority string
	Stream    *forwardingv1.StreamId
	Chain     []byte
}

// Complete visits the streams that are complete.
func (s *Store) Complete(visit func(Whole) error) error {
	snapshot := s.db.NewSnapshot()
	err := walk(snapshot, []byte{prefixStream}, []byte{prefixStream + 1}, func(_, value []byte) error {
		known, err := decodeStream(value)
		if err != nil || known.Completeness != forwardingv1.Completeness_COMPLETENESS_COMPLETE {
			return err
		}
		return visit(Whole{Authority: known.Authority, Stream: known.id, Chain: known.Closing.Chain})
	})
	return errors.Join(err, snapshot.Close())
}

// RecordsOf visits the records of a stream in the order of their sequence, without the closing one.
func (s *Store) RecordsOf(authority string, id *forwardingv1.StreamId, visit func(*forwardingv1.Record) error) error {
	snapshot := s.db.NewSnapshot()
	value, closer, err := snapshot.Get(streamKey(authority, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return snapshot.Close()
	}
	if err != nil {
		return errors.Join(err, snapshot.Close())
	}
	known, err := decodeStream(value)
	if err = errors.Join(err, closer.Close()); err != nil {
		return errors.Join(err, snapshot.Close())
	}
	from, to := placeRange(known.Number)
	err = walk(snapshot, from, to, func(key, _ []byte) error {
		if len(key) != placeSize {
			return errShort
		}
		number := binary.BigEndian.Uint64(key[placeSize-8:])
		stored, held, err := snapshot.Get(recordKey(number))
		if err != nil {
			return fmt.Errorf("record %d: %w", number, err)
		}
		arrival, _, err := decodeRecord(recordKey(number), stored)
		if err = errors.Join(err, held.Close()); err != nil {
			return err
		}
		return visit(arrival.Record)
	})
	return errors.Join(err, snapshot.Close())
}
