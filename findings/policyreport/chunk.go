// SPDX-License-Identifier: Apache-2.0

package policyreport

import (
	"encoding/json"
	"fmt"
)

// Limits are how large a chunk may become.
type Limits struct {
	Results, Bytes int
}

// Half is what is tried when a server takes no chunks of this size. False: it cannot be halved.
func (l Limits) Half() (Limits, bool) {
	if l.Results <= 1 {
		return l, false
	}
	return Limits{max(l.Results/2, 1), max(l.Bytes/2, 1)}, true
}

// summary counts results by their outcome, in the order of Outcomes.
type summary [5]int64

// MarshalJSON writes all counts, also those of 0.
func (s summary) MarshalJSON() ([]byte, error) {
	counts := make(map[string]int64, len(Outcomes))
	for i, outcome := range Outcomes {
		counts[outcome] = s[i]
	}
	return json.Marshal(counts)
}

// Chunk is the content of one report.
type Chunk struct {
	number  int
	results int
	summary summary
	Encoded []byte // the results with commas between them, without brackets
}

// Chunker puts results into chunks, in their order, and hands each to Emit when the next result does not fit. What Emit is
// given is valid during the call.
type Chunker struct {
	Limits  Limits
	Emit    func(*Chunk) error
	current Chunk
}

// Add puts a result into the present chunk, or into the next one.
func (c *Chunker) Add(r *Result) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	if c.current.results > 0 && (c.current.results >= c.Limits.Results || len(c.current.Encoded)+1+len(raw) > c.Limits.Bytes) {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if c.current.results > 0 {
		c.current.Encoded = append(c.current.Encoded, ',')
	}
	c.current.Encoded = append(c.current.Encoded, raw...)
	c.current.results++
	c.current.summary[indexOf(r.Result)]++
	return nil
}

// Close hands over what is left. Without any result, there is one empty chunk if empty says so.
func (c *Chunker) Close(empty bool) error {
	if c.current.results > 0 || empty && c.current.number == 0 {
		return c.flush()
	}
	return nil
}

func (c *Chunker) flush() error {
	if err := c.Emit(&c.current); err != nil {
		return err
	}
	c.current = Chunk{number: c.current.number + 1, Encoded: c.current.Encoded[:0]}
	return nil
}
