// SPDX-License-Identifier: Apache-2.0

package cascading_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/hooks/cascading"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// api is an API server as far as this hook uses one: objects by path, created with POST, listed by label.
type api struct {
	// env is that of the hook.
	env map[string]string
	// handOver has the operator hand the Scan over.
	handOver bool
	*httptest.Server
	mu       sync.Mutex
	objects  map[string]string
	created  []string // paths, in order
	requests []string // method and path of everything but creations
	patches  []string
	// fault is asked first; an answer other than 0 is given.
	fault func(method, path string, n int) int
	n     int
}

func newAPI(t *testing.T) *api {
	a := &api{objects: map[string]string{}}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

const (
	scansPath        = "/apis/execution.securecodebox.io/v1/namespaces/ns/scans"
	rulesPath        = "/apis/cascading.securecodebox.io/v1/namespaces/ns/cascadingrules"
	clusterRulesPath = "/apis/cascading.securecodebox.io/v1/clustercascadingrules"
)

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the hook broke off
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	if a.fault != nil {
		if code := a.fault(r.Method, r.URL.Path, a.n); code != 0 {
			status(w, code, "Fault", "fault")
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodPost {
		a.requests = append(a.requests, r.Method+" "+r.URL.Path)
	}
	switch r.Method {
	case http.MethodPost:
		a.create(w, r.URL.Path, body)
	case http.MethodPatch:
		a.patches = append(a.patches, string(body))
		fmt.Fprint(w, `{}`)
	default:
		if object, ok := a.objects[r.URL.Path]; ok {
			fmt.Fprint(w, object)
			return
		}
		last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if slices.Contains([]string{"scans", "cascadingrules", "clustercascadingrules"}, last) {
			a.list(w, r)
			return
		}
		status(w, http.StatusNotFound, "NotFound", "not found")
	}
}

func (a *api) create(w http.ResponseWriter, path string, body []byte) {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &object); err != nil || object.Metadata.Name == "" {
		status(w, http.StatusUnprocessableEntity, "Invalid", "no name")
		return
	}
	path += "/" + object.Metadata.Name
	if _, ok := a.objects[path]; ok {
		status(w, http.StatusConflict, "AlreadyExists", object.Metadata.Name+" already exists")
		return
	}
	a.objects[path] = string(body)
	a.created = append(a.created, path)
	fmt.Fprint(w, string(body))
}

// list answers in pages of two, so that a client that takes the first for all is found out.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		status(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	var items []string
	last := ""
	for _, path := range slices.Sorted(maps.Keys(a.objects)) {
		name, ok := strings.CutPrefix(path, r.URL.Path+"/")
		if !ok || strings.Contains(name, "/") || name <= r.URL.Query().Get("continue") {
			continue
		}
		var object struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal([]byte(a.objects[path]), &object); err != nil || !selector.Matches(labels.Set(object.Metadata.Labels)) {
			continue
		}
		if len(items) == 2 {
			fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[%s]}`, last, strings.Join(items, ","))
			return
		}
		items = append(items, a.objects[path])
		last = name
	}
	fmt.Fprintf(w, `{"metadata":{},"items":[%s]}`, strings.Join(items, ","))
}

func status(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)
}

// put stores an object that is in the cluster from the beginning.
func (a *api) put(path, object string) { a.objects[path] = object }

// run runs the hook for a Scan and its findings.
func (a *api) run(t *testing.T, scan, findings string) sdktest.Result {
	t.Helper()
	w := sdktest.New(t)
	w.Scan, w.HandOver = scan, a.handOver
	w.Objects["/findings.json"] = []byte(findings)
	hook := cascading.Hook(
		func(sdk.Env) (*rest.Config, error) { return &rest.Config{Host: a.URL}, nil },
		func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) },
	)
	return w.Run(t, hook, a.env)
}

// scans are the Scans that were created, in order.
func (a *api) scans(t *testing.T) []map[string]any {
	t.Helper()
	all := make([]map[string]any, len(a.created))
	for i, path := range a.created {
		if err := json.Unmarshal([]byte(a.objects[path]), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
