// SPDX-License-Identifier: Apache-2.0

package persistencereports

import (
	"encoding/json"
	"fmt"
)

// limits are how large a chunk may become.
type limits struct {
	results, bytes int
}

// half is what is tried when a server takes no chunks of this size. False: it cannot be halved.
func (l limits) half() (limits, bool) {
	if l.results <= 1 {
		return l, false
	}
	return limits{max(l.results/2, 1), max(l.bytes/2, 1)}, true
}

// summary counts results by their outcome, in the order of outcomes.
type summary [5]int64

// MarshalJSON writes all counts, also those of 0.
func (s summary) MarshalJSON() ([]byte, error) {
	counts := make(map[string]int64, len(outcomes))
	for i, outcome := range outcomes {
		counts[outcome] = s[i]
	}
	return json.Marshal(counts)
}

// chunk is the content of one report.
type chunk struct {
	number  int
	results int
	summary summary
	encoded []byte // the results with commas between them, without brackets
}

// chunker puts results into chunks, in their order, and hands each to emit when the next result does not fit. What emit is
// given is valid during the call.
type chunker struct {
	limits  limits
	emit    func(*chunk) error
	current chunk
}

func (c *chunker) add(r *result) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	if c.current.results > 0 && (c.current.results >= c.limits.results || len(c.current.encoded)+1+len(raw) > c.limits.bytes) {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if c.current.results > 0 {
		c.current.encoded = append(c.current.encoded, ',')
	}
	c.current.encoded = append(c.current.encoded, raw...)
	c.current.results++
	c.current.summary[indexOf(r.Result)]++
	return nil
}

// close hands over what is left. Without any result, there is one empty chunk if empty says so.
func (c *chunker) close(empty bool) error {
	if c.current.results > 0 || empty && c.current.number == 0 {
		return c.flush()
	}
	return nil
}

func (c *chunker) flush() error {
	if err := c.emit(&c.current); err != nil {
		return err
	}
	c.current = chunk{number: c.current.number + 1, encoded: c.current.encoded[:0]}
	return nil
}
