// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
)

// heldBytes bounds the fresh records that are held in memory, as they are on disk as well.
const heldBytes = 4 << 20

// freshRecords are the records of one commit, in their order without gaps. Sinks that are up to date get them from here and not from the disk.
type freshRecords struct {
	tenant  *tenant
	records []*Record // none: they are held no longer
	last    uint64
	size    int64
}

// keepFresh holds what was just committed, unless each sink is so far behind that it will read from the disk anyway. The caller holds the lock.
func (q *Queue) keepFresh(in *incoming) {
	near, most := false, heldBytes/max(1, in.size/int64(len(in.records)))
	for _, s := range q.sinks {
		near = near || s.gone.IsZero() && int64(in.last-s.through(in.tenant)) <= most
	}
	if !near || in.size > heldBytes {
		return
	}
	f := &freshRecords{tenant: in.tenant, records: in.records, last: in.last, size: in.size}
	in.tenant.fresh, q.fresh = append(in.tenant.fresh, f), append(q.fresh, f)
	q.freshBytes += f.size
	q.freshCount++
	for q.freshBytes > heldBytes {
		if oldest := q.fresh[0]; oldest.records != nil {
			q.forgetFresh(oldest.tenant, oldest.last)
		}
		q.fresh = q.fresh[1:]
	}
	if len(q.fresh) > 2*q.freshCount+64 {
		q.fresh = slices.DeleteFunc(slices.Clone(q.fresh), func(f *freshRecords) bool { return f.records == nil })
	}
}

// forgetFresh holds no longer what a tenant has through a sequence. The caller holds the lock.
func (q *Queue) forgetFresh(t *tenant, through uint64) {
	for len(t.fresh) > 0 && t.fresh[0].records[0].Sequence <= through {
		f := t.fresh[0]
		q.freshBytes -= f.size
		q.freshCount--
		f.records, t.fresh = nil, t.fresh[1:]
	}
}

// freshAfter gives the fresh records that begin right after a sequence; none: they are on disk only. The caller holds the lock.
func (t *tenant) freshAfter(after uint64) []*Record {
	at, _ := slices.BinarySearchFunc(t.fresh, after+1, func(f *freshRecords, first uint64) int { return cmp.Compare(f.last, first) })
	if at == len(t.fresh) {
		return nil
	}
	records := t.fresh[at].records
	first := records[0].Sequence
	if first > after+1 {
		return nil
	}
	return records[after+1-first:]
}
