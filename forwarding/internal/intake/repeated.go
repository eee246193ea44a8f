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
	known map[mark]bool
	order []mark // a ring; oldest is where the next one goes when it is full
	next  int
}

func (r *repeated) init() {
	if r.known == nil {
		r.known = map[mark]bool{}
		r.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	}
}

func (r *repeated) mark(session string, record *forwardingv1.Record) mark {
	text := binary.BigEndian.AppendUint64([]byte(session), record.GetSequence())
	text = append(append(text, record.GetDigest()...), record.GetEventId()...)
	return mark{maphash.Bytes(r.seeds[0], text), maphash.Bytes(r.seeds[1], text)}
}

func (r *repeated) add(m mark) {
	if r.known[m] {
		return
	}
	r.known[m] = true
	if len(r.order) < maxMarks {
		r.order = append(r.order, m)
		return
	}
	delete(r.known, r.order[r.next])
	r.order[r.next] = m
	r.next = (r.next + 1) % maxMarks
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
