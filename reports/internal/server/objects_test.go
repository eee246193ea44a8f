// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	tableOf    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	metadataOf = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

func accept(types string) map[string]string { return map[string]string{"Accept": types} }

func content(kind string) map[string]string { return map[string]string{"Content-Type": kind} }

// headers are those of a table, those that are shown on request only in brackets.
func (a *answer) headers() string {
	a.t.Helper()
	columns, _ := a.object()["columnDefinitions"].([]any)
	var names []string
	for _, column := range columns {
		name := column.(object)["name"].(string)
		if column.(object)["priority"].(float64) > 0 {
			name = "(" + name + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func checkTables(t *testing.T, d *door, namespace string) {
	const headers = "Name (Kind) (Name) Pass Fail Warn Error Skip Age"
	empty := d.ask(t, request{path: path(policyReports, namespace), header: accept(tableOf)}).is(http.StatusOK)
	if empty.headers() != headers {
		t.Errorf("columns of an empty table: %s", empty.headers())
	}
	d.create(t, policyReports, namespace, report("a", with("scope", object{"kind": "Pod", "name": "web"}), with("summary", object{"pass": 0, "fail": 3})))
	places := []string{path(policyReports, namespace), path(policyReports, namespace) + "/a"}
	if d.custom == nil {
		places = append(places, path(openReports, namespace))
	}
	for _, where := range places {
		table := d.ask(t, request{path: where, header: accept(tableOf)}).is(http.StatusOK)
		if table.at("kind") != "Table" || table.headers() != headers {
			t.Fatalf("%s: columns %s", where, table.headers())
		}
		row := table.object()["rows"].([]any)[0].(object)
		cells := row["cells"].([]any)
		if len(cells) != 9 || cells[0] != "a" || cells[1] != "Pod" || cells[2] != "web" || cells[3] != 0.0 || cells[4] != 3.0 || cells[5] != nil || cells[8] == nil {
			t.Errorf("%s: cells %v", where, cells)
		}
		if row["object"].(object)["kind"] != "PartialObjectMetadata" {
			t.Errorf("%s: object %v", where, row["object"])
		}
	}
	whole := d.ask(t, request{path: path(policyReports, namespace) + "?includeObject=Object", header: accept(tableOf)}).is(http.StatusOK)
	if shown := whole.object()["rows"].([]any)[0].(object)["object"].(object); shown["results"] == nil {
		t.Errorf("whole object: %v", shown)
	}
	if d.custom != nil {
		return
	}
	for gvr, want := range map[string]string{
		path(images, namespace):               "Name Reference Platform State Critical High Fixable Scanned (Digest) (Presence) (Reason) (Size) (OS) Age",
		path(sboms, namespace):                "Name Reference Platform Packages OS Format Size Age",
		path(vulnerabilityReports, namespace): "Name Reference Platform Critical High Medium Low Unknown Fixable Suppressed Scanned (Engine) (Database) (New) (Fixed) (Digest) Age",
	} {
		if got := d.ask(t, request{path: gvr, header: accept(tableOf)}).is(http.StatusOK); got.headers() != want {
			t.Errorf("%s: %s", gvr, got.headers())
		}
	}
}

func checkMetadata(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("a", labelled("x", "y")))
	list := d.ask(t, request{path: path(policyReports, namespace), header: accept(metadataOf)}).is(http.StatusOK)
	if list.at("kind") != "PartialObjectMetadataList" || list.names() != "a" || strings.Contains(string(list.body), "results") && strings.Contains(string(list.body), "CVE-2026-1") {
		t.Errorf("list: %s", list.body)
	}
	one := accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	got := d.ask(t, request{path: path(policyReports, namespace) + "/a", header: one}).is(http.StatusOK)
	if got.at("kind") != "PartialObjectMetadata" || got.at("metadata", "labels", "x") != "y" {
		t.Errorf("one: %s", got.body)
	}
}

func checkMediaTypes(t *testing.T, d *door, namespace string) {
	collection := path(policyReports, namespace)
	const protobuf = "application/vnd.kubernetes.protobuf"
	d.ask(t, request{path: collection, header: accept(protobuf)}).is(http.StatusNotAcceptable)
	beside := d.ask(t, request{path: collection, header: accept(protobuf + ",application/json")}).is(http.StatusOK)
	if beside.at("kind") != "PolicyReportList" {
		t.Errorf("beside JSON: %s", beside.body)
	}
	metadata := d.ask(t, request{path: collection, header: accept(protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io," + metadataOf)}).is(http.StatusOK)
	if !strings.HasPrefix(string(metadata.body), "k8s\x00") { // metadata has a form in protobuf
		t.Errorf("metadata: %s", metadata.body)
	}
	yaml := d.ask(t, request{path: collection, header: accept("application/yaml")}).is(http.StatusOK)
	if !strings.Contains(string(yaml.body), "kind: PolicyReportList\n") {
		t.Errorf("YAML: %s", yaml.body)
	}
	body := "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata: {name: of-yaml}\n"
	d.ask(t, request{method: http.MethodPost, path: collection, body: body, header: content("application/yaml")}).is(http.StatusCreated)
	d.ask(t, request{method: http.MethodPost, path: collection, body: body, header: content("text/plain")}).is(http.StatusUnsupportedMediaType)
}

func checkDryRun(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("a", labelled("x", "y")))
	collection := path(policyReports, namespace)
	version := func() string {
		if d.custom != nil {
			return "" // others write into that cluster, too
		}
		return d.ask(t, request{path: collection}).at("metadata", "resourceVersion")
	}
	before := version()
	applied := object{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": object{"name": "applied"}}
	for _, c := range []struct {
		request
		code int
	}{
		{request{method: http.MethodPost, path: collection, body: report("b")}, http.StatusCreated},
		{request{method: http.MethodPost, path: collection, body: report("a")}, http.StatusConflict},
		{request{method: http.MethodPut, path: collection + "/a", body: report("a", d.current(t, collection+"/a"), with("summary", object{"pass": 9}))}, http.StatusOK},
		{request{method: http.MethodPatch, path: collection + "/a", body: object{"summary": object{"pass": 9}}, header: content(mergePatch)}, http.StatusOK},
		{request{method: http.MethodPatch, path: collection + "/applied?fieldManager=x", body: applied, header: content(applyPatch)}, http.StatusCreated},
		{request{method: http.MethodDelete, path: collection + "/a"}, http.StatusOK},
		{request{method: http.MethodDelete, path: collection + "?labelSelector=x"}, http.StatusOK},
	} {
		if strings.Contains(c.path, "?") {
			c.path += "&dryRun=All"
		} else {
			c.path += "?dryRun=All"
		}
		d.ask(t, c.request).is(c.code)
	}
	if after := version(); after != before {
		t.Errorf("the counter went from %s to %s", before, after)
	}
	if got := d.ask(t, request{path: collection}).is(http.StatusOK); got.names() != "a" {
		t.Errorf("there are %q", got.names())
	}
}

func checkPatches(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("a"))
	place := path(policyReports, namespace) + "/a"
	d.ask(t, request{method: http.MethodPatch, path: place, body: `[{"op":"replace","path":"/results/0/severity","value":"low"}]`, header: content("application/json-patch+json")}).is(http.StatusOK)
	d.ask(t, request{method: http.MethodPatch, path: place, body: object{"summary": object{"pass": 2, "fail": nil}}, header: content(mergePatch)}).is(http.StatusOK)
	got := d.ask(t, request{path: place}).is(http.StatusOK)
	if !strings.Contains(string(got.body), `"severity":"low"`) && !strings.Contains(string(got.body), `"severity": "low"`) || got.at("summary", "pass") != "2" || got.at("summary", "fail") != "" {
		t.Errorf("patched: %s", got.body)
	}
	d.ask(t, request{method: http.MethodPatch, path: place, body: `[{"op":"test","path":"/summary/pass","value":7}]`, header: content("application/json-patch+json")}).is(http.StatusUnprocessableEntity)
	for _, kind := range []string{"application/strategic-merge-patch+json", "application/odd-patch"} {
		refused := d.ask(t, request{method: http.MethodPatch, path: place, body: object{}, header: content(kind)}).is(http.StatusUnsupportedMediaType)
		if refused.at("reason") != "UnsupportedMediaType" || !strings.Contains(refused.at("message"), mergePatch+", "+applyPatch) {
			t.Errorf("%s: %s", kind, refused.body)
		}
	}
}

func checkConflicts(t *testing.T, d *door, namespace string) {
	made := d.create(t, policyReports, namespace, report("a"))
	place := path(policyReports, namespace) + "/a"
	blind := d.ask(t, request{method: http.MethodPut, path: place, body: report("a", labelled("x", "y"))}).is(http.StatusUnprocessableEntity)
	if causes := blind.causes(); !slices.Equal(causes, []string{"metadata.resourceVersion"}) {
		t.Errorf("causes of an update without a resourceVersion: %q", causes)
	}
	d.ask(t, request{method: http.MethodPut, path: place, body: report("a", labelled("x", "y"), d.current(t, place))}).is(http.StatusOK)
	stale := report("a", with("metadata", object{"name": "a", "resourceVersion": made.at("metadata", "resourceVersion")}))
	if got := d.ask(t, request{method: http.MethodPut, path: place, body: stale}).is(http.StatusConflict); got.at("reason") != "Conflict" {
		t.Errorf("stale: %s", got.body)
	}
	for _, preconditions := range []object{{"uid": "other"}, {"resourceVersion": made.at("metadata", "resourceVersion")}} {
		body := object{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
		d.ask(t, request{method: http.MethodDelete, path: place, body: body}).is(http.StatusConflict)
	}
	last := d.ask(t, request{path: place}).is(http.StatusOK)
	gone := d.ask(t, request{method: http.MethodDelete, path: place}).is(http.StatusOK)
	if d.custom != nil {
		return // CRDs answer with a Status
	}
	if gone.at("metadata", "resourceVersion") == last.at("metadata", "resourceVersion") || gone.at("metadata", "uid") != made.at("metadata", "uid") {
		t.Errorf("a deletion has its own number: %s", gone.body)
	}
}

func checkApply(t *testing.T, d *door, namespace string) {
	place := path(policyReports, namespace) + "/a"
	apply := func(manager, query string, fields object) *answer {
		body := object{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": object{"name": "a"}}
		maps.Copy(body, fields)
		return d.ask(t, request{method: http.MethodPatch, path: place + "?fieldManager=" + manager + query, body: body, header: content(applyPatch)})
	}
	apply("one", "", object{"summary": object{"pass": 1, "fail": 2}}).is(http.StatusCreated)
	apply("two", "", object{"summary": object{"warn": 3}}).is(http.StatusOK)
	conflict := apply("two", "", object{"summary": object{"warn": 3, "pass": 5}}).is(http.StatusConflict)
	if !strings.Contains(conflict.at("message"), "summary.pass") {
		t.Errorf("conflict: %s", conflict.body)
	}
	apply("two", "&force=true", object{"summary": object{"warn": 3, "pass": 5}}).is(http.StatusOK)
	got := apply("one", "", object{"summary": object{"fail": 2}}).is(http.StatusOK)
	if got.at("summary", "pass") != "5" || got.at("summary", "fail") != "2" || got.at("summary", "warn") != "3" {
		t.Errorf("summary: %s", got.at("summary"))
	}
	same := apply("one", "", object{"summary": object{"fail": 2}}).is(http.StatusOK)
	if same.at("metadata", "resourceVersion") != got.at("metadata", "resourceVersion") {
		t.Error("what is applied again is not written")
	}
	if d.custom == nil {
		d.ask(t, request{
			method: http.MethodPatch, path: path(openReports, namespace) + "/a?fieldManager=three", header: content(applyPatch),
			body: object{"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "metadata": object{"name": "a"}, "summary": object{"warn": 4}},
		}).is(http.StatusConflict) // managers of another group own their fields
	}
	apply("two", "", object{}).is(http.StatusOK)
	if got := d.ask(t, request{path: place}).is(http.StatusOK); got.at("summary", "pass") != "" || got.at("summary", "fail") != "2" {
		t.Errorf("what a manager no longer applies is gone: %s", got.at("summary"))
	}
}

func checkFinalizers(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, namespace, report("a", with("metadata", object{"name": "a", "finalizers": []any{"example.com/one"}})))
	place := path(policyReports, namespace) + "/a"
	deleting := d.ask(t, request{method: http.MethodDelete, path: place}).is(http.StatusOK)
	if deleting.at("metadata", "deletionTimestamp") == "" || deleting.at("metadata", "deletionGracePeriodSeconds") != "0" {
		t.Errorf("being deleted: %s", deleting.body)
	}
	more := object{"metadata": object{"finalizers": []any{"example.com/one", "example.com/two"}}}
	d.ask(t, request{method: http.MethodPatch, path: place, body: more, header: content(mergePatch)}).is(http.StatusUnprocessableEntity)
	d.ask(t, request{method: http.MethodPatch, path: place, body: object{"metadata": object{"finalizers": nil}}, header: content(mergePatch)}).is(http.StatusOK)
	d.ask(t, request{path: place}).is(http.StatusNotFound)

	d.create(t, policyReports, namespace, report("owner"))
	foreground := object{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
	waits := d.ask(t, request{method: http.MethodDelete, path: path(policyReports, namespace) + "/owner", body: foreground}).is(http.StatusOK)
	if waits.at("metadata", "finalizers") != "[foregroundDeletion]" {
		t.Errorf("foreground: %s", waits.body)
	}
}

func checkCollections(t *testing.T, d *door, namespace string) {
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		d.create(t, policyReports, namespace, report(name, labelled("of", strings.TrimLeft(name, "abc")+"x")))
	}
	d.create(t, policyReports, namespace+"-other", report("other"))
	collection := path(policyReports, namespace)
	d.ask(t, request{method: http.MethodDelete, path: collection + "?labelSelector=of=x"}).is(http.StatusOK)
	if got := d.ask(t, request{path: collection}).is(http.StatusOK); got.names() != "d e f" {
		t.Errorf("left: %q", got.names())
	}
	d.ask(t, request{method: http.MethodDelete, path: collection + "?fieldSelector=metadata.name=e"}).is(http.StatusOK)
	if got := d.ask(t, request{path: collection}).is(http.StatusOK); got.names() != "d f" {
		t.Errorf("left: %q", got.names())
	}
	d.ask(t, request{method: http.MethodDelete, path: collection}).is(http.StatusOK)
	if got := d.ask(t, request{path: collection}).is(http.StatusOK); got.names() != "" {
		t.Errorf("left: %q", got.names())
	}
	if got := d.ask(t, request{path: path(policyReports, namespace+"-other")}).is(http.StatusOK); got.names() != "other" {
		t.Errorf("left in another namespace: %q", got.names())
	}
}

func checkRights(t *testing.T, d *door, namespace string) {
	d.create(t, policyReports, "team-a", report("mine"))
	d.create(t, policyReports, namespace, report("not-mine"))
	for where, code := range map[string]int{
		path(policyReports, "team-a"): http.StatusOK, path(policyReports, "team-a") + "/mine": http.StatusOK, path(openReports, "team-a"): http.StatusOK,
		path(policyReports, namespace): http.StatusForbidden, path(policyReports, namespace) + "/not-mine": http.StatusForbidden,
		path(policyReports, namespace) + "/nothing": http.StatusForbidden, path(policyReports, ""): http.StatusForbidden,
		path(policyReports, "") + "?fieldSelector=metadata.namespace=team-a": http.StatusForbidden, path(clusterPolicyReports, ""): http.StatusForbidden,
		path(policyReports, namespace) + "?watch=1": http.StatusForbidden, "/apis/wgpolicyk8s.io/v1alpha2": http.StatusOK, "/openapi/v2": http.StatusOK, "/metrics": http.StatusForbidden,
	} {
		if got := d.ask(t, request{path: where, token: tenantToken}); got.code != code {
			t.Errorf("%s: %d, must be %d", where, got.code, code)
		}
	}
	d.ask(t, request{path: path(policyReports, "team-a"), token: nobodyToken}).is(http.StatusForbidden)
	d.ask(t, request{path: path(policyReports, "team-a"), token: "wrong"}).is(http.StatusUnauthorized)
	d.ask(t, request{path: path(policyReports, "team-a"), token: "none"}).is(http.StatusUnauthorized)
	d.ask(t, request{path: "/apis", token: "none"}).is(http.StatusUnauthorized)
	for _, open := range []string{"/livez", "/readyz", "/version"} {
		d.ask(t, request{path: open, token: "none"}).is(http.StatusOK)
	}
	front := map[string]string{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
	d.ask(t, request{path: path(policyReports, namespace), token: "none", header: front}).is(http.StatusUnauthorized)
	d.ask(t, request{path: path(policyReports, namespace), token: tenantToken, header: front}).is(http.StatusForbidden)
	d.ask(t, request{path: path(policyReports, "team-a"), header: map[string]string{"Impersonate-User": "somebody"}}).is(http.StatusForbidden)
}

func image(name, repository string) object {
	return object{
		"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "Image", "metadata": object{"name": name},
		"spec":   object{"registry": object{"name": "reg", "host": "ghcr.io"}, "repository": repository, "tag": "v1", "digest": "sha256:" + name},
		"status": object{"state": "Done"},
	}
}

func checkImages(t *testing.T, d *door, namespace string) {
	made := d.create(t, images, namespace, image("a", "prod/api"))
	d.create(t, images, namespace, image("b", "prod/web"))
	if made.at("status", "state") != "" {
		t.Errorf("the status is not that of create: %s", made.body)
	}
	place := path(images, namespace)
	for selector, want := range map[string]string{
		"image.digest=sha256:a": "a", "image.repository=prod/web": "b", "image.registry=reg": "a b", "image.registry=reg,image.repository!=prod/web": "a",
	} {
		if got := d.ask(t, request{path: place + "?fieldSelector=" + selector}).is(http.StatusOK); got.names() != want {
			t.Errorf("%s: %q, must be %q", selector, got.names(), want)
		}
	}
	changed := image("a", "prod/other")
	if got := d.ask(t, request{method: http.MethodPut, path: place + "/a", body: changed}).is(http.StatusUnprocessableEntity); strings.Join(got.causes(), " ") != "spec" {
		t.Errorf("the spec cannot be changed: %s", got.body)
	}
	status := d.ask(t, request{method: http.MethodPut, path: place + "/a/status", body: changed}).is(http.StatusOK)
	if status.at("status", "state") != "Done" || status.at("spec", "repository") != "prod/api" {
		t.Errorf("status: %s", status.body)
	}
	d.ask(t, request{method: http.MethodPatch, path: place + "/a/status", body: object{"status": object{"presence": "Gone"}}, header: content(mergePatch)}).is(http.StatusOK)
	d.ask(t, request{method: http.MethodPatch, path: place + "/a/status", body: object{"status": object{"presence": "odd"}}, header: content(mergePatch)}).is(http.StatusUnprocessableEntity)
	relabelled := d.ask(t, request{method: http.MethodPatch, path: place + "/a", body: object{"metadata": object{"labels": object{"x": "y"}}, "status": object{"state": "no"}}, header: content(mergePatch)}).is(http.StatusOK)
	if relabelled.at("status", "state") != "Done" || relabelled.at("status", "presence") != "Gone" || relabelled.at("metadata", "labels", "x") != "y" {
		t.Errorf("labels: %s", relabelled.body)
	}
	for _, gone := range []string{"/a/status", "/a/odd"} {
		d.ask(t, request{method: http.MethodDelete, path: place + gone}).is(map[string]int{"/a/status": http.StatusMethodNotAllowed, "/a/odd": http.StatusNotFound}[gone])
	}
}

// Documents are in an answer about one object, not in lists and watches.
func checkDocuments(t *testing.T, d *door, namespace string) {
	for size, name := range map[int]string{10: "small", 50_000: "large"} {
		d.create(t, sboms, namespace, object{
			"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "SBOM", "metadata": object{"name": name},
			"spec": object{"image": name, "digest": "sha256:" + name, "sbom": object{"spdxVersion": strings.Repeat("x", size)}},
		})
		d.create(t, vulnerabilityReports, namespace, object{
			"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "VulnerabilityReport", "metadata": object{"name": name},
			"spec": object{
				"image": name, "digest": "sha256:" + name, "report": object{"version": strings.Repeat("x", size)},
				"findings": []any{object{"vulnerabilityID": "CVE-1", "package": object{"name": "zlib"}, "severity": "HIGH"}},
			},
		})
		sbom, report := path(sboms, namespace)+"/"+name, path(vulnerabilityReports, namespace)+"/"+name
		if got := d.ask(t, request{path: sbom}).is(http.StatusOK); len(got.at("spec", "sbom", "spdxVersion")) != size || got.at("spec", "sbomOmitted") != "" {
			t.Errorf("%s: %.300s", name, got.body)
		}
		if got := d.ask(t, request{path: report}).is(http.StatusOK); len(got.at("spec", "report", "version")) != size || !strings.Contains(got.at("spec", "findings"), "CVE-1") {
			t.Errorf("%s: %.300s", name, got.body)
		}
		list := d.ask(t, request{path: path(sboms, namespace) + "?fieldSelector=image.digest=sha256:" + name}).is(http.StatusOK)
		spec := list.items()[0].(object)["spec"].(object)
		if spec["sbom"] != nil || spec["sbomOmitted"] != true || list.names() != name {
			t.Errorf("list: %.300s", list.body)
		}
		reports := d.ask(t, request{path: path(vulnerabilityReports, namespace) + "?fieldSelector=image.digest=sha256:" + name}).is(http.StatusOK)
		spec = reports.items()[0].(object)["spec"].(object)
		if spec["report"] != nil || spec["findings"] != nil || spec["reportOmitted"] != true {
			t.Errorf("list: %.300s", reports.body)
		}
		// What a list gave can be sent back: the document stays.
		back := list.items()[0].(object)
		back["metadata"].(object)["labels"] = object{"x": "y"}
		d.ask(t, request{method: http.MethodPut, path: sbom, body: back}).is(http.StatusOK)
		if got := d.ask(t, request{path: sbom}).is(http.StatusOK); len(got.at("spec", "sbom", "spdxVersion")) != size || got.at("metadata", "labels", "x") != "y" {
			t.Errorf("%s: after an update: %.300s", name, got.body)
		}
		d.ask(t, request{method: http.MethodPatch, path: sbom, body: object{"spec": object{"sbom": object{"spdxVersion": "other"}}}, header: content(mergePatch)}).is(http.StatusUnprocessableEntity)
	}
}
