// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/tests/localcluster"
)

const (
	// patience bounds what is waited for, only to end a broken test.
	patience = 4 * time.Minute
	// system is the server's namespace, team the one of the reports.
	system, team = "scanyard-system", "team"
)

var (
	policyReports = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
	openReports   = schema.GroupVersionResource{Group: "openreports.io", Version: "v1alpha1", Resource: "reports"}
	apiServices   = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	crds          = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// world is a cluster with the CRDs and the reports API server.
type world struct {
	t        *testing.T
	bin      string
	cluster  *localcluster.Cluster
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	scanyard string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	bin := os.Getenv("SCANYARD_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, bin: bin, scanyard: filepath.Join(bin, "scanyard")}
	for _, program := range []string{"localcluster", "reports-apiserver", "scanyard"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Fatalf("%v: %s, or set SCANYARD_BIN", err, localcluster.BuildCommand)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w.cluster, err = localcluster.Start(ctx, localcluster.Options{Binary: filepath.Join(bin, "localcluster"), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := w.cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	w.client, w.dynamic = kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
	for _, name := range []string{system, team} {
		_, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.must(err)
	}
	w.installCRDs()
	w.startServer()
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// until waits for something to hold.
func (w *world) until(what string, holds func(ctx context.Context) (bool, error)) {
	w.t.Helper()
	if err := wait.PollUntilContextTimeout(w.t.Context(), 100*time.Millisecond, patience, true, holds); err != nil {
		w.t.Fatalf("wait for %s: %v", what, err)
	}
}

// installCRDs has etcd keep the reports, and waits until it does.
func (w *world) installCRDs() {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "apis", "testdata", "reportcrds", "*.yaml"))
	if err != nil || len(files) != 4 {
		w.t.Fatalf("CRDs: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		w.must(err)
		crd := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal(text, &crd.Object))
		_, err = w.dynamic.Resource(crds).Create(w.t.Context(), crd, metav1.CreateOptions{})
		w.must(err)
	}
	for _, resource := range []schema.GroupVersionResource{policyReports, openReports, inCluster(policyReports), inCluster(openReports)} {
		w.until("lists of "+resource.Resource, func(ctx context.Context) (bool, error) {
			_, err := w.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
	}
}

// inCluster is the resource of the cluster that belongs to a namespaced one.
func inCluster(r schema.GroupVersionResource) schema.GroupVersionResource {
	r.Resource = "cluster" + r.Resource
	return r
}

// machineAddress is one that EndpointSlices take: not loopback.
func (w *world) machineAddress() string {
	w.t.Helper()
	addresses, err := net.InterfaceAddrs()
	w.must(err)
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	w.t.Fatal("the machine has no address but loopback")
	return ""
}

// startServer runs the reports API server as a process beside the cluster, and has kube-apiserver find it by its group.
func (w *world) startServer() {
	w.t.Helper()
	dir := w.t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("reports."+system+".svc", nil, nil)
	w.must(err)
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	w.must(os.WriteFile(certFile, certificate, 0o600))
	w.must(os.WriteFile(keyFile, key, 0o600))
	address := w.machineAddress()
	server := exec.Command(filepath.Join(w.bin, "reports-apiserver"), "--bind", net.JoinHostPort(address, "0"), "--sqlite", filepath.Join(dir, "reports.db"),
		"--tls-cert", certFile, "--tls-key", keyFile, "--kubeconfig", w.cluster.Kubeconfig,
		"--authentication-kubeconfig", w.cluster.Kubeconfig, "--authorization-kubeconfig", w.cluster.Kubeconfig)
	var log bytes.Buffer
	server.Stderr = &log
	out, err := server.StdoutPipe()
	w.must(err)
	w.must(server.Start())
	w.t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM) // Wait tells how it ended
		if err := server.Wait(); err != nil || w.t.Failed() {
			w.t.Logf("the server ended: %v\n%s", err, last(log.String(), 4_000))
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatalf("the server does not start: %v\n%s", err, log.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	var said struct{ URL string }
	w.must(json.Unmarshal([]byte(line), &said))
	_, portText, err := net.SplitHostPort(strings.TrimPrefix(said.URL, "https://"))
	w.must(err)
	listener, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(address, portText))
	w.must(err)
	port := int32(listener.Port)
	_, err = w.client.CoreV1().Services(system).Create(w.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "reports"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.DiscoveryV1().EndpointSlices(system).Create(w.t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "reports", Labels: map[string]string{discoveryv1.LabelServiceName: "reports"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.dynamic.Resource(apiServices).Create(w.t.Context(), apiService("reports.scanyard.io", "v1alpha1", system, "reports", int64(port), certificate), metav1.CreateOptions{})
	w.must(err)
	w.until("the server's own group", func(ctx context.Context) (bool, error) {
		service, err := w.dynamic.Resource(apiServices).Get(ctx, "v1alpha1.reports.scanyard.io", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
		return len(conditions) > 0 && conditions[0].(map[string]any)["status"] == "True", nil
	})
}

func apiService(group, version, namespace, name string, port int64, bundle []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": version + "." + group},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "caBundle": base64.StdEncoding.EncodeToString(bundle),
			"service": map[string]any{"namespace": namespace, "name": name, "port": port},
		},
	}}
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// moved is how a call of the command ended.
type moved struct {
	code     int
	out, err string
}

// migrate runs the command to its end. The first line of stderr that has the words of interruption has it end by a
// signal; "" lets it end by itself.
func (w *world) migrate(signal os.Signal, interruption string, args ...string) moved {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.scanyard, append([]string{"--kubeconfig", w.cluster.Kubeconfig, "reports", "migrate"}, args...)...)
	var out, said bytes.Buffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	w.must(err)
	w.must(cmd.Start())
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if interruption != "" && strings.Contains(lines.Text(), interruption) {
			w.must(cmd.Process.Signal(signal))
			interruption = ""
		}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		w.t.Fatalf("migrate %v does not end:\n%s%s", args, out.String(), said.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return moved{cmd.ProcessState.ExitCode(), out.String(), said.String()}
}

// newReport is a report of a group.
func newReport(resource schema.GroupVersionResource, name string, round int64) *unstructured.Unstructured {
	kind := map[string]string{"policyreports": "PolicyReport", "reports": "Report", "clusterpolicyreports": "ClusterPolicyReport"}[resource.Resource]
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name, "labels": map[string]any{"round": strconv.FormatInt(round, 10)}},
		"summary": map[string]any{"pass": int64(0), "fail": round},
		"results": []any{map[string]any{"policy": "CVE-2026-1", "result": "fail", "severity": "high", "message": strings.Repeat("m", 300), "properties": map[string]any{"cvss": "7.5"}}},
	}}
	if resource.Group == openReports.Group {
		u.Object["source"] = "test"
	}
	return u
}

// refusedForNow tells whether a write is to be tried again: because of the freeze, because kube-apiserver has no answer
// from the server in the moment of the switch, or because what was read just before it had the number of etcd.
func refusedForNow(err error) bool {
	return strings.Contains(err.Error(), "reports are being moved, try again in seconds") || apierrors.IsConflict(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}
