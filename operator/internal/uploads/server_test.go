// SPDX-License-Identifier: Apache-2.0

package uploads_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/certificate"
	"github.com/scanyard/scanyard/operator/internal/endpoint"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/store/storetest"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
	"github.com/scanyard/scanyard/operator/internal/uploads"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// world is a Scan that is being scanned, its Job and its pod.
type world struct {
	*testing.T

	scan *executionv1.Scan
	job  *batchv1.Job
	pod  *corev1.Pod

	http *http.Client
	url  string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, ctx := cluster.Client, t.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	must(t, c.Create(ctx, ns))
	must(t, c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "lurker"}}))
	w := &world{T: t}
	w.scan = &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "s"}, Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{}}}
	must(t, c.Create(ctx, w.scan))
	w.state(executionv1.ScanStateScanning)
	var err error
	w.job, err = jobs.NewScanner(jobs.Scanner{Scan: w.scan, ScanType: testobjects.ScanTypeSpec(), UploadURL: "https://s3/x", Attempt: 1}, jobs.Config{
		Lurker: jobs.Lurker{Image: "lurker", SeccompProfile: corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
	})
	must(t, err)
	must(t, c.Create(ctx, w.job))
	w.pod = w.podOf(w.job, "scanner-pod")
	w.serve()
	return w
}

func (w *world) state(s executionv1.ScanState) {
	w.Helper()
	before := w.scan.DeepCopy()
	w.scan.Status.State, w.scan.Status.RawResultFile = s, "nmap-results.xml"
	must(w.T, cluster.Client.Status().Patch(w.Context(), w.scan, client.MergeFrom(before)))
}

func (w *world) podOf(j *batchv1.Job, name string) *corev1.Pod {
	w.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}},
		Spec:       j.Spec.Template.Spec,
	}
	must(w.T, cluster.Client.Create(w.Context(), p))
	return p
}

// token returns what kubelet would put into a pod for an audience.
func (w *world) token(pod *corev1.Pod, audience string) string {
	w.Helper()
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if pod != nil {
		r.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	set, err := kubernetes.NewForConfig(cluster.Config)
	must(w.T, err)
	r, err = set.CoreV1().ServiceAccounts(w.scan.Namespace).CreateToken(w.Context(), "lurker", r, metav1.CreateOptions{})
	must(w.T, err)
	return r.Status.Token
}

func (w *world) serve() {
	w.Helper()
	cert, err := certificate.Ensure(w.Context(), cluster.Client, certificate.Request{Secret: client.ObjectKey{Namespace: w.scan.Namespace, Name: "tls"}, Host: "127.0.0.1"}, time.Now())
	must(w.T, err)
	l, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", "127.0.0.1:0")
	must(w.T, err)
	s, err := store.New(storetest.Config(cluster))
	must(w.T, err)
	server := endpoint.NewServer(l, cert.TLS, map[string]http.Handler{uploads.Path: uploads.NewHandler(cluster.Client, cluster.Client, s)})
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(cert.CA))
	w.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	w.url = "https://" + l.Addr().String() + uploads.Path
}

func (w *world) ask(token string) (int, string) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url, http.NoBody)
	must(w.T, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := w.http.Do(req)
	must(w.T, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(w.T, err)
	return resp.StatusCode, string(body)
}

func TestFreshURLIsForOwnRawResult(t *testing.T) {
	w := newWorld(t)
	code, body := w.ask(w.token(w.pod, jobs.UploadAudience))
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	var a uploads.Response
	must(t, json.Unmarshal([]byte(body), &a))
	u, err := url.Parse(a.URL)
	must(t, err)
	if !strings.HasSuffix(u.Path, "/scan-"+string(w.scan.UID)+"/nmap-results.xml") {
		t.Errorf("the URL is for %s", u.Path)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, a.URL, strings.NewReader("late"))
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		t.Errorf("storage answers %s", resp.Status)
	}
}

// TestStatusDoesNotChangeURL: pods of the Scan may write it.
func TestStatusDoesNotChangeURL(t *testing.T) {
	w := newWorld(t)
	before := w.scan.DeepCopy()
	w.scan.Status.RawResultFile = "findings.json"
	must(t, cluster.Client.Status().Patch(t.Context(), w.scan, client.MergeFrom(before)))
	code, body := w.ask(w.token(w.pod, jobs.UploadAudience))
	if code != http.StatusOK || !strings.Contains(body, "/scan-"+string(w.scan.UID)+"/nmap-results.xml?") {
		t.Errorf("%d %s", code, body)
	}
	// A Job of an operator that wrote no annotation says it by the argument of the lurker.
	job := w.job.DeepCopy()
	w.job.Annotations = nil
	must(t, cluster.Client.Patch(t.Context(), w.job, client.MergeFrom(job)))
	if code, body = w.ask(w.token(w.pod, jobs.UploadAudience)); code != http.StatusOK || !strings.Contains(body, "/nmap-results.xml?") {
		t.Errorf("%d %s", code, body)
	}
}

// TestFreshURLBesideAParser: the parser in the scanner's pod works while the lurker uploads, and the Scan may show that.
func TestFreshURLBesideAParser(t *testing.T) {
	w := newWorld(t)
	before := w.job.DeepCopy()
	metav1.SetMetaDataAnnotation(&w.job.ObjectMeta, executionv1.AnnotationPhases, string(executionv1.PhasesFused))
	must(t, cluster.Client.Patch(t.Context(), w.job, client.MergeFrom(before)))
	token := w.token(w.pod, jobs.UploadAudience)
	for state, want := range map[executionv1.ScanState]int{
		executionv1.ScanStateParsing: http.StatusOK, executionv1.ScanStateHookProcessing: http.StatusForbidden,
	} {
		w.state(state)
		if code, body := w.ask(token); code != want {
			t.Errorf("%s: %d %s, want %d", state, code, body, want)
		}
	}
}

func TestUploadURLRefused(t *testing.T) {
	cases := map[string]struct {
		reason string
		token  func(*world) string
		want   int
	}{
		"NoToken":       {"no client", func(*world) string { return "" }, http.StatusUnauthorized},
		"Garbage":       {"no client", func(*world) string { return "x.y.z" }, http.StatusUnauthorized},
		"OtherAudience": {"a token for the API server is not accepted here", func(w *world) string { return w.token(w.pod, "https://kubernetes.default.svc") }, http.StatusUnauthorized},
		"NotBound":      {"a token that is not a pod's", func(w *world) string { return w.token(nil, jobs.UploadAudience) }, http.StatusForbidden},
		"LaterPhase": {"parsers read the raw result: it may not change any more", func(w *world) string {
			token := w.token(w.pod, jobs.UploadAudience)
			w.state(executionv1.ScanStateParsing)
			return token
		}, http.StatusForbidden},
		"EarlierRun": {"the scanner was run again: what an old pod has would replace what the new one stores", func(w *world) string {
			before := w.scan.DeepCopy()
			w.scan.Status.Attempts = &executionv1.PhaseAttempts{Scanner: 2, Parser: 2}
			must(w.T, cluster.Client.Status().Patch(w.Context(), w.scan, client.MergeFrom(before)))
			return w.token(w.pod, jobs.UploadAudience)
		}, http.StatusForbidden},
		"ForgedState": {"the scanner has ended, whatever a pod has written into the status", func(w *world) string {
			token := w.token(w.pod, jobs.UploadAudience)
			now := metav1.Now()
			before := w.job.DeepCopy()
			w.job.Status.StartTime, w.job.Status.CompletionTime, w.job.Status.Succeeded = &now, &now, 1
			w.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
			for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
				w.job.Status.Conditions = append(w.job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
			}
			must(w.T, cluster.Client.Status().Patch(w.Context(), w.job, client.MergeFrom(before)))
			return token
		}, http.StatusForbidden},
		"Cancelled": {"the Scan has ended", func(w *world) string {
			w.state(executionv1.ScanStateErrored)
			return w.token(w.pod, jobs.UploadAudience)
		}, http.StatusForbidden},
		"OtherPod": {"a pod of the namespace that is not a scanner pod", func(w *world) string {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.scan.Namespace, Name: "other"},
				Spec:       corev1.PodSpec{ServiceAccountName: "lurker", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}
			must(w.T, cluster.Client.Create(w.Context(), p))
			return w.token(p, jobs.UploadAudience)
		}, http.StatusForbidden},
		"OtherJob": {"a Job that claims the Scan but is not its scanner", func(w *world) string {
			j := w.job.DeepCopy()
			j.ObjectMeta = metav1.ObjectMeta{Namespace: j.Namespace, Name: "forged", Labels: j.Labels, OwnerReferences: j.OwnerReferences}
			j.Spec.Selector, j.Spec.Template.Labels = nil, nil
			must(w.T, cluster.Client.Create(w.Context(), j))
			return w.token(w.podOf(j, "forged"), jobs.UploadAudience)
		}, http.StatusForbidden},
		"PodGone": {"the token of a pod that is gone", func(w *world) string {
			token := w.token(w.pod, jobs.UploadAudience)
			must(w.T, cluster.Client.Delete(w.Context(), w.pod, client.GracePeriodSeconds(0)))
			return token
		}, http.StatusUnauthorized},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			code, body := w.ask(tc.token(w))
			// The API server accepts the token of a deleted pod until its own watch shows the deletion; the operator refuses the pod then.
			lagging := name == "PodGone" && code == http.StatusForbidden
			if code != tc.want && !lagging || strings.Contains(body, "X-Amz") {
				t.Errorf("%s: %d %s, want %d", tc.reason, code, body, tc.want)
			}
		})
	}
}
