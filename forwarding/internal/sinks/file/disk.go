// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/names"
)

const (
	directoryMode = 0o750
	fileMode      = 0o640
	extension     = ".ndjson"
	partial       = ".partial"
)

// scanFile is the name of the file of one run of a Scan.
func scanFile(stream *forwardingv1.StreamId) string { return names.Run(stream) + extension }

// segmentFile is the name of a file of decisions whose first record has the sequence.
func segmentFile(first uint64) string { return fmt.Sprintf("%020d%s", first, extension) }

// event is what is read of a line that was written.
type event struct {
	Type     string `json:"type"`
	Sequence uint64 `json:"scanyardsequence,string"`
	Digest   string `json:"scanyarddigest"`
	Stream   string `json:"scanyardstream"`
	Data     struct {
		Records uint64 `json:"records,string"`
		Chain   string `json:"chain"`
	} `json:"data"`
}

const closingType = "io.scanyard.forwarding.v1.closing"

// written is what a file holds: whole lines only.
type written struct {
	size    int64
	records uint64 // without a closing one
	first   uint64
	highest uint64
	chain   []byte
	stream  string
	closing *event
}

// add notes one line.
func (w *written) add(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		// data of a decision is any object, also one whose records and chain are something else.
		var decision struct {
			event
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(line, &decision); err != nil {
			return err
		}
		e = decision.event
	}
	w.size += int64(len(line)) + 1
	w.stream, w.highest = e.Stream, max(w.highest, e.Sequence)
	if w.first == 0 {
		w.first = e.Sequence
	}
	if e.Type == closingType {
		w.closing = &e
		return nil
	}
	digest, err := hex.DecodeString(e.Digest)
	if err != nil {
		return err
	}
	w.chain, w.records = forwardingv1.AppendChain(w.chain, digest), w.records+1
	return nil
}

// read reads what a file holds, up to a last line that is cut off or to one that is none. A file that is not there holds nothing.
func read(name string) (w written, err error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return w, nil
		}
		if err != nil {
			return w, err
		}
		if w.add(bytes.TrimSuffix(line, []byte("\n"))) != nil {
			return w, nil
		}
	}
}

// appendTo writes data behind the first size bytes of the file, which is made where it is missing, and syncs it. A write that
// fails leaves the file as it was, or no file where there was none.
func appendTo(name string, size int64, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), directoryMode); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(size); err != nil {
		return err
	}
	_, err = f.WriteAt(data, size)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		return nil
	}
	// The disk may be full: what this write has taken is given back.
	if size == 0 {
		return errors.Join(err, os.Remove(name))
	}
	return errors.Join(err, f.Truncate(size))
}

// publish gives a whole file its name. Another file of this name is never written over: errTaken says that there is one.
func publish(from, to string) error {
	if err := os.Link(from, to); errors.Is(err, os.ErrExist) {
		return errTaken
	} else if err != nil {
		return err
	}
	if err := os.Remove(from); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(to))
}

var errTaken = errors.New("there is another file of this name")

func syncDirectory(name string) (err error) {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", name, err)
	}
	return nil
}
