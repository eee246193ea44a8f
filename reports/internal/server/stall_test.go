// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const (
	stalledWrites = 200
	stalledBytes  = 100 << 10
)

// watching counts the watches that are open, and those that were cut off.
type watching struct{ open, stalled atomic.Int64 }

func (w *watching) Watching(string) func(int) { return func(delta int) { w.open.Add(int64(delta)) } }

func (*watching) Refused(string) {}

func (w *watching) Stalled() { w.stalled.Add(1) }

// stalledWatch begins a watch from a number, and reads nothing.
func (d *door) stalledWatch(t *testing.T, namespace, from string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "GET %s?watch=1&resourceVersion=%s HTTP/1.1\r\nHost: reports\r\nAuthorization: Bearer %s\r\nAccept: application/json\r\n\r\n",
		path(policyReports, namespace), from, adminToken)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// others watch metadata only, which is little, from a number on. The function that is returned waits until they have seen all writes.
func (d *door) others(t *testing.T, namespace, from string) func() {
	t.Helper()
	client, err := metadata.NewForConfig(d.config())
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.Resource(policyReports).Namespace(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func() {
		t.Helper()
		for i := range stalledWrites {
			if event := next(t, w); event.Type != watch.Added || nameOf(t, event) != fmt.Sprintf("r-%03d", i) {
				t.Fatalf("write %d: %s %s", i, event.Type, nameOf(t, event))
			}
		}
	}
}

// writeLarge writes more than the buffers of connections hold.
func (d *door) writeLarge(t *testing.T, namespace string) {
	t.Helper()
	text := strings.Repeat("x", stalledBytes)
	for i := range stalledWrites {
		d.create(t, policyReports, namespace, report(fmt.Sprintf("r-%03d", i), with("results", []any{object{"policy": "p", "message": text}})))
	}
}

// readStalled reads what comes until the connection ends, and returns how many reports were told of, in their order, and what the last
// event is if it is an error.
func readStalled(t *testing.T, conn net.Conn) (told int, last *metav1.Status) {
	t.Helper()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 20); err != nil { // small buffers wait for delayed acknowledgements
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	defer response.Body.Close()
	defer conn.Close() // first, since the body would be read to its end, and a watch has none
	return readTold(t, response.Body)
}

// readTold reads the events of a watch until they end, or all writes have been told of.
func readTold(t *testing.T, watched io.Reader) (told int, last *metav1.Status) {
	t.Helper()
	events := json.NewDecoder(watched)
	for {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			return told, last
		}
		if event.Type == string(watch.Error) {
			last = &metav1.Status{}
			if err := json.Unmarshal(event.Object, last); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var of metav1.PartialObjectMetadata
		if err := json.Unmarshal(event.Object, &of); err != nil || of.Name != fmt.Sprintf("r-%03d", told) {
			t.Fatalf("event %d: %s %s %v", told, event.Type, of.Name, err)
		}
		if told++; told == stalledWrites {
			return told, last
		}
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Row 10 of the fault list: who watches and reads nothing holds up nobody and takes little memory. When it reads again, it gets the
// events, and where they have been dropped in the meantime, 410 behind those that were on their way.
func TestWatchersThatReadNothing(t *testing.T) {
	d := serve(t, dbtest.New(t, sqldb.SQLite), nil)
	const namespace, many = "team-a", 5
	from := d.create(t, policyReports, "elsewhere", report("first")).at("metadata", "resourceVersion")
	var conns []net.Conn
	for range many {
		conns = append(conns, d.stalledWatch(t, namespace, from))
	}
	seen := d.others(t, namespace, from)
	before := heap()
	d.writeLarge(t, namespace)
	seen()
	// The ring of recent events holds all writes once; each watch holds some events that are decoded. All of them would be a hundred MiB.
	if grown := heap() - before; grown > 3*stalledWrites*stalledBytes {
		t.Errorf("the heap has grown by %d MiB, %d MiB were written", grown>>20, stalledWrites*stalledBytes>>20)
	}
	if told, last := readStalled(t, conns[0]); told != stalledWrites || last != nil {
		t.Errorf("who reads again is told of %d writes, then %+v", told, last)
	}
}

// A client that takes nothing for too long is cut off.
func TestStalledWatchesEnd(t *testing.T) {
	var open watching
	d := serve(t, dbtest.New(t, sqldb.SQLite), func(o *server.Options) {
		o.Limits, o.Observer = server.Limits{WatchStall: time.Second}, &open
	})
	const namespace = "team-a"
	from := d.create(t, policyReports, "elsewhere", report("first")).at("metadata", "resourceVersion")
	conn := d.stalledWatch(t, namespace, from)
	seen := d.others(t, namespace, from)
	d.writeLarge(t, namespace)
	seen()
	open.cut(t, d)
	if told, last := readStalled(t, conn); told == stalledWrites || last != nil && !apierrors.IsResourceExpired(&apierrors.StatusError{ErrStatus: *last}) {
		t.Errorf("told of %d writes, then %+v", told, last)
	}
}

// cut waits until one of two watches is cut off, and asks the server other things meanwhile.
func (w *watching) cut(t *testing.T, d *door) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for w.open.Load() > 1 {
		if time.Now().After(deadline) {
			t.Fatal("the watch goes on")
		}
		runtime.Gosched()
		d.ask(t, request{path: "/livez"}).is(http.StatusOK)
	}
	if now := w.open.Load(); now != 1 {
		t.Errorf("%d watches are open, must be the other one", now)
	}
	if stalled := w.stalled.Load(); stalled != 1 {
		t.Errorf("%d watches are counted as cut off, must be the one", stalled)
	}
}

// Over HTTP/2, all watches that kube-apiserver passes on come by one connection. Only the one that nobody reads ends.
func TestStalledWatchOverHTTP2Ends(t *testing.T) {
	var open watching
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := serve(t, dbtest.New(t, sqldb.SQLite), func(o *server.Options) {
		o.Limits, o.Observer = server.Limits{WatchStall: time.Second}, &open
		if o.Certificate, err = dynamiccertificates.NewStaticCertKeyContent("test", certificate, key); err != nil {
			t.Fatal(err)
		}
	})
	d.ca = certificate
	if d.client, err = rest.HTTPClientFor(d.config()); err != nil {
		t.Fatal(err)
	}
	const namespace = "team-a"
	from := d.create(t, policyReports, "elsewhere", report("first")).at("metadata", "resourceVersion")
	conns := &connections{}
	stalled := d.watchHTTP2(t, conns, namespace, from)
	seen := d.others(t, namespace, from)
	d.writeLarge(t, namespace)
	seen()
	open.cut(t, d)
	if told, _ := readTold(t, stalled); told == stalledWrites {
		t.Error("a watch that was cut off is told of all writes")
	}
	if told, last := readTold(t, d.watchHTTP2(t, conns, namespace, from)); told != stalledWrites || last != nil {
		t.Errorf("a watch by the same connection is told of %d writes, then %+v", told, last)
	}
	if conns.first == nil || conns.more {
		t.Errorf("the requests did not share one connection: %+v", conns)
	}
}

// connections are those that requests got.
type connections struct {
	first net.Conn
	more  bool
}

// watchHTTP2 begins a watch from a number, of which nothing is read yet.
func (d *door) watchHTTP2(t *testing.T, conns *connections, namespace, from string) io.Reader {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if conns.first == nil {
			conns.first = got.Conn
		}
		conns.more = conns.more || conns.first != got.Conn
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path(policyReports, namespace)+"?watch=1&resourceVersion="+from, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	response, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() }) // a watch that was cut off ends with an error
	if response.StatusCode != http.StatusOK || response.ProtoMajor != 2 {
		t.Fatal(response.Proto, response.Status)
	}
	return response.Body
}
