// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync"

	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

const (
	// maxMarks bounds the records that are remembered: more than senders may have unacknowledged.
	maxMarks = 1 << 17
	// tailBytes are read of each tenant at the start: what a sender may have unacknowledged.
	tailBytes = 8 << 20
)

// mark stands for a record of a stream: its number, id and digest. Two records have different ones.
type mark [2]uint64

// repeated remembers the last records that came in by gRPC. A sender whose stream broke sends again what was not acknowledged, and some of it may
// be here. What is no longer remembered is taken once more, and the far end suppresses it.
// The lock is held from the question until the records are at the queue's writer, so that a repetition is acknowledged after them.
type repeated struct {
	sync.Mutex

	seeds [2]maphash.Seed
	order []mark // a ring; next is where the next one goes when it is full
	next  int
	// places are where marks stand in order, from 1, each at its own slot or behind it without a gap: a map would take four times the memory.
	places []uint32
	text   []byte // that was hashed last
}

// slots are twice as many as marks, so that searches are short.
const slots = 2 * maxMarks

func (r *repeated) init() {
	if r.places == nil {
		r.places = make([]uint32, slots)
		r.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	}
}

func (r *repeated) mark(session string, record *forwardingv1.Record) mark {
	text := binary.BigEndian.AppendUint64(append(r.text[:0], session...), record.GetSequence())
	r.text = append(append(text, record.GetDigest()...), record.GetEventId()...)
	return mark{maphash.Bytes(r.seeds[0], r.text), maphash.Bytes(r.seeds[1], r.text)}
}

func (r *repeated) known(m mark) bool { return r.places[r.find(m)] != 0 }

// find gives the slot of a mark, or the free one where it would be.
func (r *repeated) find(m mark) int {
	at := m.slot()
	for r.places[at] != 0 && r.order[r.places[at]-1] != m {
		at = (at + 1) % slots
	}
	return at
}

// slot is the slot of a mark where no other has it.
func (m mark) slot() int { return int(m[0] % slots) }

func (r *repeated) add(m mark) {
	if r.known(m) {
		return
	}
	if len(r.order) < maxMarks {
		r.order = append(r.order, m)
		r.places[r.find(m)] = uint32(len(r.order))
		return
	}
	r.forget(r.order[r.next])
	r.order[r.next] = m
	r.places[r.find(m)] = uint32(r.next + 1)
	r.next = (r.next + 1) % maxMarks
}

// forget frees the slot of a mark, and closes the gap: marks behind it that have been pushed there move up.
func (r *repeated) forget(m mark) {
	gap := r.find(m)
	for at := (gap + 1) % slots; r.places[at] != 0; at = (at + 1) % slots {
		home := r.order[r.places[at]-1].slot()
		if (at-home+slots)%slots >= (at-gap+slots)%slots {
			r.places[gap] = r.places[at]
			gap = at
		}
	}
	r.places[gap] = 0
}

// Remember reads which records came in last, so that a sender that lost its stream by our end does not bring them twice.
func (k *Keeper) Remember() error {
	k.repeated.Lock()
	defer k.repeated.Unlock()
	k.repeated.init()
	for _, tenant := range k.Options.Queue.Tenants() {
		var broken error
		err := k.Options.Queue.Tail(tenant, tailBytes, func(r *queue.Record) {
			if r.Message == nil {
				return
			}
			stream, record := &forwardingv1.StreamId{}, &forwardingv1.Record{}
			if broken = proto.Unmarshal(r.Stream, stream); broken == nil {
				broken = proto.Unmarshal(r.Message, record)
			}
			if broken == nil {
				k.repeated.add(k.repeated.mark(sessionOf(tenant, stream), record))
			}
		})
		if err == nil {
			err = broken
		}
		if err != nil {
			return fmt.Errorf("read what came in last of tenant %s: %w", tenant, err)
		}
	}
	return nil
}
