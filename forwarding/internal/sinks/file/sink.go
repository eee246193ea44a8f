// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/names"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func init() { sink.Register("file", Open) }

// When a file of decisions is whole.
const (
	segmentBytes = 16 << 20
	segmentAge   = time.Minute
)

// Sink writes below one directory.
type Sink struct {
	root string
	age  time.Duration
	size int64

	mu       sync.Mutex
	runs     map[string]*written // files of Scans that are being written, by their path
	verdicts map[string]forwardingv1.Completeness
	segments map[string]*segment // files of decisions, by their directory
}

// segment is the file of decisions that a directory is at.
type segment struct {
	written

	timer *time.Timer
	// failed is why the file did not get its name when its time was over; the next batch tries again.
	failed bool
}

// Open makes the sink. The directory is made with the first record.
func Open(config sink.Config) (sink.Sink, error) {
	root := config.URL.Path
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("sink %s: %s must name a directory, such as file:///var/lib/results", config.Name, config.URL)
	}
	return &Sink{
		root: filepath.Clean(root), age: segmentAge, size: segmentBytes,
		runs: map[string]*written{}, verdicts: map[string]forwardingv1.Completeness{}, segments: map[string]*segment{},
	}, nil
}

// Deliver appends the records and syncs them.
func (s *Sink) Deliver(_ context.Context, batch sink.Batch) (outcome sink.Outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if batch.Stream.GetKind() == forwardingv1.StreamKind_STREAM_KIND_DECISIONS {
		outcome, err = s.decisions(batch)
	} else {
		outcome, err = s.run(batch)
	}
	if err != nil {
		return sink.Outcome{}, classify(err)
	}
	return outcome, nil
}

// lines gives the records with a sequence above the highest one as lines, and how many others there are.
func lines(batch sink.Batch, w written) (data []byte, after written, known int, err error) {
	for _, record := range batch.Records {
		if record.Sequence <= w.highest {
			known++
			continue
		}
		start := len(data)
		if data, err = cloudevent.Append(data, batch.Stream, record); err != nil {
			return nil, w, 0, &sink.Error{Class: sink.Refused, Reason: sink.RecordsRejected, Message: err.Error()}
		}
		if err := w.add(data[start:]); err != nil {
			return nil, w, 0, err
		}
		data = append(data, '\n')
	}
	return data, w, known, nil
}

// run appends to the file of one run of a Scan, and gives it its name with the closing record.
func (s *Sink) run(batch sink.Batch) (sink.Outcome, error) {
	name := filepath.Join(s.root, names.Directory(batch.Stream), scanFile(batch.Stream))
	if s.runs[name] == nil || batch.Records[0].Sequence == 1 {
		held, err := read(name + partial)
		if err != nil {
			return sink.Outcome{}, err
		}
		s.runs[name] = &held
	}
	delete(s.verdicts, name)
	data, after, known, err := lines(batch, *s.runs[name])
	if err != nil {
		return sink.Outcome{}, err
	}
	if len(data) > 0 {
		if err := appendTo(name+partial, s.runs[name].size, data); err != nil {
			return sink.Outcome{}, err
		}
	}
	*s.runs[name] = after
	if after.closing == nil {
		return sink.Outcome{Duplicates: known}, nil
	}
	verdict, same, err := finish(name, after)
	if err != nil {
		return sink.Outcome{}, err
	}
	if same {
		known = len(batch.Records)
	}
	delete(s.runs, name)
	s.verdicts[name] = verdict
	return sink.Outcome{Duplicates: known}, nil
}

// finish makes the file of a run visible, if it is whole and there is none. A file that is not whole is removed: the sender sends
// everything again. same is true where the file was there already, with the same content.
func finish(name string, w written) (verdict forwardingv1.Completeness, same bool, err error) {
	if w.closing.Data.Records != w.records || w.closing.Data.Chain != hex.EncodeToString(chain(w)) {
		return forwardingv1.Completeness_COMPLETENESS_INCOMPLETE, false, os.Remove(name + partial)
	}
	sum, err := digest(name + partial)
	if err != nil {
		return 0, false, err
	}
	switch err := publish(name+partial, name); {
	case err == nil:
	case errors.Is(err, errTaken):
		held, err := digest(name)
		if err != nil {
			return 0, false, err
		}
		if err := os.Remove(name + partial); err != nil {
			return 0, false, err
		}
		if !bytes.Equal(held, sum) {
			return forwardingv1.Completeness_COMPLETENESS_CONFLICT, false, nil
		}
		same = true
	default:
		return 0, false, err
	}
	// The digest in the form of sha256sum, so that sha256sum -c reads it.
	text := fmt.Sprintf("%s  %s\n", hex.EncodeToString(sum), filepath.Base(name))
	if err := appendTo(name+".sha256", 0, []byte(text)); err != nil {
		return 0, false, err
	}
	return forwardingv1.Completeness_COMPLETENESS_COMPLETE, same, syncDirectory(filepath.Dir(name))
}

// chain is the chain of what was written; 32 zero bytes for nothing.
func chain(w written) []byte {
	if w.chain == nil {
		return make([]byte, sha256.Size)
	}
	return w.chain
}

func digest(name string) (sum []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// decisions appends to the present file of decisions, and begins a new one where it is whole or another queue's.
func (s *Sink) decisions(batch sink.Batch) (sink.Outcome, error) {
	dir := filepath.Join(s.root, names.Directory(batch.Stream))
	present, err := s.segment(dir)
	if err != nil {
		return sink.Outcome{}, err
	}
	stream := fmt.Sprintf("%s/%d", batch.Stream.GetUid(), batch.Stream.GetRevision())
	if present.failed || present.records > 0 && present.stream != stream {
		if err := s.closeSegment(dir); err != nil {
			return sink.Outcome{}, err
		}
	}
	if present.stream != stream {
		present.written = written{} // sequences of another queue
	}
	data, after, known, err := lines(batch, present.written)
	if err != nil || len(data) == 0 {
		return sink.Outcome{Duplicates: known}, err
	}
	if err := appendTo(filepath.Join(dir, "decisions"+extension+partial), present.size, data); err != nil {
		return sink.Outcome{}, err
	}
	present.written = after
	if present.size >= s.size {
		return sink.Outcome{Duplicates: known}, s.closeSegment(dir)
	}
	if present.timer == nil {
		present.timer = time.AfterFunc(s.age, func() { s.expire(dir) })
	}
	return sink.Outcome{Duplicates: known}, nil
}

// segment gives the present file of a directory; after a start, the one that is on disk, or what the last whole one ends with.
func (s *Sink) segment(dir string) (*segment, error) {
	if present := s.segments[dir]; present != nil {
		return present, nil
	}
	held, err := read(filepath.Join(dir, "decisions"+extension+partial))
	if err != nil {
		return nil, err
	}
	if held.records == 0 {
		last, err := lastSegment(dir)
		if err != nil {
			return nil, err
		}
		held.stream, held.highest = last.stream, last.highest
	}
	present := &segment{written: held}
	if held.records > 0 {
		present.timer = time.AfterFunc(s.age, func() { s.expire(dir) })
	}
	s.segments[dir] = present
	return present, nil
}

// lastSegment reads the whole file of decisions with the highest number.
func lastSegment(dir string) (written, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return written{}, nil
	}
	if err != nil {
		return written{}, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, extension) && len(name) == len(segmentFile(1)) && strings.Trim(name[:20], "0123456789") == "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return written{}, nil
	}
	return read(filepath.Join(dir, slices.Max(names)))
}

// expire closes a file whose time is over.
func (s *Sink) expire(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closeSegment(dir); err != nil {
		s.segments[dir].failed = true
	}
}

// closeSegment gives the present file of decisions its name. Where another queue has had the number, the queue's ID is in the name, too.
func (s *Sink) closeSegment(dir string) error {
	present := s.segments[dir]
	if present.timer != nil {
		present.timer.Stop()
		present.timer = nil
	}
	if present.records == 0 {
		return nil
	}
	from := filepath.Join(dir, "decisions"+extension+partial)
	err := publish(from, filepath.Join(dir, segmentFile(present.first)))
	if errors.Is(err, errTaken) {
		queue, _, _ := strings.Cut(present.stream, "/")
		err = publish(from, filepath.Join(dir, strings.TrimSuffix(segmentFile(present.first), extension)+"-"+names.Escape(queue)+extension))
	}
	if err != nil {
		return err
	}
	present.written = written{stream: present.stream, highest: present.highest}
	present.failed = false
	return nil
}

// Probe tells whether the directory can be written to.
func (s *Sink) Probe(context.Context) error {
	name := filepath.Join(s.root, ".probe"+partial)
	if err := appendTo(name, 0, []byte("\n")); err != nil {
		return classify(err)
	}
	if err := os.Remove(name); err != nil {
		return classify(err)
	}
	return nil
}

// Proof tells whether the file of a run is whole. Files prove nothing, since nobody says that they are kept.
func (s *Sink) Proof(_ context.Context, stream *forwardingv1.StreamId) (sink.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := filepath.Join(s.root, names.Directory(stream), scanFile(stream))
	held, err := read(name)
	if err != nil {
		return sink.Verdict{}, classify(err)
	}
	verdict, known := s.verdicts[name]
	switch {
	case known:
	case held.closing != nil:
		verdict = forwardingv1.Completeness_COMPLETENESS_COMPLETE
	default:
		verdict = forwardingv1.Completeness_COMPLETENESS_OPEN
	}
	return sink.Verdict{Completeness: verdict, Records: held.records, Chain: chain(held), HighestSequence: held.highest}, nil
}

// Close gives the files of decisions their names.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed []error
	for dir := range s.segments {
		failed = append(failed, s.closeSegment(dir))
	}
	return errors.Join(failed...)
}

// classify says what an error of the file system means for the data.
func classify(err error) *sink.Error {
	if e, ok := errors.AsType[*sink.Error](err); ok {
		return e
	}
	e := &sink.Error{Class: sink.Transport, Reason: sink.Unknown, Message: err.Error()}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Class, e.Reason, e.Message = sink.Overload, sink.Overloaded, "the disk is full: free some of it; "+err.Error()
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Class, e.Reason = sink.Auth, sink.PermissionDenied
	}
	return e
}
