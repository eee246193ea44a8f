// SPDX-License-Identifier: Apache-2.0

// Package dbtest gives tests an empty database of each kind, on real servers that it starts itself.
//
//	TestMain ─► Main                         Each ─► a subtest for SQLite ─────► a file in the test's folder
//	              │                               ├► for PostgreSQL ─┬─► a schema of its own
//	              └─ stops the servers            └► for MariaDB ────┴─► a database of its own
//
// What it decides:
//
//   - A test binary starts one server of each kind, when the first test asks for it, in a temporary folder, on a unix
//     socket. It ends with the test binary, however that ends.
//   - A server that is not installed fails the test, with what to install.
//   - Tests of the fault list that take long have a short form; the flag -full asks for the long one (make long).
package dbtest

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the drivers that empty databases are made with
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

var full = flag.Bool("full", false, "run tests of the fault list at their full size, which takes minutes")

// Size is how much a test does: short, or as the fault list says with the flag -full.
func Size[T any](short, long T) T {
	if *full {
		return long
	}
	return short
}

// Main runs the tests and stops the servers.
func Main(m *testing.M) {
	code := m.Run()
	for _, server := range []*server{postgres, mariadb} {
		if err := server.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "dbtest:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Drivers are the databases that tests run on.
var Drivers = []sqldb.Driver{sqldb.SQLite, sqldb.PostgreSQL, sqldb.MySQL}

// Each runs a test on an empty database of each kind, side by side.
func Each(t *testing.T, fn func(t *testing.T, config sqldb.Config)) {
	t.Helper()
	for _, driver := range Drivers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			fn(t, New(t, driver))
		})
	}
}

// Direct is how a server is reached without a proxy; the name of a database follows for MariaDB.
func Direct(driver sqldb.Driver) sqldb.Secret {
	if driver == sqldb.PostgreSQL {
		return sqldb.Secret(postgres.dsn(postgres.folder))
	}
	return sqldb.Secret(mariadb.dsn(mariadb.folder))
}

// CPU is the CPU time that the server of a database has taken; SQLite has none.
func CPU(driver sqldb.Driver) (time.Duration, error) {
	switch driver {
	case sqldb.PostgreSQL:
		return postgres.cpu()
	case sqldb.MySQL:
		return mariadb.cpu()
	case sqldb.SQLite:
	}
	return 0, nil
}

// cpu adds up the server's process, its children, and those that have ended.
func (s *server) cpu() (time.Duration, error) {
	if s.cmd == nil || s.cmd.Process == nil {
		return 0, nil
	}
	root := strconv.Itoa(s.cmd.Process.Pid)
	children, err := os.ReadFile(filepath.Join("/proc", root, "task", root, "children"))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, pid := range append(strings.Fields(string(children)), root) {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if errors.Is(err, os.ErrNotExist) {
			continue // it has ended in the meantime
		}
		if err != nil {
			return 0, err
		}
		// The name in brackets may hold spaces; behind it, fields 12 to 15 are the times, in hundredths of a second.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, field := range fields[11:15] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum, nil
}

var databases atomic.Int64

// New returns an empty database of one kind.
func New(t testing.TB, driver sqldb.Driver) sqldb.Config {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	switch driver {
	case sqldb.PostgreSQL:
		folder := postgres.start(t)
		return sqldb.Config{Driver: driver, DSN: sqldb.Secret("host=" + folder + " user=postgres database=postgres"), Schema: name, MaxConnections: 6}
	case sqldb.MySQL:
		folder := mariadb.start(t)
		dsn := "root@unix(" + filepath.Join(folder, "socket") + ")/"
		execute(t, "mysql", dsn, "CREATE DATABASE "+name)
		return sqldb.Config{Driver: driver, DSN: sqldb.Secret(dsn + name), MaxConnections: 5}
	default:
		return sqldb.Config{Driver: sqldb.SQLite, DSN: sqldb.Secret(filepath.Join(t.TempDir(), "reports.db")), MaxConnections: 4}
	}
}

func execute(t testing.TB, driver, dsn, statement string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// server is a database server of this test binary.
type server struct {
	install string // what has to be installed
	find    func() (string, error)
	prepare func(program, folder string) error
	command func(program, folder string) *exec.Cmd
	driver  string
	dsn     func(folder string) string

	once   sync.Once
	folder string
	err    error
	cmd    *exec.Cmd
	ended  chan error
}

var postgres = newPostgreSQL([]string{"fsync=off", "full_page_writes=off", "synchronous_commit=off"}, initialize)

// initialize makes the files of an empty server.
func initialize(program, folder string) error {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return err
	}
	cmd := unprivileged(
		exec.Command(filepath.Join(filepath.Dir(real), "initdb"), "--pgdata", filepath.Join(folder, "data"), "--username=postgres", "--auth=trust", "--no-sync",
			"--encoding=UTF8", "--locale=C", "--no-instructions"),
	)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// newPostgreSQL is a server with settings, whose files prepare makes.
func newPostgreSQL(settings []string, prepare func(program, folder string) error) *server {
	return &server{
		install: "postgresql",
		find: func() (string, error) {
			found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
			if err != nil || len(found) == 0 {
				return exec.LookPath("postgres")
			}
			return found[len(found)-1], nil
		},
		prepare: prepare,
		command: func(program, folder string) *exec.Cmd {
			args := []string{"-D", filepath.Join(folder, "data"), "-k", folder}
			for _, setting := range append([]string{"listen_addresses=", "max_connections=400", "shared_buffers=32MB", "autovacuum=off"}, settings...) {
				args = append(args, "-c", setting)
			}
			return unprivileged(exec.Command(program, args...))
		},
		driver: "pgx",
		dsn:    func(folder string) string { return "host=" + folder + " user=postgres database=postgres" },
	}
}

var mariadb = newMariaDB(func(folder string) []string {
	return []string{
		"--max-allowed-packet=64M", "--ssl-ca=" + filepath.Join(folder, "ca.crt"), "--ssl-cert=" + filepath.Join(folder, "server.crt"),
		"--ssl-key=" + filepath.Join(folder, "server.key"),
	}
}, certify)

// newMariaDB is a server with further arguments, in a folder that files are put into before it starts.
func newMariaDB(further func(folder string) []string, files func(folder string) error) *server {
	return &server{
		install: "mariadb-server-core",
		find: func() (string, error) {
			if path, err := exec.LookPath("mariadbd"); err == nil {
				return path, nil
			}
			return exec.LookPath("/usr/sbin/mariadbd")
		},
		prepare: func(_, folder string) error {
			return errors.Join(files(folder), os.Mkdir(filepath.Join(folder, "data"), 0o700))
		},
		command: func(program, folder string) *exec.Cmd {
			// Without the tables of users there is nobody to log in: whoever reaches the socket in the folder is the owner.
			args := append([]string{
				"--no-defaults", "--datadir=" + filepath.Join(folder, "data"), "--socket=" + filepath.Join(folder, "socket"), "--pid-file=" + filepath.Join(folder, "pid"),
				"--log-error=" + filepath.Join(folder, "log"), "--skip-grant-tables", "--skip-networking", "--max-connections=400",
				"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
			}, further(folder)...)
			if os.Geteuid() == 0 {
				args = append(args, "--user=root")
			}
			return exec.Command(program, args...)
		},
		driver: "mysql",
		dsn:    func(folder string) string { return "root@unix(" + filepath.Join(folder, "socket") + ")/" },
	}
}

// MariaDBWith returns an empty database of a server of the test's own, which is started with further arguments.
func MariaDBWith(t testing.TB, args ...string) sqldb.Config {
	t.Helper()
	own := newMariaDB(func(string) []string { return args }, func(string) error { return nil })
	own.startFor(t)
	dsn := own.dsn(own.folder)
	execute(t, own.driver, dsn, "CREATE DATABASE reports")
	return sqldb.Config{Driver: sqldb.MySQL, DSN: sqldb.Secret(dsn + "reports"), MaxConnections: 5}
}

// unprivileged runs a command as another user where we are root, which PostgreSQL refuses to be.
func unprivileged(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	if uid, gid, ok := other(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
	return cmd
}

func other() (uid, gid uint32, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		u, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		g, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return uint32(u), uint32(g), true
		}
	}
	return 0, 0, false
}

// start returns the folder of the running server.
func (s *server) start(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.err = s.begin() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.folder
}

// startFor starts a server that ends with a test.
func (s *server) startFor(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	s.start(t)
}

func (s *server) begin() error {
	program, err := s.find()
	if err != nil {
		return fmt.Errorf("the tests need a database server: run 'make test-tools', or apt-get install %s (%w)", s.install, err)
	}
	if s.folder, err = os.MkdirTemp("", "dbtest-"); err != nil {
		return err
	}
	if uid, gid, ok := other(); ok && s.driver == "pgx" {
		if err := os.Chown(s.folder, int(uid), int(gid)); err != nil {
			return err
		}
	}
	if err := s.prepare(program, s.folder); err != nil {
		return err
	}
	s.cmd, s.ended = s.command(program, s.folder), make(chan error, 1)
	var log strings.Builder
	s.cmd.Stderr = &log
	started := make(chan error)
	go func() {
		// The server gets a signal when the thread that started it ends: this one stays.
		runtime.LockOSThread()
		if s.cmd.SysProcAttr == nil {
			s.cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		s.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.ended <- s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	return s.await(&log)
}

// await waits until the server answers.
func (s *server) await(log fmt.Stringer) error {
	db, err := sql.Open(s.driver, s.dsn(s.folder))
	if err != nil {
		return err
	}
	defer db.Close()
	deadline := time.After(time.Minute)
	for {
		if err = db.Ping(); err == nil {
			return nil
		}
		select {
		case end := <-s.ended:
			return fmt.Errorf("the server of %s ended: %w: %s", s.install, end, log)
		case <-deadline:
			return fmt.Errorf("the server of %s does not answer: %w", s.install, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the server, if it was started, and removes its files. Nothing in it is worth a clean end.
func (s *server) stop() error {
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	<-s.ended
	return errors.Join(err, os.RemoveAll(s.folder))
}
