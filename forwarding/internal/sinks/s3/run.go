// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/names"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const (
	linesName   = ".ndjson.zst"
	closingName = ".closing.json"
)

// closing is the content of a closing object.
type closing struct {
	Records uint64 `json:"records"`
	Chain   hexed  `json:"chain"`
	Object  object `json:"object"`
	// Event is the closing record as CloudEvent.
	Event json.RawMessage `json:"event"`
}

// hexed is bytes in hexadecimal.
type hexed []byte

// MarshalText gives the digits.
func (h hexed) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

// UnmarshalText reads the digits.
func (h *hexed) UnmarshalText(text []byte) error {
	decoded, err := hex.DecodeString(string(text))
	*h = decoded
	return err
}

// run is one run of a Scan on its way into the bucket.
type run struct {
	key  string
	used time.Time // guarded by the sink's lock

	mu               sync.Mutex
	held             *closing // what the bucket has whole already: nothing is uploaded
	replaces         string   // ETag of a closing object whose object is not what it says
	records, highest uint64
	chain            []byte
	buffer           []byte // compressed, and not uploaded yet
	upload           string
	parts            []minio.CompletePart
	sums             []byte // of the parts
	size             int64
	whole            *object
}

// verdict is what is known of a run before its closing record.
func (r *run) verdict() sink.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sink.Verdict{Completeness: forwardingv1.Completeness_COMPLETENESS_OPEN, Records: r.records, Chain: r.chain, HighestSequence: r.highest}
}

// held reads the closing object of a run. It is nil where there is none, or where its object is not what it says; then the ETag is
// that of the closing object, which is to be replaced.
func (s *Sink) held(ctx context.Context, key string) (*closing, string, error) {
	data, etag, found, err := s.get(ctx, key+closingName)
	if err != nil || !found {
		return nil, "", err
	}
	var c closing
	readable := json.Unmarshal(data, &c) == nil // else it was written by somebody else
	present, found, err := s.head(ctx, key+linesName)
	if err != nil {
		return nil, "", err
	}
	if !readable || !found || present != c.Object {
		return nil, etag, nil
	}
	return &c, etag, nil
}

// present gives the run that a batch belongs to; the first record of a Scan begins it anew.
func (s *Sink) present(ctx context.Context, batch sink.Batch) (*run, error) {
	key := path.Join(s.below(batch.Stream), names.Run(batch.Stream))
	s.mu.Lock()
	r := s.runs[key]
	if r != nil && batch.Records[0].Sequence > 1 {
		r.used = s.now()
		s.mu.Unlock()
		return r, nil
	}
	delete(s.conflicts, key)
	s.mu.Unlock()
	if r != nil {
		if err := s.drop(ctx, r); err != nil {
			return nil, err
		}
	}
	if err := s.sweep(ctx, path.Join(s.prefix, names.Escape(batch.Stream.GetClusterId()))); err != nil {
		return nil, err
	}
	held, etag, err := s.held(ctx, key)
	if err != nil {
		return nil, err
	}
	r = &run{key: key, held: held, used: s.now(), chain: make([]byte, sha256.Size)}
	if held == nil {
		r.replaces = etag
	}
	s.mu.Lock()
	s.runs[key] = r
	oldest := r
	for _, other := range s.runs {
		if other.used.Before(oldest.used) {
			oldest = other
		}
	}
	many := len(s.runs) > maxRuns
	s.mu.Unlock()
	if many { // nobody goes on with it: its Scan is gone, or waits for long
		return r, s.drop(ctx, oldest)
	}
	return r, nil
}

// drop forgets a run, and what of it was uploaded.
func (s *Sink) drop(ctx context.Context, r *run) error {
	s.mu.Lock()
	if s.runs[r.key] == r {
		delete(s.runs, r.key)
	}
	s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.upload == "" {
		return nil
	}
	upload := r.upload
	r.upload = ""
	if err := s.core.AbortMultipartUpload(ctx, s.bucket, r.key+linesName, upload); err != nil && !isLostUpload(err) {
		return err
	}
	return nil
}

// abandon aborts an upload when nobody waits for it any more.
func (s *Sink) abandon(key, upload string) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout) //nolint:forbidigo // a sink is closed without a context
	defer cancel()
	if err := s.core.AbortMultipartUpload(ctx, s.bucket, key+linesName, upload); err != nil && !isLostUpload(err) {
		return s.failed(ctx, err)
	}
	return nil
}

// scan takes records of a Scan, and makes its object whole with the closing record.
func (s *Sink) scan(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	r, err := s.present(ctx, batch)
	if err != nil {
		return sink.Outcome{}, err
	}
	r.mu.Lock()
	outcome, settled, err := s.add(ctx, r, batch)
	r.mu.Unlock()
	if isLostUpload(err) { // a lifecycle rule or another sender has removed it: everything is sent again
		return sink.Outcome{}, errors.Join(err, s.drop(ctx, r))
	}
	if err == nil && settled {
		err = s.drop(ctx, r)
	}
	return outcome, err
}

// add adds a batch to a run, and settles it with the closing record.
func (s *Sink) add(ctx context.Context, r *run, batch sink.Batch) (outcome sink.Outcome, settled bool, err error) {
	if err := s.flush(ctx, r, s.part); err != nil { // what a batch before this one left behind
		return outcome, false, err
	}
	records, last := batch.Records, batch.Records[len(batch.Records)-1]
	end := last.Message.GetClosing()
	if end != nil {
		records = records[:len(records)-1]
	}
	known := 0
	for known < len(records) && records[known].Sequence <= r.highest {
		known++
	}
	_, _, outcome.Rejected = lines(batch.Stream, records[:known]) // the answer to an earlier try was lost
	data, taken, rejected := lines(batch.Stream, records[known:])
	outcome.Rejected = append(outcome.Rejected, rejected...)
	if r.held != nil {
		outcome.Duplicates = len(taken)
	} else if len(taken) > 0 {
		r.buffer = s.encoder.EncodeAll(data, r.buffer)
	}
	for _, record := range taken {
		r.chain, r.records, r.highest = forwardingv1.AppendChain(r.chain, record.Message.GetDigest()), r.records+1, record.Sequence
	}
	if err := s.flush(ctx, r, s.part); err != nil {
		return outcome, false, err
	}
	if end == nil {
		return outcome, false, nil
	}
	if r.held != nil {
		outcome.Duplicates++
	}
	return outcome, true, s.end(ctx, r, batch.Stream, last)
}

// flush uploads the buffer as a part where it has this size.
func (s *Sink) flush(ctx context.Context, r *run, size int) error {
	if len(r.buffer) < size || len(r.buffer) == 0 {
		return nil
	}
	if r.upload == "" {
		o := s.options(contentTypeLines)
		o.UserMetadata = map[string]string{algorithmHeader: "SHA256"}
		upload, err := s.core.NewMultipartUpload(ctx, s.bucket, r.key+linesName, o)
		if err != nil {
			return err
		}
		r.upload = upload
	}
	checksum, hash := sum(r.buffer), sha256.Sum256(r.buffer)
	number := len(r.parts) + 1
	part, err := s.core.PutObjectPart(ctx, s.bucket, r.key+linesName, r.upload, number, bytes.NewReader(r.buffer), int64(len(r.buffer)),
		minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(hash[:]), CustomHeader: http.Header{checksumHeader: {checksum}}})
	if err != nil {
		return err
	}
	r.parts = append(r.parts, minio.CompletePart{PartNumber: number, ETag: part.ETag, ChecksumSHA256: checksum})
	r.sums, r.size, r.buffer = append(r.sums, hash[:]...), r.size+int64(len(r.buffer)), r.buffer[:0]
	return nil
}

// end makes a run whole: its object, and then its closing object. What does not agree with its closing record is not kept, and is sent again.
func (s *Sink) end(ctx context.Context, r *run, stream *forwardingv1.StreamId, record sink.Record) error {
	said := record.Message.GetClosing()
	agrees := said.GetRecords() == r.records && bytes.Equal(said.GetChain(), r.chain)
	if r.held != nil {
		if r.held.Records != said.GetRecords() || !bytes.Equal(r.held.Chain, said.GetChain()) {
			s.conflict(r.key)
		}
		return nil
	}
	if !agrees {
		return nil
	}
	if r.whole == nil {
		whole, err := s.complete(ctx, r)
		if err != nil {
			return err
		}
		r.whole = &whole
	}
	event, err := cloudevent.Append(nil, stream, record)
	if err != nil {
		return &sink.Error{Class: sink.Refused, Reason: sink.RecordsRejected, Message: err.Error()}
	}
	content, err := json.Marshal(closing{Records: r.records, Chain: r.chain, Object: *r.whole, Event: event})
	if err != nil {
		return err
	}
	_, err = s.put(ctx, r.key+closingName, contentTypeObject, content, r.replaces)
	if !isTaken(err) {
		return err
	}
	held, _, err := s.held(ctx, r.key)
	switch {
	case err != nil:
		return err
	case held == nil:
		return fmt.Errorf("another sender writes %s", r.key)
	case held.Records != r.records || !bytes.Equal(held.Chain, r.chain):
		s.conflict(r.key)
	}
	return nil
}

func (s *Sink) conflict(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conflicts[key] = true
}

// complete makes the object of a run visible. An object that is there without a closing object is left over, and is written over.
func (s *Sink) complete(ctx context.Context, r *run) (object, error) {
	if r.upload != "" {
		if err := s.flush(ctx, r, 1); err != nil {
			return object{}, err
		}
	}
	whole, err := s.write(ctx, r, "")
	if !isTaken(err) && !isLostUpload(err) {
		return whole, err
	}
	present, found, failed := s.head(ctx, r.key+linesName)
	if failed != nil {
		return object{}, failed
	}
	size, checksum := r.content()
	switch {
	case found && present.Size == size && present.SHA256 == checksum:
		return present, nil // it was written, and the answer was lost
	case found && isTaken(err):
		return s.write(ctx, r, present.ETag)
	}
	return object{}, err
}

// content is size and checksum of the object that a run becomes.
func (r *run) content() (int64, string) {
	if r.upload == "" {
		return int64(len(r.buffer)), sum(r.buffer)
	}
	digest := sha256.Sum256(r.sums)
	return r.size, fmt.Sprintf("%s-%d", base64.StdEncoding.EncodeToString(digest[:]), len(r.parts))
}

// write writes the object of a run, where the bucket has this one or none.
func (s *Sink) write(ctx context.Context, r *run, over string) (object, error) {
	if r.upload == "" {
		return s.put(ctx, r.key+linesName, contentTypeLines, r.buffer, over)
	}
	var o minio.PutObjectOptions
	onlyOver(&o, over)
	info, err := s.core.CompleteMultipartUpload(ctx, s.bucket, r.key+linesName, r.upload, r.parts, o)
	if err != nil {
		return object{}, err
	}
	size, checksum := r.content()
	r.upload = ""
	return object{Key: r.key + linesName, Size: size, ETag: info.ETag, SHA256: checksum}, nil
}
