// SPDX-License-Identifier: Apache-2.0

package container_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/scanyard/scanyard/parsers/sdk/container"
)

// TestEncryptedResultsAreParsedTwice has passwords encrypted anew each time that the result is parsed: to count, to
// upload, and to upload again after a fault. What is stored is whole, and ids do not change.
func TestEncryptedResultsAreParsedTwice(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "public.key")
	if err := os.WriteFile(key, []byte(identity.Recipient().String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const pairs = 50
	var raw strings.Builder
	raw.WriteString(`<ncrackrun><service><address addr="192.0.2.1"/><port portid="22" name="ssh" protocol="tcp"/>`)
	for i := range pairs {
		fmt.Fprintf(&raw, `<credentials username="user-%d" password="secret-%d"/>`, i, i)
	}
	raw.WriteString(`</service></ncrackrun>`)

	ids := map[int]map[string]bool{} // of each pair, over all runs
	for name, limit := range map[string]int{"Kept": 1 << 20, "Streamed": 1000} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, raw.String(), "ncrack-xml")
			w.faults = func(rw http.ResponseWriter, r *http.Request, n int) bool {
				if r.Method != http.MethodPut || n > 1 {
					return false
				}
				s3Error(rw, http.StatusServiceUnavailable, "SlowDown", "slow")
				return true
			}
			err := w.run(t, func(c *container.Config) {
				c.BufferLimit = limit
				c.Env = func(name string) string { return map[string]string{"ENCRYPTION_KEY_LOCATION": key}[name] }
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []struct {
				ID         string
				Attributes struct{ Password string }
			}
			if err := json.Unmarshal(w.findings, &got); err != nil || len(got) != pairs || w.status("findings", "count") != float64(pairs) {
				t.Fatalf("%v: %s", err, w.findings)
			}
			for i, f := range got {
				if plain := decrypt(t, identity, f.Attributes.Password); plain != fmt.Sprintf("secret-%d", i) {
					t.Errorf("pair %d: got %q", i, plain)
				}
				if ids[i] == nil {
					ids[i] = map[string]bool{}
				}
				ids[i][f.ID] = true
			}
		})
	}
	for i := range pairs {
		if len(ids[i]) != 1 {
			t.Errorf("pair %d has ids %v", i, ids[i])
		}
	}
}

func decrypt(t *testing.T, identity age.Identity, armored string) string {
	t.Helper()
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(armored)), identity)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}
