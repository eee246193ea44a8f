// SPDX-License-Identifier: Apache-2.0

package command

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/pki"
)

// A certificate that cert-manager renews, here with the authority behind it, is served without a restart: its Secret is a
// volume, whose files are links into a folder that is exchanged at once.
func TestRenewedSecretIsServed(t *testing.T) {
	t.Parallel()
	volume := t.TempDir()
	renew := func(round int) *x509.CertPool {
		t.Helper()
		ca, err := pki.NewAuthority(fmt.Sprintf("authority-%d", round), time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := ca.Issue([]string{"127.0.0.1"}, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		folder := fmt.Sprintf("..%d", round)
		if err := os.Mkdir(filepath.Join(volume, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"tls.crt": leaf.CertPEM, "tls.key": leaf.KeyPEM, "ca.crt": ca.CertPEM} {
			if err := os.WriteFile(filepath.Join(volume, folder, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(folder, filepath.Join(volume, "..next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(volume, "..next"), filepath.Join(volume, "..data")); err != nil {
			t.Fatal(err)
		}
		if round > 0 {
			if err := os.RemoveAll(filepath.Join(volume, fmt.Sprintf("..%d", round-1))); err != nil {
				t.Fatal(err)
			}
		}
		trusted := x509.NewCertPool()
		trusted.AddCert(ca.Cert)
		return trusted
	}
	trusted := renew(0)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	d := startDoor(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"), "--tls-cert", filepath.Join(volume, "tls.crt"), "--tls-key", filepath.Join(volume, "tls.key"))
	address := strings.TrimPrefix(d.URL, "https://")
	shows := func(trusted *x509.CertPool) error {
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := shows(trusted); err != nil {
		t.Fatal(err)
	}
	for round := 1; round <= 2; round++ {
		next := renew(round)
		deadline := time.After(3 * patience) // files are looked at once a minute where nothing tells of a change
		for err := shows(next); err != nil; err = shows(next) {
			if oldErr := shows(trusted); oldErr != nil && shows(next) != nil {
				t.Fatalf("neither certificate is served: %v", oldErr)
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-deadline:
				t.Fatalf("renewal %d is not served: %v", round, err)
			}
		}
		trusted = next
	}
}
