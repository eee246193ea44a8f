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

// TestSeries: samples of one metric are read by their labels, and pods that were made are told from other requests.
func TestSeries(t *testing.T) {
	text := `# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 3
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 5
apiserver_request_total{code="403",resource="pods",subresource="",verb="POST"} 7
apiserver_request_total_more{code="201",resource="pods",subresource="",verb="POST"} 11
rest_client_requests_total{code="200",host="[::1]:6443",method="GET"} 1.3e+01
`
	got, err := series(strings.NewReader(text), "apiserver_request_total")
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	sum := 0.0
	for labels, n := range got {
		if podCreated(labels) {
			sum += n
		}
	}
	if sum != 3 {
		t.Errorf("%v pods were made, want 3", sum)
	}
	got, err = series(strings.NewReader(text), "rest_client_requests_total")
	if diff := cmp.Diff(map[string]float64{`code="200",host="[::1]:6443",method="GET"`: 13}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := series(strings.NewReader(`m{a="b"} much`), "m"); err == nil {
		t.Error("a sample without a number is taken")
	}
}
