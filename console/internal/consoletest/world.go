// SPDX-License-Identifier: Apache-2.0

// Package consoletest serves the console in tests, over a cluster in memory with Scans of two teams, and as a viewer who may
// do what the test says.
package consoletest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/pages"
	"github.com/scanyard/scanyard/console/internal/session"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/query"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// Noon is the time in the world.
var Noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// World is a console over a cluster in memory.
type World struct {
	T       testing.TB
	URL     string
	Client  client.WithWatch
	Viewer  *cluster.Viewer
	Browser *http.Client
	// Rows are what the reports API has; nil is a cluster without it.
	Rows []reportsv1alpha1.FindingRow
	// Documents are what the reports API streams, by path.
	Documents map[string]string
	// Denied are rights that the viewer lacks: "verb resource" or "verb resource namespace".
	Denied []string
	// Refuse is what the API server has against an object that is made; nil refuses nothing.
	Refuse func(client.Object) error
	// Asked are the questions for documents.
	Asked []string
	// Failures are errors that the console has reported.
	Failures []string

	code    *session.Code
	storage *httptest.Server
	files   map[string][]byte
}

// New makes a world with objects.
func New(t testing.TB, objects ...client.Object) *World {
	t.Helper()
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &World{T: t, Documents: map[string]string{}, files: map[string][]byte{}}
	w.storage = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		content, ok := w.files[r.URL.Path]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		_, _ = rw.Write(content)
	}))
	t.Cleanup(w.storage.Close)
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&executionv1.Scan{}, &executionv1.ScheduledScan{}).
		WithIndex(&reportsv1alpha1.Image{}, "spec.repository", repositoryOf).WithIndex(&reportsv1alpha1.Image{}, "spec.digest", digestOf).
		WithInterceptorFuncs(interceptor.Funcs{Create: w.create, List: w.list, Patch: w.patch, Delete: w.remove}).Build()
	downloads, err := transfer.New(transfer.WithPatience(0))
	if err != nil {
		t.Fatal(err)
	}
	w.Viewer = cluster.NewViewer(cluster.ViewerOptions{Objects: w.Client, Stream: w.stream, Transfer: downloads, Now: now})
	w.serve()
	return w
}

func repositoryOf(o client.Object) []string {
	if i, ok := o.(*reportsv1alpha1.Image); ok {
		return []string{i.Spec.Repository}
	}
	return nil
}

func digestOf(o client.Object) []string {
	if i, ok := o.(*reportsv1alpha1.Image); ok {
		return []string{i.Spec.Digest}
	}
	return nil
}

// stream answers with a document; findings come in pages as long as the question says.
func (w *World) stream(_ context.Context, path string, query url.Values) (io.ReadCloser, error) {
	w.Asked = append(w.Asked, path+"?"+query.Encode())
	document, ok := w.Documents[path]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "reports.scanyard.io"}, path)
	}
	return io.NopCloser(strings.NewReader(document)), nil
}

func now() time.Time { return Noon }

func (w *World) serve() {
	w.T.Helper()
	keeper, err := session.NewKeeper("console", [][]byte{bytes.Repeat([]byte{7}, session.KeySize)}, false, now)
	if err != nil {
		w.T.Fatal(err)
	}
	w.code = session.NewCode(now)
	app, err := pages.New(web.Options{
		Sessions: keeper, Guard: &session.Guard{}, Code: w.code, Version: "test", Now: now,
		As:     func(*session.Session) (*cluster.Viewer, error) { return w.Viewer, nil },
		Failed: func(r *http.Request, err error) { w.Failures = append(w.Failures, r.URL.Path+": "+err.Error()) },
	})
	if err != nil {
		w.T.Fatal(err)
	}
	server := httptest.NewServer(app)
	w.T.Cleanup(server.Close)
	w.URL = server.URL
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Browser = &http.Client{Jar: jar}
}

// Door is the address that opens the console, once.
func (w *World) Door() string { return w.URL + "/login?code=" + w.code.Text() }

// Enter signs the browser in.
func (w *World) Enter() *World {
	w.T.Helper()
	w.read(w.Browser.Get(w.Door()))
	return w
}

// Answer is the answer to a request.
type Answer struct {
	Code   int
	Body   string
	Path   string
	Header http.Header
}

// Get loads a page.
func (w *World) Get(path string) Answer {
	w.T.Helper()
	return w.read(w.Browser.Get(w.URL + path))
}

// Post sends a form of a page: with the token that the page has for it.
func (w *World) Post(page, action string, fields ...string) Answer {
	w.T.Helper()
	_, rest, _ := strings.Cut(w.Get(page).Body, `name="csrf" value="`)
	token, _, _ := strings.Cut(rest, `"`)
	form := url.Values{"csrf": {token}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return w.read(w.Browser.PostForm(w.URL+action, form))
}

func (w *World) read(response *http.Response, err error) Answer {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return Answer{response.StatusCode, string(body), response.Request.URL.RequestURI(), response.Header}
}

// Store keeps findings.json of a Scan, and gives the Scan the link to it.
func (w *World) Store(scan *executionv1.Scan, findings ...map[string]any) {
	w.T.Helper()
	content, err := json.Marshal(findings)
	if err != nil {
		w.T.Fatal(err)
	}
	path := "/" + scan.Namespace + "/" + scan.Name + "/findings.json"
	w.files[path] = content
	scan.Status.FindingDownloadLink = w.storage.URL + path
	if err := w.Client.Status().Update(w.T.Context(), scan); err != nil {
		w.T.Fatal(err)
	}
}

func (w *World) denied(verb, resource, namespace string) bool {
	return slices.Contains(w.Denied, verb+" "+resource) || slices.Contains(w.Denied, verb+" "+resource+" "+namespace)
}

func resourceOf(object any) string {
	name := fmt.Sprintf("%T", object)
	name = strings.TrimSuffix(strings.ToLower(name[strings.LastIndex(name, ".")+1:]), "list")
	if stem, ok := strings.CutSuffix(name, "y"); ok {
		return stem + "ies"
	}
	return name + "s"
}

func forbidden(verb, resource, namespace string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("the viewer cannot %s %s in %q", verb, resource, namespace))
}

func (w *World) list(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	if w.denied("list", resourceOf(list), o.Namespace) {
		return forbidden("list", resourceOf(list), o.Namespace)
	}
	if scans, ok := list.(*executionv1.ScanList); ok && o.FieldSelector != nil {
		// The client in memory picks by equality only, a real API server by any selector.
		if err := c.List(ctx, scans, client.InNamespace(o.Namespace)); err != nil {
			return fmt.Errorf("list Scans: %w", err)
		}
		scans.Items = slices.DeleteFunc(scans.Items, func(s executionv1.Scan) bool {
			return !o.FieldSelector.Matches(fields.Set{"status.state": string(s.Status.State)})
		})
		return nil
	}
	return c.List(ctx, list, options...)
}

func (w *World) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
	if w.denied("patch", resourceOf(o), o.GetNamespace()) {
		return forbidden("patch", resourceOf(o), o.GetNamespace())
	}
	return c.Patch(ctx, o, p, options...)
}

func (w *World) remove(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
	if w.denied("delete", resourceOf(o), o.GetNamespace()) {
		return forbidden("delete", resourceOf(o), o.GetNamespace())
	}
	return c.Delete(ctx, o, options...)
}

func (w *World) create(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
	switch o := o.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		a := o.Spec.ResourceAttributes
		o.Status.Allowed = !w.denied(a.Verb, strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/"), a.Namespace)
		return nil
	case *reportsv1alpha1.FindingQuery:
		return w.answer(o, &o.Spec, &o.Status, func() (*query.Question, error) {
			question, errs := query.Namespaced(o, Noon)
			return question, errs.ToAggregate()
		})
	case *reportsv1alpha1.ClusterFindingQuery:
		if w.denied("create", "clusterfindingqueries", "") {
			return forbidden("create", "clusterfindingqueries", "")
		}
		return w.answer(o, &o.Spec.FindingQuerySpec, &o.Status, func() (*query.Question, error) {
			question, errs := query.Clusterwide(o, Noon)
			return question, errs.ToAggregate()
		})
	}
	if w.denied("create", resourceOf(o), o.GetNamespace()) {
		return forbidden("create", resourceOf(o), o.GetNamespace())
	}
	if w.Refuse != nil {
		if err := w.Refuse(o); err != nil {
			return err
		}
	}
	if o.GetName() == "" {
		o.SetName(o.GetGenerateName() + "made")
	}
	return c.Create(ctx, o, options...)
}

// answer answers a question over the rows of the world.
func (w *World) answer(o client.Object, spec *reportsv1alpha1.FindingQuerySpec, status *reportsv1alpha1.FindingQueryStatus, read func() (*query.Question, error)) error {
	if w.Rows == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: "reports.scanyard.io", Resource: resourceOf(o)}, "")
	}
	question, err := read()
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if spec.Trend != nil {
		status.Groups = w.trend(question)
		return nil
	}
	rows, groups := query.Answer(question, w.Rows)
	total := int64(len(rows))
	from := 0
	if spec.Continue != "" {
		if _, err := fmt.Sscanf(spec.Continue, "from-%d", &from); err != nil {
			return apierrors.NewBadRequest("the token is not of this question")
		}
	}
	if to := from + question.Limit; len(rows) > to {
		status.Continue = fmt.Sprintf("from-%d", to)
		rows = rows[:to]
	}
	if len(rows) > 0 {
		status.Rows = rows[from:]
	}
	status.Groups, status.Total = groups, &total
	return nil
}

// trend is what was open at the end of each day, new or fixed on it, as far as rows show it.
func (w *World) trend(q *query.Question) (out []reportsv1alpha1.FindingGroup) {
	for d := range q.TrendDays {
		day := Noon.AddDate(0, 0, d-q.TrendDays+1)
		on := func(t *metav1.Time) bool {
			return t != nil && t.UTC().Format(time.DateOnly) == day.Format(time.DateOnly)
		}
		counts := map[string]int64{}
		for i := range w.Rows {
			r := &w.Rows[i]
			counted := r.FirstSeen != nil && r.FirstSeen.Time.Before(day)
			switch q.Aggregate {
			case query.New:
				counted = on(r.FirstSeen)
			case query.Fixed:
				counted = on(r.FixedAt)
			case query.Count, query.CountDistinctResources, query.MaxScore, query.MeanTimeToFix:
			}
			if counted && query.Matches(q.Where, r) && (len(q.Namespaces) == 0 || slices.Contains(q.Namespaces, r.Namespace)) {
				counts[r.Severity]++
			}
		}
		for severity, n := range counts {
			out = append(out, reportsv1alpha1.FindingGroup{Key: map[string]string{"day": day.Format(time.DateOnly), "severity": severity}, Count: n})
		}
	}
	return out
}

// Namespace is a namespace.
func Namespace(name string) *corev1.Namespace {
	n := &corev1.Namespace{}
	n.Name = name
	return n
}
