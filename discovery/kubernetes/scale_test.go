// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/targets"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// podsPerService is how many pods each Service has.
const podsPerService = 5

// TestScale runs the program over many pods and Services: the first pass makes what is
// missing, one write each; a second start over it writes nothing. It reports requests by
// verb, CPU and memory of the process. SCANYARD_DISCOVERED_SERVICES=1000 is the size that
// is promised: 1,000 Services with 5,000 pods in 50 namespaces.
func TestScale(t *testing.T) {
	services := 40
	if text := os.Getenv("SCANYARD_DISCOVERED_SERVICES"); text != "" {
		var err error
		if services, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	w.SetDefaultEventuallyTimeout(10 * time.Minute)
	binary := filepath.Join(t.TempDir(), "autodiscovery")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../cmd/autodiscovery").CombinedOutput()
	w.Expect(err).NotTo(HaveOccurred(), "%s", out)
	namespaces := w.populate(services)
	t.Logf("%d Services, %d pods, %d namespaces", services, services*podsPerService, len(namespaces))

	first := w.run(binary)
	w.Eventually(func() int { return w.countOf(namespaces) }).WithPolling(200 * time.Millisecond).Should(Equal(2 * services))
	took := time.Since(first.began)
	w.Eventually(first.passes).WithPolling(200 * time.Millisecond).Should(BeNumerically(">=", len(namespaces)))
	t.Logf("first start: %d ScheduledScans after %.1f s; %s", 2*services, took.Seconds(), first.figures())
	first.stop()
	w.Expect(first.calls.writes()).To(Equal(2*services), "one write for each: %s", first.calls)

	second := w.run(binary)
	w.Eventually(second.passes).WithPolling(100 * time.Millisecond).Should(BeNumerically(">=", len(namespaces)))
	t.Logf("second start: all looked at after %.1f s; %s", time.Since(second.began).Seconds(), second.figures())
	second.stop()
	w.Expect(second.calls.writes()).To(BeZero(), "%s", second.calls)
	// Lists, watches, and what a client asks a server about itself.
	const kinds = 7
	w.Expect(second.calls.get("GET")+second.calls.get("WATCH")).To(BeNumerically("<", 10*kinds), "%s", second.calls)
}

// populate makes namespaces with Services and pods.
func (w *world) populate(services int) []string {
	w.Helper()
	rc := rest.CopyConfig(w.cluster.Config)
	rc.QPS = -1
	c, err := client.New(rc, client.Options{Scheme: w.cluster.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	const perNamespace = 20
	var names []string
	for i := range (services + perNamespace - 1) / perNamespace {
		name := fmt.Sprintf("%s-%d", w.namespace, i)
		labels := map[string]string{"scale": w.namespace}
		w.create(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{targets.AnnotationEnabled: "true"}}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: name}},
		)
		for _, st := range []string{"nmap", "trivy-image-autodiscovery"} {
			w.create(&executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Name: st, Namespace: name}, Spec: scanTypeSpec()})
		}
		names = append(names, name)
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < services; i = int(next.Add(1)) - 1 {
				if err := populateService(w.Context(), c, names[i/perNamespace], fmt.Sprintf("app-%04d", i)); err != nil {
					w.Errorf("make Service %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	return names
}

func populateService(ctx context.Context, c client.Client, namespace, app string) error {
	labels := map[string]string{"app": app, "app.kubernetes.io/version": "1.0.0"}
	err := c.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: namespace, Labels: labels},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Name: "http", Port: 8080}, {Name: "grpc", Port: 9090}}},
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(app))
	for i := range podsPerService {
		image := "registry.example.com/team/" + app
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", app, i), Namespace: namespace, Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: image + ":1.0.0", Env: []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 500)}},
			}}},
		}
		if err := c.Create(ctx, p); err != nil {
			return err
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", Ready: true, Image: image + ":1.0.0", ImageID: image + "@sha256:" + hex.EncodeToString(sum[:]),
		}}
		if err := c.Status().Update(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) countOf(namespaces []string) int {
	n := 0
	for _, name := range namespaces {
		n += len(w.names(name)())
	}
	return n
}

// process is the program, with a proxy before the API server that counts.
type process struct {
	*world
	calls   *callCounter
	command *exec.Cmd
	metrics string
	began   time.Time
}

func (w *world) run(binary string) *process {
	w.Helper()
	p := &process{world: w, calls: &callCounter{counts: map[string]int{}}, began: time.Now()}
	proxy := httptest.NewServer(w.proxy(p.calls))
	w.Cleanup(proxy.Close)
	l, err := new(net.ListenConfig).Listen(w.Context(), "tcp", "127.0.0.1:0")
	w.Expect(err).NotTo(HaveOccurred())
	p.metrics = l.Addr().String()
	w.Expect(l.Close()).To(Succeed())
	dir := w.TempDir()
	config, kubeconfig := filepath.Join(dir, "auto-discovery.yaml"), filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf("cluster: {name: test}\nresourceInclusion:\n  mode: enabled-per-namespace\n  namespaceSelector: {matchLabels: {scale: %s}}\n"+
		"health: {healthProbeBindAddress: '0'}\nmetrics: {bindAddress: '%s'}\n", w.namespace, p.metrics) + serviceConfig + annotated(imageConfig)
	w.Expect(os.WriteFile(config, []byte(text), 0o600)).To(Succeed())
	w.Expect(os.WriteFile(kubeconfig, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", proxy.URL), 0o600)).To(Succeed())
	p.command = exec.CommandContext(w.Context(), binary, "--config="+config, "--kubeconfig="+kubeconfig)
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.Expect(p.command.Start()).To(Succeed())
	return p
}

// annotated adds the annotations that the chart brings.
func annotated(config string) string {
	return config + `    annotations:
      defectdojo.securecodebox.io/product-name: "{{ .Cluster.Name }} | {{ .Namespace.Name }} | {{ .Target.Name }}"
      defectdojo.securecodebox.io/engagement-version: "{{if (index .Target.Labels ` + "`app.kubernetes.io/version`" + `) }}{{ index .Target.Labels ` + "`app.kubernetes.io/version`" + ` }}{{end}}"
`
}

// proxy passes on to the API server.
func (w *world) proxy(calls *callCounter) http.Handler {
	w.Helper()
	transport, err := rest.TransportFor(w.cluster.Config)
	w.Expect(err).NotTo(HaveOccurred())
	server, err := url.Parse(w.cluster.Config.Host)
	w.Expect(err).NotTo(HaveOccurred())
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport:     calls.wrap(transport),
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) {}, // the program has gone
	}
}

func (p *process) stop() {
	p.Helper()
	p.Expect(p.command.Process.Signal(syscall.SIGTERM)).To(Succeed())
	p.Expect(p.command.Wait()).To(Succeed())
}

// passes is how many namespaces were looked at.
func (p *process) passes() int {
	resp, err := http.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "scanyard_discovery_pass_seconds_count "); ok {
			n, err := strconv.Atoi(text)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// figures are what the process has used so far.
func (p *process) figures() string {
	p.Helper()
	used := usage.OfT(p.T, p.command.Process.Pid)
	return fmt.Sprintf("CPU %.2f s, %d MiB at its peak, %d MiB now; requests: %s", used.CPU.Seconds(), used.Peak>>20, used.Resident>>20, p.calls)
}
