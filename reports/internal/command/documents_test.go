// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

const (
	imagesPath = "/apis/reports.scanyard.io/v1alpha1/namespaces/team-a/images"
	sbomsPath  = "/apis/reports.scanyard.io/v1alpha1/namespaces/team-a/sboms"
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
	encoder, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20)) // as the worker has it
	if err != nil {
		p.t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	code, said := p.send(http.MethodPut, sbomsPath+"/"+name+"/document", encoder.EncodeAll(content, nil), map[string]string{
		"Content-Type": "application/octet-stream", "Content-Encoding": "zstd", reportsv1.HeaderSHA256: hex.EncodeToString(sum[:]), reportsv1.HeaderClaim: "mine",
		reportsv1.HeaderSpec: base64.StdEncoding.EncodeToString([]byte(`{"engine":{"name":"mini","version":"1"}}`)),
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

// A document of 20 MB is written and read with little more memory than a small one.
func TestMemoryOfDocuments(t *testing.T) {
	const most = 32 << 10            // KiB
	t.Setenv("GOMEMLIMIT", "460MiB") // as the chart has it
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	server.upload("small", document(1_000))
	idle := server.memory("VmRSS:")
	server.upload("large", document(20_000_000))
	written := server.peak() - idle
	if code, said := server.send(http.MethodGet, sbomsPath+"/large/document", nil, nil); code != http.StatusOK || len(said) < 20_000_000 {
		t.Fatal(code, len(said))
	}
	read := server.peak() - idle
	t.Logf("%d MiB when idle, %d MiB more to write, %d MiB more to read", idle>>10, written>>10, read>>10)
	if read > most {
		t.Errorf("%d MiB more than %d MiB, must be %d at most", read>>10, idle>>10, most>>10)
	}
}
