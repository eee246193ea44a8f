// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/mini"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/registrytest"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
	"github.com/scanyard/scanyard/registry/internal/worker"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// controllerProcess is the first argument of this file's program where it is a controller that may be killed.
const controllerProcess = "controller"

// TestMain is the launcher, the adapter and the controller, where a test starts this file's program.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case sandbox.Subcommand:
		err = sandbox.Main(os.Args[2:], os.Environ())
	case "adapter-mini":
		err = mini.Run(context.Background(), os.Args[2:], mini.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now})
	case controllerProcess:
		err = control(os.Args[2:])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// control is the process of a controller.
func control(arguments []string) error {
	var o Options
	flags := flag.NewFlagSet(controllerProcess, flag.ContinueOnError)
	o.Bind(flags, os.Getenv)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	kubernetes, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	return Run(ctrl.SetupSignalHandler(), kubernetes, &o)
}

// full: hack/long.sh.
var full = flag.Bool("full", false, "run tests of the fault list at their full size, which takes minutes")

// sized is the short size of a test, or the full one where that is asked for.
func sized(short, whole int) int {
	if *full {
		return whole
	}
	return short
}

const (
	// patience bounds what a test waits for; nothing that works takes that long.
	patience = 2 * time.Minute
	look     = 50 * time.Millisecond
	// system is the namespace of the reports API.
	system = "scanyard-reports"
)

// place is what all rows share: a cluster whose API has the group of the reports API, and a registry.
type place struct {
	t        testing.TB
	cluster  *testcluster.Cluster
	client   client.Client
	registry *registrytest.Registry
	config   string
	// reports is how the reports API is reached without kube-apiserver.
	reports *rest.Config
}

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{t: t, registry: registrytest.New(t)}
	var err error
	p.cluster, err = testcluster.Start(t.Context())
	p.must(err)
	t.Cleanup(func() { p.must(p.cluster.Stop()) })
	p.must(p.cluster.InstallRegistryCRDs(t.Context()))
	p.must(reportsv1.AddToScheme(p.cluster.Scheme))
	p.must(p.cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}))
	p.startReports()
	p.client, err = client.New(p.cluster.Config, client.Options{Scheme: p.cluster.Scheme})
	p.must(err)
	p.writeConfig()
	return p
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// address is one of this machine that an EndpointSlice may name.
func (p *place) address() string {
	p.t.Helper()
	addresses, err := net.InterfaceAddrs()
	p.must(err)
	for _, a := range addresses {
		if ip, is := a.(*net.IPNet); is && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	p.t.Fatal("the machine has no address but loopback")
	return ""
}

// startReports runs the reports API as a process beside the cluster, and has kube-apiserver send its group there.
func (p *place) startReports() {
	p.t.Helper()
	program := filepath.Join("..", "..", "..", "bin", "reports-apiserver")
	if binary := os.Getenv("LOCALCLUSTER_BIN"); binary != "" {
		program = filepath.Join(filepath.Dir(binary), "reports-apiserver")
	}
	if _, err := os.Stat(program); err != nil {
		p.t.Fatalf("these tests need the program of the reports API: run \"make build\", or set LOCALCLUSTER_BIN: %v", err)
	}
	dir, address, kubeconfig := p.t.TempDir(), p.address(), p.cluster.Kubeconfig()
	certificate, key, err := cert.GenerateSelfSignedCertKey("reports."+system+".svc", nil, nil)
	p.must(err)
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	p.must(os.WriteFile(certFile, certificate, 0o600))
	p.must(os.WriteFile(keyFile, key, 0o600))
	server := exec.Command(program, "--bind", net.JoinHostPort(address, "0"), "--sqlite", filepath.Join(dir, "reports.db"), "--tls-cert", certFile, "--tls-key", keyFile,
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig)
	var log bytes.Buffer
	server.Stderr = &log
	out, err := server.StdoutPipe()
	p.must(err)
	p.must(server.Start())
	p.t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		if err := server.Wait(); err != nil {
			p.t.Logf("the reports API ended: %v\n%s", err, log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	var ready struct{ URL string }
	if err != nil || json.Unmarshal([]byte(line), &ready) != nil {
		p.t.Fatalf("the reports API does not start: %v %s\n%s", err, line, log.String())
	}
	_, portText, err := net.SplitHostPort(strings.TrimPrefix(ready.URL, "https://"))
	p.must(err)
	number, err := strconv.ParseInt(portText, 10, 32)
	p.must(err)
	p.reports = rest.CopyConfig(p.cluster.Config)
	p.reports.Host, p.reports.CAFile, p.reports.CAData, p.reports.ServerName = ready.URL, "", certificate, "reports."+system+".svc"
	p.extend(address, int32(number), certificate)
}

// extend has kube-apiserver send the group to an address.
func (p *place) extend(address string, port int32, bundle []byte) {
	p.t.Helper()
	at := metav1.ObjectMeta{Name: "reports", Namespace: system, Labels: map[string]string{discoveryv1.LabelServiceName: "reports"}}
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1alpha1.reports.scanyard.io"},
		"spec": map[string]any{
			"group": "reports.scanyard.io", "version": "v1alpha1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
			"caBundle": base64.StdEncoding.EncodeToString(bundle), "service": map[string]any{"namespace": system, "name": "reports", "port": int64(port)},
		},
	}}
	for _, o := range []client.Object{
		&corev1.Service{ObjectMeta: at, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: at, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		},
		service,
	} {
		p.must(p.cluster.Client.Create(p.t.Context(), o))
	}
	p.until("the group of the reports API", func(ctx context.Context) (bool, error) {
		if err := p.cluster.Client.Get(ctx, client.ObjectKeyFromObject(service), service); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(service.Object, "status", "conditions")
		for _, c := range conditions {
			if condition, is := c.(map[string]any); is && condition["type"] == "Available" && condition["status"] == "True" {
				return true, nil
			}
		}
		return false, err
	})
}

// writeConfig writes the file that controllers and workers share.
func (p *place) writeConfig() {
	p.t.Helper()
	var files []string
	for _, name := range []string{"debian", "npm"} {
		files = append(files, filepath.Join("..", "..", "testdata", "advisories", name+".json"))
	}
	advisories, err := mini.ReadAdvisories(files...)
	p.must(err)
	dir := p.t.TempDir()
	database := filepath.Join(dir, "database.json")
	p.must(advisories.Write(database))
	p.config = filepath.Join(dir, "config.yaml")
	p.must(os.WriteFile(p.config, fmt.Appendf(nil,
		"apiVersion: %s\nkind: %s\negress: {allowCIDRs: [127.0.0.1/32]}\ncacheSize: 100Mi\nquotas: {concurrent: 20, images: 200000}\nhosts: {concurrent: 20, requestsPerSecond: 1000}\n"+
			"database: {maxAge: 5000d, mini: {file: %s}}\n", config.APIVersion, config.Kind, database), 0o600))
}

// until asks again until something holds.
func (p *place) until(what string, holds func(context.Context) (bool, error)) {
	p.t.Helper()
	if err := untilHolds(p.t, holds); err != nil {
		p.t.Fatalf("waiting for %s: %v", what, err)
	}
}

func untilHolds(t testing.TB, holds func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(t.Context(), look, time.Duration(sized(1, 5))*patience, true, func(ctx context.Context) (bool, error) {
		ok, err := holds(ctx)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return ok, err
	})
}

// world is a namespace with controllers and workers of its own.
type world struct {
	*place

	namespace string
	images    int
}

// row is the world of a test that runs beside the others.
func (p *place) row(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return p.space(t)
}

// space is a namespace of its own.
func (p *place) space(t testing.TB) *world {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "row-"}}
	w := &world{place: &place{t: t, cluster: p.cluster, client: p.client, registry: p.registry, config: p.config, reports: p.reports}}
	w.must(w.client.Create(t.Context(), namespace))
	w.namespace = namespace.Name
	return w
}

// push fills the namespace's own repository with images that differ in one file.
func (w *world) push(images int) {
	w.t.Helper()
	for i := range images {
		own := imagetest.Layer{Compression: imagetest.Gzip, Files: []imagetest.File{{Name: "app/number", Body: w.namespace + strconv.Itoa(i)}}}
		image, err := imagetest.Build(imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12(), imagetest.Node(), own}, Created: imagetest.Created})
		w.must(err)
		for _, content := range image.Blobs {
			w.registry.Blob(w.namespace+"/api", content)
		}
		w.registry.Manifest(w.namespace+"/api", strconv.Itoa(i), imagetest.TypeManifest, image.Manifest)
	}
	w.images = images
}

// tags fills the namespace's own repository with one image under many tags, which are as many Images.
func (w *world) tags(n int) {
	w.t.Helper()
	image, err := imagetest.Known()
	w.must(err)
	for _, content := range image.Blobs {
		w.registry.Blob(w.namespace+"/api", content)
	}
	for i := range n {
		w.registry.Manifest(w.namespace+"/api", strconv.Itoa(i), imagetest.TypeManifest, image.Manifest)
	}
	w.images = n
}

// apply creates the Registry, whose first job is due at once.
func (w *world) apply() {
	w.t.Helper()
	w.must(w.client.Create(w.t.Context(), &registryv1alpha1.Registry{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: w.namespace},
		Spec: registryv1alpha1.RegistrySpec{
			URL: w.registry.URL, Insecure: registryv1alpha1.PlainHTTP, Filter: registryv1alpha1.Filter{Repositories: []string{w.namespace + "/*"}},
			DiscoveryPeriod: "1h", Jitter: "1ms",
			ScanOn: []registryv1alpha1.ScanTrigger{registryv1alpha1.OnNewImage},
		},
	}))
}

// freePort is one of loopback that nobody listens on.
func (w *world) freePort() int {
	w.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	w.must(err)
	address, is := l.Addr().(*net.TCPAddr)
	w.must(l.Close())
	if !is {
		w.t.Fatalf("%T is not an address of TCP", l.Addr())
	}
	return address.Port
}

// control starts a controller of the namespace and of others, whose queue listens on a port. There is no election: its lease would have
// the next one wait.
func (w *world) control(port int, others ...string) *exec.Cmd {
	w.t.Helper()
	self, err := os.Executable()
	w.must(err)
	cmd := exec.Command(self, controllerProcess, "--config", w.config, "--namespace", w.namespace, "--leader-elect=false",
		"--namespaces", strings.Join(append(others, w.namespace), ","),
		"--metrics-bind-address", "0", "--health-probe-bind-address", "127.0.0.1:0", "--nats-bind-address", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	// A process that is killed leaves the folder of its queue.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig(), "TMPDIR="+w.t.TempDir())
	cmd.Stderr = io.Discard
	if testing.Verbose() {
		cmd.Stderr = w.t.Output()
	}
	w.must(cmd.Start())
	w.t.Cleanup(func() { kill(cmd) })
	return cmd
}

// kill ends a process at once, if it is still there.
func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // a process that was killed ends with an error
	}
}

// connect waits for the queue of a controller.
func (w *world) connect(port int, user string) *queue.Queue {
	w.t.Helper()
	var q *queue.Queue
	w.until("the queue", func(ctx context.Context) (bool, error) {
		o, err := w.options(ctx, port, user)
		if err != nil {
			return false, err
		}
		q, err = queue.Connect(o)
		return err == nil, nil
	})
	w.t.Cleanup(q.Close)
	return q
}

// options are those of a user of a controller's queue.
func (w *world) options(ctx context.Context, port int, user string) (queue.Options, error) {
	secret := &corev1.Secret{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "registry-nats"}, secret); err != nil {
		return queue.Options{}, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data[keyAuthority])
	password := map[string]string{queue.ControllerUser: keyControllerPassword, queue.WorkerUser: keyWorkerPassword}[user]
	return queue.Options{
		URLs: []string{"tls://127.0.0.1:" + strconv.Itoa(port)}, User: user, Password: string(secret.Data[password]), Name: user,
		TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}, nil
}

// stream is a controller's queue as NATS has it, for messages that no program of ours puts there.
func (w *world) stream(port int) jetstream.JetStream {
	w.t.Helper()
	w.connect(port, queue.ControllerUser).Close()
	o, err := w.options(w.t.Context(), port, queue.ControllerUser)
	w.must(err)
	conn, err := nats.Connect(o.URLs[0], nats.UserInfo(o.User, o.Password), nats.Secure(o.TLS))
	w.must(err)
	w.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	w.must(err)
	return js
}

// hastyClock is the machine's, but what waits for seconds in the field waits for less in a test.
type hastyClock struct{}

func (hastyClock) Now() time.Time { return time.Now() }

func (hastyClock) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(min(d, 2*look))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// running is a worker in this process.
type running struct {
	world   *world
	stop    context.CancelFunc
	ended   chan error
	metrics *prometheus.Registry
}

// work starts a worker at the queue of a controller. Without slots it has some of each.
func (w *world) work(name string, port int, slots ...map[queue.Step]int) *running {
	w.t.Helper()
	slots = append(slots, map[queue.Step]int{queue.Discover: 2, queue.SBOM: 3, queue.Match: 1})
	q := w.connect(port, queue.WorkerUser)
	c, err := config.Read(w.config)
	w.must(err)
	rules, err := c.Rules()
	w.must(err)
	self, err := os.Executable()
	w.must(err)
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(w.t.Output(), nil))
	}
	cache := w.t.TempDir()
	e, err := engine.Open(w.t.Context(), engine.Options{
		CacheDir: cache, CacheBytes: 50 << 20, Launcher: self, Sandbox: sandbox.Prefer, Log: log, Now: time.Now,
		Adapters: []engine.Adapter{{Name: config.Mini, Path: self, Args: []string{"adapter-mini"}}},
	})
	w.must(err)
	reports, err := reportsclient.New(reportsclient.Options{Config: w.cluster.Config, Clock: hastyClock{}})
	w.must(err)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{world: w, stop: stop, ended: make(chan error, 1), metrics: prometheus.NewRegistry()}
	one := worker.New(worker.Options{
		Name: name, Namespace: w.namespace, Config: c, Queue: q, Reports: reports, Cluster: w.client, Engine: e, Dialer: egress.NewDialer(rules),
		Slots: slots[0], Drain: time.Minute, CacheDir: cache, Clock: hastyClock{},
		Chance: func() float64 { return 0.5 }, Draw: rand.Text, Log: log, Metrics: worker.NewMetrics(r.metrics), Beat: time.Second,
	})
	go func() { r.ended <- errors.Join(one.Run(ctx), e.Close()) }()
	w.t.Cleanup(r.end)
	return r
}

// end ends a worker in order. It may be called again.
func (r *running) end() {
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			r.world.t.Error(err)
		}
		r.ended <- nil
	case <-time.After(patience):
		r.world.t.Error("the worker does not end")
	}
}

// count sums a metric of the worker over the labels that are not said.
func (r *running) count(name string, labels map[string]string) int {
	r.world.t.Helper()
	families, err := r.metrics.Gather()
	r.world.must(err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "scanyard_registry_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			fits := 0
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == l.GetValue() {
					fits++
				}
			}
			if fits == len(labels) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}
