// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

// has says what a page must show.
func has(t *testing.T, a consoletest.Answer, texts ...string) {
	t.Helper()
	if a.Code != http.StatusOK {
		t.Errorf("%s answers %d", a.Path, a.Code)
	}
	for _, text := range texts {
		if !strings.Contains(a.Body, text) {
			t.Errorf("%s does not show %q:\n%s", a.Path, text, a.Body)
		}
	}
}

func TestPagesNeedSession(t *testing.T) {
	w := consoletest.Full(t)
	for _, path := range []string{"/", "/findings", "/scans", "/scans/team-blue/nmap-shop", "/findings/export?format=csv", "/nowhere"} {
		if a := w.Get(path); !strings.HasPrefix(a.Path, "/login") || strings.Contains(a.Body, "team-blue") {
			t.Errorf("%s leads to %s", path, a.Path)
		}
	}
	door := w.Door()
	w.Enter()
	has(t, w.Get("/"), "Overview")
	other := consoletest.Full(t)
	if a := other.Get(strings.TrimPrefix(door, w.URL)); !strings.HasPrefix(a.Path, "/login") {
		t.Error("the code of one console opens another")
	}
}

func TestHeaders(t *testing.T) {
	h := consoletest.Full(t).Enter().Get("/").Header
	for name, want := range map[string]string{
		"Cache-Control": "private, no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy := h.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is %q", policy)
	}
}

func TestOverview(t *testing.T) {
	w := consoletest.Full(t).Enter()
	has(t, w.Get("/"), "charts/reports", "nmap-office", "nuclei-api", "There is no ScanType zap in team-red", "accepted-tls", "exit code 1")
	w.Rows = consoletest.Rows(500)
	has(t, w.Get("/"), "Open findings, 90 days", "in 7 days", "The same in figures", "shop")
	has(t, w.Get("/?ns=platform"), "in platform", "Nothing runs.")
}

func TestFindingsOfTheStore(t *testing.T) {
	w := consoletest.Full(t).Enter()
	w.Rows = consoletest.Rows(500)
	first := w.Get("/findings?severity=high")
	has(t, first, "High", "Next page", "/findings/reported?index=", `name="ns" value="team-red"`)
	has(t, w.Get("/findings?ns=team-red"), "in team-red ✕", `name="ns" value="team-red" checked`)
	if strings.Contains(first.Body, `<span class="tag c2">`) {
		t.Error("the filter keeps medium findings")
	}
	_, rest, _ := strings.Cut(first.Body, `href="/findings?after=`)
	next, _, _ := strings.Cut(rest, `"`)
	has(t, w.Get("/findings?after="+strings.ReplaceAll(next, "&amp;", "&")), "First page")
	has(t, w.Get("/findings?policy=CVE-1999-1"), "No findings match.", "Clear the filter")
	has(t, w.Get("/findings?q=it%27s"), "No findings match.")
}

func TestFindingsOfScans(t *testing.T) {
	w := consoletest.Full(t).Enter()
	has(t, w.Get("/findings"), "of the newest run", "Outdated OpenSSL", "Open port 22", "3 findings")
	if a := w.Get("/findings?severity=high&q=openssl"); strings.Contains(a.Body, "Open port 22") {
		t.Error("the filter keeps too much")
	}
	has(t, w.Get("/findings/fp-Outdated-OpenSSL?ns=team-blue&scan=nmap-shop"),
		"What Outdated OpenSSL is", "Update the package.", "Example CA", "b.example", "CVE-2024-3094", "--fingerprint fp-Outdated-OpenSSL --status")
	if a := w.Get("/findings/fp-Outdated-OpenSSL"); a.Code != http.StatusNotFound || !strings.Contains(a.Body, "which Scan the finding is of") {
		t.Errorf("a finding of no Scan answers %d:\n%s", a.Code, a.Body)
	}
	if a := w.Get("/findings/none?ns=team-blue&scan=nmap-shop"); a.Code != http.StatusNotFound {
		t.Errorf("a finding that is not there answers %d", a.Code)
	}
}

func TestExports(t *testing.T) {
	for _, store := range []bool{false, true} {
		w := consoletest.Full(t).Enter()
		want := 3 // one is excepted
		if store {
			w.Rows, want = consoletest.Rows(2500), 0
			for _, r := range w.Rows {
				if !r.Suppressed {
					want++
				}
			}
		}
		csv := w.Get("/findings/export?format=csv")
		if got := strings.Count(csv.Body, "\r\n") - 1; got != want || !strings.Contains(csv.Header.Get("Content-Disposition"), "findings.csv") {
			t.Errorf("CSV has %d rows, want %d", got, want)
		}
		var rows []map[string]string
		if err := json.Unmarshal([]byte(w.Get("/findings/export?format=json").Body), &rows); err != nil || len(rows) != want {
			t.Errorf("JSON has %d rows, want %d: %v", len(rows), want, err)
		}
		var sarif struct {
			Runs []struct{ Results []any }
		}
		if err := json.Unmarshal([]byte(w.Get("/findings/export?format=sarif").Body), &sarif); err != nil || len(sarif.Runs) != 1 || len(sarif.Runs[0].Results) != want {
			t.Errorf("SARIF is %+v: %v", sarif, err)
		}
		if a := w.Get("/findings/export?format=exe"); a.Code != http.StatusBadRequest {
			t.Errorf("an unknown format answers %d", a.Code)
		}
	}
}

func TestScans(t *testing.T) {
	w := consoletest.Full(t).Enter()
	has(t, w.Get("/scans"), "9 scans", "1 running, 1 waiting, 2 failed", "2 of 5 in the queue")
	if a := w.Get("/scans?state=errored&type=trivy"); !strings.Contains(a.Body, "trivy-web") || strings.Contains(a.Body, "nmap-shop") {
		t.Error("the filter does not filter")
	}
	has(t, w.Get("/scans/team-blue/nmap-shop"), "nmap-shop", "51 findings", "scanner", "parser", "Scan again", "findings.json")
	has(t, w.Get("/scans/team-blue/nightly-2"), "no route to host", "failed", "nightly")
	if a := w.Get("/scans/team-blue/none"); a.Code != http.StatusNotFound {
		t.Errorf("a Scan that is not there answers %d", a.Code)
	}
}

func scan(t *testing.T, w *consoletest.World, name string) *executionv1.Scan {
	t.Helper()
	s := &executionv1.Scan{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "team-blue", Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestActionsOfScans(t *testing.T) {
	w := consoletest.Full(t).Enter()
	const running, done = "/scans/team-blue/nmap-office", "/scans/team-blue/nmap-shop"
	w.Post(running, running+"/cancel")
	if !scan(t, w, "nmap-office").Cancelled() {
		t.Error("the Scan is not cancelled")
	}
	w.Post(running, running+"/suspend", "suspend", "true")
	if s := scan(t, w, "nmap-office").Spec.Suspend; s == nil || !*s {
		t.Error("the Scan is not suspended")
	}
	w.Post(done, done+"/retry", "phase", "parser")
	if got := scan(t, w, "nmap-shop").Annotations[executionv1.AnnotationRerun]; !strings.HasPrefix(got, "parser@2026-11-23T12:00:00") {
		t.Errorf("the re-run is %q", got)
	}
	if a := w.Post(done, done+"/retry", "phase", "hook/none"); a.Code != http.StatusBadRequest {
		t.Errorf("a hook that is not there answers %d", a.Code)
	}
	if a := w.Post(done, done+"/cancel"); a.Code != http.StatusConflict {
		t.Errorf("cancelling what has ended answers %d", a.Code)
	}
	if a := w.Post(done, done+"/again"); a.Path != "/scans/team-blue/nmap-made" {
		t.Errorf("scanning again leads to %s", a.Path)
	}
	if a := w.Post("/scans/new", "/scans", "namespace", "team-blue", "type", "zap", "parameters", "-t\r\n\r\nhttps://shop.example\r\n"); a.Path != "/scans/team-blue/zap-made" {
		t.Errorf("starting leads to %s", a.Path)
	}
	if got := strings.Join(scan(t, w, "zap-made").Spec.Parameters, " "); got != "-t https://shop.example" {
		t.Errorf("the parameters are %q", got)
	}
	if a := w.Post(done, done+"/delete"); a.Path != "/scans" {
		t.Errorf("deleting leads to %s", a.Path)
	}
	if a := w.Get(done); a.Code != http.StatusNotFound {
		t.Errorf("a deleted Scan answers %d", a.Code)
	}
}

func TestChangesNeedTheTokenOfTheSession(t *testing.T) {
	w := consoletest.Full(t).Enter()
	response, err := w.Browser.PostForm(w.URL+"/scans/team-blue/nmap-office/cancel", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden || scan(t, w, "nmap-office").Cancelled() {
		t.Errorf("a form without the token answers %d", response.StatusCode)
	}
}

func TestMissingRightsAreNamed(t *testing.T) {
	w := consoletest.Full(t).Enter()
	w.Denied = []string{"list scans", "patch scans team-blue", "delete scans team-blue", "create scans team-blue"}
	has(t, w.Get("/scans?ns=team-blue"), "You may not list scans.execution.securecodebox.io in team-blue.")
	has(t, w.Get("/scans/team-blue/nmap-office?ns=platform"), "You may not patch, delete, create scans.execution.securecodebox.io in team-blue.", "disabled")
	w.Denied = []string{"patch scans"}
	if a := w.Post("/scans", "/scans/team-blue/nmap-office/cancel"); a.Code != http.StatusForbidden || !strings.Contains(a.Body, "cannot patch scans") {
		t.Errorf("a change without the right answers %d", a.Code)
	}
}

// TestFiltersKeepTheNamespace: a filter must not show what another namespace has, where the address names one.
func TestFiltersKeepTheNamespace(t *testing.T) {
	w := consoletest.Full(t).Enter()
	for _, page := range []string{"/scans", "/schedules", "/exceptions", "/images/who", "/teams"} {
		const kept = `<input type="hidden" name="ns" value="team-red">`
		has(t, w.Get(page+"?ns=team-red"), kept)
		if strings.Contains(w.Get(page).Body, kept) {
			t.Errorf("%s names a namespace that its address does not name", page)
		}
	}
}

func TestScopeAndTheme(t *testing.T) {
	w := consoletest.Full(t).Enter()
	if a := w.Post("/", "/scope", "namespaces", "team-red", "back", "/scans?ns=team-blue&state=done"); a.Path != "/scans?state=done" {
		t.Errorf("choosing leads to %s", a.Path)
	}
	if a := w.Get("/scans"); strings.Contains(a.Body, "nmap-shop") || !strings.Contains(a.Body, "gitleaks-api") {
		t.Error("the list does not follow the choice")
	}
	if a := w.Post("/", "/scope", "namespaces", "Not_A_Name"); a.Code != http.StatusBadRequest {
		t.Errorf("a name that is none answers %d", a.Code)
	}
	w.Post("/", "/theme", "theme", "dark", "back", "/scans")
	has(t, w.Get("/"), `data-theme="dark"`)
	for _, back := range []string{"https://evil.example", "//evil.example", `/\evil.example`, ""} {
		if a := w.Post("/", "/theme", "theme", "light", "back", back); a.Path != "/" {
			t.Errorf("%q leads to %s", back, a.Path)
		}
	}
}

// TestHostileTextIsText shows hostile texts on every page that shows foreign text.
func TestHostileTextIsText(t *testing.T) {
	for _, hostile := range consoletest.Hostile {
		bad := consoletest.Scan("team-blue", "bad", "nmap", 0, consoletest.Failed(hostile))
		bad.Spec.Parameters = []string{hostile}
		good := consoletest.Scan("team-blue", "good", "nmap", 0, consoletest.Found(1, 0, 0, 0))
		good.Spec.Parameters = []string{"-x", hostile}
		good.Status.Findings.FindingCategories = map[string]int64{hostile: 1}
		excepted := consoletest.Exception("team-blue", "bad", time.Hour)
		excepted.Spec.Reason, excepted.Spec.Ticket, excepted.Spec.Reviewer, excepted.Status.CreatedBy = hostile, hostile, hostile, hostile
		excepted.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: []string{hostile}, Expression: hostile}}
		w := consoletest.New(t, consoletest.Namespace("team-blue"), bad, good, excepted).Enter()
		f := consoletest.Finding("f", "HIGH")
		for _, key := range []string{"name", "description", "mitigation", "location", "category"} {
			f[key] = hostile
		}
		f["references"] = []any{map[string]any{"type": hostile, "value": hostile}}
		f["attributes"] = map[string]any{hostile: map[string]any{hostile: []any{hostile}}}
		w.Store(good, f)
		check := func(path string) {
			t.Helper()
			body := w.Get(path).Body
			for _, bad := range []string{"<script>d", "<img src=https", "<svg/onload", `href="javascript:`, "<iframe", "\x1b"} {
				if strings.Contains(body, bad) {
					t.Errorf("%s has %q", path, bad)
				}
			}
		}
		for _, path := range []string{
			"/", "/scans", "/scans/team-blue/bad", "/scans/team-blue/good", "/findings", "/findings/fp-f?ns=team-blue&scan=good",
			"/exceptions", "/exceptions/team-blue/bad", "/exceptions/new?finding=" + url.QueryEscape(hostile) + "&names=" + url.QueryEscape(hostile),
		} {
			check(path)
		}
		rows := consoletest.Rows(3)
		for i := range rows {
			rows[i].Rule, rows[i].Policy, rows[i].Category, rows[i].Message, rows[i].Resource.Name, rows[i].Source = hostile, hostile, hostile, hostile, hostile, hostile
		}
		w.Rows = rows
		check("/")
		check("/findings?q=x")
		check("/findings")
	}
}
