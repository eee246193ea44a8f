// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

const (
	imagesPath = "/apis/reports.scanyard.io/v1alpha1/namespaces/team-a/images"
	sbomsPath  = "/apis/reports.scanyard.io/v1alpha1/namespaces/team-a/sboms"

	vulnerabilitiesPath = "/apis/reports.scanyard.io/v1alpha1/namespaces/team-a/vulnerabilityreports"
)

// document is an SPDX document of at least so many bytes.
func document(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"spdxVersion":"SPDX-2.3","packages":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		sum := sha256.Sum256(fmt.Append(nil, i))
		fmt.Fprintf(&b, `{"SPDXID":"SPDXRef-%x","name":"package-%d","versionInfo":"1.%d.%x","licenseConcluded":"MIT","checksums":[{"algorithm":"SHA256","checksumValue":"%x"}],`+
			`"externalRefs":[{"referenceCategory":"PACKAGE-MANAGER","referenceType":"purl","referenceLocator":"pkg:npm/package-%d@1.%d"}]}`, sum[:8], i, i, sum[:3], sum, i, i)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// upload writes the SBOM of a new Image as a worker does.
func (p *process) upload(name string, content []byte) {
	p.t.Helper()
	image := fmt.Sprintf(`{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"Image","metadata":{"name":%q},"spec":{"registry":{"name":"hub","uid":"registry-1","host":"hub.example"},`+
		`"repository":"prod/api","tag":"1","digest":"sha256:aa","platform":"linux/amd64"},"status":{"state":"GeneratingSBOM","presence":"Present","work":{"claim":"mine","attempt":1}}}`, name)
	if code, said := p.do("admin-token", http.MethodPost, imagesPath, image); code != http.StatusCreated {
		p.t.Fatal(code, said)
	}
	if code, said := p.send(http.MethodPatch, imagesPath+"/"+name+"/status", []byte(image), map[string]string{"Content-Type": "application/merge-patch+json"}); code != http.StatusOK {
		p.t.Fatal(code, said)
	}
	p.put(sbomsPath+"/"+name+"/document", `{"engine":{"name":"mini","version":"1"}}`, content)
}

// find writes what has been found in an Image whose SBOM was the given one, after upload.
func (p *process) find(name string, sbom []byte, findings []byte) {
	p.t.Helper()
	if code, said := p.send(http.MethodPatch, imagesPath+"/"+name+"/status", []byte(`{"status":{"state":"Matching","work":{"claim":"mine","attempt":1}}}`),
		map[string]string{"Content-Type": "application/merge-patch+json"}); code != http.StatusOK {
		p.t.Fatal(code, said)
	}
	p.put(vulnerabilitiesPath+"/"+name+"/findings", fmt.Sprintf(`{"provenance":{"engine":{"name":"mini","version":"1"},"adapter":{"name":"mini","version":"1"},
		"sbom":{"sha256":"%x"},"database":{"name":"mini","version":"sha256:db","builtAt":"2026-11-01T00:00:00Z"}}}`, sha256.Sum256(sbom)), findings)
}

// put writes a document, about which the server is told in a header.
func (p *process) put(path, about string, content []byte) {
	p.t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20)) // as the worker has it
	if err != nil {
		p.t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	code, said := p.send(http.MethodPut, path, encoder.EncodeAll(content, nil), map[string]string{
		"Content-Type": "application/octet-stream", "Content-Encoding": "zstd", reportsv1.HeaderSHA256: hex.EncodeToString(sum[:]), reportsv1.HeaderClaim: "mine",
		reportsv1.HeaderSpec: base64.StdEncoding.EncodeToString([]byte(about)),
	})
	if code != http.StatusOK {
		p.t.Fatal(code, said)
	}
}

func (p *process) send(method, path string, body []byte, header map[string]string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer admin-token")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// F30: a document of 20 MB is written and read with little more memory than a small one.
func TestMemoryOfDocuments(t *testing.T) {
	const most = 32 << 10 // KiB
	t.Setenv("GOMEMLIMIT", chartMemory(t))
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	server.upload("small", document(1_000))
	idle := server.used().Resident >> 10
	server.upload("large", document(20_000_000))
	written := server.used().Peak>>10 - idle
	if code, said := server.send(http.MethodGet, sbomsPath+"/large/document", nil, nil); code != http.StatusOK || len(said) < 20_000_000 {
		t.Fatal(code, len(said))
	}
	read := server.used().Peak>>10 - idle
	t.Logf("%d MiB when idle, %d MiB more to write, %d MiB more to read", idle>>10, written>>10, read>>10)
	if read > most {
		t.Errorf("%d MiB more than %d MiB, must be %d at most", read>>10, idle>>10, most>>10)
	}
}

// F30: an SBOM of 200,000 packages, and 50,000 findings. Both are stored and read; what kubectl gets and lists of them stays small.
func TestFaultLargeDocuments(t *testing.T) {
	const packages, found, small = 200_000, 50_000, 64 << 10
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	var sbom, findings bytes.Buffer
	sbom.WriteString(`{"spdxVersion":"SPDX-2.3","packages":[`)
	for i := range packages {
		if i > 0 {
			sbom.WriteByte(',')
		}
		fmt.Fprintf(&sbom, `{"SPDXID":"SPDXRef-%d","name":"package-%d","versionInfo":"1","externalRefs":[{"referenceCategory":"PACKAGE-MANAGER","referenceType":"purl",`+
			`"referenceLocator":"pkg:npm/package-%d@1"}]}`, i, i, i)
	}
	sbom.WriteString("]}")
	for i := range found {
		fmt.Fprintf(&findings, `{"vulnerabilityID":"CVE-2026-%d","package":{"name":"package-%d","version":"1","type":"npm","purl":"pkg:npm/package-%d@1"},"severity":"LOW"}`+"\n", i, i, i)
	}
	server.upload("large", sbom.Bytes())
	server.find("large", sbom.Bytes(), findings.Bytes())
	for path, least := range map[string]int{sbomsPath + "/large/document": sbom.Len() / 2, vulnerabilitiesPath + "/large/findings": findings.Len()} {
		if code, said := server.send(http.MethodGet, path, nil, nil); code != http.StatusOK || len(said) < least {
			t.Errorf("%s: %d with %d bytes", path, code, len(said))
		}
	}
	for _, path := range []string{sbomsPath, sbomsPath + "/large", vulnerabilitiesPath, vulnerabilitiesPath + "/large", imagesPath} {
		if code, said := server.send(http.MethodGet, path, nil, nil); code != http.StatusOK || len(said) > small {
			t.Errorf("%s: %d with %d bytes", path, code, len(said))
		}
	}
}

// A vulnerability is found by each of its identifiers, whichever the engine has given first.
func TestAliasesOfVulnerabilities(t *testing.T) {
	t.Parallel()
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	sbom := []byte(`{"spdxVersion":"SPDX-2.3","packages":[{"SPDXID":"SPDXRef-1","name":"lodash","versionInfo":"1","externalRefs":[` +
		`{"referenceCategory":"PACKAGE-MANAGER","referenceType":"purl","referenceLocator":"pkg:npm/lodash@1"}]}]}`)
	server.upload("web", sbom)
	server.find("web", sbom, []byte(`{"vulnerabilityID":"CVE-1","aliases":["GHSA-a"],"package":{"name":"lodash","version":"1","type":"npm"},"severity":"HIGH"}
{"vulnerabilityID":"CVE-2","package":{"name":"lodash","version":"1","type":"npm"},"severity":"LOW"}
{"purl":"pkg:npm/lodash@1","keys":["npm|lodash"]}
`))
	for id, want := range map[string]string{"CVE-1": "CVE-1", "GHSA-a": "CVE-1", "CVE-2": "CVE-2", "GHSA-b": ""} {
		code, text := server.do("admin-token", http.MethodPost, fmt.Sprintf(queriesPath, "team-a"),
			`{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"FindingQuery","metadata":{},"spec":{"vulnerability":"`+id+`","kinds":["vulnerabilityreports"]}}`)
		var query reportsv1.FindingQuery
		if err := json.Unmarshal([]byte(text), &query); err != nil || code != http.StatusCreated {
			t.Fatal(code, text, err)
		}
		var found []string
		for _, row := range query.Status.Rows {
			found = append(found, row.Policy)
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s finds %q, want %q", id, got, want)
		}
	}
}

// What a hook has copied of an image's findings into a PolicyReport counts once, and the results beside it keep their details.
func TestCopiesCountOnce(t *testing.T) {
	t.Parallel()
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	body := `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"scan"},"results":[
		{"policy":"CVE-1","severity":"high","message":"copied","properties":{"scanyard.io/origin":"VulnerabilityReport/api"}},
		{"policy":"CVE-1","severity":"high","message":"own"}]}`
	if code, answer := server.do("admin-token", http.MethodPost, fmt.Sprintf(reportsPath, "team-a"), body); code != http.StatusCreated {
		t.Fatal(code, answer)
	}
	code, text := server.do("admin-token", http.MethodPost, fmt.Sprintf(queriesPath, "team-a"),
		`{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"FindingQuery","metadata":{},"spec":{"vulnerability":"CVE-1"}}`)
	var query reportsv1.FindingQuery
	if err := json.Unmarshal([]byte(text), &query); err != nil || code != http.StatusCreated {
		t.Fatal(code, text, err)
	}
	if rows := query.Status.Rows; len(rows) != 1 || rows[0].Message != "own" || *query.Status.Total != 1 {
		t.Errorf("%+v", rows)
	}
}
