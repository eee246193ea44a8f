// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/database"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/reportsapi"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// work is what is measured.
type work int

const (
	small work = iota
	medium
	large
	whole
	pages
	table
	metadata
	get1
	watch
)

// What is written and asked, at scale 1.
const (
	clients     = 8
	smallCount  = 1000
	mediumCount = 3000
	largeCount  = 100
	gets        = 2000
	gotten      = 10 // objects that are read again and again: who has not been seen at one for ten seconds is asked for at kube-apiserver
	lists       = 5
	tables      = 10
	watches     = 3
	pageSize    = 500
)

// reportFigures are what one way to keep reports has used: CPU seconds, and MiB.
type reportFigures struct {
	cpu                                          map[work]float64
	growth, stored, written, idle, peak, startup float64
}

// reportLoad writes and asks.
type reportLoad struct {
	scale    int
	cluster  *localcluster.Cluster
	database *database.Server // nil: etcd, or SQLite
	dir      string
	bin      string
	crds     string
	client   client.Client
	http     *http.Client
	host     string
	server   *exec.Cmd // nil: CRDs
	figures  *reportFigures
	written  atomic.Int64 // bytes of the reports that were created
}

const (
	reportsGroup   = "/apis/wgpolicyk8s.io/v1alpha2"
	reportsService = "bench-reports"
	listsNamespace = "bench-lists"
	otherNamespace = "bench-other"
	jsonType       = "application/json"
)

func (l *reportLoad) connect(ctx context.Context) error {
	config, err := l.cluster.RESTConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	config.DisableCompression = true // gzip would be most of what a list takes, and is the same for all
	l.host = config.Host
	if l.http, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	if l.client, err = scans.Connect(config); err != nil {
		return err
	}
	for _, name := range []string{listsNamespace, otherNamespace, reportsService} {
		if err := l.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

func (l *reportLoad) installCRDs(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(l.crds, "wgpolicyk8s.io_*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs in %s: %w", l.crds, err)
	}
	for _, file := range files {
		crd, err := readObject(file)
		if err != nil {
			return err
		}
		if err := l.client.Create(ctx, crd); err != nil {
			return fmt.Errorf("create %s: %w", file, err)
		}
	}
	return l.served(ctx)
}

// served waits until PolicyReports are.
func (l *reportLoad) served(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := l.ask(ctx, reportsGroup+"/policyreports?limit=1", jsonType, io.Discard)
		return err == nil, nil
	})
}

// startServer runs the reports API server as a process beside the cluster.
func (l *reportLoad) startServer(ctx context.Context) error {
	server, err := reportsapi.Start(ctx, *l.options())
	if err != nil {
		return err
	}
	l.server = server.Process
	used, err := usage.Of(l.server.Process.Pid)
	if err != nil {
		return err
	}
	l.figures.startup = used.CPU.Seconds()
	return l.served(ctx)
}

// options is how the server is started.
func (l *reportLoad) options() *reportsapi.Options {
	return &reportsapi.Options{
		Binary: filepath.Join(l.bin, "reports-apiserver"), Dir: l.dir, Kubeconfig: l.cluster.Kubeconfig, Client: l.client, Namespace: reportsService,
		Database: l.database,
	}
}

func (l *reportLoad) file(name string) string { return filepath.Join(l.dir, name) }

func (l *reportLoad) stopServer() {
	if l.server != nil {
		(&reportsapi.Server{Process: l.server}).Stop()
		l.server = nil
	}
}

// body is a report with so many results of some 300 bytes.
func body(namespace, name string, results int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"namespace":%q,"name":%q,`, namespace, name)
	fmt.Fprintf(&b, `"labels":{"app":"bench"}},"summary":{"fail":%d},"results":[`, results)
	for i := range results {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"source":"bench","policy":"CVE-2026-%05d","rule":"package-%d","category":"os-pkgs","severity":"high",`+
			`"result":"fail","message":"package-%d of %s: an update to 1.%d.%d is there, which corrects what an attacker could use",`+
			`"properties":{"cvss":"7.5","id":"%s-%d"},"timestamp":{"seconds":1795348800,"nanos":0}}`,
			i*7919%20000, i%3000, i%3000, name, i%17, i%31, name, i)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// create writes n reports of a namespace by 8 clients.
func (l *reportLoad) create(ctx context.Context, namespace, prefix string, n, results int) error {
	return l.each(ctx, n, func(i int) error {
		name := prefix + "-" + strconv.Itoa(i)
		path, report := reportsGroup+"/namespaces/"+namespace+"/policyreports", body(namespace, name, results)
		l.written.Add(int64(len(report)))
		return l.send(ctx, http.MethodPost, path, jsonType, bytes.NewReader(report), io.Discard)
	})
}

// each calls fn for the numbers up to n, by 8 clients, until one call fails.
func (l *reportLoad) each(ctx context.Context, n int, fn func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if errs[c] = fn(int(i)); errs[c] != nil {
					next.Store(int64(n))
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

func (l *reportLoad) ask(ctx context.Context, path, accept string, into io.Writer) (string, error) {
	var last tail
	err := l.send(ctx, http.MethodGet, path, accept, nil, io.MultiWriter(into, &last))
	return last.text(), err
}

// send makes a request and reads its answer.
func (l *reportLoad) send(ctx context.Context, method, path, accept string, body io.Reader, into io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, method, l.host+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", jsonType)
	resp, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return errors.Join(fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, said), err)
	}
	_, err = io.Copy(into, resp.Body)
	return err
}

// tail keeps the beginning of an answer, where the list's metadata is.
type tail struct{ kept []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	if room := most - len(t.kept); room > 0 {
		t.kept = append(t.kept, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (t *tail) text() string { return string(t.kept) }

// run writes and asks, and notes what it takes.
func (l *reportLoad) run(ctx context.Context) error {
	list := reportsGroup + "/namespaces/" + listsNamespace + "/policyreports"
	const asTable = "application/json;as=Table;g=meta.k8s.io;v=v1"
	const asMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	repeat := func(n int, accept string) func() error {
		return func() error {
			for range n {
				if _, err := l.ask(ctx, list, accept, io.Discard); err != nil {
					return err
				}
			}
			return nil
		}
	}
	before, err := l.memory(ctx)
	if err != nil {
		return err
	}
	l.figures.idle = before.server
	thousand := func(n int) float64 { return float64(l.count(n)) / 1000 }
	for _, step := range []struct {
		work work
		per  float64
		do   func() error
	}{
		{medium, thousand(mediumCount), func() error { return l.create(ctx, listsNamespace, "medium", l.count(mediumCount), 33) }},
		{small, thousand(smallCount), func() error { return l.create(ctx, otherNamespace, "small", l.count(smallCount), 3) }},
		{large, thousand(largeCount), func() error { return l.create(ctx, otherNamespace, "large", l.count(largeCount), 330) }},
		{whole, lists, repeat(lists, jsonType)},
		{pages, lists, func() error { return l.page(ctx, list) }},
		{table, tables, repeat(tables, asTable)},
		{metadata, tables, repeat(tables, asMetadata)},
		{get1, float64(l.count(gets)), func() error {
			return l.each(ctx, l.count(gets), func(i int) error {
				_, err := l.ask(ctx, list+"/medium-"+strconv.Itoa(i%gotten), jsonType, io.Discard)
				return err
			})
		}},
		{watch, watches, func() error { return l.watch(ctx, list) }},
	} {
		begun, err := l.cpu(ctx)
		if err != nil {
			return err
		}
		if err := step.do(); err != nil {
			return err
		}
		now, err := l.cpu(ctx)
		if err != nil {
			return err
		}
		l.figures.cpu[step.work] = (now - begun).Seconds() / step.per
	}
	return l.finish(ctx, before)
}

// count is how many of n there are at the scale of the run.
func (l *reportLoad) count(n int) int { return max(n/l.scale, 10) }

func (l *reportLoad) page(ctx context.Context, list string) error {
	for range lists {
		next := ""
		for {
			var got bytes.Buffer
			if _, err := l.ask(ctx, list+"?limit="+strconv.Itoa(pageSize)+"&continue="+url.QueryEscape(next), jsonType, &got); err != nil {
				return err
			}
			var said struct{ Metadata struct{ Continue string } }
			if err := json.Unmarshal(got.Bytes(), &said); err != nil {
				return err
			}
			if next = said.Metadata.Continue; next == "" {
				break
			}
		}
	}
	return nil
}

// watch reads first events until all have come.
func (l *reportLoad) watch(ctx context.Context, list string) error {
	for range watches {
		if err := l.watchOnce(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

var errSynced = errors.New("all first events have come")

func (l *reportLoad) watchOnce(ctx context.Context, list string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	end := &marker{text: []byte(metav1.InitialEventsAnnotationKey)}
	err := l.send(ctx, http.MethodGet, list+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", jsonType, nil, end)
	if errors.Is(err, errSynced) {
		return nil
	}
	return errors.Join(errors.New("the watch has ended before its first events have"), err)
}

// marker ends the reading once a text has come.
type marker struct{ text, rest []byte }

// Write implements io.Writer.
func (m *marker) Write(p []byte) (int, error) {
	seen := append(m.rest, p...)
	if bytes.Contains(seen, m.text) {
		return 0, errSynced
	}
	m.rest = append([]byte{}, seen[max(0, len(seen)-len(m.text)):]...)
	return len(p), nil
}

// finish notes what is left after all. A SQLite database is looked at when its log has been written into its file, at the end of the server.
func (l *reportLoad) finish(ctx context.Context, before usedMemory) error {
	used, err := l.memory(ctx)
	if err != nil {
		return err
	}
	l.figures.growth = used.apiServer - before.apiServer
	l.figures.written = float64(l.written.Load()) / (1 << 20)
	if l.server == nil {
		info, err := os.Stat(filepath.Join(localcluster.Layout(l.cluster.DataDir).EtcdData(), "member", "snap", "db"))
		if err != nil {
			return err
		}
		l.figures.stored = float64(info.Size()) / (1 << 20)
		return nil
	}
	l.figures.peak = used.serverPeak
	var size int64
	if l.database != nil {
		size, err = l.database.Size()
	} else {
		size, err = l.sizeOfFile()
	}
	l.figures.stored = float64(size) / (1 << 20)
	return err
}

func (l *reportLoad) sizeOfFile() (int64, error) {
	if err := l.server.Process.Signal(os.Interrupt); err != nil {
		return 0, fmt.Errorf("end the server: %w", err)
	}
	_ = l.server.Wait() // what it has stored is looked at, whatever it has ended with
	info, err := os.Stat(l.file("reports.db"))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
