// SPDX-License-Identifier: Apache-2.0

package dbtest

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Pair is a PostgreSQL server and its standby, which has all that is committed on the primary.
type Pair struct {
	// Primary is how the primary is reached without the proxy.
	Primary sqldb.Config
	// Standby is how the standby is reached.
	Standby sqldb.Config

	proxy   *Proxy
	standby *server
}

// Replicated returns a pair, and how clients reach it: by a proxy that leads to the primary.
func Replicated(t testing.TB) (sqldb.Config, *Pair) {
	t.Helper()
	// A commit is answered once the standby shows it, too: nothing that was acknowledged is lost with the primary.
	settings := []string{"fsync=off", "full_page_writes=off", "synchronous_commit=remote_apply", "wal_keep_size=256MB", "hot_standby=on"}
	primary := newPostgreSQL(settings, initialize)
	primary.startFor(t)
	standby := newPostgreSQL(settings, func(program, folder string) error { return follow(program, primary.folder, folder) })
	standby.startFor(t)
	execute(t, primary.driver, primary.dsn(primary.folder), `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	execute(t, primary.driver, primary.dsn(primary.folder), `SELECT pg_reload_conf()`)
	config := func(folder string) sqldb.Config {
		return sqldb.Config{Driver: sqldb.PostgreSQL, DSN: sqldb.Secret(primary.dsn(folder)), Schema: "reports", MaxConnections: 6}
	}
	pair := &Pair{Primary: config(primary.folder), Standby: config(standby.folder), standby: standby}
	proxy, folder := newProxy(t, filepath.Join(primary.folder, postgresSocket), postgresSocket)
	pair.proxy = proxy
	return config(folder), pair
}

// follow makes the files of a standby.
func follow(program, primary, folder string) error {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return err
	}
	cmd := unprivileged(exec.Command(filepath.Join(filepath.Dir(real), "pg_basebackup"), "--pgdata", filepath.Join(folder, "data"), "--host", primary,
		"--username=postgres", "--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	return nil
}

// Switch leads clients to the standby, which refuses writes until it is promoted. Connections to the primary are cut.
func (p *Pair) Switch(t testing.TB) {
	t.Helper()
	p.proxy.Down()
	p.proxy.lead(filepath.Join(p.standby.folder, postgresSocket))
	p.proxy.Up(t)
}

// Promote makes a primary of the standby. The old one goes on by itself, and waits for no standby any more.
func (p *Pair) Promote(t testing.TB) {
	t.Helper()
	db, err := sql.Open(p.standby.driver, p.standby.dsn(p.standby.folder))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var promoted bool
	if err := db.QueryRowContext(t.Context(), `SELECT pg_promote(true, 60)`).Scan(&promoted); err != nil || !promoted {
		t.Fatalf("promoted: %t, %v", promoted, err)
	}
	execute(t, p.standby.driver, string(p.Primary.DSN), `ALTER SYSTEM SET synchronous_standby_names = ''`)
	execute(t, p.standby.driver, string(p.Primary.DSN), `SELECT pg_reload_conf()`)
}
