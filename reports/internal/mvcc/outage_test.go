// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

var servers = []sqldb.Driver{sqldb.PostgreSQL, sqldb.MySQL}

// Row 7 of the fault list: a connection that is lost at the commit leaves no doubt. Success is said of what is there, and
// failure of what is not.
func TestConnectionCutAtCommit(t *testing.T) {
	for _, driver := range servers {
		for name, c := range map[string]struct {
			cut     dbtest.Cut
			written bool
		}{
			"BeforeCommit": {dbtest.BeforeCommit, false},
			"AfterCommit":  {dbtest.AfterCommit, true},
		} {
			t.Run(fmt.Sprintf("%s/%s", driver, name), func(t *testing.T) {
				t.Parallel()
				config, proxy := dbtest.Proxied(t, driver)
				s := open(t, config, Options{})
				first := put(t, s, "/a/before", 0, state("x"))
				cursor := s.NewCursor(first)
				defer cursor.Close()
				proxy.CutNext(c.cut)
				outcome, err := s.Write(t.Context(), Change{Key: "/a/b", To: state("x")})
				if proxy.Cuts() != 1 {
					t.Fatal("no connection was cut")
				}
				if c.written && (err != nil || !outcome.Written) {
					t.Errorf("written, but said: %+v, %v", outcome, err)
				}
				if !c.written && !errors.Is(err, ErrNotWritten) {
					t.Errorf("not written, but said: %+v, %v", outcome, err)
				}
				value, _, err := s.Get(t.Context(), "/a/b")
				if err != nil || (value != nil) != c.written {
					t.Fatalf("%+v, %v; want it there: %t", value, err, c.written)
				}
				last := put(t, s, "/a/after", 0, state("x"))
				events := follow(t, cursor, int(last-first))
				if events[len(events)-1].Key != "/a/after" {
					t.Errorf("%v", revisions(events))
				}
			})
		}
	}
}

// Row 6: without its database a replica says so, keeps its watches for a while, and goes on where it was.
func TestDatabaseOutage(t *testing.T) {
	for _, driver := range servers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			config, proxy := dbtest.Proxied(t, driver)
			s := open(t, config, Options{Poll: 20 * time.Millisecond})
			other := open(t, direct(config, driver), Options{})
			cursor := s.NewCursor(s.Revision())
			defer cursor.Close()
			proxy.Down()
			if _, _, err := s.Get(t.Context(), "/a/b"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("get: %v, want %v", err, ErrUnavailable)
			}
			if _, err := s.Write(t.Context(), Change{Key: "/a/b", To: state("x")}); !errors.Is(err, ErrUnavailable) {
				t.Errorf("write: %v, want %v", err, ErrUnavailable)
			}
			if err := s.Ping(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Errorf("ping: %v, want %v", err, ErrUnavailable)
			}
			meanwhile := put(t, other, "/a/meanwhile", 0, state("x"))
			proxy.Up(t)
			if events := follow(t, cursor, 1); events[0].Revision != meanwhile || events[0].Key != "/a/meanwhile" {
				t.Errorf("%v", revisions(events))
			}
			put(t, s, "/a/b", 0, state("x"))
		})
	}
}

// Row 8: a replica follows its database to the standby. What was acknowledged is there, what the old primary still takes is
// not, and does not raise the counter.
func TestFailover(t *testing.T) {
	t.Parallel()
	shared, pair := dbtest.Replicated(t)
	s, unaware := open(t, shared, Options{Poll: 20 * time.Millisecond}), open(t, pair.Primary, Options{Poll: 20 * time.Millisecond})
	cursor := s.NewCursor(s.Revision())
	defer cursor.Close()
	before := put(t, s, "/a/before", 0, state("x"))
	askReplica(t, pair.Standby, before)
	pair.Switch(t)
	for range 3 {
		if outcome, err := s.Write(t.Context(), Change{Key: "/a/between", To: state("x")}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a write to the standby: %+v, %v, want %v", outcome, err, ErrUnavailable)
		}
	}
	pair.Promote(t)
	for i := range 5 {
		put(t, unaware, fmt.Sprintf("/a/old-%d", i), 0, state("x"))
	}
	after := put(t, s, "/a/after", 0, state("x"))
	if after != before+1 {
		t.Errorf("the first number of the new primary is %d, the last of the old one was %d", after, before)
	}
	events := follow(t, cursor, 2)
	if events[0].Key != "/a/before" || events[1].Key != "/a/after" || events[1].Revision != after {
		t.Errorf("%v", revisions(events))
	}
	for key, want := range map[string]bool{"/a/before": true, "/a/between": false, "/a/old-0": false, "/a/after": true} {
		if value, _, err := s.Get(t.Context(), key); err != nil || (value != nil) != want {
			t.Errorf("%s: %+v, %v; want it there: %t", key, value, err, want)
		}
	}
}

// askReplica asks a copy for the counter. Nothing can be written there.
func askReplica(t *testing.T, config sqldb.Config, want int64) {
	t.Helper()
	replica, err := OpenReplica(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := replica.Close(); err != nil {
			t.Error(err)
		}
	}()
	var got int64
	read := func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT v FROM meta WHERE k = 'rv'`).Scan(&got)
	}
	if err := replica.Query(t.Context(), read); err != nil || got != want {
		t.Errorf("the copy's counter is %d, want %d: %v", got, want, err)
	}
	write := func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE meta SET v = 0`)
		return err
	}
	if err := replica.Query(t.Context(), write); err == nil {
		t.Error("the copy can be written to")
	}
	config.DSN = "host=/nowhere user=postgres database=postgres"
	away, err := OpenReplica(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := away.Query(t.Context(), read); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a copy that is away: %v, want %v", err, ErrUnavailable)
	}
	if err := away.Close(); err != nil {
		t.Error(err)
	}
}

// direct is the same database without the proxy.
func direct(config sqldb.Config, driver sqldb.Driver) sqldb.Config {
	plain := dbtest.Direct(driver)
	if driver == sqldb.PostgreSQL {
		config.DSN = plain
		return config
	}
	dsn := string(config.DSN)
	for i := len(dsn) - 1; i >= 0; i-- {
		if dsn[i] == '/' {
			config.DSN = plain + sqldb.Secret(dsn[i+1:])
			break
		}
	}
	return config
}

// Row 9: events come although the connection that listens is lost.
func TestListeningIsLost(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.PostgreSQL)
	reader, writer := open(t, config, Options{Poll: 50 * time.Millisecond}), open(t, config, Options{})
	cursor := reader.NewCursor(1)
	defer cursor.Close()
	put(t, writer, "/a/b", 0, state("x"))
	follow(t, cursor, 1)
	number(t, writer, `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`)
	last := put(t, writer, "/a/c", 0, state("x"))
	if events := follow(t, cursor, 1); events[0].Revision != last {
		t.Errorf("%v, want %d", revisions(events), last)
	}
}

// A database that is replaced by an older copy ends the process, and is not served as if nothing had happened.
func TestReplacedUnderARunningReplica(t *testing.T) {
	for _, driver := range servers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			config := dbtest.New(t, driver)
			s := open(t, config, Options{Poll: 20 * time.Millisecond})
			put(t, s, "/a/b", 0, state("x"))
			err := s.db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error { return setMeta(t.Context(), tx, map[string]int64{"rv": 1}) })
			if err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-s.Failed():
				if !errors.Is(err, ErrForeign) {
					t.Errorf("%v, want %v", err, ErrForeign)
				}
			case <-time.After(30 * time.Second):
				t.Error("nobody noticed")
			}
		})
	}
}

// Row 46: after the counter was advanced, numbers of the storage before are too old, and none is given twice.
func TestAdvance(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := open(t, config, Options{})
		put(t, s, "/a/b", 0, state("x"))
		to, err := s.Advance(t.Context(), 5_000)
		if err != nil || to != 5_000 || s.Revision() != to || s.Compacted() != to {
			t.Fatalf("%d, revision %d, compacted %d, %v", to, s.Revision(), s.Compacted(), err)
		}
		if _, _, err := s.NewCursor(4_999).Next(t.Context(), 1); !errors.Is(err, ErrCompacted) {
			t.Errorf("an old number: %v, want %v", err, ErrCompacted)
		}
		if next := put(t, s, "/a/c", 0, state("x")); next != to+1 {
			t.Errorf("%d behind %d", next, to)
		}
		if back, err := s.Advance(t.Context(), 1); err != nil || back != to+2 {
			t.Errorf("advanced to %d, %v: the counter must only rise", back, err)
		}
	})
}

// What is queued when a store is closed is written or refused; nobody waits for ever.
func TestCloseWhileWriting(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), dbtest.New(t, sqldb.SQLite), Options{CompactEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	for i := range 20 {
		go func() {
			for n := 0; ; n++ {
				if _, err := s.Write(context.Background(), Change{Key: fmt.Sprintf("/a/%d-%d", i, n), To: state("x")}); errors.Is(err, ErrClosed) {
					ended <- struct{}{}
					return
				}
			}
		}()
	}
	if _, err := s.WaitFor(t.Context(), 50, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range 20 {
		<-ended
	}
}

// A database that is frozen ends no connection: reads and writes find out by themselves that it is away, and go on once it is back.
func TestFrozen(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.PostgreSQL, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			config, proxy := dbtest.Proxied(t, driver)
			config.Probe = 200 * time.Millisecond
			s := open(t, config, Options{})
			put(t, s, "/a/b", 0, state("x"))
			proxy.Freeze()
			for range 3 {
				if _, _, err := s.Get(t.Context(), "/a/b"); !errors.Is(err, ErrUnavailable) {
					t.Errorf("frozen: %v, want %v", err, ErrUnavailable)
				}
				if outcome, err := s.Write(t.Context(), Change{Key: "/a/c", To: state("x")}); !errors.Is(err, ErrUnavailable) {
					t.Errorf("a write while frozen: %+v, %v, want %v", outcome, err, ErrUnavailable)
				}
			}
			proxy.Thaw()
			for {
				value, _, err := s.Get(t.Context(), "/a/b")
				if err == nil && value != nil {
					break
				}
				if err != nil && !errors.Is(err, ErrUnavailable) {
					t.Fatal(err)
				}
			}
		})
	}
}

// A read that takes long is let go on as long as the database answers others.
func TestSlowRead(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.PostgreSQL)
	s := open(t, config, Options{}) // asks after 2 seconds
	err := s.Query(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT pg_sleep(3)`)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
