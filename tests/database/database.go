// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/apis/pki"
)

const (
	// account is the user of the database, and the name in the client's certificate.
	account  = "reports"
	password = "a-password"
	host     = "127.0.0.1"
	// patience bounds the start of a server.
	patience = 2 * time.Minute
)

// Server is a running database server.
type Server struct {
	// DSN is the data source name for clients, without the places of certificates.
	DSN string
	// TLS is what the Secret of the client's certificate holds: ca.crt, tls.crt and tls.key.
	TLS map[string][]byte

	dir   string
	cmd   *exec.Cmd
	ended chan error
}

// Size is how many bytes the tables and indexes of PostgreSQL take.
func (s *Server) Size() (size int64, err error) {
	err = filepath.WalkDir(s.file("data", "base"), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed in the meantime
		}
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// kind is how one kind of server is prepared and run.
type kind struct {
	install string
	account string // of the machine, where we are root
	prepare func(ctx context.Context, s *Server, as *syscall.SysProcAttr) error
	command func(ctx context.Context, s *Server, port int) (*exec.Cmd, error)
	dsn     func(port int) string
}

// PostgreSQL starts a server that knows its client by the certificate alone.
func PostgreSQL(ctx context.Context) (*Server, error) { return start(ctx, &postgres) }

// MariaDB starts a server that wants a password and a certificate.
func MariaDB(ctx context.Context) (*Server, error) { return start(ctx, &mariadb) }

var postgres = kind{
	install: "postgresql", account: "postgres",
	prepare: func(ctx context.Context, s *Server, as *syscall.SysProcAttr) error {
		initdb, err := postgresProgram("initdb")
		if err != nil {
			return err
		}
		if err := run(ctx, as, "", initdb, "--pgdata", s.file("data"), "--username="+account,
			"--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--no-instructions"); err != nil {
			return err
		}
		return os.WriteFile(s.file("data", "pg_hba.conf"), []byte("hostssl all "+account+" 127.0.0.1/32 cert\n"), 0o644)
	},
	command: func(ctx context.Context, s *Server, port int) (*exec.Cmd, error) {
		program, err := postgresProgram("postgres")
		if err != nil {
			return nil, err
		}
		return exec.CommandContext(ctx, program, "-D", s.file("data"), "-c", "listen_addresses="+host, "-c", "port="+strconv.Itoa(port),
			"-c", "unix_socket_directories=",
			"-c", "ssl=on", "-c", "ssl_cert_file="+s.file("server.crt"), "-c", "ssl_key_file="+s.file("server.key"), "-c", "ssl_ca_file="+s.file("ca.crt"),
			"-c", "fsync=off", "-c", "shared_buffers=16MB"), nil
	},
	dsn: func(port int) string { return fmt.Sprintf("postgres://%s@%s:%d/postgres", account, host, port) },
}

func postgresProgram(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return exec.LookPath(name)
	}
	return found[len(found)-1], nil
}

var mariadb = kind{
	install: "mariadb-server-core", account: "nobody",
	prepare: func(ctx context.Context, s *Server, as *syscall.SysProcAttr) error {
		// What mariadb-install-db does, which needs programs that mariadb-server-core has not.
		var script strings.Builder
		script.WriteString("CREATE DATABASE mysql;\nUSE mysql;\n")
		for _, part := range []string{"mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"} {
			text, err := os.ReadFile(filepath.Join("/usr/share/mysql", part))
			if err != nil {
				return err
			}
			script.Write(append(text, '\n'))
		}
		if err := os.Mkdir(s.file("data"), 0o700); err != nil {
			return err
		}
		if err := s.give(as, "data"); err != nil {
			return err
		}
		if err := run(ctx, as, script.String(), mariadbd(), "--no-defaults", "--bootstrap", "--datadir="+s.file("data")); err != nil {
			return err
		}
		return os.WriteFile(s.file("init.sql"), []byte("CREATE DATABASE IF NOT EXISTS reports;\n"+
			"CREATE USER IF NOT EXISTS '"+account+"'@'%' IDENTIFIED BY '"+password+"' REQUIRE X509;\nGRANT ALL ON reports.* TO '"+account+"'@'%';\n"), 0o644)
	},
	command: func(ctx context.Context, s *Server, port int) (*exec.Cmd, error) {
		return exec.CommandContext(ctx, mariadbd(), "--no-defaults", "--datadir="+s.file("data"), "--socket="+s.file("socket"), "--pid-file="+s.file("pid"),
			"--bind-address="+host, "--port="+strconv.Itoa(port), "--init-file="+s.file("init.sql"), "--skip-name-resolve", "--max-allowed-packet=64M",
			"--ssl-ca="+s.file("ca.crt"), "--ssl-cert="+s.file("server.crt"), "--ssl-key="+s.file("server.key"),
			"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"), nil
	},
	dsn: func(port int) string { return fmt.Sprintf("%s:%s@tcp(%s:%d)/reports", account, password, host, port) },
}

func mariadbd() string {
	if program, err := exec.LookPath("mariadbd"); err == nil {
		return program
	}
	return "/usr/sbin/mariadbd"
}

func start(ctx context.Context, k *kind) (s *Server, err error) {
	s = &Server{}
	if s.dir, err = os.MkdirTemp("", "database-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start %s, which 'make test-tools' installs: %w", k.install, err), s.Stop())
		}
	}()
	as, err := s.owner(k.account)
	if err != nil {
		return nil, err
	}
	if err := s.certify(as); err != nil {
		return nil, err
	}
	if err := k.prepare(ctx, s, as); err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	s.DSN = k.dsn(port)
	// The server outlives the step of the test that starts it.
	if s.cmd, err = k.command(context.WithoutCancel(ctx), s, port); err != nil {
		return nil, err
	}
	s.cmd.Dir, s.cmd.SysProcAttr = "/", as
	var log strings.Builder
	s.cmd.Stderr = &log
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return nil, err
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.cmd.Wait() }()
	return s, s.await(ctx, port, &log)
}

// owner gives the folder to the account that the server runs as: PostgreSQL refuses to be root.
func (s *Server) owner(name string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr, os.Chown(s.dir, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// certify makes the certificates of server and client.
func (s *Server) certify(as *syscall.SysProcAttr) error {
	now := time.Now()
	ca, err := pki.NewAuthority("database", now, time.Hour)
	if err != nil {
		return err
	}
	server, err := ca.Issue([]string{host}, now, time.Hour)
	if err != nil {
		return err
	}
	client, err := ca.IssueClient(account, now, time.Hour)
	if err != nil {
		return err
	}
	s.TLS = map[string][]byte{"ca.crt": ca.CertPEM, "tls.crt": client.CertPEM, "tls.key": client.KeyPEM}
	for name, content := range map[string][]byte{"ca.crt": ca.CertPEM, "server.crt": server.CertPEM, "server.key": server.KeyPEM} {
		if err := os.WriteFile(s.file(name), content, 0o600); err != nil {
			return err
		}
		if err := s.give(as, name); err != nil {
			return err
		}
	}
	return nil
}

// give gives a file to the account that the server runs as.
func (s *Server) give(as *syscall.SysProcAttr, name string) error {
	if as.Credential == nil {
		return nil
	}
	return os.Chown(s.file(name), int(as.Credential.Uid), int(as.Credential.Gid))
}

func (s *Server) file(path ...string) string {
	return filepath.Join(append([]string{s.dir}, path...)...)
}

func run(ctx context.Context, as *syscall.SysProcAttr, input, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Dir, cmd.SysProcAttr = "/", as
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err := errors.Join(err, listener.Close()); err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// await waits until the server takes connections.
func (s *Server) await(ctx context.Context, port int, log fmt.Stringer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return conn.Close()
		}
		select {
		case end := <-s.ended:
			s.cmd = nil
			return fmt.Errorf("ended: %w: %s", end, log)
		case <-ctx.Done():
			return fmt.Errorf("does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// PID is the server's process, which has one more for each connection where it is PostgreSQL.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server at once, and removes its files: nothing in it is worth a clean end.
func (s *Server) Stop() error {
	if s.cmd == nil {
		return os.RemoveAll(s.dir)
	}
	err := s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
	return errors.Join(err, os.RemoveAll(s.dir))
}
