// SPDX-License-Identifier: Apache-2.0

package dbtest

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/pki"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// authority signs the certificate of MariaDB, and those of its clients.
var authority *pki.Pair

func certify(folder string) error {
	now := time.Now()
	var err error
	if authority, err = pki.NewAuthority("dbtest", now, time.Hour); err != nil {
		return err
	}
	server, err := authority.Issue([]string{"127.0.0.1"}, now, time.Hour)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "ca.crt"), authority.CertPEM, 0o600),
		os.WriteFile(filepath.Join(folder, "server.crt"), server.CertPEM, 0o600),
		os.WriteFile(filepath.Join(folder, "server.key"), server.KeyPEM, 0o600),
	)
}

// OverTCP returns an empty database of MariaDB that is reached by TCP, and the authority that signs its certificate and
// those of its clients.
func OverTCP(t testing.TB) (sqldb.Config, *pki.Pair) {
	t.Helper()
	config := New(t, sqldb.MySQL)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go forward(client, filepath.Join(mariadb.folder, "socket"))
		}
	}()
	name := filepath.Base(string(config.DSN))
	config.DSN = sqldb.Secret("root@tcp(" + listener.Addr().String() + ")/" + name)
	return config, authority
}

// forward connects a client to a socket until one of both ends.
func forward(client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server) // the client notices
	}()
	_, _ = io.Copy(server, client) // the server notices
	server.Close()
}
