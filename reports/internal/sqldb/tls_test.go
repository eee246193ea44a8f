// SPDX-License-Identifier: Apache-2.0

package sqldb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/pki"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// MariaDB has to show a certificate that is trusted, and sees that of its client.
func TestMariaDBOverTLS(t *testing.T) {
	t.Parallel()
	config, ca := dbtest.OverTCP(t)
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	client := func(name string, by *pki.Pair) (cert, key string) {
		pair, err := by.IssueClient("reports", time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return write(name+".crt", pair.CertPEM), write(name+".key", pair.KeyPEM)
	}
	foreign, err := pki.NewAuthority("foreign", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	trusted := write("ca.crt", ca.CertPEM)
	cert, key := client("known", ca)
	foreignCert, foreignKey := client("foreign", foreign)
	for name, c := range map[string]struct {
		options string
		tls     sqldb.TLSFiles
		says    string // "" where the database is opened
		cipher  bool
	}{
		"ByDefault":         {"", sqldb.TLSFiles{CA: trusted}, "", true},
		"Asked":             {"?tls=true", sqldb.TLSFiles{CA: trusted}, "", true},
		"ClientCertificate": {"", sqldb.TLSFiles{CA: trusted, Cert: cert, Key: key}, "", true},
		"ForeignClient":     {"", sqldb.TLSFiles{CA: trusted, Cert: foreignCert, Key: foreignKey}, "connect to MariaDB or MySQL", false},
		"UnknownAuthority":  {"", sqldb.TLSFiles{}, "certificate signed by unknown authority", false},
		"OtherAuthority":    {"", sqldb.TLSFiles{CA: write("foreign-ca.crt", foreign.CertPEM)}, "certificate signed by unknown authority", false},
		"Without":           {"?tls=false", sqldb.TLSFiles{}, "", false},
		"Contradiction":     {"?tls=false", sqldb.TLSFiles{CA: trusted}, "tls must be true in it, or missing", false},
		"NoAuthority":       {"", sqldb.TLSFiles{CA: key}, "holds no certificate", false},
		"HalfAPair":         {"", sqldb.TLSFiles{CA: trusted, Cert: cert}, "must be given together", false},
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			config.DSN += sqldb.Secret(c.options)
			config.TLS = c.tls
			if c.says != "" {
				if exit, said := exitOf(t, config); exit != sqldb.ExitUnusable || !strings.Contains(said, c.says) {
					t.Errorf("exit %d, %q, want %q", exit, said, c.says)
				}
				return
			}
			db := mustOpen(t, config)
			defer closed(t, db)
			var cipher string
			err := db.Read(t.Context(), func(tx *sqldb.Tx) error {
				return tx.QueryRow(t.Context(), `SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'SSL_CIPHER'`).Scan(&cipher)
			})
			if err != nil || (cipher != "") != c.cipher {
				t.Errorf("cipher %q, %v", cipher, err)
			}
		})
	}
	if errs := (&sqldb.Config{Driver: sqldb.PostgreSQL, DSN: "x", TLS: sqldb.TLSFiles{CA: trusted}}).Validate(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "sslrootcert") {
		t.Errorf("files for PostgreSQL: %v", errs)
	}
}
