// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

// TestReadersSeeTheSame: two sinks read in pieces of any size, one of them far behind; records that are held in memory and those that are read from
// the disk are the same, in one order without gaps.
func TestReadersSeeTheSame(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		o := options("q", vfs.NewMem())
		o.Sinks = []string{"fast", "slow"}
		q := open(t, o)
		total, padding := 0, bytes.Repeat([]byte("x"), 64<<10)
		readers, cursors := map[string]*queue.Reader{}, map[string]uint64{}
		for _, sink := range o.Sinks {
			var err error
			if readers[sink], err = q.Reader("a"); err != nil {
				t.Fatal(err)
			}
		}
		read := func(sink string) int {
			records, err := readers[sink].Next(cursors[sink], 1+random.IntN(40), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				cursors[sink]++
				if want := fmt.Sprint("r", cursors[sink]); r.Sequence != cursors[sink] || r.ID != want || !bytes.Contains(r.Line, []byte(want+" ")) {
					t.Fatalf("seed %d: %s read %d %s at %d", seed, sink, r.Sequence, r.ID, cursors[sink])
				}
			}
			if len(records) > 0 {
				settle(t, q, queue.Settlement{Sink: sink, Tenant: "a", Through: cursors[sink], Delivered: uint64(len(records)), Bytes: int64(random.IntN(1 << 20))})
			}
			return len(records)
		}
		for range 60 {
			s := &queue.Submission{}
			for range random.IntN(8) {
				total++
				id := fmt.Sprint("r", total)
				r := &queue.Record{ID: id, Line: fmt.Appendf(nil, `{"eventType":"a","message":"%s %s"}`, id, padding[:random.IntN(len(padding))])}
				if err := q.Reserve("a", r.Size()); err != nil {
					t.Fatal(err)
				}
				s.Entries = append(s.Entries, queue.Entry{Tenant: "a", Record: r})
			}
			submit(t, q, s)
			put(t, q, "b", "beside")
			read("fast")
			if random.IntN(8) == 0 {
				read("slow")
			}
		}
		for _, sink := range o.Sinks {
			for read(sink) > 0 {
			}
			if cursors[sink] != uint64(total) {
				t.Errorf("seed %d: %s has %d of %d", seed, sink, cursors[sink], total)
			}
		}
		closeQueue(t, q)
	}
}

// TestHolesAreReadFromDisk: what was dropped is not in memory either.
func TestHolesAreReadFromDisk(t *testing.T) {
	o := options("q", vfs.NewMem())
	o.OnFull, o.TenantMaxBytes = queue.DropOldest, 4<<10
	q := open(t, o)
	defer closeQueue(t, q)
	for i := range 200 {
		put(t, q, "a", fmt.Sprint("r", i))
	}
	left := ids(t, q, "a")
	if slices.Contains(left, "r0") || left[len(left)-1] != "r199" || left[0][0] == 'r' {
		t.Errorf("left %v: the first one tells of the hole", left)
	}
}
