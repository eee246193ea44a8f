// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

// twoRuns are two runs of one scan: "old" and "stays" before, "stays" and "fresh" now.
func twoRuns(t *testing.T) *consoletest.World {
	t.Helper()
	w := consoletest.New(t,
		consoletest.Namespace("team-blue"), consoletest.Namespace("team-red"),
		consoletest.Scan("team-blue", "run-1", "nmap", 26*time.Hour, sameTarget, consoletest.Found(2, 0, 0, 0)),
		consoletest.Scan("team-blue", "run-2", "nmap", 2*time.Hour, sameTarget, consoletest.Found(2, 0, 0, 0)),
		consoletest.Scan("team-red", "only", "nmap", 2*time.Hour, consoletest.Found(1, 0, 0, 0)),
	)
	w.Store(scanIn(t, w, "team-blue", "run-1"), consoletest.Finding("old", "HIGH"), consoletest.Finding("stays", "HIGH"))
	w.Store(scanIn(t, w, "team-blue", "run-2"), consoletest.Finding("stays", "HIGH"), consoletest.Finding("fresh", "LOW"))
	w.Store(scanIn(t, w, "team-red", "only"), consoletest.Finding("alone", "HIGH"))
	return w.Enter()
}

func sameTarget(s *executionv1.Scan) { s.Spec.Parameters = []string{"shop.example"} }

func TestFindingsByStatus(t *testing.T) {
	for _, store := range []bool{false, true} {
		w := twoRuns(t)
		if store {
			w.Rows = []reportsv1alpha1.FindingRow{row("stays", 20), row("fresh", 1), row("alone", 2)}
		}
		for status, want := range map[string]string{"new": "fresh", "known": "stays", "fixed": "old"} {
			a := w.Get("/findings?ns=team-blue&status=" + status)
			has(t, a, ">"+want+"</a>")
			for _, other := range []string{"old", "stays", "fresh"} {
				if other != want {
					lacks(t, a, ">"+other+"</a>")
				}
			}
		}
		csv := w.Get("/findings/export?ns=team-blue&status=fixed&format=csv")
		if !strings.Contains(csv.Body, "old") || strings.Contains(csv.Body, "stays") {
			t.Errorf("the file of what is fixed has %q", csv.Body)
		}
	}
}

// TestFindingsOfOneRun shows what one run has stored, also an earlier one, with the reports API as without it.
func TestFindingsOfOneRun(t *testing.T) {
	for _, store := range []bool{false, true} {
		w := twoRuns(t)
		if store {
			w.Rows = []reportsv1alpha1.FindingRow{row("stays", 20), row("fresh", 1)}
		}
		has(t, w.Get("/scans/team-blue/run-1"), `href="/findings?ns=team-blue&amp;scan=run-1"`)
		a := w.Get("/findings?ns=team-blue&scan=run-1")
		has(t, a, ">old</a>", ">stays</a>", "of the run run-1 ✕", `name="scan" value="run-1"`)
		lacks(t, a, ">fresh</a>", ">alone</a>")
		csv := w.Get("/findings/export?ns=team-blue&scan=run-1&format=csv")
		if !strings.Contains(csv.Body, "old") || strings.Contains(csv.Body, "fresh") {
			t.Errorf("the file of the run has %q", csv.Body)
		}
	}
}

func TestHiddenColumns(t *testing.T) {
	w := consoletest.Full(t).Enter()
	w.Rows = consoletest.Rows(10)
	has(t, w.Get("/findings"), `>Scanner</th>`, `value="scanner"><span>scanner</span>`)
	a := w.Get("/findings?hide=scanner&hide=seen&hide=name")
	has(t, a, `value="scanner" checked>`, `<th scope="col">Finding</th>`)
	lacks(t, a, `>Scanner</th>`, `<th scope="col">First seen</th>`)
}

func row(name string, days int) reportsv1alpha1.FindingRow {
	return reportsv1alpha1.FindingRow{
		Namespace: "team-blue", Report: "run-2-00", Kind: "PolicyReport", Index: new(int32(0)), Source: "scanyard/nmap", Policy: "Open Port", Rule: name,
		Severity: "high", Result: "fail", FirstSeen: stamp(-time.Duration(days) * 24 * time.Hour),
	}
}

func TestFindingsOfImages(t *testing.T) {
	w := consoletest.WithRegistries(t).Enter()
	of := func(rule, digest string) reportsv1alpha1.FindingRow {
		return reportsv1alpha1.FindingRow{
			Namespace: "team-blue", Report: "api-12", Image: "api-12", Kind: "VulnerabilityReport", Index: new(int32(0)), Policy: "CVE-2024-1", Rule: rule,
			Severity: "high", Result: "fail", Resource: &reportsv1alpha1.ResourceRef{Kind: "Image", Name: digest},
		}
	}
	const digest = "sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
	w.Rows = []reportsv1alpha1.FindingRow{of("openssl", digest), of("zlib", digest), of("zlib", "sha256:ff"), row("port", 1)}
	lacks(t, w.Get("/findings?of=scans"), ">openssl</a>")
	all := w.Get("/findings?of=images")
	has(t, all, `name="package" value="zlib"`, `name="image" value="`+digest+`"`, "shop/api:")
	lacks(t, all, ">port</a>")
	lacks(t, w.Get("/findings?package=openssl"), ">zlib</a>")
	has(t, w.Get("/findings?image="+digest), ">openssl</a>", "image shop/api:")
	lacks(t, w.Get("/findings?package=zlib&image="+digest), "2 findings")
}

func TestRunsOfAFinding(t *testing.T) {
	w := twoRuns(t)
	a := w.Get("/findings/fp-stays?ns=team-blue&scan=run-2")
	has(t, a, "First seen", "or before", "2 runs", `href="/scans/team-blue/run-1"`)
	a = w.Get("/findings/fp-fresh?ns=team-blue&scan=run-2")
	has(t, a, "not found", "run-1")
	lacks(t, a, "or before")
	gone := scanIn(t, w, "team-blue", "run-1")
	gone.Status.FindingDownloadLink += ".gone"
	if err := w.Client.Status().Update(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	has(t, w.Get("/findings/fp-stays?ns=team-blue&scan=run-2"), "cannot be read")
}

func TestSeveralAreExceptedAtOnce(t *testing.T) {
	w := twoRuns(t)
	list := w.Get("/findings")
	has(t, list, `name="stored" value="team-blue/fp-stays"`, "Except the chosen")
	form := w.Get("/exceptions/new?" + url.Values{"stored": {"team-blue/fp-stays", "team-blue/fp-fresh"}}.Encode())
	has(t, form, "for 2 findings", "fp-stays\nfp-fresh", `value="team-blue"`)
	form = w.Get("/exceptions/new?" + url.Values{"stored": {"team-blue/fp-stays", "team-red/fp-alone"}}.Encode())
	has(t, form, "several namespaces", "team-blue\nteam-red", `name="cluster" value="yes" checked`)

	r := &wgpolicyv1alpha2.PolicyReport{}
	r.Namespace, r.Name, r.Labels = "team-blue", "run-2-00", map[string]string{"scanyard.io/scan": "run-2"}
	r.Results = []wgpolicyv1alpha2.PolicyReportResult{{Properties: map[string]string{"id": "id-stays"}}, {Properties: map[string]string{"id": "gone"}}}
	if err := w.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.Rows = []reportsv1alpha1.FindingRow{row("stays", 20)}
	has(t, w.Get("/findings"), `name="reported" value="team-blue/run-2-00/0"`)
	form = w.Get("/exceptions/new?" + url.Values{"reported": {"team-blue/run-2-00/0", "team-blue/run-2-00/1"}}.Encode())
	has(t, form, "for 1 finding", "fp-stays", "1 finding cannot be told by a fingerprint")
	if a := w.Get("/exceptions/new?reported=x"); a.Code != 400 {
		t.Errorf("a finding that is none answers %d", a.Code)
	}
}

func TestExceptionsOfTheClusterByLabels(t *testing.T) {
	w := twoRuns(t)
	red := consoletest.Namespace("team-red")
	if err := w.Client.Get(t.Context(), clientKey("", "team-red"), red); err != nil {
		t.Fatal(err)
	}
	red.Labels = map[string]string{"stage": "test"}
	if err := w.Client.Update(t.Context(), red); err != nil {
		t.Fatal(err)
	}
	fields := []string{
		"status", "Accepted", "reason", "Test clusters are torn down at night.", "expires", "2027-01-31", "references", "CVE-2024-3094", "severities", "HIGH",
		"cluster", "yes", "namespaceLabels", "stage in (test, dev)", "name", "of-tests",
	}
	a := w.Post("/exceptions/new", "/exceptions", append(fields, "do", "preview")...)
	has(t, a, "It would match 1 finding of the newest runs", "alone")
	if a := w.Post("/exceptions/new", "/exceptions", append(fields, "do", "make")...); a.Path != "/clusterexceptions/of-tests" {
		t.Fatalf("making it leads to %s:\n%s", a.Path, a.Body)
	}
	made := &settingsv1alpha2.ClusterFindingException{}
	if err := w.Client.Get(t.Context(), clientKey("", "of-tests"), made); err != nil {
		t.Fatal(err)
	}
	if made.Spec.Scope == nil || len(made.Spec.Scope.NamespaceSelector.MatchExpressions) != 1 {
		t.Errorf("its scope is %+v", made.Spec.Scope)
	}
	lacks(t, w.Get("/findings"), ">alone</a>")
	has(t, w.Get("/findings?status=excepted"), ">alone</a>")
	fields[11] = "" // for one namespace
	if a := w.Post("/exceptions/new", "/exceptions", append(fields, "namespace", "team-red", "do", "make")...); !strings.Contains(a.Body, "only an exception of the whole cluster") {
		t.Errorf("labels of namespaces are dropped silently:\n%s", a.Body)
	}
}

func stamp(ago time.Duration) *metav1.Time { return new(metav1.NewTime(consoletest.Noon.Add(ago))) }

func clientKey(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

func scanIn(t *testing.T, w *consoletest.World, namespace, name string) *executionv1.Scan {
	t.Helper()
	s := &executionv1.Scan{}
	if err := w.Client.Get(t.Context(), clientKey(namespace, name), s); err != nil {
		t.Fatal(err)
	}
	return s
}
