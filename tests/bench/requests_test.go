// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRequests: who made which request is read from the audit log, from where it was read before.
func TestRequests(t *testing.T) {
	event := func(agent, user, verb, object string) string {
		return `{"verb":"` + verb + `","userAgent":"` + agent + `","user":{"username":"` + user + `"},"objectRef":` + object + "}\n"
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	l := &auditLog{file: file}
	if err := l.skip(); err != nil {
		t.Fatal(err)
	}
	before := event("operator/v1", "admin", "create", `{"resource":"jobs"}`)
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.skip(); err != nil {
		t.Fatal(err)
	}
	after := event("operator/v1", "admin", "patch", `{"resource":"scans","subresource":"status"}`) +
		event("operator/v1", "admin", "get", `{"resource":"roles"}`) +
		event("hook/v1", "system:serviceaccount:a:scan-1", "get", `{"resource":"scans"}`) +
		event("localcluster/v1/generic-garbage-collector", "admin", "delete", `{"resource":"roles"}`) +
		event("localcluster/v1/job-controller", "admin", "create", `{"resource":"pods"}`) +
		event("localcluster/v1", "admin", "patch", `{"resource":"pods","subresource":"status"}`)
	if err := os.WriteFile(file, []byte(before+after+`{"verb":"ge`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := l.read()
	want := map[request]int{
		{"operator", "patch", "scans/status"}: 1, {"operator", "get", "roles"}: 1, {"pods", "get", "scans"}: 1,
		{"garbage collector", "delete", "roles"}: 1, {"Job controller", "create", "pods"}: 1, {"other parts of Kubernetes", "patch", "pods/status"}: 1,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	var out strings.Builder
	printRequests(&out, got, 2)
	if !strings.Contains(out.String(), "patch scans/status") || !strings.Contains(out.String(), "0.50") {
		t.Error(out.String())
	}
}
