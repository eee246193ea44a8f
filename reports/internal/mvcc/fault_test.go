// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// victim names the variable that makes this test binary a process that writes until it is killed.
const victim = "MVCC_TEST_VICTIM"

func TestMain(m *testing.M) {
	if text := os.Getenv(victim); text != "" {
		if err := writeUntilKilled(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dbtest.Main(m)
}

func open(t testing.TB, config sqldb.Config, options Options) *Store {
	t.Helper()
	if options.CompactEvery == 0 {
		options.CompactEvery = -1
	}
	s, err := Open(t.Context(), config, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func state(text string) *State {
	return &State{Head: []byte(`{"text":"` + text + `"}`), Kind: 1, Namespace: "ns", Name: "name", Size: int64(len(text))}
}

func put(t testing.TB, s *Store, key string, from int64, to *State) int64 {
	t.Helper()
	outcome, err := s.Write(t.Context(), Change{Key: key, From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	if !outcome.Written {
		t.Fatalf("%s from %d: not written: %+v", key, from, outcome)
	}
	return outcome.Revision
}

// follow returns n events, waiting for those that are still to come.
func follow(t testing.TB, cursor *Cursor, n int) []Event {
	t.Helper()
	var seen []Event
	for len(seen) < n {
		events, more, err := cursor.Next(t.Context(), n-len(seen))
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, events...)
		if len(events) == 0 {
			select {
			case <-more:
			case <-time.After(30 * time.Second):
				t.Fatalf("%d events of %d", len(seen), n)
			}
		}
	}
	return seen
}

func revisions(events []Event) []string {
	var said []string
	for _, event := range events {
		said = append(said, fmt.Sprintf("%d %d %s", event.Revision, event.Type, event.Key))
	}
	return said
}

// Row 1 of the fault list: whoever changes what another has changed meanwhile is told so, and nothing is lost.
func TestConcurrentWritersLoseNothing(t *testing.T) {
	const writers, rounds = 8, 100
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := open(t, config, Options{})
		put(t, s, "/a/b", 0, state("0"))
		var done sync.WaitGroup
		for range writers {
			done.Go(func() {
				for range rounds {
					addOne(t, s, "/a/b")
				}
			})
		}
		done.Wait()
		value, revision, err := s.Get(t.Context(), "/a/b")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(value.Head), fmt.Sprintf(`{"text":"%d"}`, writers*rounds); got != want || revision != 2+writers*rounds {
			t.Errorf("%s at %d, want %s at %d", got, revision, want, 2+writers*rounds)
		}
	})
}

func addOne(t *testing.T, s *Store, key string) {
	for {
		value, _, err := s.Get(t.Context(), key)
		if err != nil {
			t.Error(err)
			return
		}
		var n int
		if _, err := fmt.Sscanf(string(value.Head), `{"text":"%d"}`, &n); err != nil {
			t.Error(err)
			return
		}
		outcome, err := s.Write(t.Context(), Change{Key: key, From: value.Revision, To: state(strconv.Itoa(n + 1))})
		if err != nil {
			t.Error(err)
			return
		}
		if outcome.Written {
			return
		}
	}
}

// Row 2: a request holds one connection at most, so a small pool serves many.
func TestSmallPoolServesMany(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		config.MaxConnections = 3
		s := open(t, config, Options{})
		var done sync.WaitGroup
		for i := range 64 {
			done.Go(func() {
				key := fmt.Sprintf("/a/%d", i)
				if _, err := s.Write(t.Context(), Change{Key: key, To: state("x")}); err != nil {
					t.Error(err)
				}
				if value, _, err := s.Get(t.Context(), key); err != nil || value == nil {
					t.Error(value, err)
				}
				if _, err := s.Range(t.Context(), Range{Start: "/a/", End: "/a0", Limit: 100}); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
	})
}

// Rows 3 and 9: replicas see all changes, in one order, also where nobody tells them.
func TestReplicasSeeTheSame(t *testing.T) {
	const each = 50
	for _, driver := range []sqldb.Driver{sqldb.PostgreSQL, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			config := dbtest.New(t, driver)
			replicas := []*Store{open(t, config, Options{Poll: 50 * time.Millisecond}), open(t, config, Options{Poll: 50 * time.Millisecond})}
			cursors := []*Cursor{replicas[0].NewCursor(1), replicas[1].NewCursor(1)}
			var done sync.WaitGroup
			for i, replica := range replicas {
				done.Go(func() {
					for n := range each {
						if _, err := replica.Write(t.Context(), Change{Key: fmt.Sprintf("/a/%d-%d", i, n), To: state("x")}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			done.Wait()
			first, second := follow(t, cursors[0], 2*each), follow(t, cursors[1], 2*each)
			if diff := cmp.Diff(revisions(first), revisions(second)); diff != "" {
				t.Errorf("replicas differ:\n%s", diff)
			}
			for i, event := range first {
				if event.Revision != int64(i+2) || event.After == nil || string(event.After.Head) != `{"text":"x"}` {
					t.Fatalf("event %d: %+v", i, event)
				}
			}
		})
	}
}

func writeUntilKilled(text string) error {
	var config sqldb.Config
	var plain struct{ DSN string }
	if err := errors.Join(json.Unmarshal([]byte(text), &config), json.Unmarshal([]byte(text), &plain)); err != nil {
		return err
	}
	config.DSN = sqldb.Secret(plain.DSN)
	s, err := Open(context.Background(), config, Options{CompactEvery: -1})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		key := fmt.Sprintf("/victim/%d", i)
		outcome, err := s.Write(context.Background(), Change{Key: key, To: &State{Head: []byte(`{}`), Payload: []byte(strings.Repeat(key, 1000)), Labels: map[string]string{"a": "b"}}})
		if err != nil {
			return err
		}
		fmt.Println(key, outcome.Revision)
	}
}

// Rows 4 and 5: what was acknowledged survives a process that is killed, no half object is left, no number is given twice.
func TestKilledWhileWriting(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), victim+"="+string(text))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := map[string]int64{}
		var last int64
		lines := bufio.NewScanner(out)
		for len(acknowledged) < 200 && lines.Scan() {
			var key string
			if _, err := fmt.Sscan(lines.Text(), &key, &last); err != nil {
				t.Fatal(err)
			}
			acknowledged[key] = last
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if len(acknowledged) < 200 {
			t.Fatalf("only %d writes were acknowledged", len(acknowledged))
		}
		s := open(t, config, Options{})
		for key, revision := range acknowledged {
			value, _, err := s.Get(t.Context(), key)
			if err != nil || value == nil || value.Revision != revision || string(value.Payload) != strings.Repeat(key, 1000) {
				t.Fatalf("%s, acknowledged as %d: %+v, %v", key, revision, value, err)
			}
		}
		checkWhole(t, s)
		if next := put(t, s, "/after", 0, state("x")); next <= last {
			t.Errorf("revision %d was given again", next)
		}
		if config.Driver == sqldb.SQLite {
			// Watchers may have seen what the file has lost: they list anew.
			if _, _, err := s.NewCursor(last).Next(t.Context(), 1); !errors.Is(err, ErrCompacted) {
				t.Errorf("a watcher of before: %v, want %v", err, ErrCompacted)
			}
		}
	})
}

// checkWhole finds objects without their change, labels or payload.
func checkWhole(t *testing.T, s *Store) {
	t.Helper()
	for _, query := range []string{
		`SELECT COUNT(*) FROM objects o WHERE NOT EXISTS (SELECT 1 FROM labels l WHERE l.object = o.id)`,
		`SELECT COUNT(*) FROM objects o WHERE NOT EXISTS (SELECT 1 FROM changes c WHERE c.rv = o.rv AND c."key" = o."key")`,
		`SELECT COUNT(*) FROM objects o WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.sha = o.payload AND b.refs = 1)`,
		`SELECT COUNT(*) FROM objects o WHERE o.rv > (SELECT v FROM meta WHERE k = 'rv')`,
	} {
		if n := number(t, s, query); n != 0 {
			t.Errorf("%d rows: %s", n, query)
		}
	}
}

func number(t *testing.T, s *Store, query string, args ...any) int64 {
	t.Helper()
	var n int64
	err := s.db.Read(t.Context(), func(tx *sqldb.Tx) error { return tx.QueryRow(t.Context(), query, args...).Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Rows 10, 11 and 13: a watcher that was away gets everything from the log, deletions too, and is told when it cannot.
func TestWatcherThatWasAway(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := open(t, config, Options{RingEvents: 4})
		away := s.NewCursor(1)
		defer away.Close()
		var want []string
		for i := range 10 {
			key := fmt.Sprintf("/a/%d", i)
			made := put(t, s, key, 0, state("first"))
			changed := put(t, s, key, made, state("second"))
			gone := put(t, s, key, changed, nil)
			want = append(want, fmt.Sprintf("%d 1 %s", made, key), fmt.Sprintf("%d 2 %s", changed, key), fmt.Sprintf("%d 3 %s", gone, key))
		}
		seen := follow(t, away, len(want))
		if diff := cmp.Diff(want, revisions(seen)); diff != "" {
			t.Error(diff)
		}
		if got := string(seen[0].After.Head); got != `{"text":"first"}` {
			t.Errorf("state after the first change: %s", got)
		}
		if got := string(seen[2].Before.Head); got != `{"text":"second"}` {
			t.Errorf("state before the deletion: %s", got)
		}
		if err := s.Compact(t.Context(), s.Revision()); err != nil {
			t.Fatal(err)
		}
		late := s.NewCursor(5)
		defer late.Close()
		if _, _, err := late.Next(t.Context(), 1); !errors.Is(err, ErrCompacted) {
			t.Errorf("a watcher from before the compaction: %v, want %v", err, ErrCompacted)
		}
	})
}

// commits counts transactions.
type commits struct {
	nobody

	n atomic.Int64
}

func (c *commits) Committed([]Event, time.Duration) { c.n.Add(1) }

// Changes that take long do not share a transaction, which would take as long as all of them.
func TestSlowChangesAreCommittedOneByOne(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	seen := &commits{}
	s := open(t, dbtest.New(t, sqldb.SQLite), Options{Clock: clock, Observer: seen})
	begun, release := make(chan struct{}), make(chan struct{})
	slow := state("x")
	slow.Index = func(context.Context, *sqldb.Tx, int64, time.Time) error {
		clock.Step(2 * batchTime)
		return nil
	}
	first := state("x")
	first.Index = func(context.Context, *sqldb.Tx, int64, time.Time) error {
		close(begun)
		<-release
		return nil
	}
	var done sync.WaitGroup
	done.Go(func() { put(t, s, "/a/first", 0, first) })
	<-begun
	const waiting = 5
	for i := range waiting { // these wait while the first is written, and are taken together
		done.Go(func() { put(t, s, fmt.Sprintf("/a/%d", i), 0, slow) })
	}
	for len(s.queue) < waiting {
		runtime.Gosched()
	}
	close(release)
	done.Wait()
	if n := seen.n.Load(); n != 1+waiting {
		t.Errorf("%d transactions, want one for each of %d changes", n, 1+waiting)
	}
}

// Of several replicas, one drops old changes and does the chores of the upkeep.
func TestSingleCompactor(t *testing.T) {
	for _, driver := range servers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			config := dbtest.New(t, driver)
			clock := testingclock.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
			var chores atomic.Int64
			var replicas []*Store
			for range 3 {
				s := open(t, config, Options{Clock: clock, KeepChanges: 1, History: time.Second})
				s.options.CompactEvery = time.Minute // by hand, but with the lease of the default
				s.AddChore(func(context.Context) { chores.Add(1) })
				replicas = append(replicas, s)
			}
			for round := range int64(3) {
				last := put(t, replicas[0], fmt.Sprintf("/a/%d", round), 0, state("x"))
				put(t, replicas[1], fmt.Sprintf("/b/%d", round), 0, state("x"))
				clock.SetTime(clock.Now().Add(time.Minute))
				var done sync.WaitGroup
				for _, s := range replicas {
					done.Go(func() {
						if err := s.CompactOnce(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				done.Wait()
				if n := chores.Load(); n != round+1 {
					t.Fatalf("chores were done %d times in %d rounds", n, round+1)
				}
				if n := number(t, replicas[2], `SELECT v FROM meta WHERE k = 'compacted'`); n < last-1 {
					t.Errorf("compacted to %d, the last change is %d", n, last)
				}
			}
		})
	}
}

// Row 22: a full disk refuses writes, serves reads, and is forgotten when there is space again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.SQLite)
	empty, err := Open(t.Context(), config, Options{CompactEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	full := config
	full.MaxPages = int(number(t, empty, `PRAGMA page_count`)) + 30
	if err := empty.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), full, Options{CompactEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	big := state("x")
	var written []string
	for i := 0; err == nil && i < 100; i++ {
		key := fmt.Sprintf("/a/%d", i)
		// Random text does not shrink by compression.
		big.Payload = []byte(strings.Repeat(Sum([]byte(key)), 40) + noise(i))
		if _, err = s.Write(t.Context(), Change{Key: key, To: big}); err == nil {
			written = append(written, key)
		}
	}
	if !errors.Is(err, ErrNoSpace) || len(written) == 0 {
		t.Fatalf("after %d writes: %v, want %v", len(written), err, ErrNoSpace)
	}
	for _, key := range written {
		if value, _, err := s.Get(t.Context(), key); err != nil || value == nil {
			t.Fatal(key, value, err)
		}
	}
	_ = s.Close(t.Context()) // a full disk cannot note the clean end
	again := open(t, config, Options{})
	put(t, again, "/after", 0, big)
}

func noise(seed int) string {
	var text strings.Builder
	for i := range 200 {
		text.WriteString(Sum(fmt.Append(nil, seed, i)))
	}
	return text.String()
}

// Row 26: replicas that start together on an empty database both serve.
func TestReplicasStartTogether(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.PostgreSQL, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			config := dbtest.New(t, driver)
			var done sync.WaitGroup
			for i := range 4 {
				done.Go(func() {
					s, err := Open(t.Context(), config, Options{CompactEvery: -1})
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := s.Write(t.Context(), Change{Key: fmt.Sprintf("/a/%d", i), To: state("x")}); err != nil {
						t.Error(err)
					}
					if err := s.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
		})
	}
}

// Row 28: after a restore every watcher lists anew.
func TestRestored(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		before, err := Open(t.Context(), config, Options{CompactEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		seen := put(t, before, "/a/b", 0, state("x"))
		if err := before.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := open(t, config, Options{Restored: true})
		if s.Revision() != seen+jump || s.Compacted() != seen+jump {
			t.Errorf("revision %d, compacted %d, want both %d", s.Revision(), s.Compacted(), seen+jump)
		}
		if _, _, err := s.NewCursor(seen+5).Next(t.Context(), 1); !errors.Is(err, ErrCompacted) {
			t.Errorf("a watcher of before: %v, want %v", err, ErrCompacted)
		}
		if value, _, err := s.Get(t.Context(), "/a/b"); err != nil || value == nil || value.Revision != seen {
			t.Errorf("%+v, %v", value, err)
		}
	})
}

// Row 29: numbers rise whatever the clock does, and a compaction keeps the last changes.
func TestClockJumpsBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		clock := testingclock.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
		s := open(t, config, Options{Clock: clock, KeepChanges: 5, History: time.Minute})
		var last int64
		for i := range 10 {
			if i == 5 {
				clock.SetTime(clock.Now().Add(-time.Hour))
			}
			next := put(t, s, fmt.Sprintf("/a/%d", i), 0, state("x"))
			if next <= last {
				t.Fatalf("%d after %d", next, last)
			}
			last = next
		}
		clock.SetTime(clock.Now().Add(24 * time.Hour))
		if err := s.CompactOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := s.Compacted(), last-5; got != want {
			t.Errorf("compacted to %d, want %d", got, want)
		}
	})
}

// A compaction keeps up with who writes much: it drops all that is old, not only what one step does.
func TestCompactionKeepsUp(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		clock := testingclock.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
		s := open(t, config, Options{Clock: clock, KeepChanges: 5, History: time.Minute, Queue: 10_000})
		const clients, payloads = 500, 2*blobStep + 10
		var done sync.WaitGroup
		for range clients {
			done.Go(func() {
				for range 2 * compactStep / clients {
					if _, err := s.Tick(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		done.Wait()
		err := s.Maintain(t.Context(), "leave payloads", func(tx *sqldb.Tx) error {
			for i := range payloads {
				_, err := tx.Exec(t.Context(), `INSERT INTO blobs (sha, codec, raw_size, data, refs, at) VALUES (?, 0, 1, ?, 0, ?)`, Sum(fmt.Append(nil, i)), []byte("x"), clock.Now().UnixMilli())
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		last := s.Revision()
		clock.SetTime(clock.Now().Add(time.Hour))
		if err := s.CompactOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, left := s.Compacted(), number(t, s, `SELECT COUNT(*) FROM blobs`); got < last-5 || left != 0 {
			t.Errorf("compacted to %d of %d, %d payloads are left", got, last, left)
		}
	})
}

// What the log takes is bounded, with the payloads that only the log names. What is newer than the bound stays.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := open(t, config, Options{KeepChanges: 2, HistoryBytes: 100_000})
		large := func(i int) *State {
			to := state("x")
			to.Payload = []byte(noise(i)) // some 6 KiB, once they are compressed
			return to
		}
		last := int64(0)
		for i := range 60 {
			last = put(t, s, "/a/b", last, large(i))
		}
		if err := s.CompactOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept := number(t, s, `SELECT SUM(LENGTH(b.data)) FROM changes c JOIN blobs b ON b.sha = c.before_payload`)
		if kept > 100_000 || kept < 80_000 {
			t.Errorf("%d bytes of payloads are kept, compacted to %d of %d", kept, s.Compacted(), last)
		}
		// Changes without a payload of their own take little: a label that changes drops no history.
		before := s.Compacted()
		for range 30 {
			last = put(t, s, "/a/b", last, large(59))
		}
		if err := s.CompactOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.Compacted(); got > before+5 {
			t.Errorf("changes of the rest have dropped history from %d to %d", before, got)
		}
	})
}

// Row 40: equal payloads are kept once, for as long as one row names them.
func TestPayloadIsShared(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		clock := testingclock.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
		s := open(t, config, Options{Clock: clock})
		shared := state("x")
		shared.Payload = []byte(strings.Repeat("the same document ", 1000))
		var made [2]atomic.Int64
		var done sync.WaitGroup
		for i := range made {
			done.Go(func() { made[i].Store(put(t, s, fmt.Sprintf("/a/%d", i), 0, shared)) })
		}
		done.Wait()
		refs := func() int64 { return number(t, s, `SELECT COALESCE(SUM(refs), -1) FROM blobs`) }
		if n := number(t, s, `SELECT COUNT(*) FROM blobs`); n != 1 || refs() != 2 {
			t.Fatalf("%d payloads, %d references, want 1 and 2", n, refs())
		}
		put(t, s, "/a/0", made[0].Load(), nil)
		compactAll(t, s, clock)
		if value, _, err := s.Get(t.Context(), "/a/1"); err != nil || string(value.Payload) != string(shared.Payload) || refs() != 1 {
			t.Fatalf("the other: %v, %d references", err, refs())
		}
		put(t, s, "/a/1", made[1].Load(), nil)
		compactAll(t, s, clock)
		compactAll(t, s, clock) // what nobody names is kept a while for those who are reading
		if refs() != -1 {
			t.Errorf("the payload is still there, with %d references", refs())
		}
	})
}

func compactAll(t *testing.T, s *Store, clock *testingclock.FakeClock) {
	t.Helper()
	if err := s.Compact(t.Context(), s.Revision()); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	if _, err := s.dropBlobs(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A list as of a revision is what a list was at that time, page by page, whatever has happened since.
func TestListAsOf(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := open(t, config, Options{})
		revision := map[string]int64{}
		for i := range 12 {
			key := fmt.Sprintf("/a/%02d", i)
			revision[key] = put(t, s, key, 0, state("first"))
		}
		at := s.Revision()
		want := list(t, s, at, 12)
		for i := 0; i < 12; i += 2 { // some change, some go, some come between
			key := fmt.Sprintf("/a/%02d", i)
			changed := put(t, s, key, revision[key], state("second"))
			if i%4 == 0 {
				put(t, s, key, changed, nil)
			}
			put(t, s, key+"x", 0, state("new"))
		}
		for _, limit := range []int{1, 2, 5, 50} {
			if diff := cmp.Diff(want, list(t, s, at, limit)); diff != "" {
				t.Errorf("in pages of %d:\n%s", limit, diff)
			}
		}
	})
}

func list(t *testing.T, s *Store, at int64, limit int) []string {
	t.Helper()
	var found []string
	next := Range{Start: "/a/", End: "/a0", At: at, Limit: limit, Count: true}
	for {
		page, err := s.Range(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			found = append(found, fmt.Sprintf("%s %d %s", item.Key, item.Revision, item.Head))
		}
		if !page.More {
			return found
		}
		if want := int64(12 - len(found) + len(page.Items)); page.Count != want {
			t.Errorf("count %d behind %s, want %d", page.Count, next.Start, want)
		}
		next.Start, next.After = page.Items[len(page.Items)-1].Key, true
	}
}
