// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
	"github.com/scanyard/scanyard/discovery/kubernetes/targets"
)

const serviceConfig = `
serviceAutoDiscovery:
  enabled: true
  scanConfigs:
  - name: nmap
    scanType: nmap
    repeatInterval: 24h
    parameters: ["-p", "{{ .Host.Port }}", "{{ .Service.Name }}.{{ .Service.Namespace }}.svc"]
    labels: {team: "{{ .Namespace.Name }}"}
`

const imageConfig = `
containerAutoDiscovery:
  enabled: true
  scanConfigs:
  - name: trivy
    scanType: trivy-image-autodiscovery
    repeatInterval: 24h
    parameters: ["{{ .ImageID }}"]
`

// TestServiceLifecycle: a Service is scanned, again when it has a new version, and no
// longer once its namespace is not included.
func TestServiceLifecycle(t *testing.T) {
	w := newWorld(t)
	w.create(w.scanType("nmap"))
	service, pod := w.service("shop", digestA)
	w.start(serviceConfig)

	w.Eventually(w.names(w.namespace)).Should(ConsistOf("shop-service-nmap-port-3000"))
	s := w.get("shop-service-nmap-port-3000")
	w.Expect(s.Labels).To(HaveKeyWithValue("digest.auto-discovery.securecodebox.io/main", digestA[:63]))
	w.Expect(s.Labels).To(HaveKeyWithValue("team", w.namespace))
	w.Expect(s.Spec.ScanSpec.Parameters).To(Equal([]string{"-p", "3000", "shop." + w.namespace + ".svc"}))
	w.Expect(metav1.IsControlledBy(s, service)).To(BeTrue())
	w.Expect(s.Status.LastScheduleTime).To(BeNil())

	// Another tool labels it, and a user pauses it: both stay.
	patch := client.MergeFrom(s.DeepCopy())
	s.Labels["other-tool"] = "x"
	s.Spec.Suspend = new(true)
	w.Expect(w.client.Patch(w.Context(), s, patch)).To(Succeed())

	w.runs(pod, "shop", digestB)
	w.Eventually(func() map[string]string { return w.get(s.Name).Labels }).
		Should(HaveKeyWithValue("digest.auto-discovery.securecodebox.io/main", digestB[:63]))
	s = w.get(s.Name)
	w.Expect(s.Status.LastScheduleTime).NotTo(BeNil())
	w.Expect(time.Since(s.Status.LastScheduleTime.Time)).To(BeNumerically("~", 48*time.Hour, time.Hour))
	w.Expect(s.Labels).To(HaveKeyWithValue("other-tool", "x"))
	w.Expect(*s.Spec.Suspend).To(BeTrue())

	ns := &corev1.Namespace{}
	w.Expect(w.client.Get(w.Context(), client.ObjectKey{Name: w.namespace}, ns)).To(Succeed())
	w.annotate(ns, targets.AnnotationEnabled, "false")
	w.Eventually(w.names(w.namespace)).Should(BeEmpty())
	w.annotate(ns, targets.AnnotationEnabled, "true")
	w.Eventually(w.names(w.namespace)).Should(ConsistOf("shop-service-nmap-port-3000"))
	w.annotate(service, targets.AnnotationIgnore, "true")
	w.Eventually(w.names(w.namespace)).Should(BeEmpty())
}

// TestRestartWritesNothing: a discovery that starts over what it has made writes nothing.
func TestRestartWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.create(w.scanType("nmap"), w.scanType("trivy-image-autodiscovery"))
	w.service("shop", digestA)
	w.pod("worker", "worker", "worker", digestB)
	first := w.start(serviceConfig + imageConfig)
	want := []string{
		"shop-service-nmap-port-3000", "shop-trivy-at-" + digestA[:48], "worker-trivy-at-" + digestB[:46],
	}
	w.Eventually(w.names(w.namespace)).Should(ConsistOf(want))
	w.Expect(first.stop()).To(Succeed())
	w.Expect(w.calls.writes()).To(Equal(3), "%s", w.calls)

	before := w.get(want[0]).ResourceVersion
	second := w.start(serviceConfig + imageConfig + "existingScans: Update\n")
	// A change shows that the second one is at work.
	w.pod("more", "more", "more", digestB)
	w.Eventually(w.names(w.namespace)).Should(ContainElement("more-trivy-at-" + digestB[:48]))
	w.Expect(second.stop()).To(Succeed())
	w.Expect(w.get(want[0]).ResourceVersion).To(Equal(before))
	w.Expect(w.calls.writes()).To(Equal(4), "%s", w.calls)
}

// TestConfigurationReachesWhatExists: the process ends when the file changes, and the next
// one brings the change, the absence of what was set before included.
func TestConfigurationReachesWhatExists(t *testing.T) {
	w := newWorld(t)
	w.create(w.scanType("nmap"))
	w.service("shop", digestA)
	d := w.start(serviceConfig)
	w.Eventually(w.names(w.namespace)).Should(HaveLen(1))
	w.Expect(os.WriteFile(d.file, []byte("serviceAutoDiscovery: {scanConfigs: 7}"), 0o600)).To(Succeed())
	w.Consistently(d.done, "6s").ShouldNot(Receive(), "a wrong file changes nothing")

	changed := strings.NewReplacer("24h", "12h", `    labels: {team: "{{ .Namespace.Name }}"}`+"\n", "", `["-p", "{{ .Host.Port }}"`, `["-sV", "-p", "{{ .Host.Port }}"`).Replace(serviceConfig)
	w.Expect(os.WriteFile(d.file, []byte(w.config(changed)), 0o600)).To(Succeed())
	var ended error
	w.Eventually(d.done).Should(Receive(&ended))
	w.Expect(ended).To(MatchError(kubernetes.ErrRestart))
	d.done <- ended

	w.start(changed)
	w.Eventually(func() string { return w.get("shop-service-nmap-port-3000").Spec.Interval }).Should(Equal("12h0m0s"))
	s := w.get("shop-service-nmap-port-3000")
	w.Expect(s.Spec.ScanSpec.Parameters).To(HaveLen(4))
	w.Expect(s.Labels).NotTo(HaveKey("team"))
	w.Expect(s.Status.LastScheduleTime).To(BeNil(), "the same version is not scanned again")
}

// TestOrphansAfterDowntime: what has gone while no discovery ran is cleaned up, and only
// what was ours.
func TestOrphansAfterDowntime(t *testing.T) {
	w := newWorld(t)
	w.create(w.scanType("trivy-image-autodiscovery"))
	pod := w.pod("worker", "worker", "worker", digestA)
	d := w.start(imageConfig)
	ours := "worker-trivy-at-" + digestA[:46]
	w.Eventually(w.names(w.namespace)).Should(ConsistOf(ours))
	w.Expect(d.stop()).To(Succeed())

	// The discovery for AWS marks its own with the same label and shape of name.
	foreign := w.get(ours).DeepCopy()
	foreign.ObjectMeta = metav1.ObjectMeta{Name: "other-trivy-at-" + digestB[:40], Namespace: w.namespace, Labels: foreign.Labels}
	w.Expect(w.client.Create(w.Context(), foreign, client.FieldOwner("scanyard-autodiscovery-aws"))).To(Succeed())
	handmade := w.scheduledScan("handmade")
	w.create(handmade)
	w.Expect(w.client.Delete(w.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())

	w.start(imageConfig)
	w.Eventually(w.names(w.namespace)).Should(ConsistOf(foreign.Name, handmade.Name))
}

// TestAdoption: what secureCodeBox's auto-discovery has made is taken over in place.
func TestAdoption(t *testing.T) {
	w := newWorld(t)
	w.create(w.scanType("nmap"), w.scanType("trivy-image-autodiscovery"))
	w.service("shop", digestA)
	made := func(name string, labels map[string]string) {
		s := w.scheduledScan(name)
		s.Labels = labels
		w.Expect(w.client.Create(w.Context(), s, client.FieldOwner("manager"))).To(Succeed())
	}
	made("shop-service-nmap-port-3000", map[string]string{
		targets.LabelManagedBy: targets.ManagedBy, targets.LabelTargetService: "shop", targets.LabelScanConfigName: "nmap",
		targets.LabelTargetPort: "3000", targets.LabelScanType: "nmap", targets.DigestPrefix + "gone": digestB[:63],
	})
	made("gone-trivy-at-"+digestB[:48], map[string]string{targets.LabelManagedBy: targets.ManagedBy})
	made("gone-else-at-"+digestB[:48], map[string]string{targets.LabelManagedBy: targets.ManagedBy})
	uid := w.get("shop-service-nmap-port-3000").UID

	w.start(serviceConfig + imageConfig)
	w.Eventually(w.names(w.namespace)).Should(ConsistOf(
		"shop-service-nmap-port-3000", "shop-trivy-at-"+digestA[:48], "gone-else-at-"+digestB[:48],
	), "orphans of our scanConfigs go; those of others may be another instance's")
	w.Eventually(func() map[string]string { return w.get("shop-service-nmap-port-3000").Labels }).Should(And(
		HaveKeyWithValue(targets.DigestPrefix+"main", digestA[:63]), Not(HaveKey(targets.DigestPrefix+"gone")),
	))
	s := w.get("shop-service-nmap-port-3000")
	w.Expect(s.UID).To(Equal(uid))
	w.Expect(s.Spec.ScanSpec.Parameters).To(ContainElement("3000"))
}

// TestMissingScanType: one Event reports the missing type, and the scan starts when it is installed.
func TestMissingScanType(t *testing.T) {
	w := newWorld(t)
	w.service("shop", digestA)
	w.service("desk", digestA)
	w.start(serviceConfig)
	w.Eventually(w.events("ScanTypeMissing")).Should(ConsistOf("Namespace requires ScanType 'nmap' to properly start automatic scans."))
	w.create(w.scanType("nmap"))
	w.Eventually(w.names(w.namespace)).Should(ConsistOf("shop-service-nmap-port-3000", "desk-service-nmap-port-3000"))
}

// TestClusterMode: the Cluster* kinds, in a namespace of their own.
func TestClusterMode(t *testing.T) {
	w := newWorld(t)
	target := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scans-"}}
	w.create(target)
	st := &executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: "nmap-" + w.namespace}, Spec: w.scanType("nmap").Spec}
	w.create(st)
	w.Cleanup(func() { w.Expect(w.client.Delete(w.Context(), st)).To(Or(Succeed(), HaveOccurred())) })
	w.service("shop", digestA)
	text := strings.NewReplacer("scanType: nmap", "scanType: "+st.Name+"\n    resourceMode: clusterWide\n    targetNamespace: "+target.Name).Replace(serviceConfig)
	d := w.start(text)
	w.Eventually(w.names(target.Name)).Should(ConsistOf(HavePrefix(w.namespace + "-shop-service-nmap-port-3000-")))
	name := w.names(target.Name)()[0]
	w.Expect(w.names(w.namespace)()).To(BeEmpty())
	s := &executionv1.ScheduledScan{}
	w.Expect(w.client.Get(w.Context(), client.ObjectKey{Namespace: target.Name, Name: name}, s)).To(Succeed())
	w.Expect(*s.Spec.ScanSpec.ResourceMode).To(Equal(executionv1.ClusterWide))
	w.Expect(s.OwnerReferences).To(BeEmpty())
	w.Expect(s.Labels).To(HaveKeyWithValue(targets.LabelSourceNamespace, w.namespace))

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: w.namespace}}
	w.Expect(w.client.Delete(w.Context(), service)).To(Succeed())
	w.Eventually(w.names(target.Name)).Should(BeEmpty(), "no owner reference does it")

	// Where they are configured to be no longer, they are found, too.
	w.service("desk", digestA)
	w.Eventually(w.names(target.Name)).Should(HaveLen(1))
	w.Expect(d.stop()).To(Succeed())
	w.create(w.scanType("nmap"))
	w.start(serviceConfig)
	w.Eventually(w.names(w.namespace)).Should(ConsistOf("desk-service-nmap-port-3000"))
	w.Eventually(w.names(target.Name)).Should(BeEmpty())
}

// TestSimilarNamesDoNotCollide: Services of two namespaces whose names look alike once joined have a ScheduledScan each.
func TestSimilarNamesDoNotCollide(t *testing.T) {
	w := newWorld(t)
	target := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scans-"}}
	neighbour := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-a", Annotations: map[string]string{targets.AnnotationEnabled: "true"}}}
	w.create(target)
	w.create(neighbour, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: neighbour.Name}})
	w.neighbours = []string{neighbour.Name}
	st := w.scanType("nmap")
	st.Namespace = target.Name
	w.create(st)
	w.service("a-web", digestA)
	home := w.namespace
	w.namespace = neighbour.Name
	w.service("web", digestB)
	w.namespace = home
	w.start(strings.Replace(serviceConfig, "scanType: nmap", "scanType: nmap\n    targetNamespace: "+target.Name, 1))
	joined := home + "-a-web-service-nmap-port-3000-"
	w.Eventually(w.names(target.Name)).Should(ConsistOf(HavePrefix(joined), HavePrefix(joined)))
	targets := func() []string {
		var list executionv1.ScheduledScanList
		w.Expect(w.client.List(w.Context(), &list, client.InNamespace(target.Name))).To(Succeed())
		var all []string
		for i := range list.Items {
			all = append(all, list.Items[i].Labels[targets.LabelSourceNamespace]+" "+list.Items[i].Spec.ScanSpec.Parameters[2])
		}
		return all
	}
	want := ConsistOf(home+" a-web."+home+".svc", neighbour.Name+" web."+neighbour.Name+".svc")
	w.Expect(targets()).To(want)
}

// TestRefusedByTheServer: one ScheduledScan that cannot be made keeps no other from it.
func TestRefusedByTheServer(t *testing.T) {
	w := newWorld(t)
	w.create(w.scanType("nmap"))
	w.service("shop", digestA)
	w.start(serviceConfig + `
  - name: bad
    scanType: nmap
    schedule: "tomorrow"
`)
	w.Eventually(w.names(w.namespace)).Should(ConsistOf("shop-service-nmap-port-3000"))
	w.Eventually(w.events(kubernetes.EventRefused)).Should(ConsistOf(ContainSubstring("must be five fields")))
}

// TestStartsPerMinute puts off what is too much.
func TestStartsPerMinute(t *testing.T) {
	w := newWorld(t)
	w.create(w.scanType("nmap"))
	for _, name := range []string{"a", "b", "c"} {
		w.service(name, digestA)
	}
	w.start(serviceConfig + "limits: {startsPerMinute: 12}\n")
	w.Eventually(w.names(w.namespace)).Should(HaveLen(2))
	w.Consistently(w.names(w.namespace), "2s").Should(HaveLen(2))
	w.Eventually(w.names(w.namespace)).Should(HaveLen(3), "the third comes five seconds after the second")
}

// TestReport says what would be done, and does nothing.
func TestReport(t *testing.T) {
	w := newWorld(t)
	w.create(w.scanType("nmap"))
	w.service("shop", digestA)
	w.pod("waiting", "none", "worker", digestB)
	c, err := config.Load("auto-discovery.yaml", []byte(w.config(serviceConfig+imageConfig)))
	w.Expect(err).NotTo(HaveOccurred())
	for _, namespace := range []string{w.namespace, ""} {
		r, err := kubernetes.NewReport(w.Context(), w.client, c, namespace, time.Now())
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(r.Changes).To(Equal(kubernetes.Changes{Create: 1}))
		var rows []string
		for _, row := range r.Rows {
			if row.Namespace == w.namespace {
				rows = append(rows, strings.Join(row.Cells(), "|"))
			}
		}
		w.Expect(rows).To(ConsistOf(
			HavePrefix(w.namespace+"|Image|registry.example.com/team/shop@sha256:"+digestA+"|pod shop-1|trivy|Waiting||ScanTypeMissing|there is no ScanType trivy-image-autodiscovery in namespace"),
			HavePrefix(w.namespace+"|Image|registry.example.com/team/worker@sha256:"+digestB+"|pod waiting|trivy|Waiting||ScanTypeMissing|"),
			Equal(w.namespace+"|Service|shop|port 3000|nmap|Scanned|create||ScheduledScan shop-service-nmap-port-3000"),
		))
	}
	w.Expect(w.names(w.namespace)()).To(BeEmpty())
}

// TestRoutes: Ingresses, and HTTPRoutes where the cluster serves the Gateway API.
func TestRoutes(t *testing.T) {
	w := newWorld(t)
	w.installGatewayAPI()
	w.create(w.scanType("nmap"))
	prefix := networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "shop", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	hostname := gatewayv1.Hostname("api.example.com")
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: w.namespace}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "any", Listeners: []gatewayv1.Listener{{Name: "tls", Port: 443, Protocol: gatewayv1.HTTPSProtocolType}},
	}}
	w.create(
		&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.namespace}, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: "shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: backend}},
			}},
		}}}},
		&gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: "api", Namespace: w.namespace}, Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "edge"}}}, Hostnames: []gatewayv1.Hostname{hostname},
		}},
	)
	const scan = "{enabled: true, scanConfigs: [{name: nmap, scanType: nmap, repeatInterval: 24h, parameters: ['{{ .URL }}']}]}\n"
	w.start("ingressAutoDiscovery: " + scan + "gatewayAutoDiscovery: " + scan)
	urls := func() []string {
		var all []string
		for _, name := range w.names(w.namespace)() {
			all = append(all, w.get(name).Spec.ScanSpec.Parameters...)
		}
		return all
	}
	w.Eventually(urls).Should(ConsistOf("http://shop.example.com"), "the route's Gateway is not there")
	w.create(gateway)
	w.Eventually(urls).Should(ConsistOf("http://shop.example.com", "https://api.example.com"))
}

// installGatewayAPI installs the kinds, without their schema.
func (w *world) installGatewayAPI() {
	w.Helper()
	for plural, kind := range map[string]string{"gateways": "Gateway", "httproutes": "HTTPRoute"} {
		crd := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{
				Name: plural + "." + gatewayv1.GroupName,
				// The group belongs to Kubernetes: the API server asks for this.
				Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"},
			},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: gatewayv1.GroupName, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
				}}},
			},
		}
		w.create(crd)
		w.Eventually(func() bool {
			w.Expect(w.client.Get(w.Context(), client.ObjectKeyFromObject(crd), crd)).To(Succeed())
			for _, c := range crd.Status.Conditions {
				if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
					return true
				}
			}
			return false
		}).Should(BeTrue())
	}
}
