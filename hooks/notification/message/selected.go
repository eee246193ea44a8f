// SPDX-License-Identifier: Apache-2.0

package message

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"

	"github.com/scanyard/scanyard/findings/compare"
)

const (
	// MaxKept is how many findings a template is given where the channel does not say.
	MaxKept = 1000
	// maxKeptBytes bounds their size: decoded they take several times as much, and there are several channels.
	maxKeptBytes = 2 << 20
)

// Findings is what a channel is to hear of: all are counted, the first are kept.
type Findings struct {
	// Kept are the first findings, for a template.
	Kept []kept
	// Limit is how many are kept at most, Count how many there are.
	Limit, Count int

	bytes  int
	full   bool
	counts map[compare.State]int
	hash   hash.Hash
}

type kept struct {
	element []byte
	state   compare.State
}

// NewFindings returns no findings, of which a number may be kept.
func NewFindings(limit int) *Findings {
	return &Findings{Limit: limit, counts: map[compare.State]int{}, hash: sha256.New()}
}

// Add counts a finding, and keeps it while there is room.
func (s *Findings) Add(element []byte, state compare.State) {
	s.Count++
	s.counts[state]++
	s.hash.Write(element)
	s.full = s.full || len(s.Kept) >= s.Limit || s.bytes+len(element) > maxKeptBytes
	if s.full {
		return
	}
	s.bytes += len(element)
	s.Kept = append(s.Kept, kept{bytes.Clone(element), state})
}

// Sum is the same for the same findings.
func (s *Findings) Sum() string { return hex.EncodeToString(s.hash.Sum(nil)) }
