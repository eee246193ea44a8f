// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// alone is what a worker needs that is a process of its own, and may be killed.
type alone struct {
	Name, Queue, CA, Reports, Cache, Database string
	Fault                                     []string
	Registry                                  *registryv1alpha1.Registry
	Job                                       *registryv1alpha1.DiscoveryJob
}

// deliveredAgain is how soon a message comes again whose worker was killed.
const deliveredAgain = 3 * time.Second

// workAlone is the process of such a worker.
func workAlone(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var a alone
	if err := json.Unmarshal(text, &a); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, registryv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	c, err := config.Read("")
	if err != nil {
		return err
	}
	c.Egress.AllowCIDRs, c.Database.Mini.File = []string{"127.0.0.1/32"}, a.Database
	rules, err := c.Rules()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(a.CA))
	q, err := queue.Connect(queue.Options{
		URLs: []string{a.Queue}, User: queue.WorkerUser, Password: "w", Name: a.Name, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		return err
	}
	reports, err := reportsclient.New(reportsclient.Options{Config: &rest.Config{Host: a.Reports, BearerToken: testcluster.ReportsToken}, Clock: &clock{}})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	adapter := engine.Adapter{Name: "mini", Path: self, Args: []string{"adapter-mini"}}
	if len(a.Fault) > 0 {
		adapter.Args = append([]string{"adapter-faulty"}, a.Fault...)
	}
	e, err := engine.Open(context.Background(), engine.Options{
		CacheDir: a.Cache, Launcher: self, Sandbox: sandbox.Off, Log: log, Now: time.Now, Adapters: []engine.Adapter{adapter},
	})
	if err != nil {
		return err
	}
	w := New(Options{
		Name: a.Name, Config: c, Reports: reports, Dialer: egress.NewDialer(rules), Queue: q, Engine: e, CacheDir: a.Cache, Clock: &clock{}, Log: log,
		Cluster: fake.NewClientBuilder().WithScheme(scheme).WithObjects(a.Registry, a.Job).Build(), Drain: time.Minute, Beat: deliveredAgain / 8,
		Slots: map[queue.Step]int{queue.Discover: 0, queue.SBOM: 1, queue.Match: 1}, Chance: func() float64 { return 0.5 }, Draw: rand.Text,
		Metrics: NewMetrics(prometheus.NewRegistry()),
	})
	fmt.Println("ready")
	return w.Run(context.Background())
}

// spawn starts a worker that may be killed.
func (w *world) spawn(name string, fault ...string) *exec.Cmd {
	w.t.Helper()
	dir := filepath.Join(w.spawned, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	text, err := json.Marshal(alone{
		Name: name, Queue: w.nats.server.URL(), CA: w.nats.ca, Reports: w.reports.door.URL, Cache: filepath.Join(dir, "cache"), Database: w.config.Database.Mini.File,
		Fault: fault, Registry: w.object, Job: w.discoveryJob(jobUID),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(dir, "worker.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(self, "worker", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if testing.Verbose() {
		cmd.Stderr = w.t.Output()
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { kill(cmd) })
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		w.t.Fatalf("worker %s did not start: %v", name, err)
	}
	return cmd
}

// kill ends a process at once, if it is still there.
func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// hasty lets messages come again soon, as those do whose worker was killed.
func (w *world) hasty() {
	w.t.Helper()
	soon := func(o *queue.Options) { o.AckWait, o.MaxDeliver = deliveredAgain, 10 }
	controller := w.nats.connect(w.t, queue.ControllerUser, "c", soon)
	for step, adapter := range map[queue.Step]string{queue.SBOM: "mini", queue.Match: "mini"} {
		if err := controller.Window(w.t.Context(), step, adapter, 50); err != nil {
			w.t.Fatal(err)
		}
	}
}

// discoveredOnly finds images with a worker that then ends.
func (w *world) discoveredOnly() {
	w.t.Helper()
	r := w.work(func(o *Options) { o.Slots[queue.SBOM], o.Slots[queue.Match] = 0, 0 })
	w.discovered(jobUID)
	w.well(w.message(queue.Database))
	r.end(w.t)
}

// feed lets in what waits, again and again, until all images are settled. What is in flight is let in twice at times: that does no harm.
func (w *world) feed(n int) map[string]int {
	w.t.Helper()
	deadline := time.After(time.Duration(sized(2, 10)) * patience)
	for {
		states := map[string]int{}
		var match []queue.Item
		for _, i := range w.images() {
			states[i.Status.State]++
			if i.Status.Work != nil && i.Status.Work.NotBefore != nil {
				w.due(i)
			}
			switch i.Status.State {
			case reportsv1.ImagePending:
				w.put(w.message(queue.SBOM, itemOf(i)))
			case reportsv1.ImageWaitingForMatch:
				match = append(match, itemOf(i))
			}
		}
		if states[reportsv1.ImageScanned]+states[reportsv1.ImageQuarantined]+states[reportsv1.ImageFailed] == n {
			return states
		}
		for part := range slices.Chunk(match, batch) {
			w.put(w.message(queue.Match, part...))
		}
		for range len(match) + states[reportsv1.ImagePending] + 1 {
			select {
			case <-w.nats.ended:
				continue
			case <-time.After(deliveredAgain):
			case <-deadline:
				w.t.Fatalf("images still wait: %v", states)
			}
			break
		}
	}
}

// F1: workers that are killed while they work lose tries, and no image. Each of them is killed when it has just claimed an image that
// nobody has lost before.
func TestFaultWorkersKilled(t *testing.T) {
	w := newWorld(t)
	w.hasty()
	images, kills := sized(16, 200), sized(6, 40)
	for i := range images {
		w.known("shop/api", strconv.Itoa(i), i)
	}
	w.discoveredOnly()
	victims := make(chan string, images*10)
	w.reports.change(func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var i reportsv1.Image
		if kindOf(r.Request) != "PATCH images/status" || r.StatusCode != http.StatusOK {
			return nil
		}
		if err := json.Unmarshal(body, &i); err != nil || i.Status.Work == nil {
			return err
		}
		if work := i.Status.Work; work.Claim != "" && work.Lost == 0 && work.Attempt == 1 {
			victims <- work.Worker
		}
		return nil
	})
	running := map[string]*exec.Cmd{}
	for n := range 3 {
		name := fmt.Sprintf("victim-%d", n)
		running[name] = w.spawn(name)
	}
	done := make(chan struct{})
	killed := make(chan int, 1)
	go func() {
		seen, dead := 0, 0
		defer func() { killed <- dead }()
		for {
			select {
			case <-done:
				return
			case name := <-victims:
				if seen++; seen%2 == 0 && dead < kills {
					kill(running[name])
					running[name] = w.spawn(name)
					dead++
				}
			}
		}
	}()
	states := w.feed(images)
	close(done)
	if n := <-killed; n != kills || states[reportsv1.ImageScanned] != images {
		t.Errorf("%d workers were killed, %v", n, states)
	}
	for key, i := range w.images() {
		if summary(i) != "2/2/0/1" || i.Status.Work.Claim != "" {
			t.Errorf("%s: %+v", key, i.Status)
		}
	}
}

// F25: an image whose match kills the worker, in a batch. The others are scanned, the one is quarantined.
func TestFaultMatchKillsTheWorker(t *testing.T) {
	w := newWorld(t)
	w.hasty()
	images := sized(6, batch)
	var bad string
	for i := range images {
		if digest := w.known("shop/api", strconv.Itoa(i), i); i == 2 {
			bad = digest
		}
	}
	w.discoveredOnly()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			cmd := w.spawn("victim", "killworker", "match", bad)
			done := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(done)
			}()
			select {
			case <-done:
			case <-ctx.Done():
				_ = cmd.Process.Kill()
				<-done
			}
		}
	})
	states := w.feed(images)
	stop()
	running.Wait()
	if states[reportsv1.ImageScanned] != images-1 || states[reportsv1.ImageQuarantined] != 1 {
		t.Fatalf("%v", states)
	}
	i := w.image("shop/api:2")
	if i.Status.Reason != "WorkerLost" || i.Status.Work.Lost < 4 {
		t.Errorf("%+v, %+v", i.Status, i.Status.Work)
	}
}

// F8: a worker that is frozen while it works is taken over; what it writes afterwards is refused, and dropped.
func TestFaultFrozenWorker(t *testing.T) {
	w := newWorld(t)
	w.hasty()
	w.known("shop/api", "1", 1)
	w.discoveredOnly()
	uploading, goOn := make(chan struct{}), make(chan struct{})
	var stopped atomic.Bool
	refused := make(chan struct{})
	w.reports.change(func(r *http.Response) error {
		if kindOf(r.Request) == "PUT sboms/document" && r.StatusCode == http.StatusConflict {
			close(refused)
		}
		return nil
	})
	frozen := w.spawn("frozen")
	// The first worker is stopped when the registry answers it, before its SBOM is uploaded.
	w.registry.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet && stopped.CompareAndSwap(false, true) {
			_ = frozen.Process.Signal(syscall.SIGSTOP)
			close(uploading)
			<-goOn
		}
		return false
	}
	w.put(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
	<-uploading
	second := w.spawn("second")
	w.until(func() bool { return w.image("shop/api:1").Status.State == reportsv1.ImageWaitingForMatch })
	made := w.image("shop/api:1")
	kill(second)
	close(goOn)
	if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-refused:
	case e := <-w.nats.ended:
		// The renewal of the lease may have told the frozen worker first.
		for e.Row != "Dropped" {
			e = w.wait(1)[0]
		}
	}
	if now := w.image("shop/api:1"); now.ResourceVersion != made.ResourceVersion {
		t.Errorf("%+v", now.Status)
	}
}

// F9: a reports API that is away while a document is uploaded gets the same document afterwards.
func TestFaultReportsAPIAway(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	w.discovered(jobUID)
	var mutex sync.Mutex
	refusals := 0
	w.reports.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if kindOf(r) != "PUT sboms/document" || refusals == 12 {
			return false
		}
		refusals++
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	w.registry.Forget()
	w.well(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
	if n := w.registry.Count("GET blobs"); n != 4 {
		t.Errorf("%d blobs were fetched: the SBOM was made more than once", n)
	}
	if i := w.image("shop/api:1"); i.Status.State != reportsv1.ImageWaitingForMatch || i.Status.Work.Attempt != 0 {
		t.Errorf("%+v", i.Status)
	}
}

// F10: a reports API that cannot write ends the try after its patience, with the reason; it goes on by itself.
func TestFaultReportsAPIReadOnly(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	w.discovered(jobUID)
	w.reports.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			rw.WriteHeader(http.StatusInsufficientStorage)
			return true
		}
		return false
	})
	e := w.do(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))[0]
	if i := w.image("shop/api:1"); e.Reason != reasonReportsUnavailable || i.Status.Reason != reasonReportsUnavailable || i.Status.State != reportsv1.ImagePending {
		t.Errorf("%+v, %+v", e, i.Status)
	}
	w.reports.answer(nil)
	w.due(w.image("shop/api:1"))
	w.well(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
}

// F11: an upload that is cut leaves nothing, and the next try of it succeeds.
func TestFaultUploadCut(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	w.discovered(jobUID)
	image := w.image("shop/api:1")
	var mutex sync.Mutex
	cut := 0
	w.reports.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if kindOf(r) == "PUT sboms/document" && cut < 2 {
			cut++
			r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, 100), broken{}))
		}
		return false
	})
	w.well(w.message(queue.SBOM, itemOf(image)))
	if cut != 2 || w.image("shop/api:1").Status.State != reportsv1.ImageWaitingForMatch {
		t.Errorf("%d cuts, %+v", cut, w.image("shop/api:1").Status)
	}
}

// broken is a connection that breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the connection broke") }

// F13: a worker whose clock is wrong by minutes holds its leases: the server's time decides.
func TestFaultClockIsWrong(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		r := w.work(func(o *Options) { o.Clock = &clock{ahead: off} })
		job := fmt.Sprintf("job%v", off.Minutes())
		w.create(w.discoveryJob(job))
		w.discovered(job)
		image := w.image("shop/api:1")
		// Somebody else works on the image: no clock of a worker makes that lease end.
		w.patch("images", image.Name, object{"state": reportsv1.ImageGeneratingSBOM, "work": object{"claim": "other", "leaseExpiresAt": "2000-01-01T00:00:00Z"}})
		if e := w.do(withJob(w.message(queue.SBOM, itemOf(image)), job))[0]; e.Row != "Busy" {
			t.Errorf("%v: %+v", off, e)
		}
		w.patch("images", image.Name, object{"state": reportsv1.ImagePending, "work": object{"claim": nil}})
		r.end(t)
	}
}

// pemOf is a certificate as a file has it.
func pemOf(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}
