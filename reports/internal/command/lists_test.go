// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Row 21 of the fault list: of 10,000 reports of 100 KB the whole list is refused by its bytes, with what to do instead. Pages
// are served, and what a selector leaves. The same holds of few reports that are larger, and lie compressed in little space.
// None of it takes more than 400 MiB of memory.
func TestListsOfManyBytes(t *testing.T) {
	const (
		many, large  = 10_000, 100 << 10
		few, largest = 300, 3 << 20
		mostKiB      = 400 << 10
		everywhere   = "/apis/wgpolicyk8s.io/v1alpha2/policyreports"
		ofMany       = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/team-a/policyreports"
		ofFew        = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/team-b/policyreports"
	)
	t.Setenv("GOMEMLIMIT", chartMemory(t))
	file := filepath.Join(t.TempDir(), "reports.db")
	server := start(t, "--sqlite", file)
	for path, size := range map[string]int{ofMany: large, ofFew: largest} {
		if code, said := server.do("admin-token", http.MethodPost, path, largeReport("report", size)); code != http.StatusCreated {
			t.Fatalf("create: %d %s", code, said[:min(len(said), 300)])
		}
	}
	server.stop()
	multiply(t, file, "team-a", many-1)
	multiply(t, file, "team-b", few-1)
	server = start(t, "--sqlite", file)

	for _, path := range []string{everywhere, ofMany, ofFew} {
		code, said := server.do("admin-token", http.MethodGet, path, "")
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(said, "use limit and continue") {
			t.Errorf("%s: %d %s", path, code, said[:min(len(said), 300)])
		}
	}
	list := func(path string) (n int, more bool, remaining int) {
		t.Helper()
		code, said := server.do("admin-token", http.MethodGet, path, "")
		var list struct {
			Metadata struct {
				Continue           string
				RemainingItemCount int
			}
			Items []struct{}
		}
		if err := json.Unmarshal([]byte(said), &list); err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", path, code, said[:min(len(said), 300)], err)
		}
		return len(list.Items), list.Metadata.Continue != "", list.Metadata.RemainingItemCount
	}
	for path, all := range map[string]int{ofMany + "?limit=500": many, ofFew + "?limit=200": few, ofFew + "?limit=500": few} {
		if n, more, remaining := list(path); n == 0 || !more || n+remaining != all {
			t.Errorf("%s: %d reports, more: %t, and %d remain of %d", path, n, more, remaining, all)
		}
	}
	if n, more, _ := list(ofMany + "?fieldSelector=metadata.name=report"); n != 1 || more {
		t.Errorf("one of many: %d reports, more: %t", n, more)
	}
	most := server.used().Peak >> 10
	t.Logf("the server's memory was up to %d MiB", most>>10)
	if most > mostKiB {
		t.Errorf("the server's memory was up to %d MiB, want %d at most", most>>10, mostKiB>>10)
	}
}

// multiply adds copies of the one report of a namespace to a database.
func multiply(t *testing.T, file, namespace string, copies int) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Config{Driver: sqldb.SQLite, DSN: sqldb.Secret(file)})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
		_, err := tx.Exec(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO objects (id, "key", uid, kind, ns, name, rv, created, head, payload, size)
			SELECT id * 1000000 + i, "key" || '-' || i, uid || i, kind, ns, name || '-' || i, rv, created, head, payload, size FROM objects, n WHERE ns = ?`, copies, namespace)
		if err != nil {
			return err
		}
		_, err = tx.Exec(t.Context(), `UPDATE blobs SET refs = refs + ? WHERE sha IN (SELECT payload FROM objects WHERE ns = ?)`, copies, namespace)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
