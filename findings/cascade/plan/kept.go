// SPDX-License-Identifier: Apache-2.0

package plan

import mathbits "math/bits"

// keep is how many bytes of findings that matched are held in memory.
const keep = 16 << 20

// perFinding is what a finding costs besides its bytes.
const perFinding = 64

// kept are findings that matched, by number.
type kept struct {
	raw map[int][]byte
	// size is what they take, limit what they may take.
	size, limit int
	// all and count are of everything that matched, also of what was not kept.
	all, count int
}

// add keeps a finding if there is room.
func (k *kept) add(number int, raw []byte) {
	k.all += len(raw) + perFinding
	k.count++
	if k.size+len(raw)+perFinding <= k.limit {
		k.put(number, raw)
	}
}

func (k *kept) put(number int, raw []byte) {
	if k.raw == nil {
		k.raw = map[int][]byte{}
	}
	k.raw[number] = append([]byte(nil), raw...)
	k.size += len(raw) + perFinding
}

func (k *kept) clear() { k.raw, k.size = nil, 0 }

// average is the size of a finding that matched.
func (k *kept) average() int { return k.all / max(1, k.count) }

// bits is a set of small numbers.
type bits []uint64

func (b *bits) set(n int) {
	for n/64 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bits) has(n int) bool { return n/64 < len(b) && b[n/64]&(1<<(n%64)) != 0 }

// next is the smallest number of at least n that is in the set, -1 if there is none.
func (b bits) next(n int) int {
	for i := n / 64; i < len(b); i++ {
		word := b[i]
		if i == n/64 {
			word &= ^uint64(0) << (n % 64)
		}
		if word != 0 {
			return i*64 + mathbits.TrailingZeros64(word)
		}
	}
	return -1
}
