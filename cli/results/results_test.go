// SPDX-License-Identifier: Apache-2.0

package results_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

const one = `[{"id":"1","name":"Open Port","severity":"LOW","category":"c"}]`

// freshLinks answers a wish for links as the operator does.
func freshLinks(w *clitest.World) func(*executionv1.Scan, string) {
	return func(s *executionv1.Scan, wish string) {
		if !strings.HasPrefix(wish, "links@") {
			clitest.Answered(s, metav1.ConditionTrue, executionv1.ReasonRerunStarted, "runs")
			return
		}
		w.Link(s, 7*24*time.Hour)
		clitest.Answered(s, metav1.ConditionTrue, executionv1.ReasonLinksWritten, "written")
	}
}

// TestLinks reads findings through links in every condition that links can be in.
func TestLinks(t *testing.T) {
	broken := func(link string) string { return strings.Replace(link, "X-Amz-Signature=", "X-Amz-Signature=0", 1) }
	cases := map[string]struct {
		edit func(*executionv1.Scan)
		// later is how far the user's clock is ahead.
		later  time.Duration
		silent bool
		says   string
	}{
		"Good":     {silent: true},
		"RunOut":   {later: 2 * time.Hour},
		"AboutTo":  {later: time.Hour - 30*time.Second},
		"Missing":  {edit: func(s *executionv1.Scan) { s.Status.FindingDownloadLink = "" }},
		"Refused":  {edit: func(s *executionv1.Scan) { s.Status.FindingDownloadLink = broken(s.Status.FindingDownloadLink) }},
		"FastUser": {later: 9 * 24 * time.Hour, says: ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := clitest.New(t, cluster)
			if c.edit == nil {
				c.edit = func(*executionv1.Scan) {}
			}
			w.Scan("s", []byte(one), []byte("raw"), c.edit)
			if !c.silent {
				w.Operator(freshLinks(w))
			}
			w.Now = func() time.Time { return time.Now().Add(c.later) }
			if got := w.Run("findings", "s", "-o", "json"); got.Code != 0 || got.Err != "" || !strings.Contains(got.Out, `"Open Port"`) {
				t.Errorf("findings: %+v", got)
			}
			if got := w.Run("raw", "s"); got.Code != 0 || got.Out != "raw" {
				t.Errorf("raw: %+v", got)
			}
		})
	}
}

// TestFindingsOfAnotherClient: they are not the ones that the status names.
func TestFindingsOfAnotherClient(t *testing.T) {
	for name, names := range map[string]string{"Right": one, "Other": strings.Replace(one, "LOW", "low", 1), "Longer": one[1:], "Shorter": one + " "} {
		t.Run(name, func(t *testing.T) {
			w := clitest.New(t, cluster)
			w.Scan("s", []byte(one), nil, func(s *executionv1.Scan) {
				stored := executionv1.StoredObject(outcome.StoredBytes([]byte(names)))
				s.Status.StoredFindings, s.Status.State = &stored, executionv1.ScanStateDone
			})
			got := w.Run("findings", "s", "-o", "json")
			if bad := strings.Contains(got.Err, "another client has written there after the parser"); bad != (name != "Right") || (got.Code != 0) != bad {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestNoLinks names a remedy where no fresh links come.
func TestNoLinks(t *testing.T) {
	cases := map[string]struct {
		operator func(*clitest.World) func(*executionv1.Scan, string)
		args     []string
		says     []string
	}{
		"NoOperator": {nil, []string{"--links-timeout", "1s"}, []string{
			"the link to the findings of Scan s has run out, and the operator did not write another within 1s", `"scanyard doctor" shows whether it runs`,
		}},
		"SwitchedOff": {func(*clitest.World) func(*executionv1.Scan, string) {
			return func(s *executionv1.Scan, _ string) {
				clitest.Answered(s, metav1.ConditionFalse, executionv1.ReasonRerunRefused, "download links are switched off here; --status-links")
			}
		}, nil, []string{"has run out, and the operator writes no other: download links are switched off here; --status-links"}},
		"MayNotAsk": {freshLinks, []string{"--as", "viewer"}, []string{"asking for another needs to change the Scan", `ClusterRole "edit"`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := clitest.New(t, cluster)
			w.Scan("s", []byte(one), nil)
			if c.operator != nil {
				w.Operator(c.operator(w))
			}
			letView(t, w, "viewer")
			w.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
			got := w.Run(append([]string{"findings", "s"}, c.args...)...)
			if got.Code != 1 {
				t.Errorf("exit code %d", got.Code)
			}
			for _, says := range c.says {
				if !strings.Contains(got.Err, says) {
					t.Errorf("stderr %q, want %q", got.Err, says)
				}
			}
			if strings.Contains(got.Err, "X-Amz") {
				t.Errorf("a link is in the message: %s", got.Err)
			}
		})
	}
}

// letView lets a user read Scans, and no more.
func letView(t *testing.T, w *clitest.World, user string) {
	t.Helper()
	name := metav1.ObjectMeta{Namespace: w.Namespace, Name: "view"}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{executionv1.SchemeGroupVersion.Group}, Resources: []string{"scans"}, Verbs: []string{"get", "list", "watch"}}}},
		&rbacv1.RoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "view"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}}},
	} {
		if err := w.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPendingRequestsAreKept asks for links only when what somebody else has asked for is answered.
func TestPendingRequestsAreKept(t *testing.T) {
	w := clitest.New(t, cluster)
	s := w.Scan("s", []byte(one), nil, func(s *executionv1.Scan) { s.Annotations = map[string]string{executionv1.AnnotationRerun: "hooks@1"} })
	var wishes []string
	w.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if got := w.Run("findings", "s", "--links-timeout", "1s"); got.Code != 1 {
		t.Errorf("while a wish waits: %+v", got)
	}
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil || s.Annotations[executionv1.AnnotationRerun] != "hooks@1" {
		t.Errorf("the wish became %q, %v", s.Annotations[executionv1.AnnotationRerun], err)
	}
	answer := freshLinks(w)
	w.Operator(func(s *executionv1.Scan, wish string) {
		wishes = append(wishes, wish)
		answer(s, wish)
	})
	got := w.Run("findings", "s")
	if got.Code != 0 || len(wishes) < 2 || wishes[0] != "hooks@1" || !strings.HasPrefix(wishes[len(wishes)-1], "links@") {
		t.Errorf("%+v after wishes %v", got, wishes)
	}
}

// TestUnreachable names host, cause and remedy, never the query of a link.
func TestUnreachable(t *testing.T) {
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	const query = "?X-Amz-Date=20990101T000000Z&X-Amz-Expires=600&X-Amz-Signature=s3cr3t"
	cases := map[string]struct {
		link string
		args []string
		says []string
	}{
		"NoSuchHost": {"http://minio.scanyard.invalid:9000/b/findings.json", nil, []string{
			"object storage at minio.scanyard.invalid:9000 cannot be reached from here", "no such host", "s3.publicEndpoint", "--connect-to localhost:PORT",
		}},
		"Down":        {"http://127.0.0.1:1/b/findings.json", []string{"--patience", "1s"}, []string{"object storage at 127.0.0.1:1 cannot be reached", "connection refused", "s3.publicEndpoint"}},
		"NoForward":   {"http://minio:9000/b/findings.json", []string{"--patience", "0s", "--connect-to", "127.0.0.1:1"}, []string{"object storage at minio:9000", "--connect-to 127.0.0.1:1 was tried"}},
		"Certificate": {untrusted.URL + "/b/findings.json", nil, []string{"the certificate of object storage at 127.0.0.1", "is not trusted here", "SSL_CERT_FILE"}},
		"Gone":        {"", nil, []string{"does not have it any more", "lifecycle rule"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := clitest.New(t, cluster)
			findings := []byte(one)
			if c.link == "" {
				findings = nil
			}
			w.Scan("s", findings, nil, func(s *executionv1.Scan) {
				if c.link != "" {
					s.Status.FindingDownloadLink = c.link + query
				}
			})
			got := w.Run(append([]string{"findings", "s"}, c.args...)...)
			if got.Code != 1 || strings.Contains(got.Out+got.Err, "s3cr3t") || strings.Contains(got.Err, "X-Amz") {
				t.Errorf("%+v", got)
			}
			for _, says := range c.says {
				if !strings.Contains(got.Err, says) {
					t.Errorf("stderr %q, want %q", got.Err, says)
				}
			}
		})
	}
}

// TestConnectTo reads through a forwarded port: the host of the link stays in the request, since it is signed.
func TestConnectTo(t *testing.T) {
	w := clitest.New(t, cluster)
	inside, err := clitest.NewBucket(cluster.Storage, "minio.storage.svc.cluster.local:9000")
	if err != nil {
		t.Fatal(err)
	}
	w.Scan("s", []byte(one), nil, func(s *executionv1.Scan) {
		if s.UID == "" {
			return
		}
		link, err := inside.Presign(t.Context(), http.MethodGet, s, executionv1.FindingsFile, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		s.Status.FindingDownloadLink = link
	})
	got := w.Run("findings", "s", "-o", "json", "--connect-to", cluster.Storage.Endpoint)
	if got.Code != 0 || !strings.Contains(got.Out, "Open Port") {
		t.Errorf("%+v", got)
	}
}

// TestPublicEndpoint signs for another name of the same store: what is signed for one is refused at the other.
func TestPublicEndpoint(t *testing.T) {
	w := clitest.New(t, cluster)
	_, port, err := net.SplitHostPort(cluster.Storage.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := net.JoinHostPort("localhost", port)
	public, err := clitest.NewBucket(cluster.Storage, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	w.Bucket = public
	s := w.Scan("s", []byte(one), nil)
	if !strings.HasPrefix(s.Status.FindingDownloadLink, "http://"+endpoint+"/") {
		t.Fatal("the link goes elsewhere")
	}
	if got := w.Run("findings", "s", "-o", "json"); got.Code != 0 || !strings.Contains(got.Out, "Open Port") {
		t.Errorf("%+v", got)
	}
	elsewhere := strings.Replace(s.Status.FindingDownloadLink, "localhost:", "127.0.0.1:", 1)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, elsewhere, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("signed for another host: %s, %v", response.Status, err)
	}
}

// TestNothingStored says what a Scan is waiting for, or why there will be nothing.
func TestNothingStored(t *testing.T) {
	state := func(state executionv1.ScanState, conditions bool, reason string) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) {
			s.Status.State, s.Status.ErrorDescription = state, reason
			if !conditions {
				s.Status.Conditions = nil
			}
		}
	}
	scanned := func(s *executionv1.Scan) {
		state(executionv1.ScanStateErrored, true, "the parser failed")(s)
		meta.RemoveStatusCondition(&s.Status.Conditions, executionv1.ConditionParsed)
	}
	released := func(s *executionv1.Scan) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, executionv1.AnnotationReleased, "1")
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
			Type: executionv1.ConditionResultsStored, Status: metav1.ConditionFalse, Reason: executionv1.ReasonRemovedAfterForwarding,
			Message: "The results are removed after they were forwarded to cluster/hub.",
		})
	}
	cases := map[string]struct {
		edit          func(*executionv1.Scan)
		findings, raw string
	}{
		"Released": {
			released, "the findings of Scan s left the cluster: The results are removed after they were forwarded to cluster/hub; the annotation scanyard.io/rerun: scanner",
			"the raw result of Scan s left the cluster",
		},
		"New":       {state("", false, ""), "has no findings yet: it is not started", "has no raw result yet"},
		"Scanning":  {state(executionv1.ScanStateScanning, false, ""), `has no findings yet: it is Scanning; "scanyard wait s" waits for its end`, "has no raw result yet: it is Scanning"},
		"Parsing":   {state(executionv1.ScanStateParsing, false, ""), "has no findings yet: it is Parsing", ""},
		"Errored":   {state(executionv1.ScanStateErrored, false, "the scanner failed"), `has no findings: it is Errored (the scanner failed); "scanyard describe s" says more`, "has no raw result: it is Errored (the scanner failed)"},
		"NotParsed": {scanned, "has no findings: it is Errored (the parser failed)", ""},
		"Hooks":     {state(executionv1.ScanStateHookProcessing, false, ""), "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := clitest.New(t, cluster)
			w.Scan("s", []byte(one), []byte("raw"), c.edit)
			for command, says := range map[string]string{"findings": c.findings, "raw": c.raw} {
				got := w.Run(command, "s")
				if says == "" && got.Code != 0 || says != "" && (got.Code != 1 || !strings.Contains(got.Err, says)) {
					t.Errorf("%s: %+v, want %q", command, got, says)
				}
			}
		})
	}
}

// TestInterrupted leaves nothing behind when the user gives up.
func TestInterrupted(t *testing.T) {
	w := clitest.New(t, cluster)
	stuck := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", "1000")
		if _, err := rw.Write([]byte("half")); err != nil {
			t.Error(err)
		}
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer stuck.Close()
	w.Scan("s", nil, nil, func(s *executionv1.Scan) { s.Status.RawResultDownloadLink = stuck.URL + "/raw" })
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got := w.RunContext(ctx, "raw", "s", "-O", dir+"/raw")
	if left, err := os.ReadDir(dir); got.Code == 0 || err != nil || len(left) != 0 {
		t.Errorf("%+v leaves %v, %v", got, left, err)
	}
}

// TestLinksToStrangeHosts: where the links of other Scans lead elsewhere, the operator is asked, and without its answer
// nothing is fetched.
func TestLinksToStrangeHosts(t *testing.T) {
	var asked atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`[{"name":"made up","severity":"LOW","category":"x"}]`)) // the client tells if it does not come
	}))
	defer evil.Close()
	host := strings.TrimPrefix(evil.URL, "http://")
	findings := []byte(`[{"name":"true","severity":"LOW","category":"x"}]`)
	forge := func(s *executionv1.Scan) { s.Status.FindingDownloadLink = evil.URL + "/b/findings.json" }
	for name, c := range map[string]struct {
		args           []string
		alone, answers bool
		code           int
		want           string
		fetched        bool
	}{
		"Refused":   {nil, false, false, 1, "leads to " + host + ", where those of no other Scan in the namespace lead, and it is not followed", false},
		"Renewed":   {nil, false, true, 0, "the operator has written them anew", false},
		"Trusted":   {[]string{"--trust-host", host}, false, false, 0, "made up", true},
		"OtherHost": {[]string{"--trust-host", "other.example.com"}, false, false, 1, "--trust-host " + host, false},
		"Alone":     {nil, true, false, 0, "made up", true},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			w := clitest.New(t, cluster)
			w.Scan("forged", findings, nil, forge)
			if !c.alone {
				w.Scan("other", findings, nil)
			}
			if c.answers {
				w.Operator(func(s *executionv1.Scan, _ string) {
					w.Link(s, time.Hour)
					clitest.Answered(s, metav1.ConditionTrue, "Done", "written")
				})
			}
			wait := "1s" // nobody answers
			if c.answers {
				wait = "1m"
			}
			got := w.Run(append([]string{"findings", "forged", "--links-timeout", wait}, c.args...)...)
			if got.Code != c.code || !strings.Contains(got.Out+got.Err, c.want) || (asked.Load() > 0) != c.fetched {
				t.Errorf("%+v, asked %d times", got, asked.Load())
			}
			if c.answers && !strings.Contains(got.Out, "true") {
				t.Errorf("not the findings of the operator's link: %s", got.Out)
			}
			if c.code == 0 && !c.alone {
				if other := w.Run("findings", "other"); other.Code != 0 || !strings.Contains(other.Out, "true") {
					t.Errorf("the other Scan: %+v", other)
				}
			}
		})
	}
}
