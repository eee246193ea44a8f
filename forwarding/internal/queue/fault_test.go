// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

// losePower writes, cuts the power at some point, and tells how many of the acknowledged records are gone.
func losePower(t *testing.T, seed uint64) (lost int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	fs := vfs.NewCrashableMem()
	q := open(t, options("q", fs))
	delivered, total := uint64(0), 0
	for range 1 + random.IntN(12) {
		var names []string
		for range 1 + random.IntN(20) {
			total++
			names = append(names, fmt.Sprint("r", total))
		}
		put(t, q, "a", names...)
		if random.IntN(4) == 0 {
			delivered = uint64(random.IntN(total + 1))
			settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: delivered, Delivered: uint64(random.IntN(2))})
			delivered = q.Cursor("hub", "a")
		}
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
	closeQueue(t, q)
	again := open(t, options("q", crashed))
	defer closeQueue(t, again)
	left := ids(t, again, "a")
	cursor := again.Cursor("hub", "a")
	for i := cursor + 1; i <= uint64(total); i++ {
		if at := int(i - cursor - 1); at >= len(left) || left[at] != fmt.Sprint("r", i) {
			lost++
		}
	}
	if cursor > delivered {
		t.Errorf("seed %d: the cursor is %d, and was never beyond %d", seed, cursor, delivered)
	}
	return lost
}

func TestFaultPowerLoss(t *testing.T) {
	for seed := range uint64(1000) {
		if lost := losePower(t, seed); lost > 0 {
			t.Fatalf("seed %d: %d acknowledged records are lost", seed, lost)
		}
	}
	if lost := loseControl(t); lost == 0 {
		t.Error("without sync nothing is lost, so the test would not see a loss")
	}
}

// loseControl acknowledges without a sync, which comes only in an hour.
func loseControl(t *testing.T) int {
	t.Helper()
	fs := vfs.NewCrashableMem()
	o := options("q", fs)
	o.SyncInterval = time.Hour
	q := open(t, options("q", fs))
	closeQueue(t, q)
	q = open(t, o)
	put(t, q, "a", "1", "2")
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	closeQueue(t, q)
	again := open(t, options("q", crashed))
	defer closeQueue(t, again)
	return 2 - len(ids(t, again, "a"))
}

// TestCursorsAreWrittenWithRecords: a cursor costs no write of its own. When the power goes, a sink gets once more what it got since the last write.
func TestCursorsAreWrittenWithRecords(t *testing.T) {
	const n = 11
	fs := vfs.NewCrashableMem()
	o := options("q", fs)
	q := open(t, o)
	defer closeQueue(t, q)
	for i := range n {
		put(t, q, "a", strconv.Itoa(i+1))
	}
	lose := func() (cursor uint64) {
		again := open(t, options("q", fs.CrashClone(vfs.CrashCloneCfg{})))
		defer closeQueue(t, again)
		cursor = again.Cursor("hub", "a")
		if left := ids(t, again, "a"); len(left) != int(again.Last("a")-cursor) {
			t.Errorf("behind the cursor %d of %d are %v", cursor, again.Last("a"), left)
		}
		return cursor
	}
	for i := range n {
		settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: uint64(i + 1), Delivered: 1})
		if cursor := q.Cursor("hub", "a"); cursor != uint64(i+1) {
			t.Errorf("the cursor is %d behind %d", cursor, i+1)
		}
	}
	if u := q.Usage(); u.Records != 0 || u.Bytes != 0 {
		t.Errorf("everything is delivered, and %d bytes of %d records wait", u.Bytes, u.Records)
	}
	lose()
	put(t, q, "a", "more")
	if cursor := lose(); cursor != n {
		t.Errorf("the cursor that was written with a record is %d of %d", cursor, n)
	}
}

// TestCursorsAreWrittenWithoutRecords: after a MiB of deliveries, and when the queue is closed.
func TestCursorsAreWrittenWithoutRecords(t *testing.T) {
	fs := vfs.NewCrashableMem()
	o := options("q", fs)
	commits := make(chan int, 100)
	o.Committed = func(records int, _ time.Duration) { commits <- records }
	q := open(t, o)
	put(t, q, "a", "1", "2", "3")
	if records := <-commits; records != 3 {
		t.Errorf("%d records were committed", records)
	}
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 2, Delivered: 2, Bytes: 1 << 20})
	if records := <-commits; records != 0 {
		t.Errorf("a cursor was committed with %d records", records)
	}
	again := open(t, options("q", fs.CrashClone(vfs.CrashCloneCfg{})))
	if cursor := again.Cursor("hub", "a"); cursor != 2 {
		t.Errorf("the cursor is %d", cursor)
	}
	closeQueue(t, again)
	settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 3, Delivered: 1})
	closeQueue(t, q)
	again = open(t, options("q", fs.CrashClone(vfs.CrashCloneCfg{})))
	defer closeQueue(t, again)
	if cursor := again.Cursor("hub", "a"); cursor != 3 {
		t.Errorf("after a clean end the cursor is %d", cursor)
	}
}

// TestFaultKillAroundDelete cuts the power before each of the writes that follow a cursor.
func TestFaultKillAroundDelete(t *testing.T) {
	for seed := range uint64(60) {
		fs := vfs.NewCrashableMem()
		var crashed atomic.Pointer[vfs.MemFS]
		var armed atomic.Bool
		var writes atomic.Int64
		stop := int64(seed % 6)
		injected := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && writes.Add(1) == stop+1 {
				crashed.Store(fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(seed), RNG: rand.New(rand.NewPCG(seed, 2))}))
			}
			return nil
		}))
		q := open(t, options("q", injected))
		put(t, q, "a", "1", "2", "3")
		put(t, q, "a", "4", "5")
		armed.Store(true)
		settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 3, Delivered: 3})
		settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: 5, Delivered: 2})
		submit(t, q, &queue.Submission{}) // the cursors are written with this one
		submit(t, q, &queue.Submission{}) // and the frames are deleted before this one
		armed.Store(false)
		image := crashed.Load()
		if image == nil {
			image = fs.CrashClone(vfs.CrashCloneCfg{})
		}
		closeQueue(t, q)
		again := open(t, options("q", image))
		left := ids(t, again, "a")
		want := []string{"1", "2", "3", "4", "5"}[again.Cursor("hub", "a"):]
		if !slices.Equal(left, want) {
			t.Errorf("seed %d: left %v, want %v", seed, left, want)
		}
		closeQueue(t, again)
	}
}

func TestFaultFsyncError(t *testing.T) {
	fs := vfs.NewCrashableMem()
	toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo) && strings.HasSuffix(op.Path, ".log") {
			return errors.New("input/output error")
		}
		return nil
	})}
	o := options("q", errorfs.Wrap(fs, toggle))
	fatal := make(chan error, 16)
	o.Fatal = func(err error) {
		fatal <- err
		runtime.Goexit() // as the end of the process: nothing follows on this goroutine
	}
	q := open(t, o)
	put(t, q, "a", "1", "2")
	toggle.On()
	e := entry("a", "3")
	if err := q.Reserve("a", e.Record.Size()); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(chan error, 1)
	q.Submit(&queue.Submission{Entries: []queue.Entry{e}, Done: func(err error) { acknowledged <- err }})
	if err := <-fatal; !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-acknowledged:
		t.Errorf("a record that is not synced was answered with %v", err)
	default:
	}
	toggle.Off()
	again := open(t, options("q", fs.CrashClone(vfs.CrashCloneCfg{})))
	defer closeQueue(t, again)
	if got := ids(t, again, "a"); strings.Join(got, " ") != "1 2" {
		t.Errorf("after the restart: %v", got)
	}
}

// TestFaultDiskStall has a disk that does not answer for 30 seconds.
func TestFaultDiskStall(t *testing.T) {
	var shift atomic.Int64
	stalled, release := make(chan struct{}), make(chan struct{})
	toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo) && strings.HasSuffix(op.Path, ".log") {
			select {
			case stalled <- struct{}{}: // the first one
				<-release
			case <-release:
			}
		}
		return nil
	})}
	o := options("q", errorfs.Wrap(vfs.NewMem(), toggle))
	o.Now = func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	var slowest atomic.Int64
	o.Committed = func(_ int, took time.Duration) { slowest.Store(max(slowest.Load(), int64(took))) }
	q := open(t, o)
	defer closeQueue(t, q)
	put(t, q, "a", "before")
	toggle.On()
	const n = 200
	acknowledged := make(chan error, n)
	put := func(i int) {
		e := entry("a", strconv.Itoa(i))
		if err := q.Reserve("a", e.Record.Size()); err != nil {
			t.Fatal(err)
		}
		q.Submit(&queue.Submission{Entries: []queue.Entry{e}, Done: func(err error) { acknowledged <- err }})
	}
	put(0)
	<-stalled
	goroutines := runtime.NumGoroutine()
	for i := 1; i < n; i++ {
		put(i)
	}
	if now := runtime.NumGoroutine(); now > goroutines+8 {
		t.Errorf("%d goroutines wait for the disk, and %d did before", now, goroutines)
	}
	if len(acknowledged) > 0 {
		t.Error("a record was acknowledged that is not synced")
	}
	shift.Store(int64(30 * time.Second))
	commits := q.Usage().Counters.Commits
	close(release)
	for range n {
		if err := <-acknowledged; err != nil {
			t.Error(err)
		}
	}
	if took := time.Duration(slowest.Load()); took < 30*time.Second {
		t.Errorf("the slowest commit took %s", took)
	}
	if later := q.Usage().Counters.Commits - commits; later > 3 {
		t.Errorf("what waited was written by %d commits", later)
	}
	if got := ids(t, q, "a"); len(got) != n+1 {
		t.Errorf("%d records are there", len(got))
	}
}

// fill makes a queue of n records of a KiB, and gives its directory.
func fill(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "q")
	fillQueue(t, options(dir, nil), n)
	return dir
}

func fillQueue(t *testing.T, o queue.Options, n int) {
	t.Helper()
	q := open(t, o)
	random := rand.New(rand.NewPCG(1, 1))
	padding := make([]byte, 512)
	for i := range n {
		for j := range padding {
			padding[j] = byte(random.Uint32())
		}
		r := &queue.Record{ID: fmt.Sprint("r", i), Line: fmt.Appendf(nil, `{"eventType":"a","message":"r%d %x"}`, i, padding)}
		if err := q.Reserve("a", r.Size()); err != nil {
			t.Fatal(err)
		}
		submit(t, q, &queue.Submission{Entries: []queue.Entry{{Tenant: "a", Record: r}}})
	}
	closeQueue(t, q)
}

// newest gives the last log of the queue.
func newest(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	slices.SortFunc(files, func(a, b string) int {
		x, _ := os.Stat(a)
		y, _ := os.Stat(b)
		return int(x.Size() - y.Size())
	})
	return files[len(files)-1]
}

func TestFaultDamageOfTheTail(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"Torn":    func(b []byte) []byte { return b[:len(b)-5] },
		"Garbage": func(b []byte) []byte { return append(b, bytes.Repeat([]byte("garbage "), 20)...) },
		"Zeros":   func(b []byte) []byte { return append(b, make([]byte, 300)...) },
		"Flip": func(b []byte) []byte {
			b[len(b)-100] ^= 0x10 // in the last batch, which has 1 KiB
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fill(t, 30)
			path := newest(t, dir, "*.log")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, spoil(content), 0o600); err != nil {
				t.Fatal(err)
			}
			o := options(dir, nil)
			q := open(t, o)
			defer closeQueue(t, q)
			got := ids(t, q, "a")
			if len(got) < 29 || len(got) > 30 {
				t.Errorf("%d records are left of 30", len(got))
			}
		})
	}
}

func TestFaultDamage(t *testing.T) {
	const n = 4000 // beyond one table
	dir := fill(t, n)
	path := newest(t, dir, "*.sst")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 0x40
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := queue.Open(options(dir, nil)); !errors.As(err, new(*queue.DamagedError)) {
		t.Fatalf("a flipped bit was not seen: %v", err)
	}
	o := options(dir, nil)
	o.Quarantine = true
	q := open(t, o)
	defer closeQueue(t, q)
	if !strings.HasPrefix(q.Quarantined, dir+".damaged-") {
		t.Errorf("put aside as %q", q.Quarantined)
	}
	r, err := q.Reader("default")
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(0, 10, 1<<20)
	if err != nil || len(records) != 1 || !strings.Contains(string(records[0].Line), `"eventType":"exporter_queue_damaged"`) {
		t.Errorf("got %v, %v", records, err)
	}
	var out bytes.Buffer
	salvaged, err := queue.Salvage(q.Quarantined, nil, &out)
	if err != nil || salvaged.Records < n*99/100 || salvaged.Records == n || bytes.Count(out.Bytes(), []byte("\n")) != salvaged.Records {
		t.Errorf("%s, %v", salvaged.Summary(), err)
	}
}
