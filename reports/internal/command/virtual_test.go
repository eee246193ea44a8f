// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/openreports/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

const testToken = "token-of-the-admin"

// door serves on a new database until the test ends, and returns the URL.
func door(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte(testToken+",admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	said, tell := io.Pipe()
	cmd := New(tell, func(string) string { return "" })
	cmd.SetArgs([]string{"--standalone", "--http", "--sqlite", filepath.Join(dir, "reports.db"), "--token-file", tokens})
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		tell.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var where struct{ URL string }
	if err := json.Unmarshal([]byte(line), &where); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return where.URL
}

// ask sends a request as the administrator and reads the answer.
func ask(t *testing.T, method, url, body string, answer any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s, %v\n%s", method, url, response.Status, err, content)
	}
	if err := json.Unmarshal(content, answer); err != nil {
		t.Fatal(err)
	}
}

// TestImportsAreServed holds that a report which is imported in one group is there in both, with its uid.
func TestImportsAreServed(t *testing.T) {
	url := door(t)
	object := `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"namespace":"team","name":"a","uid":"uid-a","generation":4,
		"creationTimestamp":"2025-01-02T03:04:05Z","finalizers":["example.com/keep"]},"results":[{"policy":"one","result":"fail"}]}`
	bad := strings.NewReplacer(`"a"`, `"A B"`, "uid-a", "uid-b", `"fail"`, `"perhaps"`).Replace(object)
	var answer reportsv1.ReportImport
	ask(t, http.MethodPost, url+"/apis/reports.scanyard.io/v1alpha1/reportimports",
		`{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"ReportImport","metadata":{"name":"x"},"spec":{"objects":[`+object+`,`+bad+`],"minResourceVersion":5000000}}`, &answer)
	if got := answer.Status.Objects; len(got) != 2 || got[0].Result != reportsv1.ImportCreated || got[1].Result != reportsv1.ImportInvalid {
		t.Fatalf("answer %+v", answer.Status)
	}
	for _, mistake := range []string{"metadata.name", "results[0].result"} {
		if !strings.Contains(answer.Status.Objects[1].Message, mistake) {
			t.Errorf("%s is missing in %q", mistake, answer.Status.Objects[1].Message)
		}
	}
	if answer.Status.ResourceVersion != "5000000" || answer.Status.FreeBytes == nil || *answer.Status.FreeBytes <= 0 {
		t.Errorf("counter %s, free %v", answer.Status.ResourceVersion, answer.Status.FreeBytes)
	}
	for _, path := range []string{"wgpolicyk8s.io/v1alpha2/namespaces/team/policyreports/a", "openreports.io/v1alpha1/namespaces/team/reports/a"} {
		var got v1alpha1.Report
		ask(t, http.MethodGet, url+"/apis/"+path, "", &got)
		if got.UID != "uid-a" || got.Generation != 4 || len(got.Finalizers) != 1 || len(got.Results) != 1 || got.CreationTimestamp.Year() != 2025 {
			t.Errorf("%s: %+v", path, got)
		}
	}
	var list v1alpha1.ReportList
	ask(t, http.MethodGet, url+"/apis/openreports.io/v1alpha1/reports?resourceVersion=5000000&resourceVersionMatch=Exact", "", &list)
	if len(list.Items) != 1 || list.ResourceVersion != "5000000" {
		t.Errorf("as of the raise: %d items at %s", len(list.Items), list.ResourceVersion)
	}
}
