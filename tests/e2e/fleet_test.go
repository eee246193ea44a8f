// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
	"github.com/scanyard/scanyard/tests/terminal"
)

// Senders of the fleet: the tokens are bound to a cluster, but for the one of whoever says to be any cluster.
const (
	edgeOne, edgeTwo = "c-1", "c-2"
	// ofOne and ofTwo are namespaces of the hub that the receiver may write in, outOfReach is one that it may not.
	ofOne, ofTwo, outOfReach = "edge-1-shop", "edge-2", "edge-1-hidden"

	fleetTokens   = "fleet-tokens"
	receiverPods  = "app.kubernetes.io/component=receiver"
	rareCategory  = "CVE-2024-9" // what question asks for
	fleetFindings = 1500         // two reports
)

// fleetWorld is a hub cluster with the reports API server and a receiver that writes reports.
type fleetWorld struct {
	*reportsWorld

	dir string
	far receiver
}

func newFleetWorld(ctx context.Context) *fleetWorld {
	GinkgoHelper()
	f := &fleetWorld{reportsWorld: newReportsWorld(ctx)}
	var err error
	f.dir, err = os.MkdirTemp("", "scanyard-e2e-fleet-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, f.dir)
	f.install(ctx)
	for _, name := range []string{install.Namespace, ofOne, ofTwo, outOfReach} {
		_, err := f.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	_, err = f.kube.CoreV1().Secrets(install.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: fleetTokens},
		StringData: map[string]string{"tokens": "one,cluster=" + edgeOne + "\ntwo,cluster=" + edgeTwo + ",tenant=shop\nanyone\n"},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	f.receive(ctx)
	return f
}

// receive installs the receiver and waits until it listens.
func (f *fleetWorld) receive(ctx context.Context) {
	GinkgoHelper()
	free, err := ports.Free(2)
	Expect(err).NotTo(HaveOccurred())
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	f.far = receiver{address: at(free[0]), http: at(free[1])}
	stored := filepath.Join(f.dir, "receiver")
	Expect(os.Mkdir(stored, 0o700)).To(Succeed())
	Expect(os.Chmod(stored, 0o777)).To(Succeed()) // the receiver is another user
	rule := func(cluster, authority, tenant, namespace string) map[string]any {
		return map[string]any{"cluster": cluster, "authority": authority, "tenant": tenant, "namespace": namespace}
	}
	Expect(f.helm.Install(ctx, install.Release{Chart: "forwarding", Namespace: install.Namespace, Values: map[string]any{"receiver": map[string]any{
		"enabled": true, "ports": map[string]any{"grpc": free[0], "http": free[1]}, "tokensSecret": fleetTokens,
		"volume": map[string]any{"hostPath": map[string]any{"path": stored}}, "extraArgs": []string{"--reports-interval=200ms"},
		"reports": map[string]any{"namespaces": []string{ofOne}, "rules": []any{
			rule(edgeOne, "token:cluster="+edgeOne+",tenant=", "*", "edge-1-{tenant}"),
			rule(edgeTwo, "token:cluster="+edgeTwo+",tenant=shop", "shop", ofTwo),
		}},
	}}})).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Printf("the receiver has logged:\n%s\n", f.log(ctx))
		}
	})
	f.listens(ctx)
	trusted, err := f.kube.CoreV1().ConfigMaps(install.Namespace).Get(ctx, receiverDeployment+"-ca", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	f.write("ca.crt", trusted.Data["ca.crt"])
}

func (f *fleetWorld) listens(ctx context.Context) {
	GinkgoHelper()
	(&forwardingWorld{}).listens(ctx, f.far)
}

func (f *fleetWorld) write(name, content string) string {
	GinkgoHelper()
	path := filepath.Join(f.dir, name)
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

// log is what the receiver's pods have logged.
func (f *fleetWorld) log(ctx context.Context) string {
	GinkgoHelper()
	pods, err := f.kube.CoreV1().Pods(install.Namespace).List(ctx, metav1.ListOptions{LabelSelector: receiverPods})
	Expect(err).NotTo(HaveOccurred())
	var all strings.Builder
	for i := range pods.Items {
		log, err := f.kube.CoreV1().Pods(install.Namespace).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		fmt.Fprintf(&all, "%s %v\n", log, err)
	}
	return all.String()
}

func (f *fleetWorld) logs(ctx context.Context, text string) {
	GinkgoHelper()
	eventually(ctx, "the receiver to log "+text, func(ctx context.Context) (bool, error) { return strings.Contains(f.log(ctx), text), nil })
}

// send sends a Scan as the holder of a token does.
func (f *fleetWorld) send(ctx context.Context, token, cluster, tenant, name string, findings int) terminal.Result {
	GinkgoHelper()
	scan, err := json.Marshal(map[string]any{
		"apiVersion": executionv1.SchemeGroupVersion.String(), "kind": "Scan", "metadata": map[string]any{"name": name, "namespace": tenant, "uid": "uid-of-" + name},
		"spec": map[string]any{"scanType": "nmap"}, "status": map[string]any{"state": executionv1.ScanStateDone},
	})
	Expect(err).NotTo(HaveOccurred())
	list := make([]map[string]any, findings)
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprintf("%s %d", cluster, i), "category": "Open Port", "severity": "LOW", "location": "tcp://" + name}
	}
	list[0]["category"] = rareCategory
	found, err := json.Marshal(list)
	Expect(err).NotTo(HaveOccurred())
	result, err := terminal.Program{Path: w.tools.Path("forwarder")}.Run(ctx, "send", "--cluster-id", cluster,
		"--scan", f.write("scan.json", string(scan)), "--findings", f.write("findings.json", string(found)), "--timeout", "60s", "--retry-max", "1s",
		"--sink", fmt.Sprintf("hub=grpcs://%s,ca=%s,tokenFile=%s", f.far.address, filepath.Join(f.dir, "ca.crt"), f.write("token", token)))
	Expect(err).NotTo(HaveOccurred())
	return result
}

// reportsOf are the reports of a Scan in a namespace.
func (f *fleetWorld) reportsOf(ctx context.Context, namespace, scan string) []unstructured.Unstructured {
	GinkgoHelper()
	list, err := f.any.Resource(polr).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=scanyard-receiver,scanyard.io/scan=" + scan})
	Expect(err).NotTo(HaveOccurred())
	return list.Items
}

// wantReports waits until a Scan has as many results as it has findings.
func (f *fleetWorld) wantReports(ctx context.Context, namespace, scan string, findings int) (reports []unstructured.Unstructured) {
	GinkgoHelper()
	eventually(ctx, "the reports of "+scan+" in "+namespace, func(ctx context.Context) (bool, error) {
		reports = f.reportsOf(ctx, namespace, scan)
		count := 0
		for i := range reports {
			results, _, err := unstructured.NestedSlice(reports[i].Object, "results")
			if err != nil {
				return false, err
			}
			count += len(results)
		}
		return count == findings, nil
	})
	return reports
}

// versions are the reports of a namespace by name.
func (f *fleetWorld) versions(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	list, err := f.any.Resource(polr).Namespace(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	versions := map[string]string{}
	for i := range list.Items {
		versions[list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
	}
	return versions
}

var _ = Describe("A fleet", Label("forwarding", "reports"), Ordered, func() {
	var f *fleetWorld

	BeforeAll(func(ctx SpecContext) {
		f = newFleetWorld(ctx)
	})

	It("has the Scans of its clusters as reports in one hub, which answers for all of them", func(ctx SpecContext) {
		Expect(f.send(ctx, "one", edgeOne, "shop", "web", fleetFindings).Code).To(BeZero())
		// The same name and the same UID in another cluster is another Scan.
		Expect(f.send(ctx, "two", edgeTwo, "shop", "web", 3).Code).To(BeZero())
		reports := f.wantReports(ctx, ofOne, "web", fleetFindings)
		Expect(len(reports)).To(BeNumerically(">", 1), "a report is bounded")
		for i := range reports {
			Expect(reports[i].GetLabels()).To(And(HaveKeyWithValue("scanyard.io/cluster", edgeOne), HaveKeyWithValue("scanyard.io/namespace", "shop")))
			Expect(reports[i].GetOwnerReferences()).To(BeEmpty(), "the Scan is in another cluster")
		}
		reports = f.wantReports(ctx, ofTwo, "web", 3)
		Expect(reports).To(HaveLen(1))
		Expect(reports[0].GetLabels()).To(HaveKeyWithValue("scanyard.io/cluster", edgeTwo))
		Expect(ask(ctx, f.any.Resource(clusterQueries), "ClusterFindingQuery")).To(ConsistOf(ofOne, ofTwo))
	})

	It("has nothing from one sender under another's name, and nothing where the receiver has no right", func(ctx SpecContext) {
		one, two := f.versions(ctx, ofOne), f.versions(ctx, ofTwo)
		By("a token that is bound to another cluster")
		refused := f.send(ctx, "two", edgeOne, "shop", "web", 5)
		Expect(refused.Code).To(Equal(1))
		Expect(refused.ErrOut).To(ContainSubstring("the token is bound to cluster " + edgeTwo))
		By("a token that is bound to no cluster, with a Scan that is there already")
		Expect(f.send(ctx, "anyone", edgeOne, "shop", "web", 5).Code).To(BeZero(), "it is stored under the sender's own authority")
		f.logs(ctx, `no rule is for cluster \"`+edgeOne+`\", tenant \"shop\", authority \"token:cluster=,tenant=\"`)
		By("a namespace that the chart gives no rights in")
		Expect(f.send(ctx, "one", edgeOne, "hidden", "secret", 5).Code).To(BeZero())
		f.logs(ctx, "forbidden")
		Expect(f.versions(ctx, outOfReach)).To(BeEmpty())
		Expect(f.versions(ctx, ofOne)).To(Equal(one))
		Expect(f.versions(ctx, ofTwo)).To(Equal(two))
	})

	It("has each report once, also when another receiver begins anew", func(ctx SpecContext) {
		one, two := f.versions(ctx, ofOne), f.versions(ctx, ofTwo)
		Expect(f.kube.CoreV1().Pods(install.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))},
			metav1.ListOptions{LabelSelector: receiverPods})).To(Succeed())
		// Two looks at the whole store: the second Scan is sent when the first one has been seen.
		for _, name := range []string{"first", "second"} {
			Expect(f.send(ctx, "two", edgeTwo, "shop", name, 2).Code).To(BeZero())
			f.wantReports(ctx, ofTwo, name, 2)
		}
		Expect(f.versions(ctx, ofOne)).To(Equal(one))
		now := f.versions(ctx, ofTwo)
		for name, version := range two {
			Expect(now).To(HaveKeyWithValue(name, version))
		}
		Expect(now).To(HaveLen(len(two) + 2))
	})
})
