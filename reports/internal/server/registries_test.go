// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/server"
)

var (
	repositories = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "repositories"}
	databases    = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "vulnerabilitydatabases"}
)

func imageOf(name, repository, tag, digest string) object {
	return object{
		"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "Image", "metadata": object{"name": name},
		"spec": object{
			"registry": object{"name": "hub", "uid": "registry-1", "host": "hub.example"}, "repository": repository, "tag": tag, "digest": digest,
			"platform": "linux/amd64",
		},
	}
}

// patchStatus patches the status of an object, and returns what the server says.
func (d *door) patchStatus(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, body object) *answer {
	t.Helper()
	return d.ask(t, request{
		method: http.MethodPatch, path: path(gvr, namespace) + "/" + name + "/status", body: body,
		header: map[string]string{"Content-Type": "application/merge-patch+json"},
	})
}

func TestFieldsOfRegistries(t *testing.T) {
	for _, driver := range dbtest.Drivers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			d := serve(t, dbtest.New(t, driver), nil)
			d.create(t, images, "team-a", imageOf("api-1", "prod/api", "1", "sha256:aa"))
			d.create(t, images, "team-a", imageOf("api-2", "prod/api", "2", "sha256:bb"))
			d.create(t, images, "team-b", imageOf("web-1", "prod/web", "1", "sha256:aa"))
			d.patchStatus(t, images, "team-a", "api-2", object{"status": object{"state": "Pending", "work": object{"job": object{"uid": "job-1"}}}}).is(http.StatusOK)
			for selector, want := range map[string]string{
				"spec.digest=sha256:aa": "api-1 web-1", "spec.repository=prod/api": "api-1 api-2", "spec.repository=prod/api,spec.tag=2": "api-2",
				"status.state=Pending": "api-2", "status.state!=Pending": "api-1 web-1", "status.work.job.uid=job-1": "api-2",
				"spec.registry.uid=registry-1": "api-1 api-2 web-1", "spec.registry.name=hub,spec.platform=linux/amd64,metadata.namespace=team-b": "web-1",
				"spec.tag=3": "", "image.digest=sha256:bb": "api-2",
			} {
				if got := d.ask(t, request{path: path(images, "") + "?fieldSelector=" + selector}).is(http.StatusOK).names(); got != want {
					t.Errorf("%s: %q, want %q", selector, got, want)
				}
			}
			d.ask(t, request{path: path(images, "") + "?fieldSelector=spec.nothing=1"}).is(http.StatusBadRequest)
			d.ask(t, request{method: http.MethodDelete, path: path(images, "team-a") + "/api-2"}).is(http.StatusOK)
			if got := d.ask(t, request{path: path(images, "") + "?fieldSelector=spec.repository=prod/api"}).names(); got != "api-1" {
				t.Errorf("after a deletion: %q", got)
			}
			d.create(t, repositories, "team-a", object{
				"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "Repository", "metadata": object{"name": "catalogue"},
				"spec": object{"registry": object{"name": "hub", "uid": "registry-1"}},
			})
			got := d.ask(t, request{path: path(repositories, "team-a") + "?fieldSelector=spec.registry.uid=registry-1,spec.repository="}).is(http.StatusOK)
			if got.names() != "catalogue" {
				t.Errorf("the catalogue: %s", got.body)
			}
			d.create(t, databases, "", object{"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "VulnerabilityDatabase", "metadata": object{"name": "mini"}})
			if got := d.patchStatus(t, databases, "", "mini", object{"status": object{"version": "sha256:cc"}}).is(http.StatusOK); got.at("status", "version") != "sha256:cc" {
				t.Errorf("the database: %s", got.body)
			}
		})
	}
}

func TestExternalImages(t *testing.T) {
	d := serve(t, dbtest.New(t, dbtest.Drivers[0]), nil)
	external := imageOf("mine", "prod/api", "1", "sha256:aa")
	external["spec"].(object)["external"] = true
	d.ask(t, request{method: http.MethodPost, path: path(images, "team-a"), body: external}).is(http.StatusUnprocessableEntity)
	external["spec"].(object)["registry"] = object{"host": "hub.example"}
	d.create(t, images, "team-a", external)
	delete(external["spec"].(object), "external")
	d.ask(t, request{method: http.MethodPost, path: path(images, "team-a"), body: external}).is(http.StatusUnprocessableEntity)
}

// Who does not write the status of Images may bring external ones along, and no others.
func TestImagesByHand(t *testing.T) {
	d := serve(t, dbtest.New(t, dbtest.Drivers[0]), func(o *server.Options) {
		access := o.Access
		o.Access = func(config *genericapiserver.RecommendedConfig) ([]server.Task, error) {
			tasks, err := access(config)
			all := config.Authorization.Authorizer
			config.Authorization.Authorizer = authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetUser().GetName() == "tenant" && a.GetSubresource() == "status" {
					return authorizer.DecisionNoOpinion, "", nil
				}
				return all.Authorize(ctx, a)
			})
			return tasks, err
		}
	})
	found := imageOf("found", "prod/api", "1", "sha256:aa")
	d.ask(t, request{method: http.MethodPost, path: path(images, "team-a"), body: found, token: tenantToken}).is(http.StatusForbidden)
	brought := imageOf("brought", "prod/api", "1", "sha256:aa")
	brought["spec"].(object)["external"], brought["spec"].(object)["registry"] = true, object{"host": "hub.example"}
	d.ask(t, request{method: http.MethodPost, path: path(images, "team-a"), body: brought, token: tenantToken}).is(http.StatusCreated)
	d.create(t, images, "team-a", found)
}

// Times of a claim are the server's, whatever the worker's clock says.
func TestLeases(t *testing.T) {
	d := serve(t, dbtest.New(t, dbtest.Drivers[0]), nil)
	made := d.create(t, images, "team-a", imageOf("api", "prod/api", "1", "sha256:aa"))
	read := made.at("metadata", "resourceVersion")
	claim := func(version, claim, expires string) *answer {
		t.Helper()
		work := object{"claim": claim, "worker": "w"}
		if expires != "" {
			work["leaseExpiresAt"] = expires
		}
		body := object{"metadata": object{}, "status": object{"state": "GeneratingSBOM", "work": work}}
		if version != "" {
			body["metadata"] = object{"resourceVersion": version}
		}
		return d.patchStatus(t, images, "team-a", "api", body)
	}
	at := func(a *answer, name string) time.Time {
		t.Helper()
		value, err := time.Parse(time.RFC3339, a.at("status", "work", name))
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, a.body)
		}
		return value
	}
	first := claim(read, "one", "2001-01-01T00:00:00Z").is(http.StatusOK)
	if length := at(first, "leaseExpiresAt").Sub(at(first, "startedAt")); length != 3*time.Minute {
		t.Errorf("the lease lasts %s", length)
	}
	claim(read, "two", "").is(http.StatusConflict)
	renewed := claim("", "one", "2031-01-01T00:00:00Z").is(http.StatusOK)
	if began, ends := at(renewed, "startedAt"), at(renewed, "leaseExpiresAt"); !began.Equal(at(first, "startedAt")) || ends.Before(at(first, "leaseExpiresAt")) || ends.Year() == 2031 {
		t.Errorf("renewed: from %s to %s", began, ends)
	}
	if same := claim("", "one", "").is(http.StatusOK); same.at("metadata", "resourceVersion") != renewed.at("metadata", "resourceVersion") {
		t.Errorf("a patch that changes nothing has written: %s", same.body)
	}
	ended := d.patchStatus(t, images, "team-a", "api", object{"status": object{"work": object{"claim": nil}}}).is(http.StatusOK)
	if got := ended.at("status", "work", "leaseExpiresAt"); got != "" {
		t.Errorf("a lease without a claim: %s", got)
	}
}
