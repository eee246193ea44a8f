// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// Cluster is the one of these tests.
var Cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) {
		if err := c.InstallReportCRDs(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		Cluster = c
	}))
}

var (
	policyReports = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// hub is the API server, and a store of a receiver.
type hub struct {
	dynamic.Interface

	store *store.Store
	logs  bytes.Buffer
}

func newHub(t *testing.T) *hub {
	t.Helper()
	client, err := dynamic.NewForConfig(Cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := store.Open(store.Options{Directory: filepath.Join(t.TempDir(), "store"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return &hub{Interface: client, store: opened}
}

func (h *hub) namespace(t *testing.T) string {
	t.Helper()
	n := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "fleet-"}}}
	made, err := h.Resource(namespaces).Create(t.Context(), &n, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetName()
}

// fleet is a new process.
func (h *hub) fleet(t *testing.T, rules ...Rule) *Fleet {
	t.Helper()
	f, err := New(Rules{Rules: rules}, h.store, Cluster.Config, slog.New(slog.NewTextHandler(&h.logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// receive puts a Scan with n findings into the store, as a sender has sent it.
func (h *hub) receive(t *testing.T, authority string, id *forwardingv1.StreamId, n int, leave ...int) {
	t.Helper()
	all := receivertest.Records(id, n)
	for _, i := range leave {
		all = slices.Delete(all, i, i+1)
	}
	for part := range slices.Chunk(all, 500) {
		if _, err := h.store.Append(t.Context(), store.Batch{Authority: authority, Number: 1, Stream: id, Records: part}); err != nil {
			t.Fatal(err)
		}
	}
}

// reports are those of a namespace, by their name.
func (h *hub) reports(t *testing.T, namespace string) map[string]unstructured.Unstructured {
	t.Helper()
	list, err := h.Resource(policyReports).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]unstructured.Unstructured{}
	for _, r := range list.Items {
		all[r.GetName()] = r
	}
	return all
}

// results counts the results of reports.
func results(all map[string]unstructured.Unstructured) (n int) {
	for _, r := range all {
		list, _, _ := unstructured.NestedSlice(r.Object, "results")
		n += len(list)
	}
	return n
}

func versions(all map[string]unstructured.Unstructured) map[string]string {
	v := map[string]string{}
	for name, r := range all {
		v[name] = r.GetResourceVersion()
	}
	return v
}

func scanIn(clusterID, tenant, uid string) *forwardingv1.StreamId {
	id := receivertest.Scan(uid)
	id.ClusterId, id.Tenant = clusterID, tenant
	return id
}

func TestReports(t *testing.T) {
	h := newHub(t)
	space := h.namespace(t)
	rule := Rule{Cluster: "edge-1", Tenant: "team-a", Namespace: space}
	id := scanIn("edge-1", "team-a", "u-1")
	h.receive(t, "", id, 1501)
	h.receive(t, "", scanIn("edge-1", "team-a", "u-open"), 5, 3)
	h.fleet(t, rule).Once(t.Context())
	all := h.reports(t, space)
	if len(all) != 2 || results(all) != 1501 {
		t.Fatalf("%d reports with %d results: %s", len(all), results(all), h.logs.String())
	}
	for name, r := range all {
		want := map[string]string{
			LabelCluster: "edge-1", LabelNamespace: "team-a", policyreport.LabelScan: "nightly", policyreport.LabelManagedBy: manager,
		}
		for key, value := range want {
			if r.GetLabels()[key] != value {
				t.Errorf("%s: label %s is %q", name, key, r.GetLabels()[key])
			}
		}
		if r.GetAnnotations()[policyreport.AnnotationScanUID] != "u-1" || len(r.GetOwnerReferences()) > 0 {
			t.Errorf("%s: %v", name, r.GetAnnotations())
		}
		if source, _, _ := unstructured.NestedSlice(r.Object, "results"); source[0].(map[string]any)["severity"] != "high" {
			t.Errorf("%s: %v", name, source[0])
		}
	}
	// Another process, the same Scan: nothing is written.
	before := versions(all)
	again := h.fleet(t, rule)
	again.Once(t.Context())
	again.Once(t.Context())
	if after := versions(h.reports(t, space)); !maps.Equal(before, after) {
		t.Errorf("reports were written again: %v, %v", before, after)
	}
	// A run later with less: its reports take the place of the earlier ones. An earlier run that arrives late changes nothing.
	later, earlier := scanIn("edge-1", "team-a", "u-1"), scanIn("edge-1", "team-a", "u-1")
	later.Revision, earlier.Revision = 3, 2
	h.receive(t, "", later, 7)
	again.Once(t.Context())
	h.receive(t, "", earlier, 900)
	again.Once(t.Context())
	h.fleet(t, rule).Once(t.Context())
	if all := h.reports(t, space); len(all) != 1 || results(all) != 7 {
		t.Errorf("%d reports with %d results", len(all), results(all))
	}
}

// TestSendersAreIsolated has senders that say they are each other, and share a namespace.
func TestSendersAreIsolated(t *testing.T) {
	h := newHub(t)
	one, two := h.namespace(t), h.namespace(t)
	prefix := strings.TrimSuffix(two, two[len(two)-1:]) // tenants end with the last letter of a namespace
	tenant := two[len(two)-1:]
	rules := []Rule{
		{Authority: "certificate:CN=edge-1", Cluster: "edge-1", Tenant: "team-a", Namespace: one},
		{Authority: "certificate:CN=edge-2", Cluster: "edge-2", Tenant: "team-a", Namespace: one},
		{Authority: "certificate:CN=edge-2", Cluster: "edge-2", Tenant: "*", Namespace: prefix + "{tenant}"},
	}
	h.receive(t, "certificate:CN=edge-1", scanIn("edge-1", "team-a", "u"), 3)
	h.receive(t, "certificate:CN=edge-2", scanIn("edge-2", "team-a", "u"), 4)
	h.receive(t, "certificate:CN=edge-2", scanIn("edge-2", tenant, "u"), 5)
	// The second says that it is the first; somebody without a name does as well; a tenant wants to be a path.
	h.receive(t, "certificate:CN=edge-2", scanIn("edge-1", "team-a", "u"), 100)
	h.receive(t, "", scanIn("edge-1", "team-a", "u"), 100)
	h.receive(t, "certificate:CN=edge-2", scanIn("edge-2", "../"+tenant, "u"), 100)
	h.fleet(t, rules...).Once(t.Context())
	all := h.reports(t, one)
	if len(all) != 2 || results(all) != 7 {
		t.Errorf("%d reports with %d results: %s", len(all), results(all), h.logs.String())
	}
	for _, r := range all {
		list, _, _ := unstructured.NestedSlice(r.Object, "results")
		if want := map[string]int{"edge-1": 3, "edge-2": 4}[r.GetLabels()[LabelCluster]]; len(list) != want {
			t.Errorf("%v has %d results", r.GetLabels(), len(list))
		}
	}
	if all := h.reports(t, two); len(all) != 1 || results(all) != 5 {
		t.Errorf("%d reports with %d results: %s", len(all), results(all), h.logs.String())
	}
	if n := strings.Count(h.logs.String(), "no rule is for cluster"); n != 3 {
		t.Errorf("%d senders without a rule are told:\n%s", n, h.logs.String())
	}
}

// TestFailureDoesNotBlockOthers has a namespace that is not there until later.
func TestFailureDoesNotBlockOthers(t *testing.T) {
	h := newHub(t)
	space := h.namespace(t)
	late := space + "-late"
	f := h.fleet(t, Rule{Cluster: "edge-1", Tenant: "team-a", Namespace: space}, Rule{Cluster: "edge-1", Tenant: "team-b", Namespace: late})
	h.receive(t, "", scanIn("edge-1", "team-a", "u"), 2)
	h.receive(t, "", scanIn("edge-1", "team-b", "u"), 3)
	f.Once(t.Context())
	f.Once(t.Context())
	if all := h.reports(t, space); results(all) != 2 {
		t.Errorf("%d results", results(all))
	}
	if n := strings.Count(h.logs.String(), "reports are not written"); n != 1 {
		t.Errorf("told %d times: %s", n, h.logs.String())
	}
	n := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": late}}}
	if _, err := h.Resource(namespaces).Create(t.Context(), &n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.Once(t.Context())
	if all := h.reports(t, late); results(all) != 3 {
		t.Errorf("%d results: %s", results(all), h.logs.String())
	}
}

func TestParseRules(t *testing.T) {
	good := "group: openreports.io\nrules:\n- {cluster: c, tenant: '*', namespace: 'edge-{tenant}', authority: 'certificate:CN=a'}\n"
	if r, err := ParseRules([]byte(good)); err != nil || r.Rules[0].Authority != "certificate:CN=a" {
		t.Errorf("got %+v, %v", r, err)
	}
	for text, want := range map[string]string{
		"rules: []": "rules is empty", "group: x\nrules: [{}]": `group "x" is not known`, "rules: [{tenant: a}]": "rules[0].cluster is empty",
		"rules: [{cluster: c, namespace: n}]": "rules[0].tenant is empty", "rules: [{cluster: c, tenant: '*', namespace: n}]": "must hold {tenant}",
		"rules: [{cluster: c, tenant: t, namespace: N_}]": "not a name of a namespace", "rule: []": "unknown field",
	} {
		if _, err := ParseRules([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
