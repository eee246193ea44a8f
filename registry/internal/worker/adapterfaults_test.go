// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/mini"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// faulty is adapter mini, but for requests that hold a text: FAULT OP TEXT.
func faulty(arguments []string) error {
	fault, op, text := arguments[0], `"op":"`+arguments[1]+`"`, arguments[2]
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mini.Run(context.Background(), nil, mini.Streams{In: in, Out: os.Stdout, Err: os.Stderr, Now: time.Now})
	}()
	lines := bufio.NewReaderSize(os.Stdin, 2<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return errors.Join(out.Close(), <-ended)
		}
		if strings.Contains(line, op) && strings.Contains(line, text) {
			if pipe, waits := strings.CutPrefix(fault, "wait:"); waits {
				err = untilOpened(pipe)
			} else {
				commit(fault)
				continue
			}
			if err != nil {
				return err
			}
		}
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
}

// untilOpened waits until somebody opens the other end of a named pipe.
func untilOpened(pipe string) error {
	f, err := os.Open(pipe)
	if err != nil {
		return err
	}
	return f.Close()
}

// commit does what an adapter must not do.
func commit(fault string) {
	switch fault {
	case "segv":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
	case "memory":
		var held [][]byte
		for range 1000 {
			block := make([]byte, 16<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			held = append(held, block)
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Fprintln(os.Stderr, len(held))
	case "garbage":
		fmt.Println("this is not an answer")
	case "exit":
		os.Exit(0)
	case "killworker":
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		select {}
	case "hang":
	}
}

// withAdapter has a worker run an adapter that has a fault, without a sandbox.
func (w *world) withAdapter(fault, op, text string) func(*Options) {
	return func(o *Options) {
		self, err := os.Executable()
		if err != nil {
			w.t.Fatal(err)
		}
		o.Engine, err = engine.Open(w.t.Context(), engine.Options{
			CacheDir: o.CacheDir, Launcher: self, Sandbox: sandbox.Off, Log: o.Log, Now: time.Now, SBOMMemory: 256 << 20, MatchMemory: 256 << 20,
			Adapters: []engine.Adapter{{Name: "mini", Path: self, Args: []string{"adapter-faulty", fault, op, text}}},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = o.Engine.Close() })
	}
}

// F23: an adapter that dies over one image of many. The one is quarantined after two crashes, the others are scanned.
func TestFaultAdapterDiesOverOneImage(t *testing.T) {
	for _, op := range []string{"sbom", "match"} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t)
			var bad string
			images := sized(10, 50)
			for i := range images {
				digest := w.known("shop/api", strconv.Itoa(i), i)
				if i == 4 {
					bad = digest
				}
			}
			w.work(w.withAdapter("segv", op, bad))
			w.discovered(jobUID)
			w.well(w.message(queue.Database))
			w.through(images)
			states := map[string]int{}
			for _, i := range w.images() {
				states[i.Status.State]++
				if i.Spec.Digest != bad {
					continue
				}
				if i.Status.State != reportsv1.ImageQuarantined || i.Status.Reason != "AdapterCrashed" || i.Status.Work.Crashes != 2 || !strings.Contains(i.Status.Message, "died") {
					t.Errorf("%+v, %+v", i.Status, i.Status.Work)
				}
			}
			if states[reportsv1.ImageScanned] != images-1 {
				t.Errorf("%v", states)
			}
		})
	}
}

// through lets images in as a controller does, until none waits.
func (w *world) through(n int) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		var match []queue.Item
		asked, settled := 0, 0
		for _, key := range sorted(w.images()) {
			i := w.images()[key]
			switch i.Status.State {
			case reportsv1.ImagePending:
				w.due(i)
				asked += len(w.do(w.message(queue.SBOM, itemOf(i))))
			case reportsv1.ImageWaitingForMatch:
				w.due(i)
				match = append(match, itemOf(i))
			default:
				settled++
			}
		}
		if len(match) > 0 {
			w.do(w.message(queue.Match, match...))
		}
		if settled == n {
			return
		}
	}
	w.t.Fatal("images still wait")
}

// F24: what an adapter does wrong over one image has its own reason, and the next image is scanned by a new process.
func TestFaultAdapterMisbehaves(t *testing.T) {
	for fault, want := range map[string]string{"memory": "Crashed MemoryExceeded", "garbage": "Crashed ProtocolError", "exit": "Crashed ProtocolError", "hang": "Transient Timeout"} {
		t.Run(fault, func(t *testing.T) {
			w := newWorld(t, func(r *registryv1alpha1.Registry) {
				if fault == "hang" {
					r.Spec.Limits = &registryv1alpha1.Limits{Timeout: "1s"}
				}
			})
			bad := w.known("shop/api", "bad", 1)
			w.known("shop/api", "good", 2)
			w.work(w.withAdapter(fault, "sbom", bad))
			w.discovered(jobUID)
			e := w.do(w.message(queue.SBOM, itemOf(w.image("shop/api:bad"))))[0]
			if got := e.Outcome + " " + e.Reason; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if fault != "hang" {
				w.well(w.message(queue.SBOM, itemOf(w.image("shop/api:good"))))
			}
		})
	}
}

// F26: a database that cannot be had leaves the one in use, and after three failures says so.
func TestFaultDatabaseCannotBeHad(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	r := w.work()
	w.well(w.message(queue.Database))
	used, _ := r.Engine.Database("mini")
	good := w.config.Database.Mini.File
	cut := filepath.Join(t.TempDir(), "cut.json")
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	w.config.Database.Mini.File = cut
	for range failures {
		if e := w.do(w.message(queue.Database))[0]; e.Outcome == "Done" || e.Reason == "" {
			t.Errorf("%+v", e)
		}
	}
	if now, has := r.Engine.Database("mini"); !has || now.Version != used.Version {
		t.Errorf("in use: %+v", now)
	}
	stored := w.database()
	if stored.Version != used.Version || conditionOf(stored, conditionAvailable) != "False" {
		t.Errorf("%+v", stored)
	}
	w.config.Database.Mini.File = good
	w.well(w.message(queue.Database))
	if stored = w.database(); conditionOf(stored, conditionAvailable) != "True" {
		t.Errorf("%+v", stored)
	}
}

func (w *world) database() reportsv1.VulnerabilityDatabaseStatus {
	w.t.Helper()
	var d reportsv1.VulnerabilityDatabase
	if _, err := w.client.Get(w.t.Context(), "", "vulnerabilitydatabases", "mini", &d); err != nil {
		w.t.Fatal(err)
	}
	return d.Status
}

func conditionOf(s reportsv1.VulnerabilityDatabaseStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return string(c.Status)
		}
	}
	return ""
}

// F28: a report of newer data is not replaced by a worker whose data is older.
func TestFaultTwoWorkersWithDifferentDatabases(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	old := w.work(func(o *Options) { o.Slots[queue.Discover] = 1 })
	w.discovered(jobUID)
	w.well(w.message(queue.Database))
	w.well(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
	before := old.Engine
	// The newer worker alone takes messages now, and has more advisories.
	old.end(t)
	file := w.config.Database.Mini.File
	w.config.Database.Mini.File = w.newer(file)
	newer := w.work()
	w.well(w.message(queue.Database))
	w.well(w.message(queue.Match, itemOf(w.image("shop/api:1"))))
	made := w.image("shop/api:1")
	newer.end(t)
	w.config.Database.Mini.File = file
	w.work(func(o *Options) { o.Engine = before })
	m := w.message(queue.Match, itemOf(made))
	if e := w.do(m)[0]; e.Outcome != queue.Passed {
		t.Errorf("%+v", e)
	}
	if now := w.image("shop/api:1"); now.ResourceVersion != made.ResourceVersion {
		t.Errorf("%+v", now.Status)
	}
	if d, has := before.Database("mini"); !has || d.Version == made.Status.Database.Version {
		t.Errorf("the two have the same data: %+v", d)
	}
}

// F27: data that changes while images are matched: requests that run end on the old data, the next ones begin with the new, and what was
// matched with the old is matched again by the next job. That a job counts by its own version is TestScanJobCountsByItsData.
func TestFaultDatabaseChangesDuringAScan(t *testing.T) {
	w := newWorld(t)
	slow := w.known("shop/api", "slow", 1)
	w.known("shop/api", "quick", 2)
	w.discoveredOnly()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.work(w.withAdapter("wait:"+pipe, "match", slow))
	for _, key := range []string{"shop/api:slow", "shop/api:quick"} {
		w.well(w.message(queue.SBOM, itemOf(w.image(key))))
	}
	w.well(w.message(queue.Database))
	old, _ := r.Engine.Database("mini")
	w.put(w.message(queue.Match, itemOf(w.image("shop/api:slow"))))
	w.busy(r, queue.Match)
	w.config.Database.Mini.File = w.newer(w.config.Database.Mini.File)
	w.well(w.message(queue.Database))
	fresh, _ := r.Engine.Database("mini")
	if fresh.Version == old.Version {
		t.Fatalf("the data is as before: %+v", fresh)
	}
	w.well(w.message(queue.Match, itemOf(w.image("shop/api:quick"))))
	with := func(key string) string {
		if d := w.image(key).Status.Database; d != nil {
			return d.Version
		}
		return ""
	}
	if got := with("shop/api:quick"); got != fresh.Version {
		t.Errorf("an image that was begun afterwards was matched with %q", got)
	}
	other, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if e := w.wait(1)[0]; e.Outcome != "Done" {
		t.Fatalf("the request that ran: %+v", e)
	}
	if got := with("shop/api:slow"); got != old.Version {
		t.Errorf("the request that ran ended on %q", got)
	}
	r.end(t)
	w.work()
	w.well(w.message(queue.Match, itemOf(w.image("shop/api:slow"))))
	if got := with("shop/api:slow"); got != fresh.Version {
		t.Errorf("the next job matched it with %q", got)
	}
}

// busy waits until a worker has a message of a step.
func (w *world) busy(r *running, step queue.Step) {
	w.t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		r.mutex.Lock()
		free := r.free[step]
		r.mutex.Unlock()
		if free < r.Slots[step] {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			w.t.Fatalf("no slot of %s is taken", step)
		}
	}
}

// newer writes a database that was built later and has one advisory less.
func (w *world) newer(file string) string {
	w.t.Helper()
	a, err := mini.ReadAdvisories(file)
	if err != nil {
		w.t.Fatal(err)
	}
	a.BuiltAt = a.BuiltAt.Add(time.Hour)
	a.Advisories = a.Advisories[1:]
	name := filepath.Join(w.t.TempDir(), "newer.json")
	if err := a.Write(name); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// F29: a cache whose files are damaged is as good as none.
func TestFaultDamagedCache(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	r := w.work()
	w.discovered(jobUID)
	w.well(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
	first := w.image("shop/api:1").Status.SBOM.SHA256
	damaged := 0
	err := filepath.WalkDir(filepath.Join(r.CacheDir, "layers"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		damaged++
		return os.WriteFile(path, []byte("damaged"), 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatal(err, damaged)
	}
	w.known("shop/web", "1", 1)
	w.create(w.discoveryJob("job-2"))
	w.well(withJob(w.catalog(), "job-2"))
	w.well(withJob(w.repositoryMessage("shop/web"), "job-2"))
	w.config.Dedupe = reportsv1.DedupeOff
	w.well(withJob(w.message(queue.SBOM, itemOf(w.image("shop/web:1"))), "job-2"))
	if got := w.image("shop/web:1").Status.SBOM.SHA256; got != first {
		t.Errorf("%s, want %s", got, first)
	}
}

// F31: hostile images are scanned within bounds, or left aside for a reason.
func TestFaultHostileImages(t *testing.T) {
	w := newWorld(t)
	hostile, err := imagetest.Hostiles()
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range hostile {
		image, err := imagetest.Build(h.Spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range image.Blobs {
			w.registry.Blob("shop/bad", content)
		}
		w.registry.Manifest("shop/bad", fmt.Sprintf("h%d", i), imagetest.TypeManifest, image.Manifest)
	}
	w.work()
	w.discovered(jobUID)
	got := map[string]int{}
	for _, i := range w.images() {
		e := w.do(w.message(queue.SBOM, itemOf(i)))[0]
		got[e.Outcome]++
		if e.Outcome == "Crashed" || e.Outcome == "Transient" {
			t.Errorf("%s: %+v", i.Spec.Tag, e)
		}
	}
	if got["Done"] == 0 || got["Done"] == len(hostile) {
		t.Errorf("%v", got)
	}
}

// F36: an SBOM that somebody has deleted is made anew.
func TestFaultDeletedSBOM(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	w.discovered(jobUID)
	w.well(w.message(queue.Database))
	w.well(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
	image := w.image("shop/api:1")
	if err := w.client.Delete(t.Context(), namespace, "sboms", image.Name); err != nil {
		t.Fatal(err)
	}
	if e := w.do(w.message(queue.Match, itemOf(image)))[0]; e.Outcome != "Transient" || e.Reason != ReasonSBOMMissing {
		t.Errorf("%+v", e)
	}
	if i := w.image("shop/api:1"); i.Status.Reason != ReasonSBOMMissing {
		t.Errorf("%+v", i.Status)
	}
	w.due(image)
	w.well(w.message(queue.SBOM, itemOf(image)))
	w.well(w.message(queue.Match, itemOf(image)))
	if i := w.image("shop/api:1"); i.Status.State != reportsv1.ImageScanned {
		t.Errorf("%+v", i.Status)
	}
}

// F6: a message that comes twice makes nothing twice.
func TestFaultEveryMessageTwice(t *testing.T) {
	w := newWorld(t)
	images := sized(6, 50)
	for i := range images {
		w.known("shop/api", strconv.Itoa(i), i)
	}
	w.work()
	w.work()
	w.well(w.catalog())
	w.twice(w.repositoryMessage("shop/api"))
	w.well(w.message(queue.Database))
	w.reports.forget()
	for _, i := range w.images() {
		w.twice(w.message(queue.SBOM, itemOf(i)))
	}
	if n := w.reports.writes()["PUT sboms/document"]; n != images {
		t.Errorf("%d SBOMs were made", n)
	}
	var items []queue.Item
	for _, i := range w.images() {
		items = append(items, itemOf(i))
	}
	w.twice(w.message(queue.Match, items...))
	for _, i := range w.images() {
		if i.Status.State != reportsv1.ImageScanned || summary(i) != "2/2/0/1" {
			t.Errorf("%+v", i.Status)
		}
	}
}

// twice puts a message two times, and waits for both.
func (w *world) twice(m queue.Message) {
	w.t.Helper()
	w.put(m)
	m.ID += "-again"
	w.put(m)
	for _, e := range w.wait(2 * max(len(m.Items), 1)) {
		if e.Outcome != "Done" && e.Outcome != queue.Passed {
			w.t.Errorf("%+v", e)
		}
	}
}

// F2: a worker that is told to end gives back what it does not end in time: no attempt is counted, and the next worker has it at once.
func TestFaultWorkerEndsWhileItWorks(t *testing.T) {
	w := newWorld(t)
	bad := w.known("shop/api", "1", 1)
	first := w.work(w.withAdapter("hang", "sbom", bad), func(o *Options) { o.Drain = 0 })
	w.discovered(jobUID)
	image := w.image("shop/api:1")
	w.put(w.message(queue.SBOM, itemOf(image)))
	w.until(func() bool { return w.image("shop/api:1").Status.State == reportsv1.ImageGeneratingSBOM })
	first.end(t)
	if e := w.wait(1)[0]; e.Outcome != "GivenBack" {
		t.Errorf("%+v", e)
	}
	if i := w.image("shop/api:1"); i.Status.State != reportsv1.ImagePending || i.Status.Work.Attempt != 0 || i.Status.Work.Claim != "" || i.Status.Work.NotBefore != nil {
		t.Errorf("%+v %+v", i.Status, i.Status.Work)
	}
	w.work()
	if e := w.wait(1)[0]; e.Outcome != "Done" {
		t.Errorf("%+v", e)
	}
	if diff := cmp.Diff(reportsv1.ImageWaitingForMatch, w.image("shop/api:1").Status.State); diff != "" {
		t.Error(diff)
	}
}

// until waits for what another program does.
func (w *world) until(holds func() bool) {
	w.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			w.t.Fatal("it does not come to be")
		}
	}
}
