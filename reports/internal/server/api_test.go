// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// checks are about one server that they share. Each has a namespace of its own.
var checks = map[string]func(t *testing.T, d *door, namespace string){
	"validation":        checkValidation,
	"empty policies":    checkEmptyPolicies,
	"types":             checkTypes,
	"unknown fields":    checkUnknownFields,
	"system fields":     checkSystemFields,
	"generation":        checkGeneration,
	"foreign versions":  checkForeignVersions,
	"not found":         checkNotFound,
	"field selectors":   checkFieldSelectors,
	"label selectors":   checkLabelSelectors,
	"strange names":     checkStrangeNames,
	"list options":      checkListOptions,
	"pages":             checkPages,
	"tables":            checkTables,
	"metadata":          checkMetadata,
	"media types":       checkMediaTypes,
	"dry run":           checkDryRun,
	"patches":           checkPatches,
	"conflicts":         checkConflicts,
	"server-side apply": checkApply,
	"finalizers":        checkFinalizers,
	"collections":       checkCollections,
	"rights":            checkRights,
	"images":            checkImages,
	"documents":         checkDocuments,
	"watch":             checkWatch,
	"watch list":        checkWatchList,
	"watch selector":    checkWatchSelector,
	"discovery":         checkDiscovery,
	"openapi":           checkOpenAPI,
	"openapi patches":   checkOpenAPIPatches,
}

func TestAPI(t *testing.T) {
	d := serve(t, dbtest.New(t, sqldb.SQLite), nil)
	for name, check := range checks {
		t.Run(name, func(t *testing.T) { check(t, d, strings.ReplaceAll(name, " ", "-")) })
	}
	t.Logf("%d requests", d.asked.Load())
}

// The same holds for the published CRDs, which proves that what is asked for is right. Left out is what only the server has: rows that
// groups share, kinds of its own, and its tokens.
func TestAPIOnCRDs(t *testing.T) {
	if dbtest.Size(true, false) {
		t.Skip("needs a cluster of its own: runs with -full")
	}
	cluster, err := testcluster.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := cluster.InstallReportCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{url: cluster.Config.Host, client: client, custom: cluster.Config}
	d.untilDescribed(t)
	for name, check := range checks {
		if slices.Contains([]string{"foreign versions", "rights", "images", "documents", "discovery", "openapi"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			namespace := strings.ReplaceAll(name, " ", "-")
			for _, needed := range []string{namespace, namespace + "-other"} {
				if err := cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: needed}}); err != nil {
					t.Fatal(err)
				}
			}
			check(t, d, namespace)
		})
	}
	t.Logf("%d requests", d.asked.Load())
}

// untilDescribed waits until OpenAPI has the fields of CRDs, some time after they are served.
func (d *door) untilDescribed(t *testing.T) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(context.Context) (bool, error) {
		v2 := d.ask(t, request{path: "/openapi/v2"}).is(http.StatusOK)
		v3 := d.ask(t, request{path: "/openapi/v3/apis/wgpolicyk8s.io/v1alpha2"})
		return v3.code == http.StatusOK && strings.Contains(string(v2.body), path(policyReports, "{namespace}")), nil
	})
	if err != nil {
		t.Fatalf("OpenAPI does not have the CRDs: %v", err)
	}
}

// What depends on the database is looked at on each.
func TestAPIOnEachDatabase(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.PostgreSQL, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			d := serve(t, dbtest.New(t, driver), nil)
			for _, name := range []string{
				"field selectors", "label selectors", "strange names", "pages", "tables", "conflicts", "finalizers", "collections", "images", "documents",
				"watch", "watch list", "watch selector",
			} {
				t.Run(name, func(t *testing.T) { checks[name](t, d, strings.ReplaceAll(name, " ", "-")) })
			}
		})
	}
}

// refused is the code of requests that the server answers with 400, and CRDs with 500: a defect that is not kept.
func (d *door) refused() int {
	if d.custom != nil {
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// causes are the fields that a Status complains of.
func (a *answer) causes() []string {
	a.t.Helper()
	details, _ := a.object()["details"].(object)
	causes, _ := details["causes"].([]any)
	var fields []string
	for _, cause := range causes {
		if at, ok := cause.(object)["field"].(string); ok && at != "<nil>" { // CRDs say of a fraction twice that it is not an integer
			fields = append(fields, at)
		}
	}
	slices.Sort(fields)
	return fields
}

func checkValidation(t *testing.T, d *door, namespace string) {
	for name, c := range map[string]struct {
		body object
		want []string
	}{
		"Name":         {report("Bad_Name"), []string{"metadata.name"}},
		"Label":        {report("a", labelled("a b", "c")), []string{"metadata.labels"}},
		"Annotations":  {report("a", with("metadata", object{"name": "a", "annotations": object{"a": strings.Repeat("x", 256<<10)}})), []string{"metadata.annotations"}},
		"Policy":       {report("a", with("results", []any{object{"result": "pass"}})), []string{"results[0].policy"}},
		"Severity":     {report("a", with("results", []any{object{"policy": "p", "severity": "bad"}})), []string{"results[0].severity"}},
		"Result":       {report("a", with("results", []any{object{"policy": "p"}, object{"policy": "p", "result": "bad"}})), []string{"results[1].result"}},
		"Several":      {report("a", with("results", []any{object{"result": "bad"}})), []string{"results[0].policy", "results[0].result"}},
		"TooMany":      {report("a", with("results", slices.Repeat([]any{object{"policy": "p"}}, 50_001))), []string{"results"}},
		"NumberOfText": {report("a", with("summary", object{"pass": "one"})), []string{"summary.pass"}},
		"Fraction":     {report("a", with("summary", object{"pass": 1.5})), []string{"summary.pass"}},
	} {
		if name == "TooMany" && d.custom != nil {
			continue // CRDs bound the bytes only
		}
		t.Run(name, func(t *testing.T) {
			got := d.ask(t, request{method: http.MethodPost, path: path(policyReports, namespace), body: c.body}).is(http.StatusUnprocessableEntity)
			if causes := got.causes(); !slices.Equal(causes, c.want) || got.at("reason") != "Invalid" || got.at("details", "group") != "wgpolicyk8s.io" {
				t.Errorf("causes %q, must be %q: %s", causes, c.want, got.body)
			}
		})
	}
	openReport := func(limits object) object {
		return report("a", with("apiVersion", "openreports.io/v1alpha1"), with("kind", "Report"), with("configuration", limits))
	}
	for field, configuration := range map[string]object{
		"configuration.limits":                 {},
		"configuration.limits.statusFilter[0]": {"limits": object{"statusFilter": []any{"bad"}}},
	} {
		got := d.ask(t, request{method: http.MethodPost, path: path(openReports, namespace), body: openReport(configuration)}).is(http.StatusUnprocessableEntity)
		if causes := got.causes(); len(causes) != 1 || causes[0] != field || got.at("details", "kind") != "Report" {
			t.Errorf("causes %q, must be %q: %s", causes, field, got.body)
		}
	}
}

// The published CRDs ask that a result names its policy, and take an empty name. So does the server, whatever a result is written with.
func checkEmptyPolicies(t *testing.T, d *door, namespace string) {
	place := path(policyReports, namespace) + "/a"
	writes := map[string]func(result object) request{
		"create": func(result object) request {
			return request{method: http.MethodPost, path: path(policyReports, namespace) + "?dryRun=All", body: report("b", with("results", []any{result}))}
		},
		"update": func(result object) request {
			return request{method: http.MethodPut, path: place, body: report("a", d.current(t, place), with("results", []any{result}))}
		},
		"merge patch": func(result object) request {
			return request{
				method: http.MethodPatch, path: place, body: object{"results": []any{result}}, header: map[string]string{"Content-Type": "application/merge-patch+json"},
			}
		},
		"server-side apply": func(result object) request {
			return request{
				method: http.MethodPatch, path: place + "?fieldManager=test&force=true", body: report("a", with("results", []any{result})),
				header: map[string]string{"Content-Type": "application/apply-patch+yaml"},
			}
		},
		"openreports.io": func(result object) request {
			body := report("a", d.current(t, place), with("apiVersion", "openreports.io/v1alpha1"), with("kind", "Report"), with("results", []any{result}))
			return request{method: http.MethodPut, path: path(openReports, namespace) + "/a", body: body}
		},
	}
	d.create(t, policyReports, namespace, report("a"))
	if d.custom != nil {
		delete(writes, "openreports.io") // there, it is another object
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			made := d.ask(t, write(object{"policy": "", "message": name}))
			if made.code != http.StatusOK && made.code != http.StatusCreated {
				t.Fatalf("an empty policy: %d: %s", made.code, made.body)
			}
			results := made.object()["results"].([]any)[0].(object)
			if policy, there := results["policy"]; policy != "" || !there {
				t.Errorf("answered as %v", results)
			}
			refused := d.ask(t, write(object{"message": name})).is(http.StatusUnprocessableEntity)
			if causes := refused.causes(); !slices.Equal(causes, []string{"results[0].policy"}) {
				t.Errorf("causes %q", causes)
			}
		})
	}
}

// Values of wrong types are mistakes of an update, too.
func checkTypes(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("a"))
	place := path(policyReports, namespace) + "/a"
	wrong := report("a", d.current(t, place), with("summary", object{"pass": "one"}))
	for _, r := range []request{
		{method: http.MethodPut, path: place, body: wrong},
		{method: http.MethodPatch, path: place, body: wrong, header: map[string]string{"Content-Type": "application/merge-patch+json"}},
	} {
		d.ask(t, r).is(http.StatusUnprocessableEntity)
	}
	delete(wrong["metadata"].(object), "resourceVersion")
	apply := request{method: http.MethodPatch, path: place + "?fieldManager=x", body: wrong, header: map[string]string{"Content-Type": "application/apply-patch+yaml"}}
	d.ask(t, apply).is(d.refused())
	d.ask(t, request{method: http.MethodPost, path: path(policyReports, namespace), body: "{"}).is(http.StatusBadRequest)
	d.ask(t, request{method: http.MethodPost, path: path(policyReports, namespace), body: strings.Repeat("[", 20_000)}).is(http.StatusBadRequest)
}

func checkUnknownFields(t *testing.T, d *door, namespace string) {
	body := func(name string) object {
		return report(name, with("results", []any{object{"policy": "p", "nonsense": 1}}))
	}
	collection := path(policyReports, namespace)
	strict := d.ask(t, request{method: http.MethodPost, path: collection + "?fieldValidation=Strict", body: body("strict")}).is(http.StatusBadRequest)
	if !strings.Contains(strict.at("message"), "results[0].nonsense") {
		t.Errorf("the path is not named: %s", strict.body)
	}
	warned := d.ask(t, request{method: http.MethodPost, path: collection, body: body("warned")}).is(http.StatusCreated)
	if !strings.Contains(warned.header.Get("Warning"), "results[0].nonsense") {
		t.Errorf("warning: %q", warned.header.Get("Warning"))
	}
	ignored := d.ask(t, request{method: http.MethodPost, path: collection + "?fieldValidation=Ignore", body: body("ignored")}).is(http.StatusCreated)
	if ignored.header.Get("Warning") != "" {
		t.Errorf("warning: %q", ignored.header.Get("Warning"))
	}
	for _, name := range []string{"warned", "ignored"} {
		if got := d.ask(t, request{path: collection + "/" + name}).is(http.StatusOK); strings.Contains(string(got.body), "nonsense") {
			t.Errorf("%s: kept: %s", name, got.body)
		}
	}
}

func checkSystemFields(t *testing.T, d *door, namespace string) {
	made := d.create(t, policyReports, namespace, report("a", with("metadata", object{
		"name": "a", "uid": "mine", "generation": 77, "creationTimestamp": "2001-01-01T00:00:00Z",
	})))
	if made.at("metadata", "uid") == "mine" || made.at("metadata", "generation") != "1" || strings.HasPrefix(made.at("metadata", "creationTimestamp"), "2001") {
		t.Errorf("taken from the client: %s", made.body)
	}
	versioned := report("b", with("metadata", object{"name": "b", "resourceVersion": "5"}))
	d.ask(t, request{method: http.MethodPost, path: path(policyReports, namespace), body: versioned}).is(d.refused())
	named := d.create(t, policyReports, namespace, report("", with("metadata", object{"generateName": "made-"})))
	if name := named.at("metadata", "name"); len(name) != len("made-")+5 || !strings.HasPrefix(name, "made-") {
		t.Errorf("generated name %q", name)
	}
	bare := d.create(t, policyReports, namespace, object{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": object{"name": "bare"}})
	for _, field := range []string{"summary", "results", "scope"} {
		if _, invented := bare.object()[field]; invented {
			t.Errorf("%s is invented: %s", field, bare.body)
		}
	}
}

func checkGeneration(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("a"))
	place := path(policyReports, namespace) + "/a"
	merge := map[string]string{"Content-Type": "application/merge-patch+json"}
	relabelled := d.ask(t, request{method: http.MethodPatch, path: place, body: object{"metadata": object{"labels": object{"x": "y"}}}, header: merge}).is(http.StatusOK)
	if relabelled.at("metadata", "generation") != "1" {
		t.Errorf("a label is not counted: %s", relabelled.body)
	}
	changed := d.ask(t, request{method: http.MethodPatch, path: place, body: object{"summary": object{"pass": 5}}, header: merge}).is(http.StatusOK)
	if changed.at("metadata", "generation") != "2" {
		t.Errorf("a change is counted: %s", changed.body)
	}
	again := d.ask(t, request{method: http.MethodPatch, path: place, body: object{"summary": object{"pass": 5}}, header: merge}).is(http.StatusOK)
	if again.at("metadata", "resourceVersion") != changed.at("metadata", "resourceVersion") {
		t.Error("an update that changes nothing has written")
	}
}

func checkForeignVersions(t *testing.T, d *door, namespace string) {
	made := d.ask(t, request{method: http.MethodPost, path: path(prextReports, namespace), body: report("a")}).is(http.StatusCreated)
	if made.at("apiVersion") != "prext.demo/v1alpha1" || made.at("metadata", "creationTimestamp") == "" {
		t.Errorf("answer: %s", made.body)
	}
	foreign := report("b", with("apiVersion", "openreports.io/v1alpha1"), with("kind", "Report"))
	d.ask(t, request{method: http.MethodPost, path: path(prextReports, namespace), body: foreign}).is(http.StatusBadRequest)
	d.ask(t, request{method: http.MethodPost, path: path(policyReports, namespace), body: foreign}).is(http.StatusBadRequest)
	list := d.ask(t, request{path: path(prextReports, namespace)}).is(http.StatusOK)
	if list.at("kind") != "PolicyReportList" || list.at("apiVersion") != "prext.demo/v1alpha1" || list.at("metadata", "resourceVersion") == "" {
		t.Errorf("list: %.300s", list.body)
	}
	d.ask(t, request{method: http.MethodDelete, path: path(prextReports, namespace) + "/a"}).is(http.StatusOK)
	cluster := prextReports
	cluster.Resource = "clusterpolicyreports"
	d.create(t, cluster, "", report("of-the-cluster", with("kind", "ClusterPolicyReport")))
	if got := d.ask(t, request{path: path(clusterPolicyReports, "") + "/of-the-cluster"}).is(http.StatusOK); got.at("kind") != "ClusterPolicyReport" {
		t.Errorf("cluster: %s", got.body)
	}
}

func checkNotFound(t *testing.T, d *door, namespace string) {
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		r := request{method: method, path: path(policyReports, namespace) + "/missing"}
		if method == http.MethodPut {
			r.body = report("missing")
		}
		if got := d.ask(t, r).is(http.StatusNotFound); got.at("reason") != "NotFound" || got.at("details", "name") != "missing" {
			t.Errorf("%s: %s", method, got.body)
		}
	}
}

func checkStrangeNames(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("abc"))
	for _, name := range []string{"a%25", "a_c", "%25", "a'c", "a%00c", "a%2Fc", "%C3%A4", "a%20c", "a%22--", strings.Repeat("a", 2000)} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			got := d.ask(t, request{method: method, path: path(policyReports, namespace) + "/" + name})
			if got.code < 400 || got.code >= 500 {
				t.Errorf("%s %.20s: %d %s", method, name, got.code, got.body)
			}
		}
		for _, selector := range []string{"fieldSelector=metadata.name=", "labelSelector=a="} {
			got := d.ask(t, request{path: path(policyReports, namespace) + "?" + selector + name})
			if got.code == http.StatusOK && got.names() != "" || got.code >= 500 {
				t.Errorf("%s %.20s: %d %s", selector, name, got.code, got.body)
			}
		}
	}
	d.ask(t, request{path: path(policyReports, namespace) + "/abc"}).is(http.StatusOK)
}

func checkFieldSelectors(t *testing.T, d *door, namespace string) {
	for _, name := range []string{"a", "b", "c"} {
		d.create(t, policyReports, namespace, report(name))
	}
	for selector, want := range map[string]string{
		"metadata.name=b": "b", "metadata.name==b": "b", "metadata.name!=b": "a c",
		"metadata.namespace=" + namespace: "a b c", "metadata.namespace!=" + namespace: "", "metadata.name=b,metadata.namespace=" + namespace: "b",
	} {
		if got := d.ask(t, request{path: path(policyReports, namespace) + "?fieldSelector=" + selector}).is(http.StatusOK); got.names() != want {
			t.Errorf("%s: %q, must be %q", selector, got.names(), want)
		}
	}
	got := d.ask(t, request{path: path(policyReports, namespace) + "?fieldSelector=spec.x=1"}).is(http.StatusBadRequest)
	if got.at("message") != "field label not supported: spec.x" {
		t.Errorf("message: %s", got.body)
	}
	d.ask(t, request{path: path(policyReports, namespace) + "?fieldSelector=image.digest=1"}).is(http.StatusBadRequest)
}

func checkLabelSelectors(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("one", labelled("n", "1")))
	d.create(t, policyReports, namespace, report("two", labelled("n", "2")))
	d.create(t, policyReports, namespace, report("none"))
	for selector, want := range map[string]string{
		"n=1": "one", "n!=1": "none two", "n": "one two", "!n": "none", "n%20in%20(1,2)": "one two", "n%20notin%20(1)": "none two", "n=3": "", "n=1,n=2": "",
	} {
		if got := d.ask(t, request{path: path(policyReports, namespace) + "?labelSelector=" + selector}).is(http.StatusOK); got.names() != want {
			t.Errorf("%s: %q, must be %q", selector, got.names(), want)
		}
	}
	d.ask(t, request{path: path(policyReports, namespace) + "?labelSelector=a%20b"}).is(http.StatusBadRequest)
}

func checkListOptions(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("a"))
	for query, code := range map[string]int{
		"resourceVersion=0": http.StatusOK, "resourceVersion=1&resourceVersionMatch=NotOlderThan": http.StatusOK, "resourceVersion=abc": http.StatusBadRequest,
		"resourceVersion=0&resourceVersionMatch=Exact": http.StatusUnprocessableEntity, "resourceVersionMatch=Exact": http.StatusUnprocessableEntity,
		"resourceVersion=1&resourceVersionMatch=Odd": http.StatusUnprocessableEntity, "continue=zzz": http.StatusBadRequest,
		"watch=1&sendInitialEvents=true": http.StatusUnprocessableEntity,
	} {
		if got := d.ask(t, request{path: path(policyReports, namespace) + "?" + query}); got.code != code {
			t.Errorf("%s: %d, must be %d: %.300s", query, got.code, code, got.body)
		}
	}
	d.ask(t, request{path: path(policyReports, namespace) + "?watch=1&resourceVersion=abc"}).is(d.refused())
	queries := []string{"", "watch=1&"}
	if d.custom != nil { // a watch of CRDs waits in silence for a number that is to come
		queries = queries[:1]
	}
	for _, query := range queries { // the number of another storage
		got := d.ask(t, request{path: path(policyReports, namespace) + "?" + query + "resourceVersion=99999999999"}).is(http.StatusGatewayTimeout)
		if got.at("details", "retryAfterSeconds") != "1" || !strings.Contains(string(got.body), "ResourceVersionTooLarge") {
			t.Errorf("%s: %s", query, got.body)
		}
	}
}

func checkPages(t *testing.T, d *door, namespace string) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		d.create(t, policyReports, namespace, report(name, labelled("page", "yes")))
	}
	d.create(t, policyReports, namespace+"-other", report("secret"))
	collection := path(policyReports, namespace)
	first := d.ask(t, request{path: collection + "?limit=2"}).is(http.StatusOK)
	if first.names() != "a b" || first.at("metadata", "remainingItemCount") != "3" {
		t.Errorf("first page: %q, %s remain", first.names(), first.at("metadata", "remainingItemCount"))
	}
	d.create(t, policyReports, namespace, report("bb"))
	d.ask(t, request{method: http.MethodDelete, path: collection + "/d"}).is(http.StatusOK)
	second := d.ask(t, request{path: collection + "?limit=2&continue=" + first.at("metadata", "continue")}).is(http.StatusOK)
	if second.names() != "c d" || second.at("metadata", "resourceVersion") != first.at("metadata", "resourceVersion") {
		t.Errorf("second page: %q as of %s", second.names(), second.at("metadata", "resourceVersion"))
	}
	elsewhere := d.ask(t, request{path: path(policyReports, namespace+"-other") + "?limit=2&continue=" + second.at("metadata", "continue")})
	if elsewhere.code == http.StatusOK && strings.Contains(string(elsewhere.body), `"e"`) || elsewhere.code >= 500 {
		t.Errorf("a token of another namespace: %d %s", elsewhere.code, elsewhere.body)
	}
	selected := d.ask(t, request{path: collection + "?limit=2&labelSelector=page"}).is(http.StatusOK)
	if selected.names() != "a b" || selected.at("metadata", "remainingItemCount") != "" {
		t.Errorf("with a selector: %q, %s remain", selected.names(), selected.at("metadata", "remainingItemCount"))
	}
	d.ask(t, request{path: collection + "?continue=" + first.at("metadata", "continue") + "&resourceVersion=1"}).is(http.StatusBadRequest)

	if d.custom != nil {
		return // etcd is compacted by its own clock
	}
	// Row 12 of the fault list: a continue token from before a compaction is answered with one that goes on.
	current, err := d.store.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.store.Compact(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	expired := d.ask(t, request{path: collection + "?limit=2&continue=" + first.at("metadata", "continue")}).is(http.StatusGone)
	if expired.at("reason") != "Expired" {
		t.Errorf("compacted: %s", expired.body)
	}
	on := d.ask(t, request{path: collection + "?limit=2&continue=" + expired.at("metadata", "continue")}).is(http.StatusOK)
	if on.names() != "bb c" {
		t.Errorf("goes on with %q", on.names())
	}
	exact := d.ask(t, request{path: collection + "?resourceVersionMatch=Exact&resourceVersion=" + first.at("metadata", "resourceVersion")}).is(http.StatusGone)
	if exact.at("message") != "The resourceVersion for the provided list is too old." {
		t.Errorf("exact: %s", exact.body)
	}
}

func checkDiscovery(t *testing.T, d *door, _ string) {
	client, err := discovery.NewDiscoveryClientForConfig(d.config())
	if err != nil {
		t.Fatal(err)
	}
	client.UseLegacyDiscovery = true
	for group, want := range map[string][]string{
		"wgpolicyk8s.io/v1alpha2":      {"ClusterPolicyReport clusterpolicyreports clusterpolicyreport [cpolr] openreports.io/v1alpha1/ClusterReport", "PolicyReport policyreports policyreport [polr] openreports.io/v1alpha1/Report"},
		"openreports.io/v1alpha1":      {"ClusterReport clusterreports clusterreport [creps] openreports.io/v1alpha1/ClusterReport", "Report reports report [reps] openreports.io/v1alpha1/Report"},
		"prext.demo/v1alpha1":          {"ClusterPolicyReport clusterpolicyreports clusterpolicyreport [] openreports.io/v1alpha1/ClusterReport", "PolicyReport policyreports policyreport [] openreports.io/v1alpha1/Report"},
		"reports.scanyard.io/v1alpha1": {"Image images image [img rimg] reports.scanyard.io/v1alpha1/Image", "Repository repositories repository [rrepo] reports.scanyard.io/v1alpha1/Repository", "SBOM sboms sbom [sbom rsbom] reports.scanyard.io/v1alpha1/SBOM", "VulnerabilityDatabase vulnerabilitydatabases vulnerabilitydatabase [] reports.scanyard.io/v1alpha1/VulnerabilityDatabase", "VulnerabilityReport vulnerabilityreports vulnerabilityreport [vulnr rvuln] reports.scanyard.io/v1alpha1/VulnerabilityReport"},
	} {
		resources, err := client.ServerResourcesForGroupVersion(group)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range resources.APIResources {
			if strings.Contains(r.Name, "/") {
				if strings.HasSuffix(r.Name, "/status") && strings.Join(r.Verbs, " ") != "get patch update" {
					t.Errorf("subresource %s: %s", r.Name, r.Verbs)
				}
				continue
			}
			if r.Name == "imagequeries" {
				if strings.Join(r.Verbs, " ") != "create" {
					t.Errorf("%s: %s", r.Name, r.Verbs)
				}
				continue
			}
			if strings.Join(r.Verbs, " ") != "create delete deletecollection get list patch update watch" || !slices.Equal(r.Categories, []string{"scanyard"}) {
				t.Errorf("%s: %s, %s", r.Name, r.Verbs, r.Categories)
			}
			stored := "?"
			for _, line := range want {
				version := line[strings.LastIndex(line, " ")+1:]
				sum := sha256.Sum256([]byte(version))
				if base64.StdEncoding.EncodeToString(sum[:8]) == r.StorageVersionHash {
					stored = version
				}
			}
			got = append(got, fmt.Sprintf("%s %s %s %s %s", r.Kind, r.Name, r.SingularName, r.ShortNames, stored))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nmust be\n%s", group, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	aggregated := d.ask(t, request{path: "/apis", header: map[string]string{"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}}).is(http.StatusOK)
	if aggregated.at("kind") != "APIGroupDiscoveryList" || aggregated.names() != "wgpolicyk8s.io openreports.io reports.scanyard.io prext.demo" {
		t.Errorf("aggregated: %.300s", aggregated.body)
	}
}

// Clients read in OpenAPI how they may patch.
func checkOpenAPIPatches(t *testing.T, d *door, _ string) {
	want := []string{applyPatch, "application/json-patch+json", mergePatch}
	place := path(policyReports, "{namespace}") + "/{name}"
	v3 := d.ask(t, request{path: "/openapi/v3/apis/wgpolicyk8s.io/v1alpha2"}).is(http.StatusOK)
	kinds, _, err := unstructured.NestedMap(v3.object(), "paths", place, "patch", "requestBody", "content")
	if got := slices.Sorted(maps.Keys(kinds)); err != nil || !slices.Equal(got, want) {
		t.Errorf("version 3: %q, %v", got, err)
	}
	v2 := d.ask(t, request{path: "/openapi/v2"}).is(http.StatusOK)
	got, _, err := unstructured.NestedStringSlice(v2.object(), "paths", place, "patch", "consumes")
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("version 2: %q, %v", got, err)
	}
}

func checkOpenAPI(t *testing.T, d *door, _ string) {
	v3 := d.ask(t, request{path: "/openapi/v3/apis/wgpolicyk8s.io/v1alpha2"}).is(http.StatusOK)
	result := []string{"components", "schemas", "io.wgpolicyk8s.v1alpha2.PolicyReportResult"}
	if got := v3.at(append(result, "required")...); got != "[policy]" {
		t.Errorf("required: %s", got)
	}
	if got := v3.at(append(result, "properties", "severity", "enum")...); got != "[critical high info low medium]" {
		t.Errorf("severities: %s", got)
	}
	if got := v3.at("components", "schemas", "io.wgpolicyk8s.v1alpha2.PolicyReport", "x-kubernetes-group-version-kind"); got != "[map[group:wgpolicyk8s.io kind:PolicyReport version:v1alpha2]]" {
		t.Errorf("kinds: %s", got)
	}
	v2 := d.ask(t, request{path: "/openapi/v2"}).is(http.StatusOK)
	definitions := v2.object()["definitions"].(object)
	for _, model := range []string{
		"io.wgpolicyk8s.v1alpha2.PolicyReport", "io.openreports.v1alpha1.Report", "demo.prext.v1alpha1.PolicyReport", "io.scanyard.reports.v1alpha1.Image", "io.k8s.api.core.v1.ObjectReference",
	} {
		definition, ok := definitions[model].(object)
		if !ok {
			t.Errorf("%s is not there", model)
			continue
		}
		for name, property := range definition["properties"].(object) {
			if described := property.(object)["description"]; described == nil && name != "metadata" && property.(object)["$ref"] == nil {
				t.Errorf("%s: %s has no description", model, name)
			}
		}
	}
	if kinds := definitions["io.scanyard.reports.v1alpha1.Image"].(object)["x-kubernetes-group-version-kind"]; len(kinds.([]any)) != 1 {
		t.Errorf("kinds of Image: %v", kinds)
	}
}
