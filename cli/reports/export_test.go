// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Each format asks for the document of the kind that has it, and passes on what comes.
func TestExport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/missing/") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"vulnerabilityreports.reports.scanyard.io \"missing\" not found",
				"reason":"NotFound","details":{"name":"missing","kind":"vulnerabilityreports"},"code":404}`)
			return
		}
		fmt.Fprintf(w, "%s %s", r.Method, r.URL)
	}))
	t.Cleanup(server.Close)
	const prefix = "GET /apis/reports.scanyard.io/v1alpha1/namespaces/team-a/"
	for name, tc := range map[string]struct {
		args      []string
		out, errs string
	}{
		"SARIF":     {[]string{"--sarif", "shop"}, prefix + "vulnerabilityreports/shop/sarif", ""},
		"Findings":  {[]string{"shop", "--jsonl"}, prefix + "vulnerabilityreports/shop/findings?format=jsonl", ""},
		"SPDX":      {[]string{"--spdx", "shop"}, prefix + "sboms/shop/document?format=spdx-json", ""},
		"CycloneDX": {[]string{"--cyclonedx", "shop"}, prefix + "sboms/shop/document?format=cyclonedx-json", ""},
		"NoFormat":  {[]string{"shop"}, "", "choose one of --sarif, --jsonl, --spdx and --cyclonedx"},
		"TwoOfThem": {[]string{"--spdx", "--sarif", "shop"}, "", "none of the others can be"},
		"NotThere":  {[]string{"--sarif", "missing"}, "", `"missing" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			s := newSession(t, &out)
			namespace := "team-a"
			s.ConfigFlags.APIServer, s.ConfigFlags.Namespace = &server.URL, &namespace
			cmd := NewReportsCommand(s)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{"export"}, tc.args...))
			err := cmd.ExecuteContext(t.Context())
			if out.String() != tc.out || (err == nil) != (tc.errs == "") || (err != nil && !strings.Contains(err.Error(), tc.errs)) {
				t.Errorf("printed %q, %v; want %q, %q", out.String(), err, tc.out, tc.errs)
			}
		})
	}
}
