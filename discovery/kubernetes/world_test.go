// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes"
	"github.com/scanyard/scanyard/discovery/kubernetes/targets"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// theCluster is started by the first test that needs it.
var theCluster = sync.OnceValues(func() (*testcluster.Cluster, error) {
	started = true
	c, err := testcluster.Start(context.Background())
	if err != nil {
		return nil, err
	}
	if err := kubernetes.AddToScheme(c.Scheme); err != nil {
		return nil, err
	}
	c.Client, err = client.New(c.Config, client.Options{Scheme: c.Scheme})
	return c, err
})

var started bool

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if started {
		if c, err := theCluster(); err == nil {
			if err := c.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// world is a namespace of the cluster, looked at by discoveries that a test starts.
type world struct {
	*testing.T
	*WithT

	cluster   *testcluster.Cluster
	client    client.Client
	namespace string
	calls     *callCounter
	// neighbours are further namespaces that the discovery looks at.
	neighbours []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := theCluster()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, WithT: NewWithT(t), cluster: c, client: c.Client, calls: &callCounter{counts: map[string]int{}}}
	w.SetDefaultEventuallyTimeout(patience)
	w.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-", Annotations: map[string]string{targets.AnnotationEnabled: "true"}}}
	w.create(ns)
	w.namespace = ns.Name
	// No controller manager runs here that would make it.
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns.Name}})
	return w
}

func (w *world) create(all ...client.Object) {
	w.Helper()
	for _, o := range all {
		w.Expect(w.client.Create(w.Context(), o)).To(Succeed())
	}
}

// config is a configuration that looks at the world's namespace and its neighbours only.
func (w *world) config(text string) string {
	return fmt.Sprintf(`
cluster: {name: test}
resourceInclusion:
  mode: enabled-per-namespace
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%s]}]}
health: {healthProbeBindAddress: "0"}
metrics: {bindAddress: "0"}
instance: %s
%s`, strings.Join(append(w.neighbours, w.namespace), ", "), w.namespace, text)
}

// running is a discovery.
type runningDiscovery struct {
	file string
	stop func() error
	done chan error
}

// start runs a discovery with a configuration.
func (w *world) start(text string) *runningDiscovery {
	w.Helper()
	file := filepath.Join(w.TempDir(), "auto-discovery.yaml")
	w.Expect(os.WriteFile(file, []byte(w.config(text)), 0o600)).To(Succeed())
	ctx, cancel := context.WithCancel(w.Context())
	rc := rest.CopyConfig(w.cluster.Config)
	rc.Wrap(func(rt http.RoundTripper) http.RoundTripper { return w.calls.wrap(rt) })
	d := &runningDiscovery{file: file, done: make(chan error, 1)}
	go func() {
		d.done <- kubernetes.Run(ctx, rc, kubernetes.RunOptions{
			ConfigFile: file, QPS: -1, Registry: prometheus.NewRegistry(), SkipNameValidation: true,
		})
	}()
	d.stop = sync.OnceValue(func() error {
		cancel()
		return <-d.done
	})
	w.Cleanup(func() {
		if err := d.stop(); err != nil && !errors.Is(err, kubernetes.ErrRestart) {
			w.Errorf("the discovery has ended with: %v", err)
		}
	})
	return d
}

// callCounter counts requests to the API server by verb and resource.
type callCounter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *callCounter) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		verb := r.Method
		if r.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		resource := parts[len(parts)-1]
		if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
			resource = parts[i+2]
			if parts[len(parts)-1] == "status" {
				resource += "/status"
			}
		}
		c.mu.Lock()
		c.counts[verb+" "+resource]++
		c.mu.Unlock()
		return rt.RoundTrip(r)
	})
}

func (c *callCounter) get(prefix string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for k, v := range c.counts {
		if strings.HasPrefix(k, prefix) {
			n += v
		}
	}
	return n
}

// writes are all calls that change something, but for Events.
func (c *callCounter) writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for k, v := range c.counts {
		if verb, resource, _ := strings.Cut(k, " "); verb != "GET" && verb != "WATCH" && resource != "events" {
			n += v
		}
	}
	return n
}

func (c *callCounter) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for k, v := range c.counts {
		all = append(all, fmt.Sprintf("%s %d", k, v))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const (
	digestA = "18e373fd73e7a5388d7ea73736dc5b2ab90c508166bb6fec1097aa5b24e5dbfe"
	digestB = "cfdc61a722d772da106ca4716a81531c49d953cbc2ae16aeb34d6e35f473aa10"
)

func (w *world) scanType(name string) *executionv1.ScanType {
	return &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}, Spec: scanTypeSpec()}
}

// scheduledScan is one that no discovery of this test has made.
func (w *world) scheduledScan(name string) *executionv1.ScheduledScan {
	return &executionv1.ScheduledScan{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}, Spec: executionv1.ScheduledScanSpec{
		Interval: "24h0m0s", ScanSpec: &executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"example.com"}},
	}}
}

// service makes a Service with a pod that is ready.
func (w *world) service(name, digest string) (*corev1.Service, *corev1.Pod) {
	w.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "http", Port: 3000}}},
	}
	w.create(s)
	return s, w.pod(name+"-1", name, name, digest)
}

// pod makes a pod whose container runs an image.
func (w *world) pod(name, app, image, digest string) *corev1.Pod {
	w.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/team/" + image + ":1"}}},
	}
	w.create(p)
	w.runs(p, image, digest)
	return p
}

// runs plays the kubelet: the pod's container runs an image.
func (w *world) runs(p *corev1.Pod, image, digest string) {
	w.Helper()
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Ready: true, Image: "registry.example.com/team/" + image + ":1", ImageID: "registry.example.com/team/" + image + "@sha256:" + digest,
	}}
	w.Expect(w.client.Status().Update(w.Context(), p)).To(Succeed())
}

func (w *world) get(name string) *executionv1.ScheduledScan {
	w.Helper()
	s := &executionv1.ScheduledScan{}
	w.Expect(w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, s)).To(Succeed())
	return s
}

// names are the ScheduledScans of a namespace.
func (w *world) names(namespace string) func() []string {
	return func() []string {
		var list executionv1.ScheduledScanList
		if err := w.client.List(w.Context(), &list, client.InNamespace(namespace)); err != nil {
			return []string{err.Error()}
		}
		all := []string{}
		for i := range list.Items {
			all = append(all, list.Items[i].Name)
		}
		return all
	}
}

func (w *world) annotate(o client.Object, key, value string) {
	w.Helper()
	patch := client.MergeFrom(o.DeepCopyObject().(client.Object))
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetAnnotations(all)
	w.Expect(w.client.Patch(w.Context(), o, patch)).To(Succeed())
}

// events are the notes of Events with a reason.
func (w *world) events(reason string) func() []string {
	return func() []string {
		var list eventsv1.EventList
		if err := w.client.List(w.Context(), &list); err != nil {
			return []string{err.Error()}
		}
		var all []string
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == reason && (e.Regarding.Namespace == w.namespace || e.Regarding.Name == w.namespace) {
				all = append(all, e.Note)
			}
		}
		return all
	}
}

// scanTypeSpec is that of the chart of nmap, as far as the API server asks.
func scanTypeSpec() executionv1.ScanTypeSpec {
	return executionv1.ScanTypeSpec{
		ExtractResults: executionv1.ExtractResults{Type: "nmap-xml", Location: "/home/securecodebox/nmap-results.xml"},
		JobTemplate: batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure,
			Containers:    []corev1.Container{{Name: "nmap", Image: "docker.io/securecodebox/scanner-nmap:7.99-r0"}},
		}}}},
	}
}
