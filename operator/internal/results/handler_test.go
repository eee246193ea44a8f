// SPDX-License-Identifier: Apache-2.0

package results_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	api "github.com/scanyard/scanyard/apis/results"
	"github.com/scanyard/scanyard/operator/internal/certificate"
	"github.com/scanyard/scanyard/operator/internal/endpoint"
	"github.com/scanyard/scanyard/operator/internal/results"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/store/storetest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// world is a Scan that has stored its results, somebody with the right get on them, and the endpoint.
type world struct {
	*testing.T

	scan  *executionv1.Scan
	store *store.Store
	http  *http.Client
	base  string
	// logged is what the endpoint has logged.
	mu     sync.Mutex
	logged strings.Builder
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T, change ...func(*results.Options)) *world {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	must(t, cluster.Client.Create(t.Context(), ns))
	w := &world{T: t}
	w.scan = &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "s"}, Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{}}}
	must(t, cluster.Client.Create(t.Context(), w.scan))
	before := w.scan.DeepCopy()
	w.scan.Status.State, w.scan.Status.RawResultFile = executionv1.ScanStateDone, "nmap-results.xml"
	must(t, cluster.Client.Status().Patch(t.Context(), w.scan, client.MergeFrom(before)))
	var err error
	w.store, err = store.New(storetest.Config(cluster))
	must(t, err)
	for _, account := range []string{"forwarder", "nobody"} {
		must(t, cluster.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: account}}))
	}
	w.grant(ns.Name, "get")
	w.serve(change)
	return w
}

// grant gives the forwarder verbs on the results of a namespace.
func (w *world) grant(namespace string, verbs ...string) {
	w.Helper()
	name := "results-" + strings.Join(verbs, "-")
	must(w.T, cluster.Client.Create(w.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"execution.securecodebox.io"}, Resources: []string{"scans/results"}, Verbs: verbs}},
	}))
	must(w.T, cluster.Client.Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.scan.Namespace, Name: "forwarder"}},
	}))
}

// upload stores a file of the Scan.
func (w *world) upload(file, content string) {
	w.Helper()
	link, err := w.store.PresignUpload(w.Context(), store.OwnerOf(w.scan), file, time.Minute)
	must(w.T, err)
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPut, link, strings.NewReader(content))
	must(w.T, err)
	resp, err := http.DefaultClient.Do(req)
	must(w.T, err)
	must(w.T, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		w.Fatalf("storage answers %s", resp.Status)
	}
}

func (w *world) serve(change []func(*results.Options)) {
	w.Helper()
	ns := w.scan.Namespace
	cert, err := certificate.Ensure(w.Context(), cluster.Client, certificate.Request{Secret: client.ObjectKey{Namespace: ns, Name: "tls"}, Host: "127.0.0.1"}, time.Now())
	must(w.T, err)
	must(w.T, results.Publish(w.Context(), cluster.Client, ns, cert.CA))
	l, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", "127.0.0.1:0")
	must(w.T, err)
	o := results.Options{Review: cluster.Client, Live: cluster.Client, Storage: w.store}
	for _, f := range change {
		f(&o)
	}
	server := endpoint.NewServer(l, cert.TLS, results.NewHandler(o).Handlers())
	logger := funcr.New(func(_, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.logged.WriteString(args + "\n")
	}, funcr.Options{Verbosity: 10})
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(w.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		if said := w.logged.String(); strings.Contains(said, "X-Amz") {
			w.Errorf("the log holds a signed URL:\n%s", said)
		}
	})
	var ca corev1.ConfigMap
	must(w.T, cluster.Client.Get(w.Context(), client.ObjectKey{Namespace: ns, Name: "scanyard-results-ca"}, &ca))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca.Data["ca.crt"]))
	w.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	w.base = "https://" + l.Addr().String()
}

func (w *world) token(account, audience string) string {
	w.Helper()
	set, err := kubernetes.NewForConfig(cluster.Config)
	must(w.T, err)
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	r, err = set.CoreV1().ServiceAccounts(w.scan.Namespace).CreateToken(w.Context(), account, r, metav1.CreateOptions{})
	must(w.T, err)
	return r.Status.Token
}

// post sends a body and reads the answer into one of two.
func (w *world) post(path, token, body string, into any) (int, api.Refusal) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.base+path, strings.NewReader(body))
	must(w.T, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := w.http.Do(req)
	must(w.T, err)
	defer func() { must(w.T, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	must(w.T, err)
	if resp.StatusCode == http.StatusOK {
		must(w.T, json.Unmarshal(text, into))
		return resp.StatusCode, api.Refusal{}
	}
	if strings.Contains(string(text), "X-Amz") {
		w.Errorf("a refusal holds a URL: %s", text)
	}
	var r api.Refusal
	must(w.T, json.Unmarshal(text, &r))
	return resp.StatusCode, r
}

// body is a request for a file of the Scan, with some of its fields changed.
func (w *world) body(file string, change ...func(*api.URLRequest)) string {
	w.Helper()
	r := api.URLRequest{Namespace: w.scan.Namespace, Name: w.scan.Name, UID: string(w.scan.UID), File: file}
	for _, f := range change {
		f(&r)
	}
	text, err := json.Marshal(r)
	must(w.T, err)
	return string(text)
}

func TestResultsAreReadByTheirURL(t *testing.T) {
	w := newWorld(t)
	contents := map[string]string{api.FileFindings: `[{"name":"a"}]`, api.FileRaw: "<nmaprun/>"}
	w.upload("findings.json", contents[api.FileFindings])
	w.upload("nmap-results.xml", contents[api.FileRaw])
	token := w.token("forwarder", api.Audience)
	for file, want := range contents {
		var a api.URLAnswer
		if code, r := w.post(api.URLPath, token, w.body(file), &a); code != http.StatusOK {
			t.Fatalf("%s: %d %+v", file, code, r)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL, http.NoBody)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		got, err := io.ReadAll(resp.Body)
		must(t, errors.Join(err, resp.Body.Close()))
		if string(got) != want || a.Size != int64(len(want)) || a.ETag != strings.Trim(resp.Header.Get("ETag"), `"`) || a.ETag == "" || a.LastModified.IsZero() {
			t.Errorf("%s: %q, said %+v", file, got, a)
		}
		if !strings.Contains(a.URL, "X-Amz-Expires=900") {
			t.Errorf("%s: the URL is not good for 15 minutes", file)
		}
	}
}

func TestURLRefused(t *testing.T) {
	w := newWorld(t)
	w.upload("findings.json", "[]")
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	must(t, cluster.Client.Create(t.Context(), other))
	own, pods := w.token("forwarder", api.Audience), w.token("nobody", api.Audience)
	good := w.body(api.FileFindings)
	with := func(f func(*api.URLRequest)) string { return w.body(api.FileFindings, f) }
	cases := map[string]struct {
		reason      string
		token, body string
		code        int
		want        string
	}{
		"NoToken":        {"nobody is known", "", good, 401, "Unauthenticated"},
		"Garbage":        {"nobody is known", "x.y.z", good, 401, "Unauthenticated"},
		"OtherAudience":  {"a token for the API server is not for here", w.token("forwarder", "https://kubernetes.default.svc"), good, 401, "Unauthenticated"},
		"UploadToken":    {"nor is that of a lurker", w.token("forwarder", "scanyard-upload"), good, 401, "Unauthenticated"},
		"NoRight":        {"an account without the right", pods, good, 403, "Forbidden"},
		"OtherNamespace": {"the right is for one namespace", own, with(func(r *api.URLRequest) { r.Namespace = other.Name }), 403, "Forbidden"},
		"EmptyNamespace": {"a review without namespace is about all", own, with(func(r *api.URLRequest) { r.Namespace = "" }), 400, "BadRequest"},
		"EmptyUID":       {"a Scan made again must not pass for the old one", own, with(func(r *api.URLRequest) { r.UID = "" }), 400, "BadRequest"},
		"OtherFile":      {"only two files have a name here", own, w.body("../x"), 400, "BadRequest"},
		"UnknownField":   {"a caller that asks for more is told", own, `{"namspace":"x"}`, 400, "BadRequest"},
		"TwoObjects":     {"one call, one answer", own, good + good, 400, "BadRequest"},
		"Long":           {"bodies are bounded", own, `{"name":"` + strings.Repeat("x", 70<<10) + `"}`, 400, "BadRequest"},
		"NoScan":         {"the Scan is gone", own, with(func(r *api.URLRequest) { r.Name = "gone" }), 404, "ScanNotFound"},
		"MadeAgain":      {"another Scan has the name", own, with(func(r *api.URLRequest) { r.UID = "0b1f4f5c-0000-4000-8000-000000000000" }), 409, "UIDMismatch"},
		"NotStored":      {"the raw result was removed", own, w.body(api.FileRaw), 404, "ResultsMissing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if code, r := w.post(api.URLPath, tc.token, tc.body, nil); code != tc.code || r.Reason != tc.want || r.Message == "" {
				t.Errorf("%s: %d %+v, want %d %s", tc.reason, code, r, tc.code, tc.want)
			}
		})
	}
}

// TestOtherNamespacesAreNotRead: an operator of some namespaces has no right in others.
func TestOtherNamespacesAreNotRead(t *testing.T) {
	w := newWorld(t, func(o *results.Options) { o.Namespaces = []string{"team-a"} })
	if code, r := w.post(api.URLPath, w.token("forwarder", api.Audience), w.body(api.FileFindings), nil); code != 404 || r.Reason != api.ReasonScanNotFound {
		t.Errorf("%d %+v", code, r)
	}
}

// TestForgedPlaceHasNoEffect: whoever may edit a Scan can write where its results lie.
func TestForgedPlaceHasNoEffect(t *testing.T) {
	w := newWorld(t)
	w.upload("findings.json", "[]")
	for place, want := range map[string]string{`{"bucket":"of-others"}`: api.ReasonStorageUnavailable, "nonsense": api.ReasonResultsMissing} {
		before := w.scan.DeepCopy()
		metav1.SetMetaDataAnnotation(&w.scan.ObjectMeta, executionv1.AnnotationStoragePlace, place)
		must(t, cluster.Client.Patch(t.Context(), w.scan, client.MergeFrom(before)))
		if code, r := w.post(api.URLPath, w.token("forwarder", api.Audience), w.body(api.FileFindings), nil); r.Reason != want {
			t.Errorf("%s: %d %+v, want %s", place, code, r, want)
		}
	}
}

// blocking is a storage that answers when it is let.
type blocking struct {
	results.Storage

	entered, open chan struct{}
}

func (b *blocking) Stat(context.Context, store.Owner, string) (store.Object, bool, error) {
	b.entered <- struct{}{}
	<-b.open
	return store.Object{}, false, nil
}

// TestConcurrentCallsAreBounded: what is more is told to come again, and finds room when others are through.
func TestConcurrentCallsAreBounded(t *testing.T) {
	const most = 64
	b := &blocking{entered: make(chan struct{}, most+1), open: make(chan struct{})}
	w := newWorld(t, func(o *results.Options) { o.Storage = b })
	token, body := w.token("forwarder", api.Audience), w.body(api.FileFindings)
	codes := make(chan int, most)
	for range most {
		go func() {
			code, _ := w.post(api.URLPath, token, body, nil)
			codes <- code
		}()
	}
	for range most {
		<-b.entered
	}
	if code, r := w.post(api.URLPath, token, body, nil); code != http.StatusTooManyRequests || r.Reason != api.ReasonTooManyCalls {
		t.Errorf("the call beyond: %d %+v", code, r)
	}
	close(b.open)
	for range most {
		if code := <-codes; code != http.StatusNotFound {
			t.Errorf("a call that waited: %d", code)
		}
	}
	if code, _ := w.post(api.URLPath, token, body, nil); code != http.StatusNotFound {
		t.Errorf("afterwards: %d", code)
	}
}

// TestPublishFollowsTheAuthority: a ConfigMap of an earlier start, or of somebody else, is written over.
func TestPublishFollowsTheAuthority(t *testing.T) {
	w := newWorld(t)
	key := client.ObjectKey{Namespace: w.scan.Namespace, Name: api.CAConfigMap}
	for _, ca := range []string{"one", "two", "two"} {
		must(t, results.Publish(t.Context(), cluster.Client, key.Namespace, ca))
		var have corev1.ConfigMap
		must(t, cluster.Client.Get(t.Context(), key, &have))
		if len(have.Data) != 1 || have.Data["ca.crt"] != ca {
			t.Errorf("published %q, want %q", have.Data, ca)
		}
	}
}
