// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/names"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// segment is the object of decisions that a stream is at.
type segment struct {
	mu    sync.Mutex
	key   string
	etag  string
	since time.Time
	data  []byte
}

// digits is how much of the digest of its first batch is in the name of an object.
const digits = 16

// decisions puts the object of the stream again with the batch in it, or a new one. When it returns, the bucket has the batch.
func (s *Sink) decisions(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	data, taken, rejected := lines(batch.Stream, batch.Records)
	outcome := sink.Outcome{Rejected: rejected}
	if len(taken) == 0 {
		return outcome, nil
	}
	present := s.segment(batch.Stream)
	present.mu.Lock()
	defer present.mu.Unlock()
	full := len(present.data)+len(data) > segmentBytes || s.now().Sub(present.since) >= segmentAge
	if present.key != "" && s.lock == 0 && !full {
		with := s.encoder.EncodeAll(data, slices.Clip(present.data))
		put, err := s.put(ctx, present.key, contentTypeLines, with, present.etag)
		if err == nil {
			present.etag, present.data = put.ETag, with
			return outcome, nil
		}
		if !isTaken(err) {
			return outcome, err
		}
		// It was put and the answer was lost, or somebody else has touched it: this batch begins a new one, unless it is there.
		now, found, err := s.head(ctx, present.key)
		if err != nil {
			return outcome, err
		}
		if found && now.SHA256 == sum(with) {
			present.etag, present.data = now.ETag, with
			return outcome, nil
		}
	}
	digest := sha256.Sum256(data)
	key := path.Join(s.below(batch.Stream), "decisions", names.Escape(batch.Stream.GetUid()),
		fmt.Sprintf("%020d-%s%s", taken[0].Sequence, hex.EncodeToString(digest[:])[:digits], linesName))
	frame := s.encoder.EncodeAll(data, nil)
	put, err := s.put(ctx, key, contentTypeLines, frame, "")
	if isTaken(err) { // it begins with this batch, by its name
		present.key, present.data = "", nil
		outcome.Duplicates = len(taken)
		return outcome, nil
	}
	if err != nil {
		return outcome, err
	}
	present.key, present.etag, present.since, present.data = key, put.ETag, s.now(), frame
	return outcome, nil
}

// segment gives the present object of a stream.
func (s *Sink) segment(stream *forwardingv1.StreamId) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := path.Join(names.Directory(stream), names.Escape(stream.GetUid()))
	if s.segments[id] == nil {
		s.segments[id] = &segment{}
	}
	return s.segments[id]
}
