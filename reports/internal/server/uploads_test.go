// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	imagerows "github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// spdxOf is a document with packages.
func spdxOf(packages ...string) []byte {
	listed := make([]object, 0, len(packages))
	for i, purl := range packages {
		listed = append(listed, object{
			"SPDXID": fmt.Sprintf("SPDXRef-%d", i), "name": purl, "versionInfo": "1",
			"externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}},
		})
	}
	data, err := json.Marshal(object{"spdxVersion": "SPDX-2.3", "packages": listed, "relationships": []object{{"spdxElementId": "a"}}})
	if err != nil {
		panic(err)
	}
	return data
}

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	return encoder.EncodeAll(data, nil)
}

// put uploads a body as a worker does.
func (d *door) put(t *testing.T, path, claim string, about any, data []byte, change func(header map[string]string)) *answer {
	t.Helper()
	encoded, err := json.Marshal(about)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	header := map[string]string{
		"Content-Encoding": "zstd", reportsv1.HeaderSHA256: hex.EncodeToString(sum[:]), reportsv1.HeaderClaim: claim,
		reportsv1.HeaderSpec: base64.StdEncoding.EncodeToString(encoded), "Content-Type": "application/octet-stream",
	}
	if change != nil {
		change(header)
	}
	return d.ask(t, request{method: http.MethodPut, path: path, body: packed(t, data), header: header})
}

// reason is the reason for programs of a refusal.
func (a *answer) reason() string {
	a.t.Helper()
	var status struct {
		Details struct{ Causes []struct{ Reason string } }
	}
	if err := json.Unmarshal(a.body, &status); err != nil || len(status.Details.Causes) == 0 {
		a.t.Fatalf("no reason: %v: %.300s", err, a.body)
	}
	return status.Details.Causes[0].Reason
}

func (a *answer) refuses(code int, reason string) {
	a.t.Helper()
	if got := a.is(code).reason(); got != reason {
		a.t.Errorf("reason %s, want %s", got, reason)
	}
}

func (d *door) claim(t *testing.T, namespace, name, claim string) {
	t.Helper()
	d.patchStatus(t, images, namespace, name, object{"status": object{"state": "GeneratingSBOM", "presence": "Present", "work": object{"claim": claim, "attempt": 2}}}).is(http.StatusOK)
}

// count is what a query counts.
func (d *door) count(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := d.store.Query(t.Context(), func(tx *sqldb.Tx) error { return tx.QueryRow(t.Context(), query).Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

const vulnr = "/apis/reports.scanyard.io/v1alpha1/namespaces/%s/vulnerabilityreports/%s"

func sbomPath(namespace, name string) string { return path(sboms, namespace) + "/" + name }

func findingsPath(namespace, name string) string {
	return fmt.Sprintf(vulnr, namespace, name) + "/findings"
}

// sbomed makes an Image with an SBOM, and returns the SBOM's sum.
func (d *door) sbomed(t *testing.T, namespace string, image object, document []byte, shareable bool) string {
	t.Helper()
	name := image["metadata"].(object)["name"].(string)
	d.create(t, images, namespace, image)
	d.claim(t, namespace, name, "claim")
	about := reportsv1.SBOMUpload{Engine: &reportsv1.Engine{Name: "mini", Version: "1"}, Shareable: shareable}
	return d.put(t, sbomPath(namespace, name)+"/document", "claim", about, document, nil).is(http.StatusOK).at("sha256")
}

func provenanceOf(sbom, version, built string) reportsv1.FindingsUpload {
	at, err := time.Parse(time.RFC3339, built)
	if err != nil {
		panic(err)
	}
	made := metav1.NewTime(at)
	return reportsv1.FindingsUpload{Provenance: reportsv1.Provenance{
		Engine: &reportsv1.Engine{Name: "mini", Version: "1"}, Adapter: &reportsv1.Adapter{Name: "mini", Version: "1"}, SBOM: &reportsv1.SBOMSource{SHA256: sbom},
		Database: &reportsv1.DatabaseUsed{DatabaseRef: reportsv1.DatabaseRef{Name: "mini", Version: version, BuiltAt: &made}},
	}}
}

const findings = `{"vulnerabilityID":"CVE-1","package":{"name":"zlib","version":"1.0","type":"deb","purl":"pkg:deb/zlib@1.0"},"target":"os","class":"os-pkgs","severity":"CRITICAL","score":9.8,"fixedVersions":["1.1"],"title":"first"}
{"vulnerabilityID":"CVE-2","aliases":["GHSA-2"],"package":{"name":"lodash","version":"2.0","type":"npm","purl":"pkg:npm/lodash@2.0"},"target":"app/package-lock.json","class":"lang-pkgs","severity":"LOW"}
{"purl":"pkg:deb/zlib@1.0","keys":["debian|zlib"]}
{"purl":"pkg:npm/lodash@2.0","keys":["npm|lodash"]}
`

func TestSBOMUploads(t *testing.T) {
	for _, driver := range dbtest.Drivers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			d := serve(t, dbtest.New(t, driver), nil)
			d.create(t, images, "team-a", imageOf("api", "prod/api", "1", "sha256:aa"))
			d.claim(t, "team-a", "api", "mine")
			document := spdxOf("pkg:deb/zlib@1.0", "pkg:npm/lodash@2.0")
			about := reportsv1.SBOMUpload{Engine: &reportsv1.Engine{Name: "mini", Version: "1"}, OS: &reportsv1.OperatingSystem{Family: "debian", Version: "12"}}
			upload := sbomPath("team-a", "api") + "/document"
			d.put(t, upload, "other", about, document, nil).refuses(http.StatusConflict, reportsv1.ReasonClaimLost)
			d.put(t, upload, "", about, document, nil).refuses(http.StatusConflict, reportsv1.ReasonClaimLost)
			d.put(t, upload, "mine", about, document, func(h map[string]string) { h[reportsv1.HeaderSHA256] = "00" }).
				refuses(http.StatusBadRequest, reportsv1.ReasonSumMismatch)
			d.put(t, upload, "mine", about, []byte(`{"spdxVersion":"SPDX-2.3","packages":[{]}`), nil).refuses(http.StatusBadRequest, reportsv1.ReasonNotSPDX)
			d.put(t, upload, "mine", about, []byte(`{"packages":[]}`), nil).refuses(http.StatusBadRequest, reportsv1.ReasonNotSPDX)
			d.put(t, upload, "mine", about, bytes.Repeat([]byte(" "), 5<<20), nil).refuses(http.StatusBadRequest, reportsv1.ReasonTooLarge)
			deep := []byte(`{"spdxVersion":"SPDX-2.3","x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`)
			d.put(t, upload, "mine", about, deep, nil).refuses(http.StatusBadRequest, reportsv1.ReasonNotSPDX)
			d.ask(t, request{path: sbomPath("team-a", "api")}).is(http.StatusNotFound)
			if n := d.count(t, `SELECT COUNT(*) FROM contents`); n != 0 {
				t.Errorf("%d contents are left of uploads that were refused", n)
			}
			done := d.put(t, upload, "mine", about, document, nil).is(http.StatusOK)
			if done.at("changed") != "true" || done.at("packages") != "2" {
				t.Errorf("%s", done.body)
			}
			image := d.ask(t, request{path: path(images, "team-a") + "/api"}).is(http.StatusOK)
			if image.at("status", "state") != "WaitingForMatch" || image.at("status", "work", "claim") != "" || image.at("status", "work", "attempt") != "" ||
				image.at("status", "sbom", "packages") != "2" {
				t.Errorf("the image: %s", image.body)
			}
			sbom := d.ask(t, request{path: sbomPath("team-a", "api")}).is(http.StatusOK)
			if sbom.at("spec", "sbom", "spdxVersion") != "SPDX-2.3" || sbom.at("spec", "os", "family") != "debian" || sbom.at("spec", "sbomOmitted") != "" {
				t.Errorf("the SBOM: %.500s", sbom.body)
			}
			if list := d.ask(t, request{path: path(sboms, "team-a") + "?fieldSelector=spec.digest=sha256:aa"}).is(http.StatusOK); list.names() != "api" ||
				!strings.Contains(string(list.body), `"sbomOmitted":true`) || strings.Contains(string(list.body), "spdxVersion") {
				t.Errorf("the list: %.500s", list.body)
			}
			read := d.ask(t, request{path: upload, header: map[string]string{"Accept-Encoding": "identity"}}).is(http.StatusOK)
			if !bytes.Equal(read.body, document) || read.header.Get("Etag") != `"`+done.at("sha256")+`"` ||
				read.header.Get("Content-Type") != "application/spdx+json; version=2.3" {
				t.Errorf("read: %s %.300s", read.header, read.body)
			}
			checkPacked(t, d, upload, document)
			converted := d.ask(t, request{path: upload + "?format=cyclonedx-json"}).is(http.StatusOK)
			if converted.at("bomFormat") != "CycloneDX" || !strings.Contains(string(converted.body), `"purl":"pkg:npm/lodash@2.0"`) {
				t.Errorf("as CycloneDX: %.300s", converted.body)
			}
			d.ask(t, request{path: upload, token: nobodyToken}).is(http.StatusForbidden)
			// An update of labels leaves the document alone.
			d.ask(t, request{method: http.MethodPatch, path: sbomPath("team-a", "api"), body: object{"metadata": object{"labels": object{"a": "b"}}}, header: map[string]string{
				"Content-Type": "application/merge-patch+json",
			}}).is(http.StatusOK)
			if again := d.ask(t, request{path: upload}).is(http.StatusOK); !bytes.Equal(again.body, document) {
				t.Errorf("after a patch: %.300s", again.body)
			}
			d.ask(t, request{method: http.MethodDelete, path: sbomPath("team-a", "api")}).is(http.StatusOK)
			if n := d.count(t, `SELECT COUNT(*) FROM contents`) + d.count(t, `SELECT COUNT(*) FROM content_chunks`) + d.count(t, `SELECT COUNT(*) FROM sbom_packages`); n != 0 {
				t.Errorf("%d rows are left of a content that nobody has", n)
			}
		})
	}
}

// checkPacked reads what is stored as it is stored.
func checkPacked(t *testing.T, d *door, path string, want []byte) {
	t.Helper()
	read := d.ask(t, request{path: path, header: map[string]string{"Accept-Encoding": "zstd"}}).is(http.StatusOK)
	decoder, err := zstd.NewReader(bytes.NewReader(read.body))
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	got, err := io.ReadAll(decoder)
	if err != nil || !bytes.Equal(got, want) || read.header.Get("Content-Encoding") != "zstd" {
		t.Errorf("as it is stored: %v, %d bytes, %s", err, len(got), read.header)
	}
}

func TestFindingsUploads(t *testing.T) {
	for _, driver := range dbtest.Drivers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			d := serve(t, dbtest.New(t, driver), nil)
			sum := d.sbomed(t, "team-a", imageOf("api", "prod/api", "1", "sha256:aa"), spdxOf("pkg:deb/zlib@1.0", "pkg:npm/lodash@2.0"), false)
			upload := findingsPath("team-a", "api")
			about := provenanceOf(sum, "sha256:db1", "2026-11-01T00:00:00Z")
			about.Provenance.Job = "job-1"
			d.put(t, upload, "", about, []byte("{\"vulnerabilityID\":\"CVE-1\"}\n"), nil).refuses(http.StatusBadRequest, reportsv1.ReasonNotFindings)
			d.put(t, upload, "stale", about, []byte(findings), nil).refuses(http.StatusConflict, reportsv1.ReasonClaimLost)
			done := d.put(t, upload, "", about, []byte(findings), nil).is(http.StatusOK)
			if done.at("changed") != "true" || done.at("findings") != "2" {
				t.Errorf("%s", done.body)
			}
			d.put(t, upload, "", about, []byte(findings), nil).refuses(http.StatusConflict, reportsv1.ReasonNotNewer)
			older := provenanceOf(sum, "sha256:db0", "2026-10-01T00:00:00Z")
			d.put(t, upload, "", older, []byte(findings), nil).refuses(http.StatusConflict, reportsv1.ReasonNotNewer)
			image := d.ask(t, request{path: path(images, "team-a") + "/api"}).is(http.StatusOK)
			if image.at("status", "work", "job", "uid") != "job-1" || image.at("status", "reason") != "Changed" {
				t.Errorf("the job of a batch is not told: %s", image.body)
			}
			if image.at("status", "state") != "Scanned" || image.at("status", "vulnerabilities", "critical") != "1" || image.at("status", "vulnerabilities", "fixable") != "1" ||
				image.at("status", "database", "version") != "sha256:db1" {
				t.Errorf("the image: %s", image.body)
			}
			report := d.ask(t, request{path: strings.TrimSuffix(upload, "/findings")}).is(http.StatusOK)
			if report.at("spec", "summary", "low") != "1" || report.at("spec", "currentAsOf", "version") != "sha256:db1" || report.at("spec", "report", "version") != "2.1.0" ||
				!strings.Contains(string(report.body), `"firstSeenAt"`) {
				t.Errorf("the report: %.800s", report.body)
			}
			for query, want := range map[string]int{
				"": 2, "?severity=LOW": 1, "?minSeverity=HIGH": 1, "?package=lodash": 1, "?vulnerability=ghsa-2": 1, "?fixable=true": 1, "?suppressed=true": 0, "?limit=1": 1,
			} {
				if got, _ := d.ask(t, request{path: upload + query}).is(http.StatusOK).object()["findings"].([]any); len(got) != want {
					t.Errorf("%s: %d findings, want %d", query, len(got), want)
				}
			}
			first := d.ask(t, request{path: upload + "?limit=1"})
			rest := d.ask(t, request{path: upload + "?limit=1&format=jsonl&continue=" + first.at("continue")}).is(http.StatusOK)
			if !strings.Contains(string(rest.body), "CVE-2") || strings.Contains(string(rest.body), "CVE-1") || rest.header.Get("Scanyard-Continue") != "" {
				t.Errorf("the second page: %s", rest.body)
			}
			sarif := d.ask(t, request{path: fmt.Sprintf(vulnr, "team-a", "api") + "/sarif"}).is(http.StatusOK)
			if sarif.at("version") != "2.1.0" || sarif.header.Get("Content-Type") != "application/sarif+json" || !strings.Contains(string(sarif.body), `"ruleIndex":1`) {
				t.Errorf("SARIF: %.500s", sarif.body)
			}
			if n := d.count(t, `SELECT COUNT(*) FROM results`); n != 2 {
				t.Errorf("%d rows", n)
			}
			// A patch of labels leaves the rows alone.
			d.ask(t, request{
				method: http.MethodPatch, path: fmt.Sprintf(vulnr, "team-a", "api"), body: object{"metadata": object{"labels": object{"a": "b"}}},
				header: map[string]string{"Content-Type": "application/merge-patch+json"},
			}).is(http.StatusOK)
			if n := d.count(t, `SELECT COUNT(*) FROM results`); n != 2 {
				t.Errorf("%d rows after a patch", n)
			}
			// Newer data finds the same, and something else the time after.
			same := d.put(t, upload, "", provenanceOf(sum, "sha256:db2", "2026-11-02T00:00:00Z"), []byte(findings), nil).is(http.StatusOK)
			if same.at("changed") != "false" {
				t.Errorf("the same again: %s", same.body)
			}
			if image := d.ask(t, request{path: path(images, "team-a") + "/api"}); image.at("status", "reason") != "" {
				t.Errorf("nothing has changed: %s", image.body)
			}
			fewer := findings[strings.Index(findings, "\n")+1:]
			last := provenanceOf(sum, "sha256:db3", "2026-11-03T00:00:00Z")
			last.Provenance.StartedAt = new(metav1.NewTime(time.Now().Add(-time.Minute)))
			d.put(t, upload, "", last, []byte(fewer), nil).is(http.StatusOK)
			report = d.ask(t, request{path: fmt.Sprintf(vulnr, "team-a", "api")}).is(http.StatusOK)
			if report.at("spec", "changes", "fixed") != "1" || report.at("spec", "changes", "unchanged") != "1" || report.at("spec", "previous") != "sha256:aa" {
				t.Errorf("what has changed: %s", report.body)
			}
			if open, fixed := d.count(t, `SELECT COUNT(*) FROM history WHERE fixed_at IS NULL`), d.count(t, `SELECT SUM(fixed) FROM daily`); open != 1 || fixed != 1 {
				t.Errorf("the lives of findings: %d are open, %d were fixed", open, fixed)
			}
			for query, want := range map[string]int{"": 0, "?baseline=true": 1} {
				sarif := d.ask(t, request{path: fmt.Sprintf(vulnr, "team-a", "api") + "/sarif" + query}).is(http.StatusOK)
				if got := strings.Count(string(sarif.body), `"baselineState":"absent"`); got != want || strings.Contains(string(sarif.body), "CVE-1 is no longer in zlib") != (want > 0) {
					t.Errorf("SARIF%s has %d that are gone, want %d: %s", query, got, want, sarif.body)
				}
			}
			d.ask(t, request{method: http.MethodDelete, path: fmt.Sprintf(vulnr, "team-a", "api")}).is(http.StatusOK)
			if n := d.count(t, `SELECT COUNT(*) FROM results`) + d.count(t, `SELECT COUNT(*) FROM finding_keys`) + d.count(t, `SELECT COUNT(*) FROM subjects WHERE kind = 5`); n != 0 {
				t.Errorf("%d rows are left", n)
			}
		})
	}
}

// wanted are the names that an ImageQuery answers.
func (d *door) wanted(t *testing.T, namespace string, spec object) string {
	t.Helper()
	answered := d.ask(t, request{method: http.MethodPost, path: "/apis/reports.scanyard.io/v1alpha1/namespaces/" + namespace + "/imagequeries", body: object{
		"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "ImageQuery", "spec": spec,
	}}).is(http.StatusCreated)
	var query reportsv1.ImageQuery
	if err := json.Unmarshal(answered.body, &query); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range query.Status.Items {
		names = append(names, item.Name)
	}
	if int(query.Status.Total) != len(names) && query.Status.Continue == "" {
		t.Errorf("total %d, %d items", query.Status.Total, len(names))
	}
	return strings.Join(names, " ")
}

func TestWantedImages(t *testing.T) {
	for _, driver := range dbtest.Drivers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			d := serve(t, dbtest.New(t, driver), nil)
			d.create(t, databases, "", object{"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "VulnerabilityDatabase", "metadata": object{"name": "mini"}})
			d.patchStatus(t, databases, "", "mini", object{"status": object{"version": "sha256:db1", "builtAt": "2026-11-01T00:00:00Z"}}).is(http.StatusOK)
			d.create(t, images, "team-a", imageOf("new", "prod/new", "1", "sha256:cc"))
			d.patchStatus(t, images, "team-a", "new", object{"status": object{"state": "Pending", "presence": "Present", "work": object{"notBefore": "2026-11-20T00:00:00Z"}}}).is(http.StatusOK)
			zlib := d.sbomed(t, "team-a", imageOf("zlib", "prod/zlib", "1", "sha256:aa"), spdxOf("pkg:deb/zlib@1.0"), false)
			lodash := d.sbomed(t, "team-a", imageOf("lodash", "prod/lodash", "1", "sha256:bb"), spdxOf("pkg:npm/lodash@2.0"), false)
			match := object{"need": "Match", "adapter": "mini", "engineVersion": "1"}
			if got := d.wanted(t, "team-a", match); got != "lodash zlib" {
				t.Errorf("before the match: %q", got)
			}
			if got := d.wanted(t, "team-a", object{"need": "SBOM"}); got != "new" {
				t.Errorf("without an SBOM: %q", got)
			}
			if got := d.wanted(t, "team-a", object{"need": "SBOM", "now": "2026-11-19T00:00:00Z"}); got != "" {
				t.Errorf("without an SBOM, and due: %q", got)
			}
			if got := d.wanted(t, "team-b", object{}); got != "" {
				t.Errorf("of another namespace: %q", got)
			}
			first := provenanceOf(zlib, "sha256:db1", "2026-11-01T00:00:00Z")
			d.put(t, findingsPath("team-a", "zlib"), "", first, []byte(findings[:strings.Index(findings, "\n")+1]+`{"purl":"pkg:deb/zlib@1.0","keys":["debian|zlib"]}`), nil).is(http.StatusOK)
			d.put(t, findingsPath("team-a", "lodash"), "", provenanceOf(lodash, "sha256:db1", "2026-11-01T00:00:00Z"),
				[]byte(`{"purl":"pkg:npm/lodash@2.0","keys":["npm|lodash"]}`), nil).is(http.StatusOK)
			if got := d.wanted(t, "team-a", match); got != "" {
				t.Errorf("after the match: %q", got)
			}
			if got := d.wanted(t, "team-a", object{"need": "Match", "adapter": "mini", "engineVersion": "2"}); got != "lodash zlib" {
				t.Errorf("of another engine: %q", got)
			}
			changed := func(from, to string, keys ...string) *answer {
				t.Helper()
				var body []byte
				for _, key := range keys {
					body = binary.LittleEndian.AppendUint64(body, uint64(imagerows.Hash(key)))
				}
				return d.ask(t, request{method: http.MethodPut, path: path(databases, "") + "/mini/changes?from=" + from + "&to=" + to + "&total=100", body: body})
			}
			changed("sha256:db0", "sha256:db2", "npm|lodash").is(http.StatusConflict)
			changed("sha256:db1", "sha256:db2", "npm|lodash", "gem|rails").is(http.StatusOK)
			d.patchStatus(t, databases, "", "mini", object{"status": object{"version": "sha256:db2"}}).is(http.StatusOK)
			if got := d.wanted(t, "team-a", match); got != "lodash" {
				t.Errorf("touched by a package: %q", got)
			}
			if got := d.ask(t, request{path: fmt.Sprintf(vulnr, "team-a", "zlib")}).at("spec", "currentAsOf", "version"); got != "sha256:db2" {
				t.Errorf("untouched, good for %q", got)
			}
			if got := d.ask(t, request{path: fmt.Sprintf(vulnr, "team-a", "lodash")}).at("spec", "currentAsOf", "version"); got != "sha256:db1" {
				t.Errorf("touched, good for %q", got)
			}
			changed("sha256:db2", "sha256:db3", "vuln|cve-1").is(http.StatusOK)
			if got := d.wanted(t, "team-a", match); got != "lodash zlib" {
				t.Errorf("touched by what was found: %q", got)
			}
			if got := d.wanted(t, "team-a", object{"need": "Match", "adapter": "mini", "databaseVersion": "sha256:db2"}); got != "lodash" {
				t.Errorf("at a former version: %q", got)
			}
			if err := d.store.Maintain(t.Context(), "confirm", func(tx *sqldb.Tx) error {
				_, err := imagerows.Confirm(t.Context(), tx, 5)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got := d.wanted(t, "team-a", match); got != "lodash zlib" {
				t.Errorf("touched after what is untouched was confirmed: %q", got)
			}
			// A version of which the differences are not known touches everything.
			d.patchStatus(t, databases, "", "mini", object{"status": object{"version": "sha256:db4", "builtAt": "2026-11-04T00:00:00Z"}}).is(http.StatusOK)
			d.put(t, findingsPath("team-a", "zlib"), "", provenanceOf(zlib, "sha256:db4", "2026-11-04T00:00:00Z"), []byte(findings), nil).is(http.StatusOK)
			if got := d.wanted(t, "team-a", match); got != "lodash" {
				t.Errorf("of a version that is not linked: %q", got)
			}
			d.ask(t, request{method: http.MethodDelete, path: sbomPath("team-a", "zlib")}).is(http.StatusOK)
			if got := d.wanted(t, "team-a", object{"need": "SBOM"}); got != "new zlib" {
				t.Errorf("after the SBOM was deleted: %q", got)
			}
		})
	}
}

func TestReuse(t *testing.T) {
	for _, driver := range dbtest.Drivers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			d := serve(t, dbtest.New(t, driver), nil)
			document := spdxOf("pkg:deb/zlib@1.0")
			shared := d.sbomed(t, "team-a", imageOf("one", "prod/api", "1", "sha256:aa"), document, true)
			about := provenanceOf(shared, "sha256:db1", "2026-11-01T00:00:00Z")
			about.Shareable = true
			d.put(t, findingsPath("team-a", "one"), "", about, []byte(findings), nil).is(http.StatusOK)
			d.sbomed(t, "team-a", imageOf("private", "prod/private", "1", "sha256:bb"), spdxOf("pkg:deb/secret@1.0"), false)
			ask := func(namespace, name string, change func(object)) *answer {
				t.Helper()
				body := object{
					"dedupe": "Host", "shareable": true, "engine": object{"name": "mini", "version": "1"}, "adapter": object{"name": "mini"},
					"database": object{"name": "mini", "version": "sha256:db1"},
				}
				change(body)
				return d.ask(t, request{method: http.MethodPost, path: path(images, namespace) + "/" + name + "/reuse", body: body})
			}
			as := func(key string, value any) func(object) { return func(o object) { o[key] = value } }
			d.create(t, images, "team-b", imageOf("two", "mirror/api", "9", "sha256:aa"))
			elsewhere := imageOf("three", "mirror/api", "9", "sha256:aa")
			elsewhere["spec"].(object)["registry"].(object)["host"] = "evil.example"
			d.create(t, images, "team-b", elsewhere)
			d.create(t, images, "team-b", imageOf("four", "prod/private", "1", "sha256:bb"))
			for name, refused := range map[string]*answer{
				"Off": ask("team-b", "two", as("dedupe", "Off")), "Namespace": ask("team-b", "two", as("dedupe", "Namespace")),
				"NotShareable": ask("team-b", "two", as("shareable", false)), "OtherEngine": ask("team-b", "two", as("engine", object{"name": "mini", "version": "2"})),
				"OtherHost": ask("team-b", "three", func(object) {}), "NotShared": ask("team-b", "four", func(object) {}),
			} {
				if refused.code != http.StatusNotFound || refused.reason() != reportsv1.ReasonNothingToReuse {
					t.Errorf("%s: %d %s", name, refused.code, refused.body)
				}
			}
			done := ask("team-b", "two", func(object) {}).is(http.StatusCreated)
			if done.at("sbom") != "true" || done.at("report") != "true" {
				t.Errorf("%s", done.body)
			}
			for _, path := range []string{sbomPath("team-b", "two"), fmt.Sprintf(vulnr, "team-b", "two"), path(images, "team-b") + "/two"} {
				got := d.ask(t, request{path: path}).is(http.StatusOK)
				for _, trace := range []string{"team-a", "prod/api", `"one"`} {
					if strings.Contains(string(got.body), trace) {
						t.Errorf("%s carries %s: %s", path, trace, got.body)
					}
				}
			}
			if got := d.ask(t, request{path: path(images, "team-b") + "/two"}).at("status", "state"); got != "Scanned" {
				t.Errorf("state %s", got)
			}
			if n := d.count(t, `SELECT COUNT(*) FROM contents`); n != 3 {
				t.Errorf("%d contents, want 3", n)
			}
			// The one who made it goes; what was shared stays.
			d.ask(t, request{method: http.MethodDelete, path: sbomPath("team-a", "one")}).is(http.StatusOK)
			if got := d.ask(t, request{path: sbomPath("team-b", "two") + "/document"}).is(http.StatusOK); !bytes.Equal(got.body, document) {
				t.Errorf("after the other was deleted: %s", got.body)
			}
			d.create(t, images, "team-a", imageOf("five", "prod/private", "2", "sha256:bb"))
			if own := ask("team-a", "five", as("dedupe", "Namespace")).is(http.StatusCreated); own.at("sbom") != "true" || own.at("report") != "false" {
				t.Errorf("inside of a namespace: %s", own.body)
			}
		})
	}
}

func TestTags(t *testing.T) {
	d := serve(t, dbtest.New(t, dbtest.Drivers[0]), nil)
	d.create(t, repositories, "team-a", object{
		"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "Repository", "metadata": object{"name": "api"},
		"spec": object{"registry": object{"name": "hub", "uid": "registry-1"}, "repository": "prod/api"},
	})
	tags := path(repositories, "team-a") + "/api/tags"
	body := []byte(`{"tags":[{"tag":"1","digest":"sha256:aa","selected":true},{"tag":"2","reason":"Excluded"}]}`)
	working := reportsv1.TagsUpload{Status: reportsv1.RepositoryStatus{State: "Working", Cursor: "2"}}
	d.put(t, tags, "mine", working, body, nil).refuses(http.StatusConflict, reportsv1.ReasonClaimLost)
	d.patchStatus(t, repositories, "team-a", "api", object{"status": object{"state": "Working", "work": object{"claim": "mine", "job": object{"uid": "job"}}}}).is(http.StatusOK)
	d.put(t, tags, "mine", working, []byte(`{"tags":[{"tag":1}]}`), nil).is(http.StatusBadRequest)
	d.put(t, tags, "mine", working, body, nil).is(http.StatusOK)
	if got := d.ask(t, request{path: path(repositories, "team-a") + "/api"}); got.at("status", "cursor") != "2" || got.at("status", "work", "claim") != "mine" {
		t.Errorf("a checkpoint: %s", got.body)
	}
	for query, want := range map[string]string{"": "1 2", "?selected=true": "1", "?tag=2": "2", "?tag=3": ""} {
		var listed struct{ Tags []reportsv1.Tag }
		if err := json.Unmarshal(d.ask(t, request{path: tags + query}).is(http.StatusOK).body, &listed); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tag := range listed.Tags {
			names = append(names, tag.Tag)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	done := reportsv1.TagsUpload{Status: reportsv1.RepositoryStatus{State: "Done", Tags: &reportsv1.TagCounts{Listed: 2, Selected: 1, Skipped: 1}}}
	if got := d.put(t, tags, "mine", done, body, nil).is(http.StatusOK); got.at("changed") != "false" {
		t.Errorf("the same again: %s", got.body)
	}
	got := d.ask(t, request{path: path(repositories, "team-a") + "/api"})
	if got.at("status", "work", "claim") != "" || got.at("status", "work", "job", "uid") != "job" || got.at("status", "tags", "listed") != "2" {
		t.Errorf("the end: %s", got.body)
	}
}

// What was staged and never attached is swept after an hour, and not before.
func TestStagedContentsAreSwept(t *testing.T) {
	d := serve(t, dbtest.New(t, dbtest.Drivers[0]), nil)
	now := time.Now()
	staged, err := contents.Stage(t.Context(), d.store, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := staged.Add(t.Context(), bytes.Repeat([]byte("x"), 3<<20)); err != nil {
		t.Fatal(err)
	}
	sweep(t, d, now.Add(59*time.Minute))
	if n := d.count(t, `SELECT COUNT(*) FROM content_chunks`); n != 3 {
		t.Errorf("after 59 minutes: %d chunks, want 3", n)
	}
	sweep(t, d, now.Add(61*time.Minute))
	if n := d.count(t, `SELECT COUNT(*) FROM content_chunks`) + d.count(t, `SELECT COUNT(*) FROM contents`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func sweep(t *testing.T, d *door, at time.Time) {
	t.Helper()
	if err := d.store.Maintain(t.Context(), "sweep", func(tx *sqldb.Tx) error {
		_, err := contents.Sweep(t.Context(), tx, at)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
