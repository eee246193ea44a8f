// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// Reports is the program of the reports API, on a database of its own.
type Reports struct {
	t   testing.TB
	url *url.URL
	// door is where clients find the API server of the cluster and the reports API, as behind the aggregation of a cluster.
	door *httptest.Server
}

// ServeReports has the user's cluster serve the reports API, until the test ends.
func (w *World) ServeReports() *Reports {
	t := w.T
	t.Helper()
	r := &Reports{t: t}
	var err error
	if r.url, err = url.Parse(testcluster.StartReports(t).URL); err != nil {
		t.Fatal(err)
	}
	direct, err := url.Parse(w.Cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(w.Cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	cluster := quietProxy(direct)
	cluster.Transport = transport
	reports := quietProxy(r.url)
	rewrite := reports.Director                //nolint:staticcheck // it is the one of NewSingleHostReverseProxy
	reports.Director = func(q *http.Request) { //nolint:staticcheck // see above
		rewrite(q)
		q.Header.Set("Authorization", "Bearer "+testcluster.ReportsToken)
	}
	group := "/apis/" + reportsv1.SchemeGroupVersion.Group
	r.door = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path == "/apis":
			r.groups(out, q, transport, direct)
		case strings.HasPrefix(q.URL.Path, group):
			reports.ServeHTTP(out, q)
		default:
			cluster.ServeHTTP(out, q)
		}
	}))
	t.Cleanup(r.door.Close)
	if err := WriteKubeconfig(w.Kubeconfig, &rest.Config{Host: r.door.URL}, w.Namespace); err != nil {
		t.Fatal(err)
	}
	return r
}

func quietProxy(to *url.URL) *httputil.ReverseProxy {
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	proxy.FlushInterval = -1 // watches
	return proxy
}

// groups answers which groups there are: those of the cluster, and that of the reports API.
func (r *Reports) groups(out http.ResponseWriter, q *http.Request, transport http.RoundTripper, cluster *url.URL) {
	all := metav1.APIGroupList{}
	ask := &http.Client{Transport: transport}
	request, err := http.NewRequestWithContext(q.Context(), http.MethodGet, cluster.JoinPath("/apis").String(), http.NoBody)
	if err == nil {
		request.Header.Set("Accept", "application/json")
		var answer *http.Response
		if answer, err = ask.Do(request); err == nil {
			err = json.NewDecoder(answer.Body).Decode(&all)
			_ = answer.Body.Close() // it was read
		}
	}
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadGateway)
		return
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: reportsv1.SchemeGroupVersion.String(), Version: reportsv1.SchemeGroupVersion.Version}
	all.Groups = append(all.Groups, metav1.APIGroup{
		Name: reportsv1.SchemeGroupVersion.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	})
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(all) // the client may have gone
}

// Send sends a body to the reports API as workers do, and gives the answer.
func (r *Reports) Send(method, path string, body any, header map[string]string) []byte {
	r.t.Helper()
	raw, ok := body.([]byte)
	if !ok {
		encoded, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		raw = encoded
	}
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url.JoinPath("/apis/"+reportsv1.SchemeGroupVersion.String()).String()+path, bytes.NewReader(raw))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testcluster.ReportsToken)
	request.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	content, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it was read
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		r.t.Fatalf("%s %s: %s %v: %s", method, path, answer.Status, err, content)
	}
	return content
}

// upload streams a document.
func (r *Reports) upload(path, claim string, about any, document []byte) {
	r.t.Helper()
	encoded, err := json.Marshal(about)
	if err != nil {
		r.t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(document)
	if closeErr := w.Close(); err != nil || closeErr != nil {
		r.t.Fatal(err, closeErr)
	}
	sum := sha256.Sum256(document)
	r.Send(http.MethodPut, path, packed.Bytes(), map[string]string{
		"Content-Encoding": "gzip", reportsv1.HeaderSHA256: hex.EncodeToString(sum[:]), reportsv1.HeaderClaim: claim,
		reportsv1.HeaderSpec: base64.StdEncoding.EncodeToString(encoded), "Content-Type": "application/octet-stream",
	})
}

const (
	claimOfTests = "claim"
	engineName   = "mini"
)

// Image stores an Image as a worker does that has found it. The status is written apart.
func (r *Reports) Image(namespace string, image *reportsv1.Image) {
	r.t.Helper()
	image.APIVersion, image.Kind, image.Namespace = reportsv1.SchemeGroupVersion.String(), "Image", namespace
	r.Send(http.MethodPost, "/namespaces/"+namespace+"/images", image, nil)
	if image.Status.Presence != "" || image.Status.State != "" {
		r.Send(http.MethodPatch, "/namespaces/"+namespace+"/images/"+image.Name+"/status", map[string]any{"status": image.Status},
			map[string]string{"Content-Type": "application/merge-patch+json"})
	}
}

// SBOM stores the SBOM of an Image, with these packages, and returns its sum.
func (r *Reports) SBOM(namespace, image string, packages ...string) string {
	r.t.Helper()
	r.Send(http.MethodPatch, "/namespaces/"+namespace+"/images/"+image+"/status",
		map[string]any{"status": map[string]any{"presence": "Present", "state": "GeneratingSBOM", "work": map[string]any{"claim": claimOfTests, "attempt": 1}}},
		map[string]string{"Content-Type": "application/merge-patch+json"})
	document := SPDX(r.t, packages...)
	r.upload("/namespaces/"+namespace+"/sboms/"+image+"/document", claimOfTests, reportsv1.SBOMUpload{Engine: &reportsv1.Engine{Name: engineName, Version: "1"}}, document)
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

// SPDX is a document with packages, by their package URLs.
func SPDX(t testing.TB, packages ...string) []byte {
	t.Helper()
	listed := make([]map[string]any, 0, len(packages))
	for i, purl := range packages {
		name, version, _ := strings.Cut(purl[strings.LastIndexByte(purl, '/')+1:], "@")
		listed = append(listed, map[string]any{
			"SPDXID": fmt.Sprintf("SPDXRef-%d", i), "name": name, "versionInfo": version, "licenseDeclared": "NOASSERTION",
			"externalRefs": []map[string]any{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}},
		})
	}
	document, err := json.Marshal(map[string]any{"spdxVersion": "SPDX-2.3", "packages": listed})
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// Findings stores the report of an Image whose SBOM has this sum.
func (r *Reports) Findings(namespace, image, sbom string, built metav1.Time, findings ...reportsv1.VulnerabilityFinding) {
	r.t.Helper()
	var lines bytes.Buffer
	for i := range findings {
		line, err := json.Marshal(&findings[i])
		if err != nil {
			r.t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	for i := range findings {
		fmt.Fprintf(&lines, "{\"purl\":%q,\"keys\":[\"x|y\"]}\n", findings[i].Package.PURL)
	}
	r.upload("/namespaces/"+namespace+"/vulnerabilityreports/"+image+"/findings", "", reportsv1.FindingsUpload{Provenance: reportsv1.Provenance{
		Engine: &reportsv1.Engine{Name: engineName, Version: "1"}, Adapter: &reportsv1.Adapter{Name: engineName, Version: "1"}, SBOM: &reportsv1.SBOMSource{SHA256: sbom},
		Database: &reportsv1.DatabaseUsed{DatabaseRef: reportsv1.DatabaseRef{Name: engineName, Version: fmt.Sprintf("sha256:db%d", built.Unix()), BuiltAt: &built}},
	}}, lines.Bytes())
}

// Repository stores what discovery knows of a repository of the Registry prod.
func (r *Reports) Repository(namespace, name, repository string, tags ...reportsv1.Tag) {
	r.t.Helper()
	object := &reportsv1.Repository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.APIVersion, object.Kind = reportsv1.SchemeGroupVersion.String(), "Repository"
	object.Spec = reportsv1.RepositorySpec{Registry: reportsv1.RegistryRef{Name: "prod", UID: "uid-1", Host: "registry.example.com"}, Repository: repository}
	path := "/namespaces/" + namespace + "/repositories"
	r.Send(http.MethodPost, path, object, nil)
	r.Send(http.MethodPatch, path+"/"+name+"/status", map[string]any{"status": map[string]any{"state": "Working", "work": map[string]any{"claim": claimOfTests, "attempt": 1}}},
		map[string]string{"Content-Type": "application/merge-patch+json"})
	document, err := json.Marshal(map[string]any{"tags": tags})
	if err != nil {
		r.t.Fatal(err)
	}
	r.upload(path+"/"+name+"/tags", claimOfTests, reportsv1.TagsUpload{Status: reportsv1.RepositoryStatus{State: reportsv1.RepositoryDone}}, document)
}
