// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/scanyard/scanyard/tests/database"
)

// useDatabase has the release use a database that runs beside the cluster: its data source name and certificates are in
// Secrets, as users have them.
func (r *reportsWorld) useDatabase(ctx context.Context, kind string, start func(context.Context) (*database.Server, error)) {
	GinkgoHelper()
	server, err := start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Stop)
	_, err = r.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: reportsNamespace}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	for name, data := range map[string]map[string][]byte{kind: {"dsn": []byte(server.DSN)}, kind + "-tls": server.TLS} {
		_, err := r.kube.CoreV1().Secrets(reportsNamespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	r.release.Values["replicas"] = 1
	r.release.Values["database"] = map[string]any{
		"type": kind, "existingSecret": kind, "tls": map[string]any{"existingSecret": kind + "-tls", "clientCertificate": true},
	}
}

// secondServer makes another replica. It cannot be one of the same Deployment: all pods of the local cluster share the
// machine's ports, so that it has to listen at another one. The Service has both.
func (r *reportsWorld) secondServer(ctx context.Context) {
	GinkgoHelper()
	deployments := r.kube.AppsV1().Deployments(reportsNamespace)
	first, err := deployments.Get(ctx, "reports", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":0")
	Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	Expect(listener.Close()).To(Succeed())
	number, err := strconv.ParseInt(port, 10, 32)
	Expect(err).NotTo(HaveOccurred())

	second := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "reports-second"}, Spec: *first.Spec.DeepCopy()}
	mark := map[string]string{"replica": "second"}
	second.Spec.Selector.MatchLabels = merged(second.Spec.Selector.MatchLabels, mark)
	second.Spec.Template.Labels = merged(second.Spec.Template.Labels, mark)
	server := &second.Spec.Template.Spec.Containers[0]
	at := slices.IndexFunc(server.Args, func(arg string) bool { return strings.HasPrefix(arg, "--bind=") })
	Expect(at).To(BeNumerically(">=", 0))
	server.Args[at] = "--bind=0.0.0.0:" + port
	server.Ports[0].ContainerPort = int32(number)
	_, err = deployments.Create(ctx, second, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// servers waits until so many replicas are ready, and returns the names of their pods.
func (r *reportsWorld) servers(ctx context.Context, n int) []string {
	GinkgoHelper()
	var names []string
	eventually(ctx, fmt.Sprintf("%d servers behind the Service", n), func(ctx context.Context) (bool, error) {
		slicesOf, err := r.kube.DiscoveryV1().EndpointSlices(reportsNamespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=reports"})
		if err != nil {
			return false, err
		}
		names = nil
		for i := range slicesOf.Items {
			for _, e := range slicesOf.Items[i].Endpoints {
				if e.TargetRef != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
					names = append(names, e.TargetRef.Name)
				}
			}
		}
		return len(names) == n, nil
	})
	return names
}

// follow returns an informer that has connections of its own.
func (r *reportsWorld) follow(ctx context.Context, ns string) cache.SharedIndexInformer {
	GinkgoHelper()
	_, client := r.clients("")
	informer := dynamicinformer.NewFilteredDynamicInformer(client, polr, ns, 0, cache.Indexers{}, nil).Informer()
	go informer.RunWithContext(ctx)
	return informer
}

func ignoreAway(err error) error {
	if apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err) {
		return nil
	}
	return err
}

// write creates reports, whatever becomes of the servers meanwhile. Only that a server is away is an excuse.
func (r *reportsWorld) write(ctx context.Context, ns, prefix string, n int) {
	GinkgoHelper()
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		eventually(ctx, "report "+name+" to be written", func(ctx context.Context) (bool, error) {
			_, err := r.any.Resource(polr).Namespace(ns).Create(ctx, report(ns, name, "CVE-2024-9", "high"), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) { // an earlier try was written, and its answer was lost
				err = nil
			}
			return err == nil, ignoreAway(err)
		})
	}
}

// sameAsList waits until an informer has what the list has.
func (r *reportsWorld) sameAsList(ctx context.Context, ns string, informer cache.SharedIndexInformer) {
	GinkgoHelper()
	eventually(ctx, "an informer to have what the list has", func(ctx context.Context) (bool, error) {
		list, err := r.any.Resource(polr).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, ignoreAway(err) // a server that is gone may be known still
		}
		want, have := map[string]string{}, map[string]string{}
		for i := range list.Items {
			want[list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
		}
		for _, o := range informer.GetStore().List() {
			object := o.(metav1.Object)
			have[object.GetName()] = object.GetResourceVersion()
		}
		return maps.Equal(want, have), nil
	})
}

var _ = Describe("Reports API server on a database of its own", Label("reports"), Ordered, func() {
	var r *reportsWorld

	BeforeAll(func(ctx SpecContext) { r = newReportsWorld(ctx) })

	It("has two servers on PostgreSQL, either of which may go", func(ctx SpecContext) {
		r.useDatabase(ctx, "postgresql", database.PostgreSQL)
		r.install(ctx)
		r.secondServer(ctx)
		pods := r.servers(ctx, 2)
		ns := r.namespace(ctx)
		following, stop := context.WithCancel(ctx)
		defer stop()
		var informers []cache.SharedIndexInformer
		for range 6 { // kube-apiserver chooses a server for each
			informers = append(informers, r.follow(following, ns))
		}
		r.write(ctx, ns, "before", 20)
		for _, informer := range informers {
			r.sameAsList(ctx, ns, informer)
		}
		for round, pod := range pods {
			Expect(r.kube.CoreV1().Pods(reportsNamespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(round))})).To(Succeed())
			r.write(ctx, ns, fmt.Sprintf("without-%d", round), 20)
			eventually(ctx, "another pod for "+pod, func(ctx context.Context) (bool, error) {
				_, err := r.kube.CoreV1().Pods(reportsNamespace).Get(ctx, pod, metav1.GetOptions{})
				return apierrors.IsNotFound(err), ignoreMissing(err)
			})
			r.servers(ctx, 2)
		}
		for _, informer := range informers {
			r.sameAsList(ctx, ns, informer)
		}
		Expect(informers[0].GetStore().ListKeys()).To(HaveLen(60))
		Expect(ask(ctx, r.any.Resource(queries).Namespace(ns), "FindingQuery")).To(HaveLen(60))
	})

	It("keeps reports in MariaDB", func(ctx SpecContext) {
		// The next pod could not have the port while the last one is there.
		Expect(r.helm.Uninstall(ctx, "reports", reportsNamespace)).To(Succeed())
		Expect(r.kube.AppsV1().Deployments(reportsNamespace).Delete(ctx, "reports-second", metav1.DeleteOptions{})).To(Succeed())
		r.useDatabase(ctx, "mysql", database.MariaDB)
		r.install(ctx)
		ns := r.namespace(ctx)
		list, err := r.any.Resource(polr).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(BeEmpty(), "reports of the other database")
		following, stop := context.WithCancel(ctx)
		defer stop()
		informer := r.follow(following, ns)
		r.write(ctx, ns, "report", 5)
		r.sameAsList(ctx, ns, informer)
		Expect(ask(ctx, r.any.Resource(queries).Namespace(ns), "FindingQuery")).To(HaveLen(5))
		Expect(r.any.Resource(polr).Namespace(ns).Delete(ctx, "report-0", metav1.DeleteOptions{})).To(Succeed())
		r.gone(ctx, ns, "report-0")
		r.sameAsList(ctx, ns, informer)
	})
})
