// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Without the database the server is alive, tells what it serves, and refuses the rest with 503.
func TestDatabaseUnavailable(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.PostgreSQL, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			config, proxy := dbtest.Proxied(t, driver)
			d := serve(t, config, nil)
			d.create(t, policyReports, "team-a", report("a"))
			proxy.Down()
			eventually(t, d, "/readyz", http.StatusInternalServerError)
			for _, open := range []string{"/livez", "/version", "/apis", "/apis/wgpolicyk8s.io/v1alpha2", "/openapi/v2", "/openapi/v3"} {
				d.ask(t, request{path: open}).is(http.StatusOK)
			}
			for _, r := range []request{
				{path: path(policyReports, "team-a")},
				{path: path(policyReports, "team-a") + "/a"},
				{method: http.MethodPost, path: path(policyReports, "team-a"), body: report("b")},
			} {
				if got := d.ask(t, r).is(http.StatusServiceUnavailable); got.header.Get("Retry-After") == "" {
					t.Errorf("%s: no Retry-After: %s", r.path, got.body)
				}
			}
			proxy.Up(t)
			eventually(t, d, "/readyz", http.StatusOK)
			d.ask(t, request{path: path(policyReports, "team-a") + "/a"}).is(http.StatusOK)
			d.create(t, policyReports, "team-a", report("c"))
		})
	}
}

func eventually(t *testing.T, d *door, where string, code int) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for d.ask(t, request{path: where}).code != code {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s never answers %d", where, code)
		}
	}
}
