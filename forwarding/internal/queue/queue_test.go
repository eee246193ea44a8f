// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

func options(dir string, fs vfs.FS) queue.Options {
	return queue.Options{Dir: dir, FS: fs, MaxBytes: 1 << 30, TenantMaxBytes: 1 << 29, OnFull: queue.Block, Sinks: []string{"hub"}, Now: time.Now}
}

func open(t *testing.T, o queue.Options) *queue.Queue {
	t.Helper()
	q, err := queue.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func entry(tenant, id string) queue.Entry {
	return queue.Entry{Tenant: tenant, Record: &queue.Record{ID: id, Time: time.Unix(1, 2), Line: fmt.Appendf(nil, `{"eventType":"a","message":%q}`, id), Metadata: map[string]string{"pid": "7"}}}
}

// put submits records and waits for the acknowledgement.
func put(t *testing.T, q *queue.Queue, tenant string, ids ...string) {
	t.Helper()
	s := &queue.Submission{}
	for _, id := range ids {
		e := entry(tenant, id)
		if err := q.Reserve(tenant, e.Record.Size()); err != nil {
			t.Fatal(err)
		}
		s.Entries = append(s.Entries, e)
	}
	submit(t, q, s)
}

func submit(t *testing.T, q *queue.Queue, s *queue.Submission) {
	t.Helper()
	done := make(chan error, 1)
	s.Done = func(err error) { done <- err }
	q.Submit(s)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, q *queue.Queue, s queue.Settlement) {
	t.Helper()
	done := make(chan error, 1)
	q.Settle(s, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// ids reads what a sink has not got of a tenant.
func ids(t *testing.T, q *queue.Queue, tenant string) []string {
	t.Helper()
	r, err := q.Reader(tenant)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for after := q.Cursor("hub", tenant); ; {
		records, err := r.Next(after, 3, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			return all
		}
		for _, record := range records {
			if record.Sequence != after+1 {
				t.Errorf("record %d follows %d", record.Sequence, after)
			}
			all, after = append(all, record.ID), record.Sequence
		}
	}
}

func closeQueue(t *testing.T, q *queue.Queue) {
	t.Helper()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	q := open(t, options(dir, nil))
	put(t, q, "a", "1", "2", "3", "4", "5")
	put(t, q, "b", "x")
	submit(t, q, &queue.Submission{Session: "s", Through: 9})
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 2, Delivered: 2})
	id := q.ID()
	closeQueue(t, q)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	q = open(t, options(dir, nil))
	if got := ids(t, q, "a"); strings.Join(got, " ") != "3 4 5" {
		t.Errorf("left: %v", got)
	}
	if through, _, known := q.Session("s"); !known || through != 9 || q.ID() != id {
		t.Errorf("session %d %v, queue %s, before %s", through, known, q.ID(), id)
	}
	put(t, q, "a", "6")
	if got := ids(t, q, "a"); strings.Join(got, " ") != "3 4 5 6" {
		t.Errorf("after another: %v", got)
	}
	backlogs, err := q.Backlogs()
	if err != nil || len(backlogs) != 2 || backlogs[0].Tenant != "a" || backlogs[0].Records != 4 || backlogs[0].Delivered != 2 || backlogs[0].Oldest.IsZero() {
		t.Errorf("%+v, %v", backlogs, err)
	}
	report, err := q.Verify()
	if err != nil || len(report.Problems) != 0 || report.Records != 7 {
		t.Errorf("%+v, %v", report, err)
	}
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 6, Delivered: 4})
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "b", Through: 1, Delivered: 1})
	put(t, q, "c", "y") // a commit behind the removal
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "c", Through: 1, Delivered: 1})
	submit(t, q, &queue.Submission{}) // the cursors are synced with this one
	submit(t, q, &queue.Submission{}) // and the frames are deleted before this one
	if u := q.Usage(); u.Records != 0 || u.Bytes != 0 {
		t.Errorf("all is delivered, and left is %+v", u)
	}
	closeQueue(t, q)
}

func TestRecordRoundTrip(t *testing.T) {
	q := open(t, options("q", vfs.NewMem()))
	defer closeQueue(t, q)
	want := queue.Record{ID: "i", Time: time.Unix(3, 4), Stream: []byte{1, 2}, Message: []byte{3}, Metadata: map[string]string{"a": "b", "c": ""}}
	stored := want
	if err := q.Reserve("t", stored.Size()); err != nil {
		t.Fatal(err)
	}
	submit(t, q, &queue.Submission{Entries: []queue.Entry{{Tenant: "t", Record: &stored}}})
	r, err := q.Reader("t")
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(0, 10, 1<<20)
	want.Sequence = 1
	if err != nil || len(records) != 1 || fmt.Sprintf("%+v", *records[0]) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v, %v, want %+v", records, err, want)
	}
}

func TestQuotas(t *testing.T) {
	o := options("q", vfs.NewMem())
	size := entry("a", "0").Record.Size()
	o.TenantMaxBytes, o.MaxBytes = 3*size, 4*size
	q := open(t, o)
	defer closeQueue(t, q)
	put(t, q, "a", "1", "2", "3")
	full, ok := errors.AsType[*queue.QuotaError](q.Reserve("a", size))
	if !ok || full.Total || full.Tenant != "a" {
		t.Errorf("tenant a is full: %v", full)
	}
	put(t, q, "b", "4")
	if full, ok := errors.AsType[*queue.QuotaError](q.Reserve("b", size)); !ok || !full.Total {
		t.Errorf("the queue is full: %v", full)
	}
	space := q.Space()
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 3, Delivered: 3})
	<-space
	put(t, q, "a", "5")
}

func TestRejectWaitsUntilFivePercentAreFree(t *testing.T) {
	o := options("q", vfs.NewMem())
	size := entry("a", "0").Record.Size()
	o.TenantMaxBytes, o.OnFull, o.MaxBytes = 100*size, queue.Reject, 1<<20
	q := open(t, o)
	defer closeQueue(t, q)
	for range 100 {
		put(t, q, "a", "1")
	}
	if q.Reserve("a", size) == nil {
		t.Fatal("not full")
	}
	for _, c := range []struct {
		through uint64
		fits    bool
	}{{2, false}, {6, true}} {
		space := q.Space()
		settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: c.through})
		<-space // the tick deletes frames
		if err := q.Reserve("a", size); (err == nil) != c.fits {
			t.Errorf("after %d of 100: %v", c.through, err)
		}
	}
}

func TestDropOldestLeavesARecordInTheHole(t *testing.T) {
	o := options("q", vfs.NewMem())
	o.TenantMaxBytes, o.OnFull = 3000, queue.DropOldest
	q := open(t, o)
	defer closeQueue(t, q)
	const n = 200
	for i := range n {
		put(t, q, "a", fmt.Sprint("r", i))
	}
	r, err := q.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(q.Cursor("hub", "a"), n, 1<<20)
	if err != nil || len(records) < 2 {
		t.Fatal(records, err)
	}
	hole := string(records[0].Line)
	want := fmt.Sprintf(`"details":{"count":%d,"first":1,"last":%d}`, records[0].Sequence, records[0].Sequence)
	if !strings.Contains(hole, `"eventType":"exporter_dropped"`) || !strings.Contains(hole, want) {
		t.Errorf("the hole is %s, want %s", hole, want)
	}
	if got := uint64(len(records)-1) + records[0].Sequence; got != n {
		t.Errorf("%d records are told of, of %d", got, n)
	}
	if u := q.Usage(); u.Counters.Dropped["quota"] != records[0].Sequence || u.Bytes > o.TenantMaxBytes {
		t.Errorf("%+v", u)
	}
	if report, err := q.Verify(); err != nil || len(report.Problems) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestDeadLetters(t *testing.T) {
	fs := vfs.NewMem()
	q := open(t, options("q", fs))
	put(t, q, "a", "1", "2", "3")
	r, err := q.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(0, 3, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 3, Delivered: 1, Dead: []*queue.DeadLetter{
		{Record: records[0], Class: "record", Reason: "Malformed", Message: "no", Attempts: 1}, {Record: records[1], Class: "record", Reason: "TooLarge"},
	}})
	closeQueue(t, q)
	q = open(t, options("q", fs))
	if u := q.Usage(); u.Bytes == 0 {
		t.Error("dead letters count against the quota")
	}
	letters, err := q.DeadLetters("hub", "a", false, 10)
	if err != nil || len(letters) != 2 || letters[0].Record.ID != "1" || letters[1].Reason != "TooLarge" || string(letters[0].Record.Line) != `{"eventType":"a","message":"1"}` {
		t.Fatalf("%+v, %v", letters, err)
	}
	if n, err := q.Replay(queue.Selection{Sink: "hub", IDs: []string{"2"}}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if letters, err := q.DeadLetters("hub", "a", true, 10); err != nil || len(letters) != 1 || letters[0].Record.ID != "2" {
		t.Errorf("%+v, %v", letters, err)
	}
	if gone, err := q.DropDeadLetters(queue.Selection{Sink: "hub", All: true}, true); err != nil || len(gone) != 2 {
		t.Errorf("%v, %v", gone, err)
	}
	if gone, err := q.DropDeadLetters(queue.Selection{Sink: "hub", All: true}, false); err != nil || len(gone) != 2 {
		t.Errorf("%v, %v", gone, err)
	}
	submit(t, q, &queue.Submission{})
	if u := q.Usage(); u.Bytes != 0 || u.Counters.Dropped["command"] != 2 {
		t.Errorf("%+v", u)
	}
	if _, err := q.Replay(queue.Selection{Sink: "nobody", All: true}); err == nil {
		t.Error("a sink that is not there was replayed")
	}
	closeQueue(t, q)
}

// TestTenantEntryIsAtomic: a dead letter and a new record are committed together, and the power goes.
func TestTenantEntryIsAtomic(t *testing.T) {
	fs := vfs.NewCrashableMem()
	q := open(t, options("q", fs))
	put(t, q, "a", "1")
	r, err := q.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(0, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	busy, goOn := make(chan struct{}), make(chan struct{})
	q.Submit(&queue.Submission{Done: func(error) { close(busy); <-goOn }})
	<-busy // what is handed over now is one commit
	done := make(chan error, 2)
	second := entry("a", "2")
	if err := q.Reserve("a", second.Record.Size()); err != nil {
		t.Fatal(err)
	}
	q.Submit(&queue.Submission{Entries: []queue.Entry{second}, Done: func(err error) { done <- err }})
	dead := []*queue.DeadLetter{{Record: records[0], Class: "record", Reason: "Malformed"}}
	q.Settle(queue.Settlement{Sink: "hub", Tenant: "a", Through: 1, Dead: dead}, func(err error) { done <- err })
	close(goOn)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	closeQueue(t, q)
	q = open(t, options("q", crashed))
	defer closeQueue(t, q)
	if last, bytes := q.Last("a"), q.Usage().Bytes; last != 2 || bytes != records[0].Size()+second.Record.Size() {
		t.Errorf("the last record is %d, and the queue has %d bytes", last, bytes)
	}
	put(t, q, "a", "3")
	if got := ids(t, q, "a"); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("got %v", got)
	}
}

func TestDropTenant(t *testing.T) {
	fs := vfs.NewMem()
	o := options("q", fs)
	o.Sinks = []string{"hub", "lake"}
	q := open(t, o)
	put(t, q, "gone", "1", "2", "3")
	put(t, q, "stays", "4")
	r, err := q.Reader("gone")
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(0, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "gone", Through: 1, Dead: []*queue.DeadLetter{{Record: records[0], Class: "record"}}})
	before := q.Usage().Bytes
	for _, dry := range []bool{true, false} {
		if n, letters, err := q.DropTenant(t.Context(), "gone", dry); n != 3 || letters != 1 || err != nil {
			t.Errorf("dry %v: %d records, %d dead letters, %v", dry, n, letters, err)
		}
		if dry && q.Usage().Bytes != before {
			t.Error("who only asked has dropped something")
		}
	}
	if dropped := q.Usage().Counters.Dropped["deleted"]; dropped != 4 {
		t.Errorf("%d are counted as dropped", dropped)
	}
	closeQueue(t, q)
	q = open(t, o)
	defer closeQueue(t, q)
	letters, err := q.DeadLetters("hub", "gone", false, 10)
	if got := ids(t, q, "gone"); len(got) > 0 || len(letters) > 0 || err != nil {
		t.Errorf("%v and the dead letters %v are still here, %v", got, letters, err)
	}
	if u := q.Usage(); u.Tenants["gone"].Bytes != 0 || u.Bytes != u.Tenants["stays"].Bytes || u.Records != 1 {
		t.Errorf("%+v", u)
	}
	put(t, q, "gone", "5")
	if got := ids(t, q, "gone"); !slices.Equal(got, []string{"5"}) || q.Last("gone") != 4 {
		t.Errorf("got %v, the last one is %d", got, q.Last("gone"))
	}
	if _, _, err := q.DropTenant(t.Context(), "nobody", false); err == nil {
		t.Error("a tenant that is not here was dropped")
	}
}

func TestAddedAndRemovedSinks(t *testing.T) {
	o := options("q", vfs.NewMem())
	now := time.Unix(1000, 0)
	o.Now = func() time.Time { return now }
	q := open(t, o)
	put(t, q, "a", "1", "2")
	if err := q.SetSinks([]string{"other"}); err != nil {
		t.Fatal(err)
	}
	settle(t, q, queue.Settlement{Sink: "other", Tenant: "a", Through: 2})
	submit(t, q, &queue.Submission{})
	if got := ids(t, q, "a"); len(got) != 2 {
		t.Errorf("a sink that is gone keeps its data for a day: %v", got)
	}
	closeQueue(t, q)
	now = now.Add(25 * time.Hour)
	o.Sinks = []string{"other"}
	q = open(t, o)
	for { // the tick lets it go
		space := q.Space()
		if !q.HasSink("hub") {
			break
		}
		<-space
	}
	if u := q.Usage(); u.Counters.Dropped["sink_removed"] != 2 {
		t.Errorf("%+v", u)
	}
	closeQueue(t, q)
}

func TestFaultTwoExporters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	q := open(t, options(dir, nil))
	defer closeQueue(t, q)
	_, err := queue.Open(options(dir, nil))
	inUse, ok := errors.AsType[*queue.InUseError](err)
	if want := fmt.Sprintf("is in use by pid %d", os.Getpid()); !ok || !strings.HasSuffix(inUse.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
