// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// maxGaps bounds the gaps that a state names.
const maxGaps = 1000

// stream is what is known of one stream.
type stream struct {
	Number    uint64 `json:"number"`
	Authority string `json:"authority,omitempty"`
	// ID is the StreamId as the protocol has it.
	ID []byte `json:"id"`
	// Records counts without the closing record.
	Records uint64 `json:"records"`
	Highest uint64 `json:"highest"`
	// Chain goes over all records in the order of their sequence, unless Unordered:
	// then a record came after a later one, and Chain is made anew when it is asked for.
	Chain     []byte   `json:"chain,omitempty"`
	Unordered bool     `json:"unordered,omitempty"`
	Closing   *closing `json:"closing,omitempty"`
	// Completeness is the verdict after the last change.
	Completeness forwardingv1.Completeness `json:"completeness"`

	id *forwardingv1.StreamId
	// turned is true where the commit that is being told changed the verdict.
	turned bool
}

// closing is what the closing record said.
type closing struct {
	Sequence uint64 `json:"sequence"`
	Records  uint64 `json:"records"`
	Chain    []byte `json:"chain"`
	Filter   string `json:"filter,omitempty"`
}

func decodeStream(value []byte) (*stream, error) {
	s := &stream{}
	if err := json.Unmarshal(value, s); err != nil {
		return nil, fmt.Errorf("state of a stream: %w", err)
	}
	s.id = &forwardingv1.StreamId{}
	if err := proto.Unmarshal(s.ID, s.id); err != nil {
		return nil, fmt.Errorf("identity of stream %d: %w", s.Number, err)
	}
	return s, nil
}

// add takes one record that is not the closing one.
func (s *stream) add(sequence uint64, digest []byte) {
	s.Records++
	if sequence <= s.Highest {
		s.Unordered = true
		return
	}
	s.Highest = sequence
	if !s.Unordered {
		s.Chain = forwardingv1.AppendChain(s.Chain, digest)
	}
}

// order makes the chain of a stream whose records came out of order.
func (s *stream) order(reader pebble.Reader) error {
	if !s.Unordered {
		return nil
	}
	var chain []byte
	err := s.places(reader, func(_ uint64, digest []byte) { chain = forwardingv1.AppendChain(chain, digest) })
	if err != nil {
		return err
	}
	s.Chain, s.Unordered = chain, false
	return nil
}

// places walks through the records of the stream in the order of their sequence.
func (s *stream) places(reader pebble.Reader, visit func(sequence uint64, digest []byte)) error {
	from, to := placeRange(s.Number)
	return walk(reader, from, to, func(key, value []byte) error {
		if len(key) != placeSize || len(value) != forwardingv1.DigestSize {
			return errShort
		}
		visit(binary.BigEndian.Uint64(key[9:]), value)
		return nil
	})
}

// judge gives the verdict. It reads the records only where they came out of order and their number is right.
func (s *stream) judge(reader pebble.Reader) error {
	switch {
	case s.Closing == nil:
		s.Completeness = forwardingv1.Completeness_COMPLETENESS_OPEN
	case s.Records < s.Closing.Records:
		s.Completeness = forwardingv1.Completeness_COMPLETENESS_INCOMPLETE
	case s.Records > s.Closing.Records:
		s.Completeness = forwardingv1.Completeness_COMPLETENESS_CONFLICT
	default:
		if err := s.order(reader); err != nil {
			return err
		}
		s.Completeness = forwardingv1.Completeness_COMPLETENESS_CONFLICT
		if bytes.Equal(s.chain(), s.Closing.Chain) {
			s.Completeness = forwardingv1.Completeness_COMPLETENESS_COMPLETE
		}
	}
	return nil
}

// chain is 32 bytes also before the first record.
func (s *stream) chain() []byte {
	if len(s.Chain) == 0 {
		return make([]byte, forwardingv1.DigestSize)
	}
	return s.Chain
}

func (s *stream) missing() uint64 {
	if s.Closing == nil || s.Records >= s.Closing.Records {
		return 0
	}
	return s.Closing.Records - s.Records
}

// state is the stream in the protocol's words.
func (s *stream) state(reader pebble.Reader) (*forwardingv1.StreamState, error) {
	known := *s
	if err := errors.Join(known.order(reader), known.judge(reader)); err != nil {
		return nil, err
	}
	state := &forwardingv1.StreamState{
		Stream: s.id, Completeness: known.Completeness, Records: s.Records, Missing: s.missing(), Chain: known.chain(), HighestSequence: s.Highest,
	}
	if known.Completeness != forwardingv1.Completeness_COMPLETENESS_INCOMPLETE || s.Closing.Filter != "" {
		return state, nil
	}
	next := uint64(1)
	gap := func(until uint64) {
		if next < until && len(state.Gaps) < maxGaps {
			state.Gaps = append(state.Gaps, &forwardingv1.SequenceRange{First: next, Last: until - 1})
		}
	}
	err := s.places(reader, func(sequence uint64, _ []byte) {
		gap(sequence)
		next = sequence + 1
	})
	if err != nil {
		return nil, err
	}
	gap(s.Closing.Sequence)
	return state, nil
}

// walk visits the keys from from to before to. What visit is given is valid until it returns.
func walk(reader pebble.Reader, from, to []byte, visit func(key, value []byte) error) (err error) {
	iterator, err := reader.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	defer func() {
		if closed := iterator.Close(); err == nil {
			err = closed
		}
	}()
	for ok := iterator.First(); ok; ok = iterator.Next() {
		value, err := iterator.ValueAndErr()
		if err != nil {
			return err
		}
		if err := visit(iterator.Key(), value); err != nil {
			return err
		}
	}
	return iterator.Error()
}
