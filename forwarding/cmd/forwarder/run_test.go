// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	apiresults "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

// TestMain makes this test binary the program, where a test starts it so.
func TestMain(m *testing.M) {
	if os.Getenv("FORWARDER_RUN") != "" {
		os.Exit(run())
	}
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const patience = 60 * time.Second

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	eventuallyIn(t, patience, what, is)
}

func eventuallyIn(t *testing.T, patience time.Duration, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-end:
			t.Fatal("it did not come true that", what)
		case <-tick.C:
		}
	}
}

func namespace(t *testing.T) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "forwarder-"}}
	must(t, cluster.Client.Create(t.Context(), n))
	return n.Name
}

// operator answers like the operator's results endpoint, and serves findings like storage.
type operator struct {
	mutex    sync.Mutex
	findings map[string]string // by UID
	url      string
	// release answers a request to remove results; nil: there are none.
	release func(apiresults.ReleaseRequest) *apiresults.Refusal
}

func newOperator(t *testing.T, release string) *operator {
	t.Helper()
	o := &operator{findings: map[string]string{}}
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uid := strings.Trim(r.URL.Path, "/")
		w.Header().Set("ETag", `"`+uid+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(o.of(uid)))
	}))
	t.Cleanup(storage.Close)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == apiresults.ReleasePath {
			o.released(t, w, r)
			return
		}
		var request apiresults.URLRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.Header.Get("Authorization") != "Bearer word" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		answer := apiresults.URLAnswer{URL: storage.URL + "/" + request.UID, ETag: request.UID, Size: int64(len(o.of(request.UID)))}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	o.url = server.URL
	must(t, cluster.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: release, Name: apiresults.CAConfigMap},
		Data:       map[string]string{apiresults.CAKey: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))},
	}))
	return o
}

// released answers as the operator does to who asks to remove results.
func (o *operator) released(t *testing.T, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	var request apiresults.ReleaseRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		t.Error(err)
	}
	var answer any = apiresults.ReleaseAnswer{Released: !request.DryRun}
	if refusal := o.release(request); refusal != nil {
		w.WriteHeader(http.StatusConflict)
		answer = refusal
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		t.Error(err)
	}
}

func (o *operator) of(uid string) string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.findings[uid]
}

// start runs the program; its address of HTTP is returned.
func start(t *testing.T, release string, o *operator, flags ...string) (*exec.Cmd, string) {
	t.Helper()
	return startTold(t, os.Stderr, release, o, flags...)
}

// startTold is start with another place for what the program says.
func startTold(t *testing.T, said io.Writer, release string, o *operator, flags ...string) (*exec.Cmd, string) {
	t.Helper()
	directory := t.TempDir()
	access := clientcmdapi.NewConfig()
	access.Clusters["c"] = &clientcmdapi.Cluster{Server: cluster.Config.Host, CertificateAuthority: cluster.Config.CAFile, CertificateAuthorityData: cluster.Config.CAData}
	access.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		Token: cluster.Config.BearerToken, ClientCertificate: cluster.Config.CertFile, ClientCertificateData: cluster.Config.CertData,
		ClientKey: cluster.Config.KeyFile, ClientKeyData: cluster.Config.KeyData,
	}
	access.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	access.CurrentContext = "x"
	kubeconfig, token := filepath.Join(directory, "kubeconfig"), filepath.Join(directory, "token")
	must(t, clientcmd.WriteToFile(*access, kubeconfig))
	must(t, os.WriteFile(token, []byte("word\n"), 0o600))
	arguments := append([]string{
		"run", "--kubeconfig", kubeconfig, "--namespace", release, "--operator-url", o.url, "--results-token-file", token, "--http-listen", "127.0.0.1:0", "--print-address",
	}, flags...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], arguments...)
	cmd.Env = append(os.Environ(), "FORWARDER_RUN=1")
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { stop(t, cmd) })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	must(t, err)
	var told struct {
		Program, HTTP string
	}
	must(t, json.Unmarshal(line, &told))
	if told.Program != "forwarder" {
		t.Fatalf("%s", line)
	}
	return cmd, told.HTTP
}

// stop asks the program to end, and waits for that.
func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.ProcessState != nil {
		return
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// finished makes a Scan that has ended, with findings.
func finished(t *testing.T, o *operator, space, name string, findings int) *executionv1.Scan {
	t.Helper()
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}, Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"localhost"}}}
	must(t, cluster.Client.Create(t.Context(), scan))
	removed(t, scan)
	var list strings.Builder
	for i := range findings {
		between := ",\n"
		if i == 0 {
			between = ""
		}
		fmt.Fprintf(&list, `%s{"name":"Open Port","category":"Open Port","severity":"LOW","id":"%s-%d","location":"tcp://localhost:%d"}`, between, name, i, i)
	}
	o.mutex.Lock()
	o.findings[string(scan.UID)] = "[" + list.String() + "]"
	o.mutex.Unlock()
	now := metav1.Now()
	scan.Status.State, scan.Status.FinishedAt, scan.Status.Findings.Count = executionv1.ScanStateDone, &now, new(int64(findings))
	scan.Status.Conditions = []metav1.Condition{{Type: executionv1.ConditionHooksCompleted, Status: metav1.ConditionTrue, Reason: "NoHooks", LastTransitionTime: now}}
	must(t, cluster.Client.Status().Update(t.Context(), scan))
	return scan
}

// setting is the one of the cluster, with a sink of gRPC.
func setting(t *testing.T, endpoint string, more ...string) {
	t.Helper()
	s := &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}}
	must(t, client.IgnoreNotFound(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s)))
	raw := fmt.Sprintf(`{"provider": "grpc", "since": "All", "retry": {"initialMilliseconds": 100, "maxSeconds": 1}, "grpc": {"endpoint": "http://%s", "tls": {"insecure": true}}%s}`,
		endpoint, strings.Join(more, ""))
	s.Spec.ResultForwarding = &settingsv1alpha2.ClusterResultForwarding{}
	must(t, json.Unmarshal([]byte(raw), s.Spec.ResultForwarding))
	if s.UID != "" {
		must(t, cluster.Client.Update(t.Context(), s))
		return
	}
	must(t, cluster.Client.Create(t.Context(), s))
	removed(t, s)
}

// removed deletes an object when the test ends: the next test has another forwarder, with another seal.
func removed(t *testing.T, o client.Object) {
	t.Helper()
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.WithoutCancel(t.Context()), o); err != nil {
			t.Error(err)
		}
	})
}

// forwarded gives the condition Forwarded of a Scan; an empty one where there is none.
func forwarded(t *testing.T, scan *executionv1.Scan) metav1.Condition {
	t.Helper()
	must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(scan), scan))
	for _, c := range scan.Status.Conditions {
		if c.Type == executionv1.ConditionForwarded {
			return c
		}
	}
	return metav1.Condition{}
}

func metricsOf(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return string(text)
}

// lines are those that begin with a text.
func lines(text, begin string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// TestScansAreForwarded sends Scans that end before and while the program runs; what is forged in a status is sent again.
func TestScansAreForwarded(t *testing.T) {
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	far := receivertest.Start(t, receivertest.Options{})
	setting(t, far.Address)
	before := finished(t, o, space, "before", 3)
	_, address := start(t, release, o)
	during := finished(t, o, space, "during", 1500)
	for _, scan := range []*executionv1.Scan{before, during} {
		eventually(t, scan.Name+" is forwarded", func() bool { return forwarded(t, scan).Status == metav1.ConditionTrue })
		e := scan.Status.Forwarding
		if len(e) != 1 || e[0].Sink != "cluster/default" || e[0].CompletedAt == nil || e[0].Verdict != "Complete" || e[0].Records != *scan.Status.Findings.Count+1 || e[0].Seal == "" {
			t.Errorf("%s: %+v", scan.Name, e)
		}
	}
	if c := far.Store.Counters(); c.Stored != 3+1500+4 || c.Conflicts+c.Rejected > 0 {
		t.Errorf("the far end has %+v", c)
	}
	// An entry that somebody else has written counts for nothing.
	forged := []byte(`{"status":{"forwarding":[{"sink":"cluster/default","revision":1,"records":4,"completedAt":"2030-01-01T00:00:00Z","verdict":"Complete","seal":"00"}]}}`)
	must(t, cluster.Client.Status().Patch(t.Context(), before, client.RawPatch(types.MergePatchType, forged)))
	eventually(t, "the forged entry is replaced", func() bool {
		c := forwarded(t, before)
		return c.Status == metav1.ConditionTrue && len(before.Status.Forwarding) == 1 && before.Status.Forwarding[0].Seal != "00"
	})
	// Where the forwarder still remembers the Scan nothing is sent, else everything is, and the far end knows it.
	if c := far.Store.Counters(); c.Stored != 3+1500+4 || c.Conflicts+c.Rejected > 0 {
		t.Errorf("afterwards the far end has %+v", c)
	}
	text := metricsOf(t, address)
	for _, want := range []string{"scanyard_forwarding_forged_entries_total 1", `scanyard_forwarding_sink_healthy{sink="cluster/default"} 1`, `scanyard_forwarding_pending_scans{sink="cluster/default"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s:\n%s", want, lines(text, "scanyard_forwarding"))
		}
	}
	s := &settingsv1alpha2.ClusterScanSetting{}
	eventually(t, "the setting says that its sink is healthy", func() bool {
		must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: settingsv1alpha2.Name}, s))
		return len(s.Status.Sinks) == 1 && s.Status.Sinks[0].Healthy == corev1.ConditionTrue
	})
}

// TestRepairedEndpointGetsAllRecords: a sink that cannot be reached is told with its reason, and loses nothing.
func TestRepairedEndpointGetsAllRecords(t *testing.T) {
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	setting(t, "127.0.0.1:1")
	scan := finished(t, o, space, "waits", 20)
	start(t, release, o)
	eventually(t, "the reason is told", func() bool {
		c := forwarded(t, scan)
		return c.Status == metav1.ConditionFalse && c.Reason == "ConnectionRefused" && strings.Contains(c.Message, "cluster/default")
	})
	far := receivertest.Start(t, receivertest.Options{})
	setting(t, far.Address)
	eventually(t, "the Scan is forwarded", func() bool { return forwarded(t, scan).Status == metav1.ConditionTrue })
	if c := far.Store.Counters(); c.Stored != 22 {
		t.Errorf("the far end has %+v", c)
	}
}
