// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// outputURLs is what the operator sets.
func outputURLs(t testing.TB, w *sdktest.World) string {
	t.Helper()
	urls := map[string]string{}
	for _, f := range formats {
		urls[f.object] = w.URLs("/scan-u/" + f.object)[0]
	}
	text, err := json.Marshal(urls)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// reports runs the hook and returns what it stored, by name.
func reports(t testing.TB, w *sdktest.World, env map[string]string) map[string]sdktest.Operation {
	t.Helper()
	all := map[string]string{"OUTPUT_URLS": outputURLs(t, w)}
	maps.Copy(all, env)
	got := w.Run(t, Hook(), all)
	if got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	stored := map[string]sdktest.Operation{}
	for _, o := range got.Operations[1:] {
		if o.Method != http.MethodPut || o.Length != int64(len(o.Body)) {
			t.Errorf("%s %s announces %d bytes and has %d", o.Method, o.Path, o.Length, len(o.Body))
		}
		stored[strings.TrimPrefix(o.Path, "/scan-u/")] = o
	}
	return stored
}

const exampleScan = `{"metadata":{"name":"nightly-1893499200","namespace":"team","uid":"u","creationTimestamp":"2030-01-01T11:00:00Z"},` +
	`"spec":{"scanType":"zap-automation-framework","parameters":["-autorun","/home/automation.yaml"]},"status":{"finishedAt":"2030-01-01T11:58:12Z"}}`

// variedFindings makes findings as scanners do, of all severities.
func variedFindings(count int) []byte {
	names := []string{"SQL Injection", "Cross Site Scripting (Reflected)", "Missing Content Security Policy", "Cookie Without Secure Flag", "Server Leaks Version Information", "Open Port: 443 (https)", "Outdated TLS 1.0 is enabled", "Directory Listing", "Weak Password Found", "Vulnerable JavaScript Library"}
	categories := []string{"Injection", "Cross Site Scripting", "Missing Header", "Cookie", "Information Leak", "Open Port", "Outdated TLS Version", "Misconfiguration", "Discovered Credentials", "Vulnerable Dependency"}
	severities := []string{"HIGH", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "INFORMATIONAL", "MEDIUM", "LOW", "HIGH", "MEDIUM"}
	var out strings.Builder
	out.WriteByte('[')
	for i := range count {
		if i > 0 {
			out.WriteByte(',')
		}
		k := (i*i + i/7) % len(names)
		if i%3 != 0 {
			k = 4 + i%2
		}
		fmt.Fprintf(&out, `{"id":"%08x-0000-5000-8000-000000000000","name":%q,"category":%q,"severity":%q,"location":"https://shop-%d.example.com/app/%s","description":"The response of this page shows it. Number %d.\nSecond line.","mitigation":"Change the settings of the server.","references":[{"type":"CVE","value":"CVE-2029-%04d"},{"type":"URL","value":"https://cve.example.org/CVE-2029-%04d"}],"attributes":{"port":443,"confidence":"Medium","cwe":%d,"evidence":{"header":"Server: x","line":%d}},"identified_at":"2030-01-01T11:30:00Z"}`,
			i, names[k], categories[k], severities[k], i%17, strings.ToLower(categories[k][:4]), i, i%9999, i%9999, 20+i%70, i)
	}
	out.WriteByte(']')
	return []byte(out.String())
}
