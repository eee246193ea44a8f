// SPDX-License-Identifier: Apache-2.0

// Package breaker sees when a far end refuses everything, which is not a fault of the records. It is pure.
package breaker

const (
	// longestRun is how many records may be refused in a row.
	longestRun = 20
	// window is how many of the last records count, of which half may be refused.
	window = 200
)

// Breaker sees when a far end refuses everything.
type Breaker struct {
	Open bool
	// Sum counts the refused records since the start.
	Sum int

	run  []uint64 // sequences refused since the last accepted one
	last []bool   // of the last 200: true is refused
}

// Accepted notes records that the far end took; one closes the breaker.
func (b *Breaker) Accepted(n int) {
	if n == 0 {
		return
	}
	if b.Open {
		b.last = nil
	}
	b.Open, b.run = false, nil
	for range min(n, window) {
		b.note(false)
	}
}

// Refused notes a record, and is true where the breaker opens by that.
func (b *Breaker) Refused(sequence uint64) bool {
	b.Sum++
	b.run = append(b.run, sequence)
	b.note(true)
	if b.Open {
		return false
	}
	count := 0
	for _, refused := range b.last {
		if refused {
			count++
		}
	}
	b.Open = len(b.run) >= longestRun || len(b.last) == window && count > window/2
	return b.Open
}

func (b *Breaker) note(refused bool) {
	if b.last = append(b.last, refused); len(b.last) > window {
		b.last = b.last[1:]
	}
}

// TakeRun gives the refused records that go back, and forgets them.
func (b *Breaker) TakeRun() []uint64 {
	run := b.run
	b.run = nil
	return run
}
