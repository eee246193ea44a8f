// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/apis/pki"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
)

// The server takes groups of the whole cluster, which other specs have as CRDs: it has a cluster of its own, without the operator.
const reportsNamespace = install.ReportsNamespace

var (
	polr           = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
	reps           = schema.GroupVersionResource{Group: "openreports.io", Version: "v1alpha1", Resource: "reports"}
	queries        = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "findingqueries"}
	clusterQueries = schema.GroupVersionResource{Group: "reports.scanyard.io", Version: "v1alpha1", Resource: "clusterfindingqueries"}
	apiServices    = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	crds           = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// taken are the APIServices that the chart's server takes by default.
var taken = []string{"v1alpha2.wgpolicyk8s.io", "v1alpha1.openreports.io", "v1alpha1.reports.scanyard.io"}

// reportsWorld is a cluster with the reports API server.
type reportsWorld struct {
	config *rest.Config
	kube   kubernetes.Interface
	any    dynamic.Interface
	helm   *install.Helm
	store  localcluster.ObjectStore
	// release is that of the server.
	release install.Release
}

func newReportsWorld(ctx context.Context) *reportsWorld {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "scanyard-e2e-reports-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	images := filepath.Join(dir, "images.yaml")
	Expect(install.WriteImagesMap(images, w.tools.Images())).To(Succeed())
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Binary: w.tools.Path("localcluster"), DataDir: filepath.Join(dir, "cluster"), Timeout: 5 * time.Minute,
		Node: localcluster.NodeOptions{ImagesMap: images, Backoff: localcluster.Duration(500 * time.Millisecond)},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cluster.Stop)
	r := &reportsWorld{store: cluster.ObjectStore}
	r.release, err = install.Reports(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.show)
	r.config, err = cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	r.kube, r.any = r.clients("")
	r.helm, err = install.NewHelm(ctx, w.tools.Programs, cluster.Kubeconfig, filepath.Join(dir, "helm"))
	Expect(err).NotTo(HaveOccurred())
	return r
}

// show prints what the server has logged when a spec has failed.
func (r *reportsWorld) show(ctx SpecContext) {
	if !CurrentSpecReport().Failed() {
		return
	}
	pods, err := r.kube.CoreV1().Pods(reportsNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		GinkgoWriter.Println("list pods:", err)
		return
	}
	for i := range pods.Items {
		log, err := r.kube.CoreV1().Pods(reportsNamespace).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{TailLines: new(int64(50))}).DoRaw(ctx)
		GinkgoWriter.Printf("log of %s (%v), %+v:\n%s\n", pods.Items[i].Name, err, pods.Items[i].Status.ContainerStatuses, log)
	}
}

// clients are those of the cluster's administrator, or of a user.
func (r *reportsWorld) clients(user string) (kubernetes.Interface, dynamic.Interface) {
	GinkgoHelper()
	config := r.config
	if user != "" {
		config = scans.As(config, user, "system:authenticated")
	}
	kube, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	untyped, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return kube, untyped
}

// install installs the chart and waits until kube-apiserver sends requests to the server.
func (r *reportsWorld) install(ctx context.Context) {
	GinkgoHelper()
	Expect(r.helm.Install(ctx, r.release)).To(Succeed())
	r.available(ctx)
}

func (r *reportsWorld) available(ctx context.Context) {
	GinkgoHelper()
	for _, name := range taken {
		eventually(ctx, "APIService "+name+" to be available", func(ctx context.Context) (bool, error) {
			found, err := r.any.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, ignoreMissing(err)
			}
			return conditionIs(found, "Available", "True"), nil
		})
	}
	for _, served := range []schema.GroupVersionResource{polr, reps, queries} {
		eventually(ctx, served.String()+" to be known", func(context.Context) (bool, error) {
			known, err := r.kube.Discovery().ServerResourcesForGroupVersion(served.GroupVersion().String())
			return err == nil && slices.ContainsFunc(known.APIResources, func(a metav1.APIResource) bool { return a.Name == served.Resource }), nil
		})
	}
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func conditionIs(o *unstructured.Unstructured, kind, status string) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c["status"] == status
		}
	}
	return false
}

// namespace makes a namespace. Nobody removes it but the end of the cluster.
func (r *reportsWorld) namespace(ctx context.Context) string {
	GinkgoHelper()
	ns, err := r.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return ns.Name
}

// report is a PolicyReport with a result of a severity.
func report(ns, name, policy, severity string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": map[string]any{"name": name, "namespace": ns},
		"summary": map[string]any{"fail": int64(1)},
		"results": []any{map[string]any{"policy": policy, "result": "fail", "severity": severity}},
	}}
}

func (r *reportsWorld) create(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	got, err := r.any.Resource(polr).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return got
}

func (r *reportsWorld) gone(ctx context.Context, ns, name string) {
	GinkgoHelper()
	eventually(ctx, "the end of report "+name, func(ctx context.Context) (bool, error) {
		_, err := r.any.Resource(polr).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreMissing(err)
	})
}

// question asks for the findings of one policy.
func question(kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "reports.scanyard.io/v1alpha1", "kind": kind, "spec": map[string]any{"filter": "policy == 'CVE-2024-9'"},
	}}
}

// ask returns the namespaces of the findings that answer the question.
func ask(ctx context.Context, asked dynamic.ResourceInterface, kind string) []string {
	GinkgoHelper()
	answer, err := asked.Create(ctx, question(kind), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	rows, _, err := unstructured.NestedSlice(answer.Object, "status", "rows")
	Expect(err).NotTo(HaveOccurred())
	var namespaces []string
	for _, row := range rows {
		ns, _, err := unstructured.NestedString(row.(map[string]any), "namespace")
		Expect(err).NotTo(HaveOccurred())
		namespaces = append(namespaces, ns)
	}
	return namespaces
}

// member has a role in a namespace only.
func (r *reportsWorld) member(ctx context.Context, ns, role string) dynamic.Interface {
	GinkgoHelper()
	user := ns + "-" + role
	_, err := r.kube.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, client := r.clients(user)
	eventually(ctx, role+" to have taken in the chart's roles", func(ctx context.Context) (bool, error) {
		_, err := client.Resource(polr).Namespace(ns).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	return client
}

// isTaken holds when an APIService names the server and no controller of a CRD undoes that.
func (r *reportsWorld) isTaken(ctx context.Context, name string) bool {
	GinkgoHelper()
	found, err := r.any.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
	Expect(ignoreMissing(err)).To(Succeed())
	if err != nil {
		return false
	}
	service, _, _ := unstructured.NestedString(found.Object, "spec", "service", "namespace")
	_, automanaged := found.GetLabels()["kube-aggregator.kubernetes.io/automanaged"]
	return service == reportsNamespace && !automanaged
}

func (r *reportsWorld) untilTaken(ctx context.Context, name string) {
	GinkgoHelper()
	eventually(ctx, name+" to be taken again", func(ctx context.Context) (bool, error) { return r.isTaken(ctx, name), nil })
}

var _ = Describe("Reports API server", Label("reports"), Ordered, func() {
	var r *reportsWorld

	BeforeAll(func(ctx SpecContext) {
		r = newReportsWorld(ctx)
		r.install(ctx)
	})

	// What a team has is out of reach of others: in lists, in watches, and as a name.
	It("shows a member of a team the reports of the team's namespace only", func(ctx SpecContext) {
		mine, other := r.namespace(ctx), r.namespace(ctx)
		viewer, editor := r.member(ctx, mine, "view"), r.member(ctx, mine, "edit")
		r.create(ctx, report(other, "secret", "CVE-2024-2", "high"))

		_, err := editor.Resource(polr).Namespace(mine).Create(ctx, report(mine, "first", "CVE-2024-1", "high"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = viewer.Resource(polr).Namespace(mine).Create(ctx, report(mine, "more", "CVE-2024-1", "high"), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "view may not write: %v", err)

		list, err := viewer.Resource(polr).Namespace(mine).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(1))
		same, err := viewer.Resource(reps).Namespace(mine).Get(ctx, "first", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(same.GetUID()).To(Equal(list.Items[0].GetUID()), "the report of the other group is the same object")
		for what, try := range map[string]func() error{
			"list all": func() error { _, err := viewer.Resource(polr).List(ctx, metav1.ListOptions{}); return err },
			"list another namespace": func() error {
				_, err := viewer.Resource(polr).Namespace(other).List(ctx, metav1.ListOptions{})
				return err
			},
			"get what is there": func() error {
				_, err := viewer.Resource(polr).Namespace(other).Get(ctx, "secret", metav1.GetOptions{})
				return err
			},
			"get what is not there": func() error {
				_, err := viewer.Resource(polr).Namespace(other).Get(ctx, "nothing", metav1.GetOptions{})
				return err
			},
			"watch all": func() error { _, err := viewer.Resource(polr).Watch(ctx, metav1.ListOptions{}); return err },
		} {
			Expect(apierrors.IsForbidden(try())).To(BeTrue(), what)
		}

		// The other namespace's event comes first; it must not be the first that is seen.
		events, err := viewer.Resource(polr).Namespace(mine).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		Expect(err).NotTo(HaveOccurred())
		defer events.Stop()
		r.create(ctx, report(other, "hidden", "CVE-2024-3", "low"))
		r.create(ctx, report(mine, "second", "CVE-2024-3", "low"))
		var seen watch.Event
		Eventually(ctx, events.ResultChan()).WithTimeout(patience).Should(Receive(&seen))
		Expect(seen.Type).To(Equal(watch.Added))
		Expect(seen.Object).To(HaveField("Object", HaveKeyWithValue("metadata", HaveKeyWithValue("name", "second"))))
	})

	// What is asked about is what may be read.
	It("answers questions about a namespace to its members, and about all namespaces to users with the role", func(ctx SpecContext) {
		mine, other := r.namespace(ctx), r.namespace(ctx)
		r.create(ctx, report(mine, "asked", "CVE-2024-9", "critical"))
		r.create(ctx, report(other, "asked", "CVE-2024-9", "critical"))
		viewer := r.member(ctx, mine, "view")
		Expect(ask(ctx, viewer.Resource(queries).Namespace(mine), "FindingQuery")).To(ConsistOf(mine))
		_, err := viewer.Resource(queries).Namespace(other).Create(ctx, question("FindingQuery"), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "a question about another namespace: %v", err)
		_, err = viewer.Resource(clusterQueries).Create(ctx, question("ClusterFindingQuery"), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "a question about all namespaces: %v", err)

		_, err = r.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "security"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "security"}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scanyard-reports-reader"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, security := r.clients("security")
		eventually(ctx, "the role to be in force", func(ctx context.Context) (bool, error) {
			_, err := security.Resource(polr).List(ctx, metav1.ListOptions{Limit: 1})
			return err == nil, nil
		})
		Expect(ask(ctx, security.Resource(clusterQueries), "ClusterFindingQuery")).To(ConsistOf(mine, other))
	})

	// Whoever reaches the server's port without kube-apiserver's certificate is nobody, whatever he says of himself.
	// Row 16 of the fault list of the reports API.
	It("trusts no header of a client that bypasses kube-apiserver", func(ctx SpecContext) {
		pods, err := r.kube.CoreV1().Pods(reportsNamespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).NotTo(BeEmpty())
		// What the server believes is asked, not whom the client trusts.
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		url := "https://" + net.JoinHostPort(pods.Items[0].Status.PodIP, fmt.Sprint(r.release.Values["port"])) + "/apis/wgpolicyk8s.io/v1alpha2/policyreports"
		for name, value := range map[string]string{"X-Remote-User": "system:admin", "Impersonate-User": "system:admin"} {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set(name, value)
			request.Header.Set("X-Remote-Group", "system:masters")
			answer, err := (&http.Client{Transport: transport}).Do(request)
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.Body.Close()).To(Succeed())
			Expect(answer.StatusCode).To(BeElementOf(http.StatusUnauthorized, http.StatusForbidden), name)
		}
	})

	// What kube-apiserver shows is verified by what a ConfigMap says, which changes when the authority is replaced.
	// This is row 17 of the fault list of the reports API.
	It("trusts a new CA of kube-apiserver's proxy without a restart, and the old one no longer", func(ctx SpecContext) {
		pods, err := r.kube.CoreV1().Pods(reportsNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).To(HaveLen(1))
		now := time.Now()
		next, err := pki.NewAuthority("next-front-proxy-ca", now, time.Hour)
		Expect(err).NotTo(HaveOccurred())
		shown, err := next.IssueClient("front-proxy-client", now, time.Hour)
		Expect(err).NotTo(HaveOccurred())
		pair, err := tls.X509KeyPair(shown.CertPEM, shown.KeyPEM)
		Expect(err).NotTo(HaveOccurred())
		// What the server believes is asked, not whom the client trusts.
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}, DisableKeepAlives: true}
		url := "https://" + net.JoinHostPort(pods.Items[0].Status.PodIP, fmt.Sprint(r.release.Values["port"])) + "/apis/wgpolicyk8s.io/v1alpha2/policyreports?limit=1"
		answers := func(ctx context.Context) (int, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return 0, err
			}
			request.Header.Set("X-Remote-User", "somebody")
			request.Header.Set("X-Remote-Group", "system:masters")
			answer, err := (&http.Client{Transport: transport}).Do(request)
			if err != nil {
				return 0, err
			}
			return answer.StatusCode, answer.Body.Close()
		}
		Expect(answers(ctx)).To(Equal(http.StatusUnauthorized))

		const bundle = "requestheader-client-ca-file"
		trust := func(change func(string) string) {
			GinkgoHelper()
			maps := r.kube.CoreV1().ConfigMaps("kube-system")
			Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
				found, err := maps.Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
				if err != nil {
					return err
				}
				found.Data[bundle] = change(found.Data[bundle])
				_, err = maps.Update(ctx, found, metav1.UpdateOptions{})
				return err
			})).To(Succeed())
		}
		trust(func(old string) string { return old + string(next.CertPEM) })
		Eventually(ctx, answers).WithTimeout(patience).Should(Equal(http.StatusOK))
		_, err = r.any.Resource(polr).List(ctx, metav1.ListOptions{Limit: 1})
		Expect(err).NotTo(HaveOccurred(), "while both are trusted")
		trust(func(both string) string { return strings.ReplaceAll(both, string(next.CertPEM), "") })
		Eventually(ctx, answers).WithTimeout(patience).Should(Equal(http.StatusUnauthorized))
		same, err := r.kube.CoreV1().Pods(reportsNamespace).Get(ctx, pods.Items[0].Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(same.Status.ContainerStatuses[0].RestartCount).To(BeZero())
	})

	// Row 35.
	It("lets reports be garbage collected with their owner, before and after a restart of the server", func(ctx SpecContext) {
		ns := r.namespace(ctx)
		for round, name := range []string{"before", "after"} {
			owner, err := r.kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			owned, free := report(ns, name+"-owned", "CVE-2024-1", "high"), report(ns, name+"-free", "CVE-2024-1", "high")
			owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID}})
			r.create(ctx, owned)
			r.create(ctx, free)
			Expect(r.kube.CoreV1().ConfigMaps(ns).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			r.gone(ctx, ns, name+"-owned")
			_, err = r.any.Resource(polr).Namespace(ns).Get(ctx, name+"-free", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred(), "a report without an owner")
			if round == 0 {
				r.restart(ctx)
			}
		}
	})

	It("lets a namespace with reports be deleted", func(ctx SpecContext) {
		ns := r.namespace(ctx)
		for i := range 20 {
			r.create(ctx, report(ns, fmt.Sprintf("r-%d", i), "CVE-2024-1", "high"))
		}
		Expect(r.kube.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{})).To(Succeed())
		eventually(ctx, "the end of the namespace", func(ctx context.Context) (bool, error) {
			_, err := r.kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			return apierrors.IsNotFound(err), ignoreMissing(err)
		})
		list, err := r.any.Resource(polr).List(ctx, metav1.ListOptions{FieldSelector: "metadata.namespace=" + ns})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(BeEmpty())
		_, err = r.any.Resource(polr).Namespace(ns).Create(ctx, report(ns, "late", "CVE-2024-1", "high"), metav1.CreateOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "a report in a namespace that is gone: %v", err)
	})

	// Row 34.
	It("lets a namespace with 10,000 reports be deleted", Label("long"), func(ctx SpecContext) {
		ns := r.namespace(ctx)
		var all errgroup.Group
		for client := range 8 {
			_, writer := r.clients("")
			all.Go(func() error {
				for i := client; i < 10_000; i += 8 {
					if _, err := writer.Resource(polr).Namespace(ns).Create(ctx, report(ns, fmt.Sprintf("r-%d", i), "CVE-2024-1", "high"), metav1.CreateOptions{}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		Expect(all.Wait()).To(Succeed())
		began := time.Now()
		Expect(r.kube.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, func(ctx context.Context) bool {
			_, err := r.kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).WithTimeout(10 * time.Minute).WithPolling(100 * time.Millisecond).Should(BeTrue())
		AddReportEntry("10,000 reports and their namespace were gone after", time.Since(began).String())
	})

	// kube-apiserver runs no admission for groups of others: the server itself counts.
	It("holds reports to the namespace's quota", func(ctx SpecContext) {
		ns := r.namespace(ctx)
		const counted = "count/policyreports.wgpolicyk8s.io"
		_, err := r.kube.CoreV1().ResourceQuotas(ns).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "reports"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("1")}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		eventually(ctx, "the quota to be counted", func(ctx context.Context) (bool, error) {
			q, err := r.kube.CoreV1().ResourceQuotas(ns).Get(ctx, "reports", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			_, known := q.Status.Used[counted]
			return known, nil
		})
		eventually(ctx, "the first report", func(ctx context.Context) (bool, error) {
			_, err := r.any.Resource(polr).Namespace(ns).Create(ctx, report(ns, "one", "CVE-2024-1", "high"), metav1.CreateOptions{})
			if apierrors.IsForbidden(err) {
				return false, nil // the server has not heard of the count yet
			}
			return err == nil, err
		})
		_, err = r.any.Resource(polr).Namespace(ns).Create(ctx, report(ns, "two", "CVE-2024-1", "high"), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "a report above the quota: %v", err)
		Expect(err).To(MatchError(ContainSubstring("exceeded quota")))
	})

	// The quota controller follows all kinds by informers of metadata. One group that does not answer must not blind it.
	// Row 36; what the garbage collector sees after a restart is part of row 35.
	It("does not affect quotas of other kinds while it is unavailable, and counts its own when it is back", func(ctx SpecContext) {
		ns := r.namespace(ctx)
		const reports, maps = "count/policyreports.wgpolicyk8s.io", "count/configmaps"
		_, err := r.kube.CoreV1().ResourceQuotas(ns).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "all"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{reports: resource.MustParse("10"), maps: resource.MustParse("10")}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		// used waits until the quota says that so many are there, besides those that were there in the beginning.
		used := func(name corev1.ResourceName, want int64) {
			GinkgoHelper()
			eventually(ctx, fmt.Sprintf("%d of %s", want, name), func(ctx context.Context) (bool, error) {
				q, err := r.kube.CoreV1().ResourceQuotas(ns).Get(ctx, "all", metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				count, known := q.Status.Used[name]
				return known && count.Value() == want, nil
			})
		}
		there, err := r.kube.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		began := int64(len(there.Items))
		used(reports, 0)
		used(maps, began)
		eventually(ctx, "the first report", func(ctx context.Context) (bool, error) {
			_, err := r.any.Resource(polr).Namespace(ns).Create(ctx, report(ns, "counted", "CVE-2024-1", "high"), metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err), nil // the server may not have heard of the count yet
		})
		used(reports, 1)

		r.scale(ctx, 0)
		_, err = r.kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "meanwhile"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		used(maps, began+1)
		// A deletion is nothing that admission counts: only the controller's informer tells.
		Expect(r.kube.CoreV1().ConfigMaps(ns).Delete(ctx, "meanwhile", metav1.DeleteOptions{})).To(Succeed())
		used(maps, began)

		r.scale(ctx, 1)
		r.available(ctx)
		eventually(ctx, "the server to delete the report", func(ctx context.Context) (bool, error) {
			err := r.any.Resource(polr).Namespace(ns).Delete(ctx, "counted", metav1.DeleteOptions{})
			return err == nil || apierrors.IsNotFound(err), nil // kube-apiserver may need a moment to see the new server
		})
		used(reports, 0)
	})

	// Rows 32 and 45.
	It("creates a deleted APIService again, and takes back an APIService that a chart has reset", func(ctx SpecContext) {
		name := taken[0]
		Expect(r.any.Resource(apiServices).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		r.untilTaken(ctx, name)
		reset := `{"spec":{"service":null,"caBundle":null}}`
		_, err := r.any.Resource(apiServices).Patch(ctx, taken[1], types.MergePatchType, []byte(reset), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		r.untilTaken(ctx, taken[1])
		eventually(ctx, "the Event", func(ctx context.Context) (bool, error) {
			events, err := r.kube.CoreV1().Events(reportsNamespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=APIServiceRetaken"})
			return err == nil && len(events.Items) > 0, err
		})
		r.available(ctx)
	})

	// A policy engine's chart brings the CRDs along, and takes them away.
	// These are rows 30 and 31.
	It("keeps its groups and its reports while a CRD of a group comes and goes", func(ctx SpecContext) {
		ns := r.namespace(ctx)
		r.create(ctx, report(ns, "stays", "CVE-2024-1", "high"))
		files, err := filepath.Glob("../../apis/testdata/reportcrds/wgpolicyk8s.io_*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		var names []string
		for _, file := range files {
			raw, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			crd := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal(raw, &crd.Object)).To(Succeed(), file)
			_, err = r.any.Resource(crds).Create(ctx, crd, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			names = append(names, crd.GetName())
		}
		still := func() {
			GinkgoHelper()
			Expect(r.isTaken(ctx, taken[0])).To(BeTrue())
			_, err := r.any.Resource(polr).Namespace(ns).Get(ctx, "stays", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = r.kube.Discovery().OpenAPISchema()
			Expect(err).NotTo(HaveOccurred(), "OpenAPI answers")
		}
		for _, name := range names {
			eventually(ctx, name+" to be established", func(ctx context.Context) (bool, error) {
				crd, err := r.any.Resource(crds).Get(ctx, name, metav1.GetOptions{})
				return err == nil && conditionIs(crd, "Established", "True"), err
			})
		}
		still()
		for _, name := range names {
			Expect(r.any.Resource(crds).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			eventually(ctx, "the end of "+name, func(ctx context.Context) (bool, error) {
				_, err := r.any.Resource(crds).Get(ctx, name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), ignoreMissing(err)
			})
		}
		still()
	})

	// As docs/reports.md says it: what was written after the copy is gone, what was there is there, and who watches lists again.
	It("copies its database into a bucket by its CronJob, and restores the copy", func(ctx SpecContext) {
		ns := r.namespace(ctx)
		uid := r.create(ctx, report(ns, "copied", "CVE-2024-1", "high")).GetUID()
		r.backUp(ctx)
		Expect(r.copyNow(ctx, "copy", func(*corev1.PodSpec) {})).To(ContainSubstring("Backup written to s3://" + r.store.Bucket + "/reports/"))
		late := r.create(ctx, report(ns, "late", "CVE-2024-1", "high"))
		Expect(r.any.Resource(polr).Namespace(ns).Delete(ctx, "copied", metav1.DeleteOptions{})).To(Succeed())

		r.scale(ctx, 0)
		said := r.copyNow(ctx, "restore", func(pod *corev1.PodSpec) {
			pod.Affinity = nil
			pod.Containers[0].Args = []string{"restore", "--bucket", "--sqlite=/var/lib/reports/reports.db"}
		})
		Expect(said).To(ContainSubstring("Restored from s3://" + r.store.Bucket + "/reports/"))
		r.scale(ctx, 1)
		r.available(ctx)
		eventually(ctx, "the report that was copied", func(ctx context.Context) (bool, error) {
			found, err := r.any.Resource(polr).Namespace(ns).Get(ctx, "copied", metav1.GetOptions{})
			return err == nil && found.GetUID() == uid, nil // kube-apiserver may need a moment to see the new server
		})
		_, err := r.any.Resource(polr).Namespace(ns).Get(ctx, "late", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "what was written after the copy: %v", err)
		_, err = r.any.Resource(polr).Namespace(ns).List(ctx, metav1.ListOptions{
			ResourceVersion: late.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "a number of the lost time: %v", err)
	})

	// An APIService without a server would keep every namespace from being deleted.
	// This is row 33.
	It("gives up its groups when the release is removed, and finds its reports when it is installed again", func(ctx SpecContext) {
		ns, empty := r.namespace(ctx), r.namespace(ctx)
		uid := r.create(ctx, report(ns, "kept", "CVE-2024-1", "high")).GetUID()
		Expect(r.helm.Uninstall(ctx, "reports", reportsNamespace)).To(Succeed())
		for _, name := range taken {
			_, err := r.any.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s: %v", name, err)
		}
		roles, err := r.kube.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=reports"})
		Expect(err).NotTo(HaveOccurred())
		Expect(roles.Items).To(BeEmpty(), "roles that the release has left")
		Expect(r.kube.CoreV1().Namespaces().Delete(ctx, empty, metav1.DeleteOptions{})).To(Succeed())
		eventually(ctx, "a namespace to be deleted without the server", func(ctx context.Context) (bool, error) {
			_, err := r.kube.CoreV1().Namespaces().Get(ctx, empty, metav1.GetOptions{})
			return apierrors.IsNotFound(err), ignoreMissing(err)
		})

		r.install(ctx)
		eventually(ctx, "the report", func(ctx context.Context) (bool, error) {
			found, err := r.any.Resource(polr).Namespace(ns).Get(ctx, "kept", metav1.GetOptions{})
			return err == nil && found.GetUID() == uid, nil // kube-apiserver may need a moment to see the new server
		})
	})
})

// scale has as many servers run, and waits until no more do.
func (r *reportsWorld) scale(ctx context.Context, replicas int32) {
	GinkgoHelper()
	deployments, err := r.kube.AppsV1().Deployments(reportsNamespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(deployments.Items).To(HaveLen(1))
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err = r.kube.AppsV1().Deployments(reportsNamespace).Patch(ctx, deployments.Items[0].Name, types.MergePatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	eventually(ctx, fmt.Sprintf("%d servers", replicas), func(ctx context.Context) (bool, error) {
		pods, err := r.kube.CoreV1().Pods(reportsNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
		return err == nil && len(pods.Items) == int(replicas), err
	})
}

// restart ends the server's pod, and waits until another one answers.
func (r *reportsWorld) restart(ctx context.Context) {
	GinkgoHelper()
	pods, err := r.kube.CoreV1().Pods(reportsNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
	Expect(err).NotTo(HaveOccurred())
	Expect(pods.Items).To(HaveLen(1))
	Expect(r.kube.CoreV1().Pods(reportsNamespace).Delete(ctx, pods.Items[0].Name, metav1.DeleteOptions{})).To(Succeed())
	eventually(ctx, "the next server to answer", func(ctx context.Context) (bool, error) {
		now, err := r.kube.CoreV1().Pods(reportsNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
		if err != nil || len(now.Items) != 1 || now.Items[0].UID == pods.Items[0].UID {
			return false, err
		}
		_, err = r.any.Resource(polr).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil, nil
	})
}
