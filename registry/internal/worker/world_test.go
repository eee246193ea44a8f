// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/scanyard/scanyard/apis/pki"
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
	"github.com/scanyard/scanyard/registry/internal/results"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// TestMain is the launcher and the adapter, where an engine starts this file's program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case sandbox.Subcommand:
			err = sandbox.Main(os.Args[2:], os.Environ())
		case "adapter-mini":
			err = mini.Run(context.Background(), os.Args[2:], mini.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now})
		case "adapter-faulty":
			err = faulty(os.Args[2:])
		case "worker":
			err = workAlone(os.Args[2])
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
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
	patience  = 2 * time.Minute
	namespace = "shop"
	jobUID    = "job-1"
)

// reportsAPI is the program of the reports API, on a database of its own, behind a door at which a test may answer.
type reportsAPI struct {
	t       testing.TB
	door    *httptest.Server
	program testcluster.Reports
	// url is that of the program, beside the door.
	url    string
	mutex  sync.Mutex
	before func(w http.ResponseWriter, r *http.Request) bool
	after  func(r *http.Response) error
	counts map[string]int
}

func startReports(t testing.TB) *reportsAPI {
	t.Helper()
	program := testcluster.StartReports(t)
	far, err := url.Parse(program.URL)
	if err != nil {
		t.Fatal(err)
	}
	api := &reportsAPI{t: t, program: program, url: far.String(), counts: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(far)
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	proxy.ModifyResponse = func(r *http.Response) error {
		api.mutex.Lock()
		after := api.after
		api.mutex.Unlock()
		if after != nil {
			return after(r)
		}
		return nil
	}
	api.door = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.mutex.Lock()
		before := api.before
		api.counts[kindOf(r)]++
		api.mutex.Unlock()
		if before == nil || !before(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(api.door.Close)
	return api
}

// kindOf names a call by its method, its resource and its part, such as "PATCH images/status".
func kindOf(r *http.Request) string {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/reports.scanyard.io/v1alpha1/"), "/")
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	kind := r.Method + " " + parts[0]
	if len(parts) > 2 {
		kind += "/" + parts[2]
	}
	return kind
}

// writes counts the calls that wrote since the last Forget, and names them.
func (a *reportsAPI) writes() map[string]int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	writes := map[string]int{}
	for kind, n := range a.counts {
		if !strings.HasPrefix(kind, http.MethodGet) {
			writes[kind] = n
		}
	}
	return writes
}

func (a *reportsAPI) forget() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	clear(a.counts)
}

// answer has a test answer in the place of the reports API; nil ends that.
func (a *reportsAPI) answer(before func(w http.ResponseWriter, r *http.Request) bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.before = before
}

// change has a test change the answers of the reports API; nil ends that.
func (a *reportsAPI) change(after func(r *http.Response) error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.after = after
}

// clock is the machine's, with waits that end early: what waits for seconds in the field waits for less in a test.
type clock struct {
	mutex sync.Mutex
	ahead time.Duration
}

func (c *clock) Now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(min(d, 20*time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		c.mutex.Lock()
		c.ahead += max(d-20*time.Millisecond, 0)
		c.mutex.Unlock()
		return nil
	}
}

// nats is the embedded queue, with the controller's side of it.
type nats struct {
	server     *queue.Server
	roots      *x509.CertPool
	controller *queue.Queue
	ended      chan queue.Ended
	ca         string
}

func startQueue(t testing.TB) *nats {
	t.Helper()
	authority, err := pki.NewAuthority("queue", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue([]string{"127.0.0.1"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	n := &nats{roots: x509.NewCertPool(), ended: make(chan queue.Ended, 10_000), ca: pemOf(authority.Cert)}
	n.roots.AddCert(authority.Cert)
	n.server, err = queue.StartServer(queue.ServerOptions{
		Address: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		StoreDir: t.TempDir(), ControllerPassword: "c", WorkerPassword: "w",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.server.Stop)
	n.controller = n.connect(t, queue.ControllerUser, "c")
	if err := n.controller.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for step, adapter := range map[queue.Step]string{queue.Discover: queue.AnyAdapter, queue.SBOM: "mini", queue.Match: "mini", queue.Database: "mini"} {
		if err := n.controller.Window(t.Context(), step, adapter, 20); err != nil {
			t.Fatal(err)
		}
	}
	listening := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		_ = n.controller.Listen(ctx, queue.Heard{Ended: func(e queue.Ended) { n.ended <- e }}, func() { close(listening) })
	}()
	<-listening
	return n
}

func (n *nats) connect(t testing.TB, user, password string, change ...func(*queue.Options)) *queue.Queue {
	t.Helper()
	o := queue.Options{
		URLs: []string{n.server.URL()}, User: user, Password: password, Name: user, TLS: &tls.Config{RootCAs: n.roots, MinVersion: tls.VersionTLS12},
	}
	for _, c := range change {
		c(&o)
	}
	q, err := queue.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// world is a registry, the reports API, a queue, and a namespace with a Registry and a DiscoveryJob.
type world struct {
	t        testing.TB
	registry *registrytest.Registry
	reports  *reportsAPI
	nats     *nats
	cluster  client.Client
	config   *config.Config
	client   *reportsclient.Client
	object   *registryv1alpha1.Registry
	drawn    int
	// spawned is where workers that are processes of their own keep their files.
	spawned string
}

func newWorld(t testing.TB, change ...func(*registryv1alpha1.Registry)) *world {
	t.Helper()
	w := &world{t: t, registry: registrytest.New(t), reports: startReports(t), nats: startQueue(t), spawned: t.TempDir()}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, registryv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w.object = &registryv1alpha1.Registry{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: namespace, UID: "registry-1", Generation: 1},
		Spec:       registryv1alpha1.RegistrySpec{URL: w.registry.URL, Insecure: registryv1alpha1.PlainHTTP},
	}
	for _, c := range change {
		c(w.object)
	}
	w.cluster = fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.object, w.discoveryJob(jobUID)).Build()
	w.config = readConfig(t, "egress: {allowCIDRs: [127.0.0.1/32]}\ncacheSize: 100Mi\n")
	w.config.Database.Mini.File = w.advisories("debian", "npm")
	w.client = w.newClient(&clock{})
	return w
}

func readConfig(t testing.TB, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	head := "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n"
	if err := os.WriteFile(file, []byte(head+text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// advisories writes a database of the given files.
func (w *world) advisories(names ...string) string {
	w.t.Helper()
	var files []string
	for _, name := range names {
		files = append(files, filepath.Join("..", "..", "testdata", "advisories", name+".json"))
	}
	a, err := mini.ReadAdvisories(files...)
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.t.TempDir(), "database.json")
	if err := a.Write(file); err != nil {
		w.t.Fatal(err)
	}
	return file
}

func (w *world) discoveryJob(uid string) *registryv1alpha1.DiscoveryJob {
	return &registryv1alpha1.DiscoveryJob{
		ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: namespace, UID: types.UID(uid)},
		Spec:       registryv1alpha1.DiscoveryJobSpec{JobSpec: registryv1alpha1.JobSpec{Registry: "prod"}, StopAfter: registryv1alpha1.StopAfterMatch},
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	o.SetNamespace(namespace)
	if err := w.cluster.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) newClient(c *clock) *reportsclient.Client { return w.clientOf(w.reports.door.URL, c) }

func (w *world) clientOf(url string, c *clock) *reportsclient.Client {
	w.t.Helper()
	made, err := reportsclient.New(reportsclient.Options{Config: &rest.Config{Host: url, BearerToken: testcluster.ReportsToken}, Clock: c})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// running is a worker.
type running struct {
	*Worker

	stop  context.CancelFunc
	ended chan error
	clock *clock
}

// work starts a worker.
func (w *world) work(change ...func(*Options)) *running {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	rules, err := w.config.Rules()
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	c := &clock{}
	w.drawn++
	o := Options{
		Name: fmt.Sprintf("worker-%d", w.drawn), Namespace: "scanyard-system", Config: w.config, Reports: w.newClient(c), Cluster: w.cluster, Dialer: egress.NewDialer(rules),
		Slots: map[queue.Step]int{queue.Discover: 1, queue.SBOM: 1, queue.Match: 2}, Drain: time.Minute, CacheDir: w.t.TempDir(), Clock: c,
		Chance: func() float64 { return 0.5 }, Draw: rand.Text, Log: log, Metrics: NewMetrics(prometheus.NewRegistry()), Queue: w.nats.connect(w.t, queue.WorkerUser, "w"),
	}
	for _, f := range change {
		f(&o)
	}
	if o.Engine == nil {
		o.Engine, err = engine.Open(w.t.Context(), engine.Options{
			CacheDir: o.CacheDir, CacheBytes: 50 << 20, Launcher: self, Sandbox: sandbox.Prefer, Log: log, Now: time.Now,
			Adapters: []engine.Adapter{{Name: "mini", Path: self, Args: []string{"adapter-mini"}}},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() {
			if err := o.Engine.Close(); err != nil {
				w.t.Log(err)
			}
		})
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Worker: New(o), stop: stop, ended: make(chan error, 1), clock: c}
	go func() { r.ended <- r.Run(ctx) }()
	w.t.Cleanup(func() { r.end(w.t) })
	return r
}

// end ends a worker in order. It may be called again.
func (r *running) end(t testing.TB) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Error(err)
		}
		r.ended <- nil
	case <-time.After(patience):
		t.Error("the worker does not end")
	}
}

// push stores an image with its layers, and gives its digest.
func (w *world) push(repository, tag string, layers ...imagetest.Layer) string {
	w.t.Helper()
	image, err := imagetest.Build(imagetest.Spec{Layers: layers, Created: imagetest.Created})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, content := range image.Blobs {
		w.registry.Blob(repository, content)
	}
	return w.registry.Manifest(repository, tag, imagetest.TypeManifest, image.Manifest)
}

// known pushes the image that most tests look at; a number makes it differ from others.
func (w *world) known(repository, tag string, number int) string {
	own := imagetest.Layer{Compression: imagetest.Gzip, Files: []imagetest.File{{Name: "app/number", Body: strconv.Itoa(number)}}}
	return w.push(repository, tag, imagetest.Debian12(), imagetest.Node(), own)
}

// message names items.
func (w *world) message(step queue.Step, items ...queue.Item) queue.Message {
	m := queue.Message{
		Step: step, Namespace: namespace, Registry: &queue.Ref{Name: "prod", UID: "registry-1"}, Job: &queue.Ref{Kind: "DiscoveryJob", Name: jobUID, UID: jobUID},
		Items: items, Adapter: "mini", ID: rand.Text(),
	}
	if step == queue.Discover {
		m.Adapter = queue.AnyAdapter
	}
	return m
}

func (w *world) put(m queue.Message) {
	w.t.Helper()
	if err := w.nats.controller.Put(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// wait gives what is told of a number of items.
func (w *world) wait(n int) []queue.Ended {
	w.t.Helper()
	var list []queue.Ended
	for len(list) < n {
		select {
		case e := <-w.nats.ended:
			list = append(list, e)
		case <-time.After(patience):
			w.t.Fatalf("%d of %d items have ended: %+v", len(list), n, list)
		}
	}
	return list
}

// do lets one message in, and gives what is told of its items.
func (w *world) do(m queue.Message) []queue.Ended {
	w.t.Helper()
	w.put(m)
	return w.wait(max(len(m.Items), 1))
}

// well does a message whose items all end well.
func (w *world) well(m queue.Message) {
	w.t.Helper()
	for _, e := range w.do(m) {
		if e.Outcome != "Done" {
			w.t.Fatalf("%s of %s ended with %+v", m.Step, e.Name, e)
		}
	}
}

func (w *world) catalog() queue.Message {
	return w.message(queue.Discover, queue.Item{Name: results.RepositoryName("registry-1", "")})
}

func (w *world) repositories() map[string]*reportsv1.Repository {
	w.t.Helper()
	found := map[string]*reportsv1.Repository{}
	err := reportsclient.List(w.t.Context(), w.client, namespace, reportsclient.Repositories, "", func(r *reportsv1.Repository) error {
		found[r.Spec.Repository] = r
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// images are all Images by repository:tag, those that have left with their presence behind it.
func (w *world) images() map[string]*reportsv1.Image {
	w.t.Helper()
	found := map[string]*reportsv1.Image{}
	err := reportsclient.List(w.t.Context(), w.client, namespace, reportsclient.Images, "", func(i *reportsv1.Image) error {
		key := i.Spec.Repository + ":" + i.Spec.Tag
		if i.Status.Presence != reportsv1.ImagePresent {
			key += " " + string(i.Status.Presence)
		}
		found[key] = i
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func itemOf(i *reportsv1.Image) queue.Item {
	return queue.Item{Name: i.Name, UID: string(i.UID), Bytes: i.Spec.CompressedBytes}
}

func (w *world) image(key string) *reportsv1.Image {
	w.t.Helper()
	i := w.images()[key]
	if i == nil {
		w.t.Fatalf("there is no image %s: %v", key, sorted(w.images()))
	}
	return i
}

// discovered runs the catalogue and all repositories for a job.
func (w *world) discovered(job string) {
	w.t.Helper()
	w.well(withJob(w.catalog(), job))
	for _, name := range sorted(w.repositories()) {
		if name != "" {
			w.well(withJob(w.repositoryMessage(name), job))
		}
	}
}

func withJob(m queue.Message, uid string) queue.Message {
	m.Job = &queue.Ref{Kind: "DiscoveryJob", Name: uid, UID: uid}
	return m
}

func (w *world) repositoryMessage(name string) queue.Message {
	w.t.Helper()
	r := w.repositories()[name]
	if r == nil {
		w.t.Fatalf("there is no repository %s", name)
	}
	return w.message(queue.Discover, queue.Item{Name: r.Name, UID: string(r.UID)})
}

// summary is what counts of an image's vulnerabilities, as critical/high/medium/low.
func summary(i *reportsv1.Image) string {
	v := i.Status.Vulnerabilities
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%d/%d/%d/%d", of(v.Critical), of(v.High), of(v.Medium), of(v.Low))
}

func of(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
