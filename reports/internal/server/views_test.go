// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

var prextReports = schema.GroupVersionResource{Group: "prext.demo", Version: "v1alpha1", Resource: "policyreports"}

// A report is one object under three kinds. Row 35 of the fault list: who deletes it under one, as the garbage collector does, finds it
// deleted under each, and whoever watches is told once.
func TestGroupsShareTheirRows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		d := serve(t, config, nil)
		events, err := d.dynamic(t).Resource(openReports).Namespace("team-a").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		made := d.create(t, policyReports, "team-a", report("a"))
		if event := next(t, events); event.Type != watch.Added || nameOf(t, event) != "a" {
			t.Errorf("watch of another group: %s %s", event.Type, nameOf(t, event))
		}
		for _, gvr := range []schema.GroupVersionResource{policyReports, openReports, prextReports} {
			got := d.ask(t, request{path: path(gvr, "team-a") + "/a"}).is(http.StatusOK)
			if got.at("apiVersion") != gvr.GroupVersion().String() || got.at("metadata", "uid") != made.at("metadata", "uid") ||
				got.at("metadata", "resourceVersion") != made.at("metadata", "resourceVersion") {
				t.Errorf("%s: %s", gvr.Group, got.body)
			}
			exists := report("a", with("apiVersion", gvr.GroupVersion().String()), with("kind", got.at("kind")))
			again := d.ask(t, request{method: http.MethodPost, path: path(gvr, "team-a"), body: exists}).is(http.StatusConflict)
			if again.at("reason") != "AlreadyExists" || again.at("details", "group") != gvr.Group {
				t.Errorf("%s: %s", gvr.Group, again.body)
			}
		}

		d.ask(t, request{method: http.MethodDelete, path: path(policyReports, "team-a") + "/a"}).is(http.StatusOK)
		if event := next(t, events); event.Type != watch.Deleted || string(event.Object.(metav1.Object).GetUID()) != made.at("metadata", "uid") {
			t.Errorf("deleted under another group: %s %s", event.Type, nameOf(t, event))
		}
		for _, gvr := range []schema.GroupVersionResource{policyReports, openReports, prextReports} {
			d.ask(t, request{path: path(gvr, "team-a") + "/a"}).is(http.StatusNotFound)
			d.ask(t, request{method: http.MethodDelete, path: path(gvr, "team-a") + "/a"}).is(http.StatusNotFound)
		}
		d.create(t, prextReports, "team-a", report("b"))
		if event := next(t, events); event.Type != watch.Added || nameOf(t, event) != "b" {
			t.Errorf("after one deletion: %s %s", event.Type, nameOf(t, event))
		}
	})
}

// What only one group has survives what is done through another.
func TestFieldsOfOneGroupSurvive(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		d := serve(t, config, nil)
		d.create(t, openReports, "team-a", report("a", with("apiVersion", "openreports.io/v1alpha1"), with("kind", "Report"),
			with("source", "mine"), with("configuration", object{"limits": object{"maxResults": 7}})))
		place := path(policyReports, "team-a") + "/a"
		d.ask(t, request{method: http.MethodPut, path: place, body: report("a", d.current(t, place), with("summary", object{"pass": 3}))}).is(http.StatusOK)
		d.ask(t, request{
			method: http.MethodPatch, path: place, body: object{"summary": object{"warn": 2}},
			header: map[string]string{"Content-Type": "application/merge-patch+json"},
		}).is(http.StatusOK)
		d.ask(t, request{
			method: http.MethodPatch, path: place + "?fieldManager=applier", header: map[string]string{"Content-Type": "application/apply-patch+yaml"},
			body: object{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": object{"name": "a"}, "scope": object{"kind": "Pod"}},
		}).is(http.StatusOK)
		got := d.ask(t, request{path: path(openReports, "team-a") + "/a"}).is(http.StatusOK)
		if got.at("source") != "mine" || got.at("configuration", "limits", "maxResults") != "7" {
			t.Errorf("lost: %s", got.body)
		}
		if got.at("summary", "pass") != "3" || got.at("summary", "warn") != "2" || got.at("scope", "kind") != "Pod" || got.at("metadata", "generation") != "4" {
			t.Errorf("not changed: %s", got.body)
		}
	})
}
