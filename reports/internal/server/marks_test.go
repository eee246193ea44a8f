// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/registry/rest"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/marks"
	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// accepted are the exceptions of a test.
type accepted struct {
	list    []exception.Exception
	changed chan struct{}
}

func (a *accepted) Exceptions() ([]exception.Exception, bool) { return a.list, true }

func (a *accepted) Labels(string) map[string]string { return map[string]string{"env": "test"} }

func (a *accepted) Changed() <-chan struct{} { return a.changed }

func (a *accepted) suppressed(namespace, name string) *reportsv1.Suppressed {
	for i := range a.list {
		if e := &a.list[i]; e.String() == name && (e.Namespace == "" || e.Namespace == namespace) {
			return &reportsv1.Suppressed{By: "Exception", Name: name, Reason: e.Spec.Reason, Until: e.Spec.ExpiresAt, Justification: string(e.Spec.Justification)}
		}
	}
	return nil
}

// marking is a server that follows exceptions, and what a test does with them.
type marking struct {
	*door

	accepted *accepted
	once     func(list ...exception.Exception)
}

func marked(t *testing.T, config sqldb.Config) *marking {
	t.Helper()
	m := &marking{accepted: &accepted{changed: make(chan struct{}, 1)}}
	var marker *marks.Marker
	m.door = serve(t, config, func(o *server.Options) {
		o.Suppressed = m.accepted.suppressed
		o.Virtual = func(deps server.Deps) (map[string]rest.Storage, error) {
			marker = marks.New(marks.Config{
				Store: deps.Store, Reports: deps.Storage(kinds.Reports.Resource), Findings: deps.Documents, Source: m.accepted,
			})
			return map[string]rest.Storage{}, nil
		}
	})
	m.once = func(list ...exception.Exception) {
		t.Helper()
		m.accepted.list = list
		select {
		case m.accepted.changed <- struct{}{}:
		default:
		}
		if err := marker.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// scanned makes an Image with findings.
func (m *marking) scanned(t *testing.T, namespace, name, findings string) {
	t.Helper()
	document := spdxOf("pkg:deb/zlib@1.0", "pkg:npm/lodash@2.0")
	sum := m.sbomed(t, namespace, imageOf(name, "library/"+name, "1", digestOf(name)), document, false)
	m.put(t, findingsPath(namespace, name), "", provenanceOf(sum, "sha256:db1", "2026-11-01T00:00:00Z"), []byte(findings), nil).is(http.StatusOK)
}

func digestOf(name string) string {
	return "sha256:" + strings.Repeat("0", 64-len(name)) + strings.Map(hexOf, name)
}

func hexOf(r rune) rune {
	return '0' + (r % 10)
}

// suppressed are the findings of a report that somebody accepts, by their vulnerability.
func (m *marking) suppressed(t *testing.T, path string) map[string]*reportsv1.Suppressed {
	t.Helper()
	var page struct {
		Findings []reportsv1.VulnerabilityFinding `json:"findings"`
	}
	if err := json.Unmarshal(m.ask(t, request{path: path}).is(http.StatusOK).body, &page); err != nil {
		t.Fatal(err)
	}
	all := map[string]*reportsv1.Suppressed{}
	for i := range page.Findings {
		if f := &page.Findings[i]; f.Suppressed != nil {
			all[f.VulnerabilityID] = f.Suppressed
		}
	}
	return all
}

func acceptedBy(namespace, name string, entry settingsv1alpha2.ExceptionEntry) exception.Exception {
	e := exception.Exception{Namespace: namespace, Name: name}
	e.Spec.Status, e.Spec.Justification = settingsv1alpha2.ExceptionNotAffected, "vulnerable_code_not_present"
	e.Spec.Reason, e.Spec.Match.AnyOf = "The code is not called.", []settingsv1alpha2.ExceptionEntry{entry}
	return e
}

// TestSuppressedFindings: VulnerabilityReports follow the exceptions in their findings, SARIF, summaries and rows, and in their Images.
func TestSuppressedFindings(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		m := marked(t, config)
		m.scanned(t, "team-a", "api", findings)
		m.scanned(t, "team-b", "api", findings)
		report := strings.TrimSuffix(findingsPath("team-a", "api"), "/findings")
		check := func(when, wantBy, counts string, rows int) {
			t.Helper()
			got := m.suppressed(t, report+"/findings?suppressed=true")
			if by := got["CVE-2"]; len(got) > 1 || (by == nil) != (wantBy == "") || by != nil && by.Name != wantBy {
				t.Errorf("%s: %+v, want CVE-2 by %q", when, got, wantBy)
			}
			for _, of := range []*answer{m.ask(t, request{path: report}), m.ask(t, request{path: path(images, "team-a") + "/api"})} {
				summary := []string{"spec", "summary"}
				if of.at("kind") == "Image" {
					summary = []string{"status", "vulnerabilities"}
				}
				if text := of.at(append(summary, "critical")...) + of.at(append(summary, "low")...) + of.at(append(summary, "suppressed")...); text != counts {
					t.Errorf("%s: %s counts %s, want %s", when, of.at("kind"), text, counts)
				}
			}
			if sarif := string(m.ask(t, request{path: report + "/sarif"}).is(http.StatusOK).body); strings.Contains(sarif, `"suppressions"`) != (wantBy != "") {
				t.Errorf("%s: SARIF %s", when, sarif)
			}
			if n := m.count(t, `SELECT COUNT(*) FROM results WHERE suppressed = 1`); n != rows {
				t.Errorf("%s: %d rows are suppressed, want %d", when, n, rows)
			}
		}
		m.once()
		check("without exceptions", "", "110", 0)
		own := acceptedBy("team-a", "lodash", settingsv1alpha2.ExceptionEntry{Packages: []string{"pkg:npm/lodash?vers=vers:npm/<3"}})
		m.once(own)
		check("by the team", "FindingException/lodash", "101", 1)
		if by := m.suppressed(t, report+"/findings")["CVE-2"]; by.Reason != "The code is not called." || by.Justification != "vulnerable_code_not_present" || by.Until != nil {
			t.Errorf("suppressed says %+v", by)
		}
		if got := m.suppressed(t, findingsPath("team-b", "api")); len(got) > 0 {
			t.Errorf("in another namespace: %+v", got)
		}
		all := acceptedBy("", "base", settingsv1alpha2.ExceptionEntry{Products: []string{"*/library/api:1"}, Names: []string{"Vulnerability in Dependency lodash*"}})
		m.once(own, all)
		check("the namespace before the cluster", "FindingException/lodash", "101", 2)
		m.once(all)
		check("by the cluster", "ClusterFindingException/base", "101", 2)

		sum := m.ask(t, request{path: sbomPath("team-a", "api")}).at("spec", "sha256")
		upload := findingsPath("team-a", "api")
		m.put(t, upload, "", provenanceOf(sum, "sha256:db2", "2026-11-02T00:00:00Z"), []byte(findings), nil).is(http.StatusOK)
		m.once(all)
		check("the same findings by newer data", "ClusterFindingException/base", "101", 2)
		forged := strings.Replace(findings, `"title":"first"`, `"title":"first","suppressed":{"by":"Exception","name":"mine"}`, 1)
		m.put(t, upload, "", provenanceOf(sum, "sha256:db3", "2026-11-03T00:00:00Z"), []byte(forged), nil).is(http.StatusOK)
		m.once(all)
		check("a worker that says who accepts", "ClusterFindingException/base", "101", 2)

		scoped := acceptedBy("team-a", "of-scans", settingsv1alpha2.ExceptionEntry{Names: []string{"Vuln*"}})
		scoped.Scope.ScanTypes = []string{"trivy*"}
		m.once(scoped)
		check("for Scans of a type only", "", "110", 0)
	})
}

// inlineOf is a report that holds its findings itself.
func inlineOf(name, finding string) object {
	var f object
	if err := json.Unmarshal([]byte(finding), &f); err != nil {
		panic(err)
	}
	return object{
		"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "VulnerabilityReport", "metadata": object{"name": name},
		"spec": object{"image": name, "digest": digestOf(name), "repository": "web", "tag": "1.2", "findings": []object{f}},
	}
}

// TestVulnerabilityReportCases runs the cases of exceptions.
func TestVulnerabilityReportCases(t *testing.T) {
	m := marked(t, dbtest.New(t, sqldb.SQLite))
	now := time.Now().UTC()
	const namespace = "team-a"
	const lodash = `{"vulnerabilityID":"CVE-2021-23337","severity":"HIGH","title":"lodash 4.17.20","package":{"name":"lodash","version":"4.17.20","type":"npm","purl":"pkg:npm/lodash@4.17.20"}}`
	m.create(t, vulnerabilityReports, namespace, inlineOf("web", lodash))
	m.scanned(t, namespace, "streamed", lodash+"\n")
	exceptiontest.Each(t, "VulnerabilityReports", namespace, now, func(t *testing.T, c *exceptiontest.Case) {
		if c.Finding != exceptiontest.Finding {
			return // every finding of a VulnerabilityReport has a fingerprint
		}
		list := reported(c.List)
		m.once(list...)
		want := c.Want
		if !c.Suppressed {
			want = ""
		}
		for _, name := range []string{"web", "streamed"} {
			got := ""
			if by := m.suppressed(t, findingsPath(namespace, name))["CVE-2021-23337"]; by != nil {
				got = by.Name
			}
			if got != want {
				t.Errorf("%s: suppressed by %q, want %q", name, got, want)
			}
		}
		var inline reportsv1.VulnerabilityReport
		if err := json.Unmarshal(m.ask(t, request{path: path(vulnerabilityReports, namespace) + "/web"}).is(http.StatusOK).body, &inline); err != nil {
			t.Fatal(err)
		}
		if by := inline.Spec.Findings[0].Suppressed; (by == nil) != (want == "") || by != nil && by.Name != want {
			t.Errorf("inline: suppressed by %+v, want %q", by, want)
		}
	})
}

// reported are the exceptions of a case with what a report knows: its own fingerprints, and no port.
func reported(list []exception.Exception) []exception.Exception {
	var all []exception.Exception
	for _, e := range list {
		entry := e.Spec.Match.AnyOf[0]
		if entry.Fingerprints != nil {
			entry = settingsv1alpha2.ExceptionEntry{Fingerprints: []string{printOf("web"), printOf("streamed")}}
		}
		if strings.Contains(entry.Expression, "port") {
			entry.Expression = `finding.attributes.packageName == "lodash"`
		}
		e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{entry}
		all = append(all, e)
	}
	return all
}

func printOf(name string) string {
	image := reportsv1.ImageRef{Repository: "web", Tag: "1.2"}
	if name != "web" {
		image = reportsv1.ImageRef{Repository: "library/" + name, Tag: "1", Platform: "linux/amd64"}
	}
	return kinds.Fingerprint(&image, &reportsv1.VulnerabilityFinding{
		VulnerabilityID: "CVE-2021-23337", Package: reportsv1.VulnerablePackage{Name: "lodash", Type: "npm"},
	})
}
