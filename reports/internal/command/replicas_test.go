// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

var policyReports = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}

// replicas are servers on one database. Each connection of a client goes to one of them, as through a Service.
type replicas struct {
	t    *testing.T
	args []string

	mu   sync.Mutex
	live map[int]*process
}

func startReplicas(t *testing.T, config sqldb.Config, n int) *replicas {
	t.Helper()
	dsn := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(dsn, []byte(config.DSN), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &replicas{t: t, live: map[int]*process{}, args: []string{"--database", string(config.Driver), "--dsn-file", dsn}}
	if config.Driver == sqldb.SQLite {
		r.args = []string{"--sqlite", string(config.DSN)}
	}
	if config.Schema != "" {
		r.args = append(r.args, "--cluster-id", config.Schema)
	}
	for i := range n {
		r.start(i)
	}
	return r
}

func (r *replicas) start(i int) {
	r.t.Helper()
	p := start(r.t, r.args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live[i] = p
}

// again ends a replica, in order or not, which clients find out by themselves, and starts it again.
func (r *replicas) again(i int, how os.Signal) {
	r.t.Helper()
	r.mu.Lock()
	p := r.live[i]
	delete(r.live, i)
	r.mu.Unlock()
	p.end(how)
	r.start(i)
}

// dial connects to any replica that lives.
func (r *replicas) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	r.mu.Lock()
	var addresses []string
	for _, p := range r.live { // in an order that says nothing
		addresses = append(addresses, strings.TrimPrefix(p.url, "http://"))
	}
	r.mu.Unlock()
	if len(addresses) == 0 {
		return nil, syscall.ECONNREFUSED
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addresses[0])
}

// Questions are asked of a copy of the database, where one is named, and nothing else is.
func TestQuestionsToACopy(t *testing.T) {
	t.Parallel()
	const newest = 5_000_000
	config, other := dbtest.New(t, sqldb.PostgreSQL), dbtest.New(t, sqldb.PostgreSQL)
	if _, err := sqldb.Migrate(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	store, err := mvcc.Open(t.Context(), other, mvcc.Options{CompactEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Advance(t.Context(), newest); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file := func(name string, of sqldb.Config) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(string(of.DSN)+" search_path="+of.Schema), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := start(t, "--database", "postgresql", "--dsn-file", file("dsn", config), "--query-dsn-file", file("copy", other))
	server.create("team-a", "report")
	if !server.exists("team-a", "report") {
		t.Error("the report is not read from where it was written")
	}
	code, text := server.do("admin-token", http.MethodPost, fmt.Sprintf(queriesPath, "team-a"),
		`{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"FindingQuery","metadata":{},"spec":{}}`)
	var query reportsv1.FindingQuery
	if err := json.Unmarshal([]byte(text), &query); err != nil || code != http.StatusCreated || query.Status.AsOf != strconv.Itoa(newest) || len(query.Status.Rows) > 0 {
		t.Errorf("%d, as of %s, %d rows, want those of the copy: %v: %s", code, query.Status.AsOf, len(query.Status.Rows), err, text)
	}
}

// client has connections of its own.
func (r *replicas) client() dynamic.ResourceInterface {
	r.t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://reports", BearerToken: "admin-token", QPS: -1, Dial: r.dial})
	if err != nil {
		r.t.Fatal(err)
	}
	return client.Resource(policyReports).Namespace("team-a")
}

// writer creates, changes and deletes reports, and knows what it was told.
type writer struct {
	client dynamic.ResourceInterface
	name   string
	wrote  func() // is called after each write
	have   map[string]string
}

// write goes on until there is enough. What was begun is finished, so that it is known what there is.
func (w *writer) write(ctx context.Context, enough <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-enough:
			return nil
		default:
		}
		if err := w.round(ctx, i); err != nil {
			return err
		}
	}
}

// round creates a report, changes an older one, and deletes one that is older still.
func (w *writer) round(ctx context.Context, i int) error {
	name := func(i int) string { return fmt.Sprintf("%s-%d", w.name, i) }
	if err := w.sure(ctx, func() error {
		made, err := w.client.Create(ctx, newReport(name(i)), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an earlier try was written, and its answer was lost
			made, err = w.client.Get(ctx, name(i), metav1.GetOptions{})
		}
		if err == nil {
			w.have[name(i)] = string(made.GetUID()) + " "
		}
		return err
	}); err != nil {
		return err
	}
	if i >= 2 {
		if err := w.sure(ctx, func() error {
			read, err := w.client.Get(ctx, name(i-2), metav1.GetOptions{})
			if err != nil {
				return err
			}
			read.SetLabels(map[string]string{"round": strconv.Itoa(i)})
			made, err := w.client.Update(ctx, read, metav1.UpdateOptions{})
			if err == nil {
				w.have[name(i-2)] = string(made.GetUID()) + " " + strconv.Itoa(i)
			}
			return err
		}); err != nil {
			return err
		}
	}
	if i < 10 {
		return nil
	}
	return w.sure(ctx, func() error {
		err := w.client.Delete(ctx, name(i-10), metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) { // an earlier try has deleted it
			delete(w.have, name(i-10))
			return nil
		}
		return err
	})
}

// sure tries until there is an answer. A server that is not there, or not able to answer, is not an answer.
func (w *writer) sure(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			w.wrote()
			return nil
		}
		answered := apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
		if ctx.Err() != nil || answered && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
}

func newReport(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": map[string]any{"name": name},
		"results": []any{map[string]any{"policy": "CVE-2026-1", "result": "fail", "severity": "high"}},
	}}
}

// ordered fails the test where a watch tells of a change before an earlier one, or of one that its client has seen.
func ordered(t *testing.T, w watch.Interface, from string, initial bool) watch.Interface {
	last, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		last = 0
	}
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		object, ok := event.Object.(metav1.Object)
		if !ok || event.Type == watch.Error {
			return event, true
		}
		revision, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
		switch {
		case err != nil:
			t.Errorf("%s of %s: %v", event.Type, object.GetName(), err)
		case event.Type == watch.Bookmark && revision < last:
			t.Errorf("a bookmark says %d after %d", revision, last)
		case event.Type != watch.Bookmark && !initial && revision <= last:
			t.Errorf("%s of %s at %d comes after %d", event.Type, object.GetName(), revision, last)
		}
		if event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			initial = false
		}
		if !initial {
			last = revision
		}
		return event, true
	})
}

func informer(t *testing.T, client dynamic.ResourceInterface) cache.SharedIndexInformer {
	t.Helper()
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return ordered(t, w, options.ResourceVersion, options.SendInitialEvents != nil && *options.SendInitialEvents), nil
		},
	}, &unstructured.Unstructured{}, 0, nil)
}

// Acceptance run 3, and rows 3, 4 and 47 of the fault list: two replicas are killed and stopped at random while four clients
// write and eight informers follow. Nothing that was acknowledged is lost, and each informer ends with what the list has.
func TestReplicasAreKilled(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.PostgreSQL, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			servers := startReplicas(t, dbtest.New(t, driver), 2)
			var informers []cache.SharedIndexInformer
			following, unfollow := context.WithCancel(t.Context())
			var followers sync.WaitGroup
			defer followers.Wait()
			defer unfollow()
			for range 8 {
				follower := informer(t, servers.client())
				informers = append(informers, follower)
				followers.Go(func() { follower.RunWithContext(following) })
			}
			want := killWhileWriting(t, servers)
			got := map[string]string{}
			list, err := servers.client().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				got[list.Items[i].GetName()] = describe(&list.Items[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was acknowledged and what there is (-want +got):\n%s", diff)
			}
			for i, follower := range informers {
				untilSame(t, i, follower, want)
			}
		})
	}
}

func describe(o metav1.Object) string { return string(o.GetUID()) + " " + o.GetLabels()["round"] }

// killWhileWriting returns what there must be when the writers have ended.
func killWhileWriting(t *testing.T, servers *replicas) map[string]string {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var writes atomic.Int64
	more, enough := make(chan struct{}, 1), make(chan struct{})
	var writers []*writer
	var all sync.WaitGroup
	finish := sync.OnceFunc(func() { close(enough); all.Wait() })
	defer finish()
	for i := range 4 {
		w := &writer{client: servers.client(), name: fmt.Sprintf("writer-%d", i), have: map[string]string{}, wrote: func() {
			writes.Add(1)
			select {
			case more <- struct{}{}:
			default:
			}
		}}
		writers = append(writers, w)
		all.Go(func() {
			if err := w.write(t.Context(), enough); err != nil {
				t.Error(err)
			}
		})
	}
	began, lasts, kills := time.Now(), dbtest.Size(0, 5*time.Minute), 0
	for ; kills < 4 || time.Since(began) < lasts; kills++ {
		for until := writes.Load() + 20 + random.Int64N(40); writes.Load() < until; {
			select {
			case <-more:
			case <-time.After(patience):
				t.Fatal("nobody can write")
			}
		}
		servers.again(random.IntN(2), []os.Signal{syscall.SIGKILL, syscall.SIGTERM}[random.IntN(2)])
	}
	finish()
	t.Logf("%d ends of replicas, %d writes", kills, writes.Load())
	want := map[string]string{}
	for _, w := range writers {
		maps.Copy(want, w.have)
	}
	return want
}

// untilSame waits until an informer has what there is.
func untilSame(t *testing.T, number int, follower cache.SharedIndexInformer, want map[string]string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		got := map[string]string{}
		for _, item := range follower.GetStore().List() {
			object := item.(metav1.Object)
			got[object.GetName()] = describe(object)
		}
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Errorf("informer %d (-want +got):\n%s", number, diff)
			return
		}
	}
}
