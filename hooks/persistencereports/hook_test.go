// SPDX-License-Identifier: Apache-2.0

package persistencereports

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

const testAPI = "TEST_API"

// cluster is started by the first test that wants it, not by processes that are the hook.
var cluster = sync.OnceValues(func() (*testcluster.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c, err := testcluster.Start(ctx)
	started = c
	if err != nil {
		return nil, err
	}
	return c, c.InstallReportCRDs(ctx)
})

var started *testcluster.Cluster

func TestMain(m *testing.M) {
	code := sdktest.Main(m, testHook())
	if started != nil {
		if err := started.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// testHook reaches the API server by an address in its environment.
func testHook() sdk.Hook {
	return Hook(func(env sdk.Env) (*rest.Config, error) { return &rest.Config{Host: env.Get(testAPI)}, nil })
}

var (
	policyReports = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
	openReports   = schema.GroupVersionResource{Group: "openreports.io", Version: "v1alpha1", Resource: "reports"}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// world is a Scan in a namespace of its own, and the way to a real API server that a test may put stones in.
type world struct {
	*sdktest.World

	client    dynamic.Interface
	namespace string
	url       string
	// stones answer instead of the API server where they return a status other than 0.
	stones func(r *http.Request, body []byte) (int, http.Header)
	writes int
	mu     sync.Mutex
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "reports-"}}}
	made, err := client.Resource(namespaces).Create(t.Context(), &namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{World: sdktest.New(t), client: client, namespace: made.GetName(), stones: func(*http.Request, []byte) (int, http.Header) { return 0, nil }}
	w.HandOver = true
	w.scan("nightly", "11111111-1111-4111-8111-111111111111", "2026-01-01T00:00:00Z", "")
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.serve(rw, r, proxy) }))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request, next http.Handler) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	code, header := w.stones(r, body.Bytes())
	if code == 0 && r.Method != http.MethodGet {
		w.writes++
	}
	w.mu.Unlock()
	if code != 0 {
		maps.Copy(rw.Header(), header)
		http.Error(rw, "stone", code)
		return
	}
	r.Body = io.NopCloser(&body)
	next.ServeHTTP(rw, r)
}

// scan is the Scan that the hook runs for next.
func (w *world) scan(name, uid, created, schedule string) {
	owner := ""
	if schedule != "" {
		owner = fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"execution.securecodebox.io/v1","kind":"ScheduledScan","name":%q,"uid":"u"}]`, schedule)
	}
	w.Scan = fmt.Sprintf(`{"apiVersion":"execution.securecodebox.io/v1","kind":"Scan","metadata":{"name":%q,"namespace":%q,"uid":%q,"creationTimestamp":%q,"labels":{"team":"a"}%s},
		"spec":{"scanType":"nmap","parameters":[]},"status":{"state":"HookProcessing"}}`, name, w.namespace, uid, created, owner)
}

// findings are so many, each with its number.
func (w *world) findings(count int) {
	var list []string
	for i := range count {
		list = append(list, fmt.Sprintf(`{"id":"%d","name":"Port %d","category":"Open Port","severity":"LOW","location":"tcp://a:%d","attributes":{"port":%d}}`, i, i, i, i))
	}
	w.Objects["/findings.json"] = []byte("[" + strings.Join(list, ",") + "]")
}

func (w *world) run(t *testing.T, env map[string]string) sdktest.Result {
	t.Helper()
	w.writes = 0
	all := map[string]string{testAPI: w.url, "NAMESPACE": w.namespace}
	maps.Copy(all, env)
	return w.Run(t, testHook(), all)
}

func (w *world) succeed(t *testing.T, env map[string]string) {
	t.Helper()
	if got := w.run(t, env); got.ExitCode != 0 {
		t.Fatalf("exit code %d: %s", got.ExitCode, got.Stderr)
	}
}

// reports are those of the namespace, by name.
func (w *world) reports(t *testing.T, resource schema.GroupVersionResource) []unstructured.Unstructured {
	t.Helper()
	list, err := w.client.Resource(resource).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// shape is what a report is called and how many results it has.
func shape(reports []unstructured.Unstructured) map[string]int {
	all := map[string]int{}
	for _, r := range reports {
		results, _, _ := unstructured.NestedSlice(r.Object, "results")
		all[r.GetName()] = len(results)
	}
	return all
}

func TestReportsOfAScan(t *testing.T) {
	w := newWorld(t)
	w.findings(3)
	w.succeed(t, nil)
	reports := w.reports(t, policyReports)
	if diff := cmp.Diff(map[string]int{"nightly-00": 3}, shape(reports)); diff != "" {
		t.Fatal(diff)
	}
	r := reports[0]
	wantLabels := map[string]string{"team": "a", policyreport.LabelScan: "nightly", policyreport.LabelScanType: "nmap", policyreport.LabelChunk: "00", policyreport.LabelManagedBy: "scanyard"}
	if diff := cmp.Diff(wantLabels, r.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if a := r.GetAnnotations(); a[policyreport.AnnotationScanUID] != "11111111-1111-4111-8111-111111111111" || a[policyreport.AnnotationChunks] != "1" || len(a[policyreport.AnnotationRun]) != 64 {
		t.Errorf("annotations %v", a)
	}
	owners := r.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "Scan" || owners[0].Name != "nightly" || owners[0].Controller != nil {
		t.Errorf("owners %v", owners)
	}
	if managers := r.GetManagedFields(); len(managers) != 1 || managers[0].Manager != fieldManager || managers[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managers %v", managers)
	}
	wantSummary := map[string]any{"pass": int64(0), "fail": int64(3), "warn": int64(0), "error": int64(0), "skip": int64(0)}
	if diff := cmp.Diff(any(wantSummary), r.Object["summary"]); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// TestAgain: a Job that is started again changes nothing.
func TestAgain(t *testing.T) {
	w := newWorld(t)
	w.findings(5)
	env := map[string]string{"REPORTS_CHUNK_RESULTS": "2"}
	w.succeed(t, env)
	first := w.reports(t, policyReports)
	if diff := cmp.Diff(map[string]int{"nightly-00": 2, "nightly-01": 2, "nightly-02": 1}, shape(first)); diff != "" {
		t.Fatal(diff)
	}
	w.succeed(t, env)
	if diff := cmp.Diff(first, w.reports(t, policyReports)); diff != "" {
		t.Errorf("the second run changed (-first +second):\n%s", diff)
	}
}

// TestFewer: the reports of the run before are replaced, and those that are too many go last.
// This is row 42 of the fault list of the reports API.
func TestFewer(t *testing.T) {
	w := newWorld(t)
	env := map[string]string{"REPORTS_CHUNK_RESULTS": "1"}
	w.findings(4)
	w.succeed(t, env)
	w.findings(2)
	var order []string
	w.stones = func(r *http.Request, _ []byte) (int, http.Header) {
		if r.Method != http.MethodGet {
			order = append(order, r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		}
		return 0, nil
	}
	w.succeed(t, env)
	if diff := cmp.Diff([]string{"PATCH nightly-00", "PATCH nightly-01", "DELETE nightly-02", "DELETE nightly-03"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.findings(0)
	w.succeed(t, env)
	if diff := cmp.Diff(map[string]int{"nightly-00": 0}, shape(w.reports(t, policyReports))); diff != "" {
		t.Errorf("nothing found (-want +got):\n%s", diff)
	}
	w.succeed(t, map[string]string{"REPORTS_ZERO_FINDINGS": "false"})
	if got := shape(w.reports(t, policyReports)); len(got) != 0 {
		t.Errorf("nothing found, and nothing to say of that: %v", got)
	}
}

// TestHalfWritten: a Job that died between two reports is completed by the next one.
// This is row 41 of the fault list of the reports API.
func TestHalfWritten(t *testing.T) {
	w := newWorld(t)
	w.findings(3)
	env := map[string]string{"REPORTS_CHUNK_RESULTS": "1"}
	w.stones = func(r *http.Request, _ []byte) (int, http.Header) {
		if strings.HasSuffix(r.URL.Path, "-01") {
			return http.StatusForbidden, nil
		}
		return 0, nil
	}
	if got := w.run(t, env); got.ExitCode != 1 || !strings.Contains(got.Stderr, "write PolicyReport nightly-01") {
		t.Fatalf("exit code %d: %s", got.ExitCode, got.Stderr)
	}
	w.stones = func(*http.Request, []byte) (int, http.Header) { return 0, nil }
	w.succeed(t, env)
	if diff := cmp.Diff(map[string]int{"nightly-00": 1, "nightly-01": 1, "nightly-02": 1}, shape(w.reports(t, policyReports))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSchedule: a Scan of a schedule replaces the one before it, never a later one.
func TestSchedule(t *testing.T) {
	w := newWorld(t)
	w.findings(1)
	run := func(name, day string, env map[string]string) {
		w.scan(name, "u-"+name, "2026-01-"+day+"T00:00:00Z", "daily")
		w.succeed(t, env)
	}
	names := func() []string {
		return slices.Sorted(maps.Keys(shape(w.reports(t, policyReports))))
	}
	run("a", "01", nil)
	run("c", "03", nil)
	if diff := cmp.Diff([]string{"c-00"}, names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	run("b", "02", nil)
	if diff := cmp.Diff([]string{"b-00", "c-00"}, names()); diff != "" {
		t.Errorf("a late hook (-want +got):\n%s", diff)
	}
	run("d", "04", map[string]string{"REPORTS_KEEP": "true", "REPORTS_HISTORY_PER_SCHEDULE": "2"})
	if diff := cmp.Diff([]string{"c-00", "d-00"}, names()); diff != "" {
		t.Errorf("history of 2 (-want +got):\n%s", diff)
	}
	for _, r := range w.reports(t, policyReports) {
		if kept := len(r.GetOwnerReferences()) == 0; kept != (r.GetName() == "d-00") {
			t.Errorf("%s has the owners %v", r.GetName(), r.GetOwnerReferences())
		}
	}
}

// TestTakenOver: fields that another client has written become the hook's.
func TestTakenOver(t *testing.T) {
	w := newWorld(t)
	w.findings(1)
	w.succeed(t, nil)
	_, err := w.client.Resource(policyReports).Namespace(w.namespace).Patch(t.Context(), "nightly-00", "application/merge-patch+json",
		[]byte(`{"summary":{"fail":7},"metadata":{"labels":{"mine":"x"}}}`), metav1.PatchOptions{FieldManager: "kubectl"})
	if err != nil {
		t.Fatal(err)
	}
	w.succeed(t, nil)
	r := w.reports(t, policyReports)[0]
	if fail, _, _ := unstructured.NestedInt64(r.Object, "summary", "fail"); fail != 1 || r.GetLabels()["mine"] != "x" {
		t.Errorf("fail %d, labels %v", fail, r.GetLabels())
	}
}

func TestOpenReports(t *testing.T) {
	w := newWorld(t)
	w.findings(2)
	w.succeed(t, map[string]string{"REPORTS_GROUP": "openreports.io"})
	if diff := cmp.Diff(map[string]int{"nightly-00": 2}, shape(w.reports(t, openReports))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBusyServer: a server that asks to wait is asked again.
func TestBusyServer(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		w := newWorld(t)
		w.findings(1)
		refused := 0
		w.stones = func(*http.Request, []byte) (int, http.Header) {
			if refused++; refused <= 2 {
				return code, http.Header{"Retry-After": {"1"}}
			}
			return 0, nil
		}
		w.succeed(t, nil)
		if got := shape(w.reports(t, policyReports)); got["nightly-00"] != 1 {
			t.Errorf("%d: %v", code, got)
		}
	}
}

// TestSmallServer: reports become smaller until the server takes them.
func TestSmallServer(t *testing.T) {
	w := newWorld(t)
	w.findings(8)
	w.stones = func(r *http.Request, body []byte) (int, http.Header) {
		if bytes.Count(body, []byte(`"policy"`)) > 2 {
			return http.StatusRequestEntityTooLarge, nil
		}
		return 0, nil
	}
	w.succeed(t, map[string]string{"REPORTS_CHUNK_RESULTS": "8"})
	want := map[string]int{"nightly-00": 2, "nightly-01": 2, "nightly-02": 2, "nightly-03": 2}
	if diff := cmp.Diff(want, shape(w.reports(t, policyReports))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.stones = func(r *http.Request, _ []byte) (int, http.Header) {
		if r.Method == http.MethodPatch {
			return http.StatusRequestEntityTooLarge, nil
		}
		return 0, nil
	}
	if got := w.run(t, nil); got.ExitCode != 1 || !strings.Contains(got.Stderr, "one result alone is too large") {
		t.Errorf("exit code %d: %s", got.ExitCode, got.Stderr)
	}
}

// TestGroupNotServed: the error says what to install, and differs from the one of a namespace that is gone.
func TestGroupNotServed(t *testing.T) {
	w := newWorld(t)
	w.findings(1)
	w.stones = func(*http.Request, []byte) (int, http.Header) { return http.StatusNotFound, nil }
	if got := w.run(t, nil); got.ExitCode != 1 || !strings.Contains(got.Stderr, "install charts/reports or the PolicyReport CRDs") {
		t.Errorf("exit code %d: %s", got.ExitCode, got.Stderr)
	}
	status := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Details: &metav1.StatusDetails{Kind: "namespaces"}}
	if err := explained(&apierrors.StatusError{ErrStatus: status}); strings.Contains(err.Error(), "install") {
		t.Error(err)
	}
}

// TestMemoryIsBounded writes findings of 30 MB. SCANYARD_TEST_FINDINGS changes their number.
func TestMemoryIsBounded(t *testing.T) {
	count := sdktest.HowMany(t, 100_000)
	received := 0
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/findings.json":
			writeFindings(rw, count)
		case r.Method == http.MethodPatch:
			var body struct {
				Results []json.RawMessage `json:"results"`
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				http.Error(rw, err.Error(), http.StatusBadRequest)
			}
			received += len(body.Results)
			fmt.Fprint(rw, "{}")
		case strings.HasSuffix(r.URL.Path, "/policyreports"):
			fmt.Fprint(rw, `{"metadata":{},"items":[]}`)
		default:
			fmt.Fprint(rw, `{"kind":"Scan","metadata":{"name":"s","namespace":"ns","uid":"u"},"spec":{"scanType":"nmap"}}`)
		}
	}))
	defer server.Close()
	sdktest.Measure(t, server.URL, []string{testAPI + "=" + server.URL}, server.URL+"/raw?sig=1", server.URL+"/findings.json?sig=1")
	if received != count {
		t.Errorf("%d results were received, want %d", received, count)
	}
}

func writeFindings(out io.Writer, count int) {
	text := strings.Repeat("z", 150)
	separator := "["
	for i := range count {
		if _, err := fmt.Fprintf(out, `%s{"id":"%08d","name":"Open Port: 22","description":"%s","category":"Open Port","severity":"INFORMATIONAL","attributes":{"port":22,"state":"open"}}`,
			separator, i, text); err != nil {
			return // the hook has gone, which its exit code shows
		}
		separator = ","
	}
	fmt.Fprint(out, "]")
}
