// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Report is what Verify found.
type Report struct {
	Frames, Records, DeadLetters, Cursors, Sessions int
	Bytes                                           int64
	Problems                                        []string
}

// Verify reads everything and compares digests and cursors.
func (q *Queue) Verify() (Report, error) {
	r := Report{}
	c, err := newCodec(q.keys)
	if err != nil {
		return r, err
	}
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	q.mu.Lock()
	last, names := map[uint32]uint64{}, map[uint32]string{}
	for _, t := range q.tenants {
		last[t.id], names[t.id] = t.last, t.name
	}
	for _, s := range q.sinks {
		for id, cur := range s.cursors {
			r.Cursors++
			if cur.through > last[id] {
				problem("the cursor of sink %s and tenant %s is %d, beyond the last record %d", s.name, names[id], cur.through, last[id])
			}
		}
	}
	r.Sessions = len(q.sessions)
	q.mu.Unlock()
	previous := map[uint32]uint64{}
	err = q.scan(prefixFrame, func(k, v []byte) error {
		id, sequence := binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(k[4:])
		records, err := c.decode(append([]byte{prefixFrame}, k...), v)
		if err != nil {
			problem("the frame %d of tenant %s: %v", sequence, names[id], err)
			return nil
		}
		r.Frames++
		r.Records += len(records)
		for _, record := range records {
			r.Bytes += record.Size()
		}
		if len(records) > 0 && records[0].Sequence <= previous[id] {
			problem("the frame %d of tenant %s begins with %d, which the frame before holds", sequence, names[id], records[0].Sequence)
		}
		previous[id] = sequence
		return nil
	})
	if err != nil {
		problem("reading frames: %v", err)
	}
	err = q.scan(prefixDead, func(k, v []byte) error {
		r.DeadLetters++
		if _, err := q.letter(append([]byte{prefixDead}, k...), v); err != nil {
			problem("a dead letter: %v", err)
		}
		return nil
	})
	if err != nil {
		problem("reading dead letters: %v", err)
	}
	return r, nil
}

// Salvaged counts what Salvage read.
type Salvaged struct {
	Records int      `json:"records"`
	Files   int      `json:"files"`
	Errors  []string `json:"errors,omitempty"`
}

// salvage collects what is readable.
type salvage struct {
	codec  *codec
	frames map[string][]byte // by key
	result Salvaged
}

// Salvage writes the records that are readable in a damaged directory as lines of JSON, in their order, each once.
// It reads every file by itself, so that damage of one says nothing about the others. Some of the records may have been delivered.
// What is sealed is read by the keys.
func Salvage(dir string, keys [][]byte, w io.Writer) (Salvaged, error) {
	ring, err := newKeyring(keys)
	if err != nil {
		return Salvaged{}, err
	}
	c, err := newCodec(ring)
	if err != nil {
		return Salvaged{}, err
	}
	s := &salvage{codec: c, frames: map[string][]byte{}}
	names, err := vfs.Default.List(dir)
	if err != nil {
		return s.result, err
	}
	slices.Sort(names)
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch filepath.Ext(name) {
		case ".sst":
			err = s.table(path)
		case ".log":
			err = s.log(path)
		default:
			continue
		}
		s.result.Files++
		if err != nil {
			s.result.Errors = append(s.result.Errors, name+": "+err.Error())
		}
	}
	return s.result, s.write(w)
}

func (s *salvage) take(k, v []byte) {
	if len(k) == 13 && k[0] == prefixFrame {
		s.frames[string(k)] = bytes.Clone(v)
	}
}

// table reads a table. Behind a block that cannot be read it goes on with a later key.
func (s *salvage) table(path string) (err error) {
	f, err := vfs.Default.Open(path)
	if err != nil {
		return err
	}
	readable, err := objstorageprovider.NewFileReadable(f, vfs.Default, objstorageprovider.NewReadaheadConfig(), path)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{}) //nolint:forbidigo // a command line reads local files
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	lost, position := 0, []byte{prefixFrame}
	for step := uint64(1); ; {
		next, failure := s.walk(r, position)
		if failure == nil {
			break
		}
		lost++
		if next != nil {
			position, step = next, 1
		}
		if position = after(position, step); position == nil || step > 1<<40 {
			break
		}
		step *= 2
	}
	if lost > 0 {
		return fmt.Errorf("%d places could not be read", lost)
	}
	return nil
}

// after gives a later key of the same tenant.
func after(k []byte, step uint64) []byte {
	if len(k) < 13 {
		return key(prefixFrame, uint32(0), step)
	}
	return key(prefixFrame, binary.BigEndian.Uint32(k[1:]), binary.BigEndian.Uint64(k[5:])+step)
}

// walk takes frames from a key on, and gives the last that was readable.
func (s *salvage) walk(r *sstable.Reader, from []byte) (last []byte, err error) {
	it, err := r.NewIter(sstable.NoTransforms, from, []byte{prefixFrame + 1}, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for kv := it.First(); kv != nil; kv = it.Next() {
		value, _, err := kv.Value(nil)
		if err != nil {
			return last, err
		}
		s.take(kv.K.UserKey, value)
		last = bytes.Clone(kv.K.UserKey)
	}
	return last, it.Error()
}

// log reads a write-ahead log.
func (s *salvage) log(path string) (err error) {
	f, err := vfs.Default.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	number := 0
	if _, err := fmt.Sscanf(filepath.Base(path), "%d.log", &number); err != nil {
		return err
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	// A block that is damaged ends a reader; the next block begins a new one.
	const blockSize = 32 << 10
	var first error
	for at := 0; at < len(content); {
		end, err := s.logFrom(content[at:], number)
		if err == nil {
			return first
		}
		if first == nil {
			first = err
		}
		at += (int(end)/blockSize + 1) * blockSize
	}
	return first
}

// openLog gives the number of a log the type that Pebble keeps to itself.
func openLog[N ~uint64](open func(io.Reader, N) *record.Reader, r io.Reader, number int) *record.Reader {
	return open(r, N(number))
}

func (s *salvage) logFrom(content []byte, number int) (end int64, err error) {
	r := openLog(record.NewReader, bytes.NewReader(content), number)
	for {
		end = r.Offset()
		chunk, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return end, nil
			}
			return end, err
		}
		data, err := io.ReadAll(chunk)
		if err != nil {
			return end, err
		}
		if len(data) < batchrepr.HeaderLen {
			continue
		}
		for rest := batchrepr.Read(data); len(rest) > 0; {
			kind, k, v, ok, err := rest.Next()
			if err != nil || !ok {
				break
			}
			if kind == pebble.InternalKeyKindSet {
				s.take(k, v)
			}
		}
	}
}

func (s *salvage) write(w io.Writer) error {
	keys := make([]string, 0, len(s.frames))
	for k := range s.frames {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		records, err := s.codec.decode([]byte(k), s.frames[k])
		if err != nil {
			s.result.Errors = append(s.result.Errors, fmt.Sprintf("frame %d: %v", binary.BigEndian.Uint64([]byte(k)[5:]), err))
			continue
		}
		for _, record := range records {
			line := record.Line
			if line == nil {
				if line, err = json.Marshal(map[string]any{"id": record.ID, "sequence": record.Sequence, "stream": record.Stream, "message": record.Message}); err != nil {
					return err
				}
			}
			if _, err := w.Write(append(bytes.Clone(line), '\n')); err != nil {
				return err
			}
			s.result.Records++
		}
	}
	return nil
}

// Summary is the result in a line.
func (s Salvaged) Summary() string {
	text := fmt.Sprintf("%d records from %d files", s.Records, s.Files)
	if len(s.Errors) > 0 {
		text += "; not readable: " + strings.Join(s.Errors, "; ")
	}
	return text
}
