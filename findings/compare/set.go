// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
)

// State is what a comparison says of a finding.
type State string

// The states. Rules of hooks match on these words.
const (
	// New was not found by the previous run.
	New State = "new"
	// Known was found by the previous run as well.
	Known State = "known"
	// Fixed was found by the previous run and is not any more.
	Fixed State = "fixed"
)

// Mark is what findings are compared by.
type Mark [16]byte

// MarkOf makes the mark of a finding as it stands in findings.json.
func MarkOf(element []byte) (Mark, error) {
	var f struct {
		Fingerprint any `json:"fingerprint"`
	}
	if err := json.Unmarshal(element, &f); err != nil {
		return Mark{}, fmt.Errorf("read fingerprint: %w", err)
	}
	if text, ok := f.Fingerprint.(string); ok && text != "" {
		return markOfFingerprint(text), nil
	}
	content, err := Content(element)
	if err != nil {
		return Mark{}, err
	}
	return hashed(content), nil
}

// Content is what a finding says: its members but id, fingerprint, times and scan, as [finding.ID] wants them, and
// but the exception that a hook has marked it with.
func Content(element []byte) ([]byte, error) {
	var f finding.Finding
	if err := json.Unmarshal(element, &f); err != nil {
		return nil, fmt.Errorf("read finding: %w", err)
	}
	f.ID, f.Fingerprint, f.IdentifiedAt, f.ParsedAt, f.Scan = finding.Text{}, finding.Text{}, finding.Text{}, finding.Text{}, nil
	for _, key := range []string{"id", "fingerprint", "identified_at", "parsed_at", "scan", "exception"} {
		f.Extra.Delete(key) // of a type that the fields cannot hold
	}
	content, err := f.AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("write finding: %w", err)
	}
	return content[1 : len(content)-1], nil
}

// markOfFingerprint takes the fingerprints of our parsers, 16 bytes in hexadecimal, as they are, and hashes others.
func markOfFingerprint(text string) (m Mark) {
	if len(text) == hex.EncodedLen(len(m)) {
		if _, err := hex.Decode(m[:], []byte(text)); err == nil {
			return m
		}
	}
	return hashed([]byte(text))
}

func hashed(data []byte) Mark {
	sum := sha256.Sum256(data)
	return Mark(sum[:16])
}

const (
	// buckets divide a set by the marks' first byte, so that nothing that is sorted or copied is large.
	buckets = 256
	// chunk is how many marks are made room for at once. Growing a slice would leave more garbage than it holds.
	chunk = 256
)

// Set remembers the marks of one run. Add all, then Classify, then ask IsFixed. The zero Set is empty.
type Set struct {
	buckets [buckets]bucket
	sorted  bool
	count   int
}

type bucket struct {
	added [][]Mark // since the last sort, full but for the last
	marks []Mark   // in order
	seen  []uint64 // one bit per mark: a current finding has it
}

// Add remembers a mark. It forgets what was classified so far.
func (s *Set) Add(m Mark) {
	b := &s.buckets[m[0]]
	last := len(b.added) - 1
	if last < 0 || len(b.added[last]) == chunk {
		b.added = append(b.added, make([]Mark, 0, chunk))
		last++
	}
	b.added[last] = append(b.added[last], m)
	s.sorted = false
}

// Len is the number of different marks.
func (s *Set) Len() int {
	s.sort()
	return s.count
}

// Classify says whether a current finding is New or Known.
func (s *Set) Classify(m Mark) State {
	b, at, ok := s.find(m)
	if !ok {
		return New
	}
	b.seen[at/64] |= 1 << (at % 64)
	return Known
}

// IsFixed says of a previous finding that no current one was classified that has its mark.
func (s *Set) IsFixed(m Mark) bool {
	b, at, ok := s.find(m)
	return ok && b.seen[at/64]&(1<<(at%64)) == 0
}

// FixedCount is how many marks no current finding has.
func (s *Set) FixedCount() int {
	s.sort()
	known := 0
	for i := range s.buckets {
		for _, word := range s.buckets[i].seen {
			known += bits.OnesCount64(word)
		}
	}
	return s.count - known
}

func (s *Set) find(m Mark) (*bucket, int, bool) {
	s.sort()
	b := &s.buckets[m[0]]
	at, ok := slices.BinarySearchFunc(b.marks, m, compareMarks)
	return b, at, ok
}

func (s *Set) sort() {
	if s.sorted {
		return
	}
	s.sorted, s.count = true, 0
	for i := range s.buckets {
		b := &s.buckets[i]
		b.marks = slices.Concat(append(b.added, b.marks)...)
		b.added = nil
		slices.SortFunc(b.marks, compareMarks)
		b.marks = slices.Compact(b.marks)
		b.seen = make([]uint64, (len(b.marks)+63)/64)
		s.count += len(b.marks)
	}
}

func compareMarks(a, b Mark) int { return bytes.Compare(a[:], b[:]) }

// AddFinding remembers the mark of a finding as it stands in findings.json.
func (s *Set) AddFinding(element []byte) error {
	mark, err := MarkOf(element)
	if err == nil {
		s.Add(mark)
	}
	return err
}

// State classifies a finding as it stands in findings.json.
func (s *Set) State(element []byte) (State, error) {
	mark, err := MarkOf(element)
	if err != nil {
		return "", err
	}
	return s.Classify(mark), nil
}
