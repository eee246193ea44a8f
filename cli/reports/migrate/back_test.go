// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestNextBack walks through everything that can be found of a group on the way back.
func TestNextBack(t *testing.T) {
	both := []source{{resource: groups[0].resources[0]}, {resource: groups[0].resources[1]}}
	for name, c := range map[string]struct {
		owner   owner
		sources []source
		phase   phase
		reports int64
		want    backStep
		says    string
	}{
		"Ours":              {ownerOurs, both, phaseDone, 3, backMove, ""},
		"OursAndEmpty":      {ownerOurs, both, phaseNew, 0, backMove, ""},
		"BeforeTheSwitch":   {ownerOurs, both, phaseReturning, 3, backMove, ""},
		"BehindTheSwitch":   {ownerLocal, both, phaseReturning, 0, backSettle, ""},
		"Local":             {ownerLocal, both, phaseNew, 0, backNothing, ""},
		"NothingThere":      {ownerNone, nil, phaseNew, 0, backNothing, ""},
		"NoCRDNoReports":    {ownerOurs, nil, phaseDone, 0, backNothing, ""},
		"NoCRD":             {ownerOurs, nil, phaseDone, 1, backMove, "lacks CRD policyreports.wgpolicyk8s.io and clusterpolicyreports.wgpolicyk8s.io: install it first"},
		"OneCRDIsMissing":   {ownerOurs, both[:1], phaseDone, 0, backMove, "lacks CRD clusterpolicyreports.wgpolicyk8s.io"},
		"AnotherServersOne": {ownerForeign, both, phaseNew, 0, backNothing, "another server has wgpolicyk8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &groupSeen{group: groups[0], owner: c.owner, foreign: "kyverno/reports-server", sources: c.sources, state: state{Phase: c.phase}, returning: c.reports, counted: true}
			if got := nextBack(g); got != c.want {
				t.Errorf("step %d, want %d", got, c.want)
			}
			err := refusalBack(g, "scanyard")
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func TestHome(t *testing.T) {
	at := func(second int, version string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{APIVersion: version, Time: &metav1.Time{Time: time.Unix(int64(second), 0)}}
	}
	for name, c := range map[string]struct {
		managers []metav1.ManagedFieldsEntry
		want     string
	}{
		"Unknown":   {nil, "wgpolicyk8s.io"},
		"First":     {[]metav1.ManagedFieldsEntry{at(5, "wgpolicyk8s.io/v1alpha2"), at(3, "openreports.io/v1alpha1")}, "openreports.io"},
		"OfAnAlias": {[]metav1.ManagedFieldsEntry{at(1, "prext.demo/v1alpha1")}, "wgpolicyk8s.io"},
		"NoTime":    {[]metav1.ManagedFieldsEntry{{APIVersion: "openreports.io/v1alpha1"}}, "wgpolicyk8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := home(c.managers); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestVersionsOfTheWayBack: the CRD gets a version more, once, and loses it again.
func TestVersionsOfTheWayBack(t *testing.T) {
	version := func(name string, served, storage bool) any {
		return map[string]any{"name": name, "served": served, "storage": storage, "schema": map[string]any{}}
	}
	before := []any{version("v1alpha1", false, false), version("v1alpha2", false, true)}
	after := []any{version("v1alpha1", false, false), version("v1alpha2", true, true), version(transitVersion, true, false)}
	got, err := opened(&groups[0], before)
	if diff := cmp.Diff(after, got); diff != "" || err != nil {
		t.Errorf("opened: %v\n%s", err, diff)
	}
	if got, err = opened(&groups[0], got); err != nil || !cmp.Equal(after, got) {
		t.Errorf("opened twice: %v\n%s", err, cmp.Diff(after, got))
	}
	if got, err = closed(&groups[0], got); err != nil || !cmp.Equal(after[:2], got) {
		t.Errorf("closed: %v\n%s", err, cmp.Diff(after[:2], got))
	}
	if _, err := opened(&groups[0], before[:1]); err == nil || !strings.Contains(err.Error(), "no version v1alpha2") {
		t.Errorf("without the version: %v", err)
	}
}

// TestReturned: what only etcd gives is left to it, and owners that are reports get their new uids.
func TestReturned(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "summary": map[string]any{"fail": int64(1)},
		"metadata": map[string]any{
			"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": int64(3), "creationTimestamp": "2026-01-01T00:00:00Z",
			"deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": int64(0), "labels": map[string]any{"a": "b"}, "finalizers": []any{"example.com/keep"},
			"managedFields": []any{map[string]any{"manager": "m"}},
			"ownerReferences": []any{
				map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"},
				map[string]any{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "name": "known", "uid": "known"},
				map[string]any{"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "name": "later", "uid": "later"},
			},
		},
	}}
	hash, err := returnedHash(u)
	if err != nil {
		t.Fatal(err)
	}
	sent, waits := returned(&groups[0], u, func(uid string) string { return map[string]string{"known": "new"}[uid] })
	want := map[string]any{
		"apiVersion": "wgpolicyk8s.io/v1transit", "kind": "PolicyReport", "summary": map[string]any{"fail": int64(1)},
		"metadata": map[string]any{
			"name": "a", "namespace": "team", "labels": map[string]any{"a": "b"}, "finalizers": []any{"example.com/keep"},
			"ownerReferences": []any{
				map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"},
				map[string]any{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "name": "known", "uid": "new"},
			},
		},
	}
	if diff := cmp.Diff(want, sent.Object); diff != "" || !waits {
		t.Errorf("waits %v:\n%s", waits, diff)
	}
	if now, err := returnedHash(sent); err != nil || now != hash {
		t.Errorf("the hash is %s, was %s: %v", now, hash, err)
	}
	sent.Object["summary"] = map[string]any{"fail": int64(2)}
	if now, err := returnedHash(sent); err != nil || now == hash {
		t.Errorf("another content has the same hash: %v", err)
	}
}
