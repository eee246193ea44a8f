// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// outputURLs is what the operator sets.
func outputURLs(t testing.TB, w *sdktest.World) string {
	t.Helper()
	urls := map[string]string{}
	for _, f := range report.Formats() {
		urls[f.Object] = w.URLs("/scan-u/" + f.Object)[0]
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
