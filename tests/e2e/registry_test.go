// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

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
	"github.com/scanyard/scanyard/tests/ociregistry"
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

// startRegistry serves a registry without TLS until the specs have ended.
func startRegistry() *ociregistry.Registry {
	registry := ociregistry.Start()
	DeferCleanup(registry.Close)
	return registry
}

// push stores an image for linux/amd64 with the packages of a package-lock.json.
func push(ctx context.Context, registry *ociregistry.Registry, repository, tag string, packages map[string]string) {
	GinkgoHelper()
	image, err := ociregistry.NPM("linux/amd64", packages)
	Expect(err).NotTo(HaveOccurred())
	Expect(registry.Push(ctx, repository, tag, image)).To(Succeed())
}

// installRegistry installs the chart, with the built-in adapter and a database of the advisories of the tests: for all namespaces, or for
// some.
func (r *reportsWorld) installRegistry(ctx context.Context, registry *ociregistry.Registry, namespaces ...string) {
	GinkgoHelper()
	database, err := ociregistry.Database(filepath.Join("..", "..", "registry", "testdata", "advisories", "npm.json"), nil)
	Expect(err).NotTo(HaveOccurred())
	host := registry.Host
	Expect(registry.Push(ctx, "db/mini", "1", database)).To(Succeed())
	free, err := ports.Free(6)
	Expect(err).NotTo(HaveOccurred())
	values := map[string]any{
		"controller": map[string]any{"ports": map[string]any{"metrics": free[0], "health": free[1], "nats": free[2], "webhook": free[3]}},
		"worker":     map[string]any{"ports": map[string]any{"metrics": free[4], "health": free[5]}},
		"nats":       map[string]any{"url": fmt.Sprintf("tls://127.0.0.1:%d", free[2])},
		"adapters":   []any{"mini"}, "defaultAdapter": "mini",
		"database": map[string]any{"mini": map[string]any{"repository": host + "/db/mini:1", "insecure": true}, "maxAge": "5000d"},
		"egress":   map[string]any{"allowCIDRs": []any{"127.0.0.1/32"}},
	}
	if len(namespaces) > 0 {
		values["namespaces"] = namespaces
	}
	Expect(r.helm.Install(ctx, install.Release{Chart: "registry", Namespace: reportsNamespace, Values: values})).To(Succeed())
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

// discovered waits for the end of the first DiscoveryJob of a Registry.
func (r *reportsWorld) discovered(ctx context.Context, as dynamic.Interface, ns, registry string) unstructured.Unstructured {
	GinkgoHelper()
	var job unstructured.Unstructured
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println("the DiscoveryJob:", job.Object["spec"], job.Object["status"])
		}
	})
	eventually(ctx, "a DiscoveryJob to end in "+ns, func(ctx context.Context) (bool, error) {
		list, err := as.Resource(discoveryJobs).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		of := func(j unstructured.Unstructured) bool {
			name, _, _ := unstructured.NestedString(j.Object, "spec", "registry")
			return name == registry
		}
		i := slices.IndexFunc(list.Items, of)
		if i < 0 {
			return false, nil
		}
		job = list.Items[i]
		at, _, _ := unstructured.NestedString(job.Object, "status", "completionTime")
		return at != "", nil
	})
	return job
}

var _ = Describe("Registries", Ordered, Label("registry"), func() {
	var (
		r            *reportsWorld
		registry     *ociregistry.Registry
		host         string
		shop, web    string
		alice, bob   dynamic.Interface
		shopRegistry = "prod"
	)

	BeforeAll(func(ctx SpecContext) {
		r = newReportsWorld(ctx)
		r.install(ctx)
		registry = startRegistry()
		host = registry.Host
		r.installRegistry(ctx, registry)
		old := map[string]string{"lodash": "4.17.15"}
		push(ctx, registry, "shop/api", "1.0", old)
		push(ctx, registry, "shop/api", "1.1", map[string]string{"lodash": "4.17.21"})
		push(ctx, registry, "shop/api", "debug", old)
		push(ctx, registry, "web/page", "1.0", old)
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
		job := r.discovered(ctx, alice, shop, shopRegistry)
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
		r.discovered(ctx, bob, web, "mine")
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

	It("hands the findings of a Registry to hooks, PolicyReports and queries as those of a Scan", func(ctx SpecContext) {
		r.installOperator(ctx)
		for name, values := range map[string]map[string]any{
			"registry-findings": nil, "persistence-reports": nil, "generic-webhook": webhookValues(w.hooks.URL("/"+shop), nil),
		} {
			Expect(r.helm.Install(ctx, install.Release{Chart: name, Namespace: shop, Values: values})).To(Succeed())
		}
		before := known(ctx, alice, shop)
		s, found := r.publish(ctx, alice, shop, shopRegistry, "{}")
		wantLodash(found, "oci://"+host+"/shop/api:1.0")
		Expect(deliveredTo(ctx, shop)).To(Equal(map[string]int{s.Name: 1}))
		Expect(r.origins(ctx, shop)).To(ContainElement(originOf(&found[0])))
		Expect(before).To(BeEquivalentTo(1))
		Expect(known(ctx, alice, shop)).To(Equal(before), "what a hook has copied counts once")
		eventually(ctx, "the Registry to tell of its Scan", func(ctx context.Context) (bool, error) {
			got, err := alice.Resource(registries).Namespace(shop).Get(ctx, shopRegistry, metav1.GetOptions{})
			return err == nil && conditionIs(got, "FindingsPublished", "True"), err
		})
	})

	It("does so with a chart for all namespaces, too, and makes the account of the scanner", func(ctx SpecContext) {
		Expect(r.helm.Install(ctx, install.Release{Chart: "registry-findings", Namespace: reportsNamespace, Values: map[string]any{"clusterWide": true}})).To(Succeed())
		_, found := r.publish(ctx, bob, web, "mine", `{"resourceMode":"clusterWide"}`)
		wantLodash(found, "oci://"+host+"/web/page:1.0")
		account, err := r.kube.CoreV1().ServiceAccounts(web).Get(ctx, "registry-findings", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(account.OwnerReferences).To(ContainElement(HaveField("Kind", "Registry")))
	})

	It("refuses a Registry that can never work", func(ctx SpecContext) {
		_, err := alice.Resource(registries).Namespace(shop).Create(ctx, registryOf(shop, "odd", host, map[string]any{
			"tags": map[string]any{"expression": "tag.startsWith("},
		}), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("spec.tags.expression")))
	})

	It("works in named namespaces, with Roles there and no rights in others", func(ctx SpecContext) {
		r.installRegistry(ctx, registry, web)
		_, err := bob.Resource(registries).Namespace(web).Create(ctx, registryOf(web, "second", host, map[string]any{"repositories": []any{"shop/api:1.1"}}), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		job := r.discovered(ctx, bob, web, "second")
		state, _, _ := unstructured.NestedString(job.Object, "status", "state")
		Expect(state).To(Equal("Succeeded"), "%v", job.Object["status"])
		for account, resource := range map[string]string{"registry-controller": "discoveryjobs", "registry-worker": "images"} {
			for ns, want := range map[string]bool{web: true, shop: false} {
				Expect(r.mayCreate(ctx, account, ns, resource)).To(Equal(want), "%s, %s in %s", account, resource, ns)
			}
		}
	})
})

// mayCreate asks whether an account of the chart may create what registry scanning has in a namespace.
func (r *reportsWorld) mayCreate(ctx context.Context, account, ns, resource string) bool {
	GinkgoHelper()
	group := registries.Group
	if resource == foundImages.Resource {
		group = foundImages.Group
	}
	review, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + reportsNamespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "create", Group: group, Resource: resource},
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return review.Status.Allowed
}

func untilAllowed(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
