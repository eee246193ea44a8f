// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

var (
	registries    = schema.GroupVersionResource{Group: "registry.scanyard.io", Version: "v1alpha1", Resource: "registries"}
	discoveryJobs = schema.GroupVersionResource{Group: "registry.scanyard.io", Version: "v1alpha1", Resource: "discoveryjobs"}
	foundImages   = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "images"}
	foundSBOMs    = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "sboms"}
	foundReports  = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "vulnerabilityreports"}
	imageQueries  = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "imagequeries"}
)

// lodash is what the advisories of the tests say of lodash before 4.17.21.
const lodash = "CVE-2021-23337"

// startRegistry serves a registry without TLS until the specs have ended. It gives host and port.
func startRegistry() string {
	GinkgoHelper()
	server := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	DeferCleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// npmImage is an image for linux/amd64 with the packages of a package-lock.json.
func npmImage(packages map[string]string) v1.Image {
	GinkgoHelper()
	var lock strings.Builder
	for name, version := range packages {
		fmt.Fprintf(&lock, `,"node_modules/%s":{"version":%q}`, name, version)
	}
	text := `{"name":"app","lockfileVersion":3,"packages":{"":{"name":"app"}` + lock.String() + `}}`
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	Expect(w.WriteHeader(&tar.Header{Name: "app/package-lock.json", Mode: 0o644, Size: int64(len(text))})).To(Succeed())
	_, err := w.Write([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	Expect(w.Close()).To(Succeed())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	Expect(err).NotTo(HaveOccurred())
	image, err := mutate.AppendLayers(empty.Image, layer)
	Expect(err).NotTo(HaveOccurred())
	config, err := image.ConfigFile()
	Expect(err).NotTo(HaveOccurred())
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	image, err = mutate.ConfigFile(image, config)
	Expect(err).NotTo(HaveOccurred())
	return image
}

// push stores an image without its neighbours: blobs, then the manifest.
func push(host, repository, tag string, image v1.Image) {
	GinkgoHelper()
	send := func(method, path, contentType string, body []byte) {
		GinkgoHelper()
		request, err := http.NewRequestWithContext(context.Background(), method, "http://"+host+"/v2/"+repository+path, bytes.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Content-Type", contentType)
		answer, err := http.DefaultClient.Do(request)
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Body.Close()).To(Succeed())
		Expect(answer.StatusCode).To(Equal(http.StatusCreated), "%s %s", method, path)
	}
	layers, err := image.Layers()
	Expect(err).NotTo(HaveOccurred())
	for _, layer := range layers {
		digest, err := layer.Digest()
		Expect(err).NotTo(HaveOccurred())
		content, err := layer.Compressed()
		Expect(err).NotTo(HaveOccurred())
		blob, err := io.ReadAll(content)
		Expect(err).NotTo(HaveOccurred())
		send(http.MethodPost, "/blobs/uploads/?digest="+digest.String(), "application/octet-stream", blob)
	}
	digest, err := image.ConfigName()
	Expect(err).NotTo(HaveOccurred())
	config, err := image.RawConfigFile()
	Expect(err).NotTo(HaveOccurred())
	send(http.MethodPost, "/blobs/uploads/?digest="+digest.String(), "application/octet-stream", config)
	kind, err := image.MediaType()
	Expect(err).NotTo(HaveOccurred())
	manifest, err := image.RawManifest()
	Expect(err).NotTo(HaveOccurred())
	send(http.MethodPut, "/manifests/"+tag, string(kind), manifest)
}

// installRegistry installs the chart, with the built-in adapter and a database of the advisories of the tests.
func (r *reportsWorld) installRegistry(ctx context.Context, host string) {
	GinkgoHelper()
	advisories, err := os.ReadFile(filepath.Join("..", "..", "registry", "testdata", "advisories", "npm.json"))
	Expect(err).NotTo(HaveOccurred())
	database, err := mutate.AppendLayers(empty.Image, static.NewLayer(advisories, "mini.db.layer.v1+json"))
	Expect(err).NotTo(HaveOccurred())
	push(host, "db/mini", "1", database)
	free, err := ports.Free(6)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.helm.Install(ctx, install.Release{Chart: "registry", Namespace: reportsNamespace, Values: map[string]any{
		"controller": map[string]any{"ports": map[string]any{"metrics": free[0], "health": free[1], "nats": free[2], "webhook": free[3]}},
		"worker":     map[string]any{"ports": map[string]any{"metrics": free[4], "health": free[5]}},
		"nats":       map[string]any{"url": fmt.Sprintf("tls://127.0.0.1:%d", free[2])},
		"database":   map[string]any{"mini": map[string]any{"repository": host + "/db/mini:1", "insecure": true}, "maxAge": "5000d"},
		"egress":     map[string]any{"allowCIDRs": []any{"127.0.0.1/32"}},
	}})).To(Succeed())
}

// member gives a user a role in a namespace, and a client as that user.
func (r *reportsWorld) withRole(ctx context.Context, user, ns, role string) dynamic.Interface {
	GinkgoHelper()
	_, err := r.kube.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, untyped := r.clients(user)
	return untyped
}

func registryOf(ns, registryName, host string, spec map[string]any) *unstructured.Unstructured {
	all := map[string]any{"url": "http://" + host, "insecure": "PlainHTTP", "discoveryPeriod": "1h", "jitter": "1s"}
	maps.Copy(all, spec)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "registry.scanyard.io/v1alpha1", "kind": "Registry", "metadata": map[string]any{"name": registryName, "namespace": ns}, "spec": all,
	}}
}

// discovered waits for the end of the first DiscoveryJob of a namespace.
func (r *reportsWorld) discovered(ctx context.Context, as dynamic.Interface, ns string) unstructured.Unstructured {
	GinkgoHelper()
	var job unstructured.Unstructured
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println("the DiscoveryJob:", job.Object["spec"], job.Object["status"])
		}
	})
	eventually(ctx, "a DiscoveryJob to end in "+ns, func(ctx context.Context) (bool, error) {
		list, err := as.Resource(discoveryJobs).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		job = list.Items[0]
		at, _, _ := unstructured.NestedString(job.Object, "status", "completionTime")
		return at != "", nil
	})
	return job
}

var _ = Describe("Registries", Ordered, Label("registry"), func() {
	var (
		r            *reportsWorld
		host         string
		shop, web    string
		alice, bob   dynamic.Interface
		shopRegistry = "prod"
	)

	BeforeAll(func(ctx SpecContext) {
		r = newReportsWorld(ctx)
		r.install(ctx)
		host = startRegistry()
		r.installRegistry(ctx, host)
		old := npmImage(map[string]string{"lodash": "4.17.15"})
		push(host, "shop/api", "1.0", old)
		push(host, "shop/api", "1.1", npmImage(map[string]string{"lodash": "4.17.21"}))
		push(host, "shop/api", "debug", old)
		push(host, "web/page", "1.0", old)
		shop, web = r.namespace(ctx), r.namespace(ctx)
		alice, bob = r.withRole(ctx, "alice", shop, "edit"), r.withRole(ctx, "bob", web, "edit")
	})

	It("finds the images of a team's Registry, what is in them, and what is wrong with that", func(ctx SpecContext) {
		eventually(ctx, "the Registry to be taken", func(ctx context.Context) (bool, error) {
			_, err := alice.Resource(registries).Namespace(shop).Create(ctx, registryOf(shop, shopRegistry, host, map[string]any{
				"repositories": []any{"shop/*"}, "tags": map[string]any{"semver": map[string]any{}},
			}), metav1.CreateOptions{})
			// Roles of charts that have just been installed are added to edit a moment later.
			return err == nil || apierrors.IsAlreadyExists(err), untilAllowed(err)
		})
		job := r.discovered(ctx, alice, shop)
		state, _, _ := unstructured.NestedString(job.Object, "status", "state")
		Expect(state).To(Equal("Succeeded"), "%v", job.Object["status"])
		images, err := alice.Resource(foundImages).Namespace(shop).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		critical := map[string]string{}
		for _, image := range images.Items {
			tag, _, _ := unstructured.NestedString(image.Object, "spec", "tag")
			critical[tag], _, _ = unstructured.NestedString(image.Object, "status", "state")
		}
		Expect(critical).To(Equal(map[string]string{"1.0": "Scanned", "1.1": "Scanned"}))
		for _, kind := range []schema.GroupVersionResource{foundSBOMs, foundReports} {
			list, err := alice.Resource(kind).Namespace(shop).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(list.Items).To(HaveLen(2), kind.Resource)
		}
		found, err := alice.Resource(registries).Namespace(shop).Get(ctx, shopRegistry, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		present, _, _ := unstructured.NestedInt64(found.Object, "status", "images", "scanned")
		Expect(present).To(BeEquivalentTo(2), "%v", found.Object["status"])
		Expect(conditionIs(found, "UpToDate", "True")).To(BeTrue(), "%v", found.Object["status"])
		Expect(conditionIs(found, "Reachable", "True")).To(BeTrue(), "%v", found.Object["status"])
	})

	It("shows a team its own only", func(ctx SpecContext) {
		_, err := bob.Resource(registries).Namespace(web).Create(ctx, registryOf(web, "mine", host, map[string]any{"repositories": []any{"web/page"}}), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		r.discovered(ctx, bob, web)
		images, err := bob.Resource(foundImages).Namespace(web).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(images.Items).To(HaveLen(1))
		for _, kind := range []schema.GroupVersionResource{foundImages, foundSBOMs, foundReports, registries, discoveryJobs} {
			_, err := bob.Resource(kind).Namespace(shop).List(ctx, metav1.ListOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", kind.Resource, err)
			_, err = bob.Resource(kind).List(ctx, metav1.ListOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "all %s: %v", kind.Resource, err)
		}
	})

	It("tells an admin who has a vulnerability, and a team how its images are", func(ctx SpecContext) {
		asked, err := r.any.Resource(clusterQueries).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "ClusterFindingQuery", "spec": map[string]any{"filter": "policy == '" + lodash + "'"},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		total, _, _ := unstructured.NestedInt64(asked.Object, "status", "total")
		Expect(total).To(BeEquivalentTo(2), "one in each namespace: %v", asked.Object["status"])
		answer, err := alice.Resource(imageQueries).Namespace(shop).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "ImageQuery", "spec": map[string]any{"need": "Any"},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		states, _, _ := unstructured.NestedMap(answer.Object, "status", "byState")
		Expect(states).To(Equal(map[string]any{"Scanned": int64(2)}))
	})

	It("gives controller and workers what they need, and no more", func(ctx SpecContext) {
		// What is left out of a row nobody of the two may do.
		const all = "get list watch create update patch delete deletecollection"
		allowed := map[string]map[string]string{
			"registry-controller": {
				"registries": "get list watch", "discoveryjobs": "get list watch create delete", "scanjobs": "get list watch create delete",
				"registries/status": "patch", "discoveryjobs/status": "patch", "scanjobs/status": "patch",
				"images": "get list watch", "repositories": "get list watch", "imagequeries": "create", "vulnerabilitydatabases": "get list watch",
				"scans": "get list create", "serviceaccounts": "create", "rolebindings": "create",
				"scansettings": "get list watch", "clusterscansettings": "get list watch", "namespaces": "get",
			},
			"registry-worker": {
				"registries": "get", "discoveryjobs": "get", "scanjobs": "get",
				"images": "get list create patch delete", "repositories": "get list create patch delete",
				"images/status": "get create update patch", "repositories/status": "get create update patch", "images/reuse": "get create update patch",
				"repositories/tags": "get create update patch", "sboms": "get list create patch", "vulnerabilityreports": "get list create patch",
				"sboms/document": "get update", "vulnerabilityreports/findings": "get update", "vulnerabilityreports/sarif": "get update",
				"vulnerabilitydatabases": "get list watch create", "vulnerabilitydatabases/status": "update patch", "vulnerabilitydatabases/changes": "update patch",
			},
		}
		things := map[string][]string{
			"registry.scanyard.io": {"registries", "discoveryjobs", "scanjobs", "registries/status", "discoveryjobs/status", "scanjobs/status"},
			"reports.scanyard.io": {
				"images", "repositories", "images/status", "repositories/status", "images/reuse", "repositories/tags", "sboms", "vulnerabilityreports", "sboms/document",
				"vulnerabilityreports/findings", "vulnerabilityreports/sarif", "imagequeries", "findingqueries", "vulnerabilitydatabases", "vulnerabilitydatabases/status",
				"vulnerabilitydatabases/changes",
			},
			"": {"secrets", "pods", "serviceaccounts", "namespaces"}, "settings.scanyard.io": {"scansettings", "clusterscansettings"}, "rbac.authorization.k8s.io": {"rolebindings"}, "execution.securecodebox.io": {"scans"},
		}
		for account, rights := range allowed {
			for group, resources := range things {
				for _, resource := range resources {
					kind, sub, _ := strings.Cut(resource, "/")
					for verb := range strings.FieldsSeq(all) {
						review, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
							User: "system:serviceaccount:" + reportsNamespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
							ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: shop, Verb: verb, Group: group, Resource: kind, Subresource: sub},
						}}, metav1.CreateOptions{})
						Expect(err).NotTo(HaveOccurred())
						// Everybody may read which data there is.
						want := slices.Contains(strings.Fields(rights[resource]), verb) || resource == "vulnerabilitydatabases" && strings.Contains("get list watch", verb)
						Expect(review.Status.Allowed).To(Equal(want), "%s: %s %s", account, verb, resource)
					}
				}
			}
		}
	})

	It("refuses a Registry that can never work", func(ctx SpecContext) {
		_, err := alice.Resource(registries).Namespace(shop).Create(ctx, registryOf(shop, "odd", host, map[string]any{
			"tags": map[string]any{"expression": "tag.startsWith("},
		}), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("spec.tags.expression")))
	})
})

func untilAllowed(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
