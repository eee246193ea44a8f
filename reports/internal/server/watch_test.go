// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

func checkWatch(t *testing.T, d *door, namespace string) {
	client := d.dynamic(t).Resource(policyReports).Namespace(namespace)
	made := d.create(t, policyReports, namespace, report("a"))
	d.create(t, policyReports, namespace+"-other", report("other"))
	w, err := client.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	expect := func(w watch.Interface, kind watch.EventType, name string) metav1.Object {
		t.Helper()
		event := next(t, w)
		if event.Type != kind || nameOf(t, event) != name {
			t.Fatalf("%s %s, must be %s %s", event.Type, nameOf(t, event), kind, name)
		}
		return event.Object.(metav1.Object)
	}
	expect(w, watch.Added, "a")
	d.create(t, policyReports, namespace, report("b"))
	expect(w, watch.Added, "b")
	place := path(policyReports, namespace) + "/a"
	d.ask(t, request{method: http.MethodPatch, path: place, body: object{"summary": object{"pass": 4}}, header: content(mergePatch)}).is(http.StatusOK)
	expect(w, watch.Modified, "a")
	gone := d.ask(t, request{method: http.MethodDelete, path: place}).is(http.StatusOK)
	if last := expect(w, watch.Deleted, "a"); d.custom == nil && last.GetResourceVersion() != gone.at("metadata", "resourceVersion") {
		t.Errorf("deleted with %s, answered %s", last.GetResourceVersion(), gone.at("metadata", "resourceVersion"))
	}
	// Who was away sees what has happened since.
	later, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.at("metadata", "resourceVersion")})
	if err != nil {
		t.Fatal(err)
	}
	defer later.Stop()
	expect(later, watch.Added, "b")
	expect(later, watch.Modified, "a")
	expect(later, watch.Deleted, "a")
	if d.custom != nil {
		return // etcd is compacted by its own clock
	}
	// Unless that has been dropped.
	current, err := d.store.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.store.Compact(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	old, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.at("metadata", "resourceVersion")})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Stop()
	event := next(t, old)
	if told := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(told) {
		t.Errorf("compacted: %s %v", event.Type, event.Object)
	}
	select {
	case _, open := <-old.ResultChan():
		if open {
			t.Error("there is more after the error")
		}
	case <-time.After(patience):
		t.Error("the watch goes on after the error")
	}
}

func checkWatchList(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("a", labelled("x", "y")))
	d.create(t, policyReports, namespace, report("b"))
	yes := true
	options := metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true, LabelSelector: "x"}
	typed, err := d.dynamic(t).Resource(policyReports).Namespace(namespace).Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer typed.Stop()
	client, err := metadata.NewForConfig(d.config())
	if err != nil {
		t.Fatal(err)
	}
	partial, err := client.Resource(policyReports).Namespace(namespace).Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer partial.Stop()
	for _, w := range []watch.Interface{typed, partial} {
		if event := next(t, w); event.Type != watch.Added || nameOf(t, event) != "a" {
			t.Errorf("first %s %s", event.Type, nameOf(t, event))
		}
		mark := next(t, w)
		marked := mark.Object.(metav1.Object)
		if mark.Type != watch.Bookmark || marked.GetAnnotations()["k8s.io/initial-events-end"] != "true" || marked.GetResourceVersion() == "" {
			t.Errorf("end of the first events: %s %v", mark.Type, mark.Object)
		}
	}
	d.create(t, policyReports, namespace, report("c", labelled("x", "z")))
	for _, w := range []watch.Interface{typed, partial} {
		if event := next(t, w); event.Type != watch.Added || nameOf(t, event) != "c" {
			t.Errorf("then %s %s", event.Type, nameOf(t, event))
		}
	}
}

// Row 14 of the fault list: an object that leaves the selector is deleted for the watcher, as of the change that made it leave.
func checkWatchSelector(t *testing.T, d *door, namespace string) {
	w, err := d.dynamic(t).Resource(policyReports).Namespace(namespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: "on=yes"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	d.create(t, policyReports, namespace, report("a"))
	place := path(policyReports, namespace) + "/a"
	relabel := func(value string) *answer {
		return d.ask(t, request{method: http.MethodPatch, path: place, body: object{"metadata": object{"labels": object{"on": value}}}, header: content(mergePatch)}).is(http.StatusOK)
	}
	relabel("yes")
	if event := next(t, w); event.Type != watch.Added {
		t.Errorf("enters: %s", event.Type)
	}
	left := relabel("no")
	event := next(t, w)
	if state := event.Object.(metav1.Object); event.Type != watch.Deleted || state.GetLabels()["on"] != "yes" || state.GetResourceVersion() != left.at("metadata", "resourceVersion") {
		t.Errorf("leaves: %s %v", event.Type, event.Object)
	}
}

// Informers of client-go follow what happens.
func TestInformers(t *testing.T) {
	d := serve(t, dbtest.New(t, sqldb.SQLite), nil)
	for _, name := range []string{"a", "b"} {
		d.create(t, policyReports, "team-a", report(name))
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(d.dynamic(t), 0)
	events := make(chan string, 100)
	informer := factory.ForResource(openReports).Informer()
	name := func(obj any) string {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		return obj.(metav1.Object).GetName()
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { events <- "add " + name(obj) },
		UpdateFunc: func(_, obj any) { events <- "update " + name(obj) },
		DeleteFunc: func(obj any) { events <- "delete " + name(obj) },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-events:
			if got != want {
				t.Fatalf("%s, must be %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("no %s", want)
		}
	}
	first := map[string]bool{}
	for range 2 { // in any order
		select {
		case got := <-events:
			first[got] = true
		case <-time.After(patience):
			t.Fatalf("only %v", first)
		}
	}
	if !first["add a"] || !first["add b"] {
		t.Fatalf("first events %v", first)
	}
	d.ask(t, request{method: http.MethodDelete, path: path(policyReports, "team-a") + "/a"}).is(http.StatusOK)
	expect("delete a")
	place := path(policyReports, "team-a") + "/b"
	d.ask(t, request{method: http.MethodPut, path: place, body: report("b", labelled("x", "y"), d.current(t, place))}).is(http.StatusOK)
	expect("update b")
}

// Row 47: a server that is asked to stop ends its watches at once, and then itself.
func TestStopEndsWatches(t *testing.T) {
	d := serve(t, dbtest.New(t, sqldb.SQLite), nil)
	var watches []watch.Interface
	for range 200 {
		w, err := d.dynamic(t).Resource(policyReports).Namespace("team-a").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	d.create(t, policyReports, "team-a", report("a"))
	for _, w := range watches {
		next(t, w)
	}
	d.stop()
	for _, w := range watches {
		select {
		case event, open := <-w.ResultChan():
			if open {
				t.Fatalf("%s: %v", event.Type, event.Object)
			}
		case <-time.After(patience):
			t.Fatal("a watch goes on")
		}
	}
	select {
	case err := <-d.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the server goes on")
	}
}

func TestWatchesAreBounded(t *testing.T) {
	d := serve(t, dbtest.New(t, sqldb.SQLite), func(o *server.Options) { o.Limits = server.Limits{Watches: 3, UserWatches: 2} })
	client := d.dynamic(t).Resource(policyReports).Namespace("team-a")
	for range 2 {
		w, err := client.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	refused := d.ask(t, request{path: path(policyReports, "team-a") + "?watch=1"}).is(http.StatusTooManyRequests)
	if refused.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: %q", refused.header.Get("Retry-After"))
	}
	d.ask(t, request{path: path(policyReports, "team-a") + "?watch=1&timeoutSeconds=1", token: tenantToken}).is(http.StatusOK)
}
