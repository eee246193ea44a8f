// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

func TestMain(m *testing.M) {
	os.Exit(sdktest.MainFunc(m, func(string) int {
		return start(context.Background(), os.Args, os.LookupEnv, os.Stdout, os.Stderr)
	}))
}

// TestMemoryIsBounded runs both hooks as processes over findings of 140 MB. SCANYARD_TEST_FINDINGS changes their number.
func TestMemoryIsBounded(t *testing.T) {
	count := sdktest.HowMany(t, 400_000)
	world := newLargeWorld(count)
	defer world.server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", world.server.URL)
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	url := func(path string) string { return world.server.URL + path + "?sig=1" }

	run := func(hook string, env ...string) {
		t.Log(hook)
		sdktest.Measure(t, world.server.URL, append([]string{"KUBECONFIG=" + kubeconfig}, env...),
			hook, url("/raw"), url("/findings.json"), url("/put-raw"), url("/put-findings.json"))
	}

	run("update-field", "ATTRIBUTE_NAME=attributes.port", "ATTRIBUTE_VALUE=x")
	if want := world.sum(`"x"`); world.put != want {
		t.Errorf("findings.json is %v, want %v", world.put, want)
	}
	want := fmt.Sprintf(`{"status":{"findings":{"count":%d,"severities":{"informational":%d,"low":0,"medium":0,"high":0},"categories":{"Open Port":%d}}}}`, count, count, count)
	if string(world.patch) != want {
		t.Errorf("patch %s, want %s", world.patch, want)
	}
	run("generic-webhook", "WEBHOOK_URL="+world.server.URL+"/webhook")
	if world.received != count {
		t.Errorf("the webhook got %d findings, want %d", world.received, count)
	}
}

// largeWorld is a store, an API server and a webhook that make and take findings without holding them.
type largeWorld struct {
	server   *httptest.Server
	count    int
	put      object
	patch    []byte
	received int
}

type object struct {
	size, announced int64
	sum             [sha256.Size]byte
}

func newLargeWorld(count int) *largeWorld {
	w := &largeWorld{count: count}
	w.server = httptest.NewServer(http.HandlerFunc(w.serve))
	return w
}

func (w *largeWorld) write(out io.Writer, port string) error {
	text := strings.Repeat("z", 150)
	separator := "["
	for i := range w.count {
		if _, err := fmt.Fprintf(out, `%s{"id":"%08d","name":"Open Port: 22","description":"%s","category":"Open Port","severity":"INFORMATIONAL","attributes":{"port":%s,"state":"open"}}`,
			separator, i, text, port); err != nil {
			return err
		}
		separator = ","
	}
	_, err := io.WriteString(out, "]")
	return err
}

func (w *largeWorld) sum(port string) object {
	hash := sha256.New()
	counter := &counting{}
	if err := w.write(io.MultiWriter(hash, counter), port); err != nil {
		return object{}
	}
	o := object{size: counter.n, announced: counter.n}
	hash.Sum(o.sum[:0])
	return o
}

type counting struct{ n int64 }

func (c *counting) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

func (w *largeWorld) serve(rw http.ResponseWriter, r *http.Request) {
	var err error
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/findings.json":
		err = w.write(rw, "22")
	case r.Method == http.MethodPut:
		hash := sha256.New()
		w.put.announced = r.ContentLength
		w.put.size, err = io.Copy(hash, r.Body)
		hash.Sum(w.put.sum[:0])
	case r.Method == http.MethodPatch:
		w.patch, err = io.ReadAll(r.Body)
		fmt.Fprint(rw, "{}")
	case r.Method == http.MethodPost:
		w.received, err = countFindings(r.Body)
	default:
		fmt.Fprint(rw, `{"kind":"Scan","metadata":{"name":"s","namespace":"ns"}}`)
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
	}
}

// countFindings walks to the list and counts its elements.
func countFindings(r io.Reader) (int, error) {
	dec := json.NewDecoder(r)
	for {
		token, err := dec.Token()
		if err != nil {
			return 0, err
		}
		if token == json.Delim('[') {
			break
		}
	}
	n := 0
	for ; dec.More(); n++ {
		var element json.RawMessage
		if err := dec.Decode(&element); err != nil {
			return n, err
		}
	}
	_, err := io.Copy(io.Discard, r)
	return n, err
}
