// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// Stream tells what of a stream of this authority is stored. A stream that is not known is open and empty.
func (s *Store) Stream(authority string, id *forwardingv1.StreamId) (*forwardingv1.StreamState, error) {
	snapshot := s.db.NewSnapshot()
	value, closer, err := snapshot.Get(streamKey(authority, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return &forwardingv1.StreamState{
			Stream: id, Completeness: forwardingv1.Completeness_COMPLETENESS_OPEN, Chain: make([]byte, forwardingv1.DigestSize),
		}, snapshot.Close()
	}
	if err != nil {
		return nil, errors.Join(err, snapshot.Close())
	}
	known, err := decodeStream(value)
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, errors.Join(err, snapshot.Close())
	}
	state, err := known.state(snapshot)
	return state, errors.Join(err, snapshot.Close())
}

// Streams visits the states of all streams.
func (s *Store) Streams(visit func(*forwardingv1.StreamState) error) error {
	snapshot := s.db.NewSnapshot()
	err := walk(snapshot, []byte{prefixStream}, []byte{prefixStream + 1}, func(_, value []byte) error {
		known, err := decodeStream(value)
		if err != nil {
			return err
		}
		state, err := known.state(snapshot)
		if err != nil {
			return err
		}
		return visit(state)
	})
	return errors.Join(err, snapshot.Close())
}

// Completeness counts streams by their last verdict.
func (s *Store) Completeness() (map[forwardingv1.Completeness]int, error) {
	counts := map[forwardingv1.Completeness]int{}
	err := walk(s.db, []byte{prefixStream}, []byte{prefixStream + 1}, func(_, value []byte) error {
		known, err := decodeStream(value)
		if err == nil {
			counts[known.Completeness]++
		}
		return err
	})
	return counts, err
}

// Arrival is one record as it came.
type Arrival struct {
	// Number counts the records from 1.
	Number   uint64
	Received time.Time
	Stream   *forwardingv1.StreamId
	Record   *forwardingv1.Record
}

// LastNumber is the number of the last record that arrived.
func (s *Store) LastNumber() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.counters.lastRecord
}

// Records visits the records with numbers above after, up to last.
func (s *Store) Records(after, last uint64, visit func(Arrival) error) error {
	if after >= last {
		return nil
	}
	snapshot := s.db.NewSnapshot()
	ids := map[uint64]*forwardingv1.StreamId{}
	err := walk(snapshot, []byte{prefixStream}, []byte{prefixStream + 1}, func(_, value []byte) error {
		known, err := decodeStream(value)
		if err == nil {
			ids[known.Number] = known.id
		}
		return err
	})
	if err != nil {
		return errors.Join(err, snapshot.Close())
	}
	err = walk(snapshot, recordKey(after+1), recordEnd(last), func(key, value []byte) error {
		arrival, number, err := decodeRecord(key, value)
		if err != nil {
			return err
		}
		arrival.Stream = ids[number]
		if arrival.Stream == nil {
			return fmt.Errorf("record %d is of stream %d, which is not there", arrival.Number, number)
		}
		return visit(arrival)
	})
	return errors.Join(err, snapshot.Close())
}

// recordEnd is the first key behind the record with the number last.
func recordEnd(last uint64) []byte {
	if last+1 == 0 {
		return []byte{prefixRecord + 1}
	}
	return recordKey(last + 1)
}

func decodeRecord(key, value []byte) (Arrival, uint64, error) {
	if len(key) != 9 || len(value) < recordHeader {
		return Arrival{}, 0, errShort
	}
	arrival := Arrival{
		Number: binary.BigEndian.Uint64(key[1:]), Received: time.Unix(0, int64(binary.BigEndian.Uint64(value[8:]))).UTC(), Record: &forwardingv1.Record{},
	}
	if err := proto.Unmarshal(value[recordHeader:], arrival.Record); err != nil {
		return Arrival{}, 0, fmt.Errorf("record %d: %w", arrival.Number, err)
	}
	return arrival, binary.BigEndian.Uint64(value), nil
}

// Report is what Verify found.
type Report struct {
	Records   uint64 `json:"records"`
	Streams   uint64 `json:"streams"`
	Conflicts uint64 `json:"conflicts"`
	// Wrong names what does not fit together; at most 100.
	Wrong []string `json:"wrong"`
}

const maxWrong = 100

func (r *Report) wrong(format string, values ...any) {
	if len(r.Wrong) < maxWrong {
		r.Wrong = append(r.Wrong, fmt.Sprintf(format, values...))
	}
}

// Verify reads everything and compares: each record with its digest and its identity, each stream with its records, the counters with what is there.
func (s *Store) Verify() (Report, error) {
	report := Report{Wrong: []string{}}
	snapshot := s.db.NewSnapshot()
	err := errors.Join(s.verifyRecords(snapshot, &report), s.verifyStreams(snapshot, &report), s.verifyCounters(snapshot, &report))
	return report, errors.Join(err, snapshot.Close())
}

func (s *Store) verifyRecords(reader pebble.Reader, report *Report) error {
	owners := map[uint64]*stream{}
	err := walk(reader, []byte{prefixStream}, []byte{prefixStream + 1}, func(_, value []byte) error {
		known, err := decodeStream(value)
		if err == nil {
			owners[known.Number] = known
		}
		return err
	})
	if err != nil {
		return err
	}
	return walk(reader, []byte{prefixRecord}, []byte{prefixRecord + 1}, func(key, value []byte) error {
		report.Records++
		arrival, number, err := decodeRecord(key, value)
		if err != nil {
			report.wrong("%v", err)
			return nil
		}
		owner := owners[number]
		if owner == nil {
			report.wrong("record %d is of stream %d, which is not there", arrival.Number, number)
			return nil
		}
		record := arrival.Record
		if record.GetSchema() <= forwardingv1.Schema && !bytes.Equal(forwardingv1.Digest(record), record.GetDigest()) {
			report.wrong("record %d (%s) is not the one that its digest was made of", arrival.Number, record.GetEventId())
		}
		value, closer, err := reader.Get(identityKey(owner.Authority, owner.id, record.GetEventId()))
		if errors.Is(err, pebble.ErrNotFound) {
			report.wrong("record %d (%s) has no identity", arrival.Number, record.GetEventId())
			return nil
		}
		if err != nil {
			return err
		}
		known, err := decodeIdentity(value)
		if err != nil || known.number != arrival.Number || !bytes.Equal(known.digest, record.GetDigest()) {
			report.wrong("the identity of record %d (%s) is another record's", arrival.Number, record.GetEventId())
		}
		return closer.Close()
	})
}

func (s *Store) verifyStreams(reader pebble.Reader, report *Report) error {
	return walk(reader, []byte{prefixStream}, []byte{prefixStream + 1}, func(_, value []byte) error {
		report.Streams++
		known, err := decodeStream(value)
		if err != nil {
			report.wrong("%v", err)
			return nil
		}
		var records, highest uint64
		var chain []byte
		err = known.places(reader, func(sequence uint64, digest []byte) {
			records, highest, chain = records+1, max(highest, sequence), forwardingv1.AppendChain(chain, digest)
		})
		if err != nil {
			return err
		}
		if records != known.Records || highest != known.Highest {
			report.wrong("stream %s has %d records up to %d, its state says %d up to %d", known.id.GetUid(), records, highest, known.Records, known.Highest)
		}
		if !known.Unordered && !bytes.Equal(chain, known.Chain) {
			report.wrong("the chain of stream %s is not that of its records", known.id.GetUid())
		}
		return nil
	})
}

func (s *Store) verifyCounters(reader pebble.Reader, report *Report) error {
	if stored := s.Counters().Stored; stored != report.Records {
		report.wrong("%d records are there, the counters say %d", report.Records, stored)
	}
	return walk(reader, []byte{prefixConflict}, []byte{prefixConflict + 1}, func(_, _ []byte) error {
		report.Conflicts++
		return nil
	})
}

// Stores is true: what a Store acknowledges is on disk.
func (*Store) Stores() bool { return true }
