// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/reports/internal/access"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/fsck"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// patience bounds what a test waits for; nothing that works takes that long.
const patience = time.Minute

var (
	policyReports        = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
	clusterPolicyReports = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "clusterpolicyreports"}
	openReports          = schema.GroupVersionResource{Group: "openreports.io", Version: "v1alpha1", Resource: "reports"}
	images               = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "images"}
	sboms                = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "sboms"}
	vulnerabilityReports = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "vulnerabilityreports"}
)

const (
	adminToken  = "admin-token"
	tenantToken = "tenant-token"
	nobodyToken = "nobody-token"
)

const tokenFile = adminToken + ",admin,system:masters\n" + tenantToken + ",tenant,,team-a\n" + nobodyToken + ",nobody,people\n"

// door is a server on a real listener, with a database of its own.
type door struct {
	url    string
	ca     []byte // that a server with a certificate is known by
	store  *mvcc.Store
	client *http.Client
	stop   func()       // asks the server to stop
	ended  <-chan error // gives what Run returned
	// custom is a cluster that has the kinds as custom resources, and nil for a server of ours. There, no database can be looked into.
	custom *rest.Config
	asked  atomic.Int64 // requests
}

func serve(t *testing.T, config sqldb.Config, change func(*server.Options)) *door {
	t.Helper()
	store, err := mvcc.Open(t.Context(), config, mvcc.Options{CompactEvery: -1, Unindex: kinds.Unindex})
	if err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(tokenFile), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	options := server.Options{
		Store: store, Listener: listener, Access: (&access.Standalone{TokenFile: tokens}).Apply,
		Groups: server.Groups{WGPolicy: true, OpenReports: true, Scanyard: true, Prext: true},
		Ready:  func(url string) { ready <- url },
	}
	if change != nil {
		change(&options)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		ended <- server.Run(ctx, options)
	}()
	t.Cleanup(func() {
		stop()
		<-finished
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
		checked(t, config)
	})
	select {
	case url := <-ready:
		return &door{url: url, store: store, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, stop: stop, ended: ended}
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("the server is not ready")
	}
	return nil
}

// checked counts anew what the server has counted.
func checked(t *testing.T, config sqldb.Config) {
	t.Helper()
	db, err := sqldb.OpenToRead(context.Background(), config)
	if err != nil {
		t.Error(err)
		return
	}
	findings, err := fsck.Run(context.Background(), db, time.Now(), false)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Error(err)
	}
	for _, finding := range findings {
		if finding.Wrong != 0 {
			t.Errorf("%s: %d are wrong", finding.What, finding.Wrong)
		}
	}
}

func TestMain(m *testing.M) { dbtest.Main(m) }

// answer is what the server said.
type answer struct {
	t      *testing.T
	code   int
	header http.Header
	body   []byte
}

// request is something that is asked.
type request struct {
	method, path string
	body         any // text, or what becomes JSON
	token        string
	header       map[string]string
}

func (d *door) ask(t *testing.T, r request) *answer {
	t.Helper()
	var body io.Reader
	switch content := r.body.(type) {
	case nil:
	case string:
		body = strings.NewReader(content)
	case []byte:
		body = bytes.NewReader(content)
	default:
		encoded, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(encoded)
	}
	if r.method == "" {
		r.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, d.url+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	d.asked.Add(1)
	switch {
	case d.custom != nil: // its client has a certificate
	case r.token == "":
		req.Header.Set("Authorization", "Bearer "+adminToken)
	case r.token != "none":
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	response, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &answer{t: t, code: response.StatusCode, header: response.Header, body: content}
}

// is fails the test unless the code is the one that was expected.
func (a *answer) is(code int) *answer {
	a.t.Helper()
	if a.code != code {
		a.t.Fatalf("code %d, must be %d: %.600s", a.code, code, a.body)
	}
	return a
}

func (a *answer) object() map[string]any {
	a.t.Helper()
	var object map[string]any
	if err := json.Unmarshal(a.body, &object); err != nil {
		a.t.Fatalf("no JSON: %v: %.300s", err, a.body)
	}
	return object
}

// at is the value at a path of the answer, as text.
func (a *answer) at(path ...string) string {
	a.t.Helper()
	value, found, err := unstructured.NestedFieldNoCopy(a.object(), path...)
	if err != nil || !found {
		return ""
	}
	return fmt.Sprint(value)
}

func (a *answer) items() []any {
	a.t.Helper()
	items, _, err := unstructured.NestedSlice(a.object(), "items")
	if err != nil {
		a.t.Fatal(err)
	}
	return items
}

// names are those of the items.
func (a *answer) names() string {
	a.t.Helper()
	var names []string
	for _, item := range a.items() {
		name, _, _ := unstructured.NestedString(item.(map[string]any), "metadata", "name")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (d *door) config() *rest.Config {
	if d.custom != nil {
		return d.custom
	}
	return &rest.Config{Host: d.url, BearerToken: adminToken, QPS: -1, Timeout: patience, TLSClientConfig: rest.TLSClientConfig{CAData: d.ca}}
}

func (d *door) dynamic(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(d.config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// path is the collection of a resource.
func path(gvr schema.GroupVersionResource, namespace string) string {
	if namespace == "" {
		return "/apis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
	}
	return "/apis/" + gvr.Group + "/" + gvr.Version + "/namespaces/" + namespace + "/" + gvr.Resource
}

type object = map[string]any

// report is a PolicyReport with one result.
func report(name string, more ...func(object)) object {
	made := object{
		"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": object{"name": name},
		"summary": object{"fail": 1}, "results": []any{object{"policy": "CVE-2026-1", "result": "fail", "severity": "high"}},
	}
	for _, change := range more {
		change(made)
	}
	return made
}

// current is the resourceVersion of what is at a place: as for CRDs, an update must have one.
func (d *door) current(t *testing.T, place string) func(object) {
	t.Helper()
	version := d.ask(t, request{path: place}).is(http.StatusOK).at("metadata", "resourceVersion")
	return func(o object) { o["metadata"].(object)["resourceVersion"] = version }
}

func labelled(key, value string) func(object) {
	return func(o object) { o["metadata"].(object)["labels"] = object{key: value} }
}

func with(key string, value any) func(object) { return func(o object) { o[key] = value } }

func (d *door) create(t *testing.T, gvr schema.GroupVersionResource, namespace string, o object) *answer {
	t.Helper()
	return d.ask(t, request{method: http.MethodPost, path: path(gvr, namespace), body: o}).is(http.StatusCreated)
}

// next is the next event of a watch.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return event
	case <-time.After(patience):
		t.Fatal("no event")
	}
	return watch.Event{}
}

func nameOf(t *testing.T, event watch.Event) string {
	t.Helper()
	object, ok := event.Object.(metav1.Object)
	if !ok {
		t.Fatalf("%s of %T: %v", event.Type, event.Object, event.Object)
	}
	return object.GetName()
}
