// SPDX-License-Identifier: Apache-2.0

package apiservices_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanyard/scanyard/apis/pki"
	"github.com/scanyard/scanyard/reports/internal/apiservices"
	"github.com/scanyard/scanyard/reports/internal/certificate"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

const patience = 2 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually tries until a condition holds; the last reason why it does not is the failure.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// world is a server behind a Service, and a group that nobody else has.
type world struct {
	client     kubernetes.Interface
	aggregator aggregator.Interface
	clock      *clocktesting.FakeClock
	events     *record.FakeRecorder
	namespace  string
	group      apiservices.Group
	bundle     func() []byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Now()), events: record.NewFakeRecorder(100)}
	nobodys := authority(t)
	w.bundle = func() []byte { return nobodys }
	var err error
	w.client, err = kubernetes.NewForConfig(cluster.Config)
	must(t, err)
	w.aggregator, err = aggregator.NewForConfig(cluster.Config)
	must(t, err)
	ns, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	must(t, err)
	w.namespace = ns.Name
	w.group = apiservices.Group{Group: ns.Name + ".example.com", Version: "v1", Served: true}
	_, err = w.client.CoreV1().Services(w.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "reports"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := w.aggregator.ApiregistrationV1().APIServices().Delete(context.Background(), w.group.Name(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return w
}

// authority is a bundle that kube-apiserver accepts, of an authority that signs nothing here.
func authority(t *testing.T) []byte {
	t.Helper()
	ca, err := pki.NewAuthority("nobody", time.Now(), time.Hour)
	must(t, err)
	return ca.CertPEM
}

func (w *world) options(takeOver apiservices.TakeOver) apiservices.Options {
	return apiservices.Options{
		Client: w.client, Services: w.aggregator.ApiregistrationV1().APIServices(), Events: w.events, Clock: w.clock,
		Groups: []apiservices.Group{w.group}, TakeOver: takeOver, Namespace: w.namespace, Service: "reports", Port: 443, CABundle: w.bundle,
	}
}

func (w *world) keeper(takeOver apiservices.TakeOver) *apiservices.Keeper {
	return apiservices.New(w.options(takeOver))
}

func (w *world) get(t *testing.T) *apiregistrationv1.APIService {
	t.Helper()
	s, err := w.aggregator.ApiregistrationV1().APIServices().Get(t.Context(), w.group.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return s
}

func (w *world) isOurs(t *testing.T) bool {
	t.Helper()
	s := w.get(t)
	if s == nil || s.Spec.Service == nil {
		return false
	}
	_, automanaged := s.Labels["kube-aggregator.kubernetes.io/automanaged"]
	return s.Spec.Service.Namespace == w.namespace && !automanaged
}

func (w *world) patch(t *testing.T, body string) {
	t.Helper()
	_, err := w.aggregator.ApiregistrationV1().APIServices().Patch(t.Context(), w.group.Name(), types.MergePatchType, []byte(body), metav1.PatchOptions{})
	must(t, err)
}

// event returns the reason of the next Event, or nothing if there is none.
func (w *world) event() string {
	select {
	case e := <-w.events.Events:
		return strings.Fields(e)[1]
	default:
		return ""
	}
}

// installCRD has kube-apiserver serve the group itself.
func (w *world) installCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things." + w.group.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: w.group.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: w.group.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
	must(t, cluster.Client.Create(t.Context(), crd))
	return crd
}

func (w *world) untilLocal(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if s := w.get(t); s == nil || s.Spec.Service != nil || s.Labels["kube-aggregator.kubernetes.io/automanaged"] != "true" {
			return fmt.Errorf("the APIService is not the CRD's: %+v", s)
		}
		return nil
	})
}

// Row 32 of the fault list: an APIService that somebody has deleted is made again.
func TestUnownedGroupIsTakenOver(t *testing.T) {
	w := newWorld(t)
	must(t, w.keeper(apiservices.TakeNever).RunOnce(t.Context()))
	if w.get(t) != nil {
		t.Fatal("an APIService was made with takeOver never")
	}
	k := w.keeper(apiservices.TakeIfAbsent)
	must(t, k.RunOnce(t.Context()))
	s := w.get(t)
	if !w.isOurs(t) || s.Annotations[apiservices.ManagedAnnotation] != "true" || !bytes.Equal(s.Spec.CABundle, w.bundle()) || s.Spec.InsecureSkipTLSVerify {
		t.Fatalf("not as wanted: %+v", s)
	}
	if got := w.event(); got != "APIServiceTaken" {
		t.Errorf("event %q", got)
	}

	// The authority changes: also who takes no groups keeps what is his.
	next := authority(t)
	w.bundle = func() []byte { return next }
	must(t, w.keeper(apiservices.TakeNever).RunOnce(t.Context()))
	if !bytes.Equal(w.get(t).Spec.CABundle, next) {
		t.Error("the new authority is not there")
	}

	// Deleted by hand, with nobody else behind: made again.
	must(t, w.aggregator.ApiregistrationV1().APIServices().Delete(t.Context(), w.group.Name(), metav1.DeleteOptions{}))
	must(t, k.RunOnce(t.Context()))
	if !w.isOurs(t) {
		t.Error("an APIService that was deleted by hand is not made again")
	}
}

func TestGroupOfACRD(t *testing.T) {
	w := newWorld(t)
	w.installCRD(t)
	w.untilLocal(t)
	k := w.keeper(apiservices.TakeIfAbsent)
	for range 2 {
		must(t, k.RunOnce(t.Context()))
	}
	if w.isOurs(t) {
		t.Fatal("a group was taken from its CRD")
	}
	if got := w.event(); got != "APIServiceOfCRD" {
		t.Errorf("event %q", got)
	}
	if got := w.event(); got != "" {
		t.Errorf("what has not changed is told again: %q", got)
	}

	must(t, w.keeper(apiservices.TakeAlways).RunOnce(t.Context()))
	if !w.isOurs(t) {
		t.Fatal("the group was not taken")
	}
	w.staysOurs(t)

	// What a chart's upgrade does: the local APIService again, over ours.
	w.patch(t, `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}},"spec":{"service":null,"caBundle":null}}`)
	w.untilLocal(t)
	k = w.keeper(apiservices.TakeIfAbsent)
	eventually(t, func() error {
		if err := k.RunOnce(t.Context()); err != nil {
			return err
		}
		if !w.isOurs(t) {
			return fmt.Errorf("what somebody has reset was not taken again")
		}
		return nil
	})
	w.staysOurs(t)
	if k.Retaken() == 0 {
		t.Error("the metric does not count")
	}

	// Given back: the annotation says so.
	w.patch(t, `{"metadata":{"annotations":{"reports.scanyard.io/managed":"false"},"labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}},"spec":{"service":null,"caBundle":null}}`)
	for range 3 {
		must(t, k.RunOnce(t.Context()))
		must(t, w.keeper(apiservices.TakeAlways).RunOnce(t.Context()))
	}
	if w.isOurs(t) {
		t.Error("a group that was given back was taken again")
	}
	must(t, k.RunOnce(t.Context()))
	if k.Lost() != 1 {
		t.Errorf("%d groups are lost, want 1", k.Lost())
	}
}

// TestCRDIsInstalledAndDeleted: neither takes a group that we serve away from us.
// These are rows 30 and 31 of the fault list.
func TestCRDIsInstalledAndDeleted(t *testing.T) {
	w := newWorld(t)
	must(t, w.keeper(apiservices.TakeIfAbsent).RunOnce(t.Context()))
	crd := w.installCRD(t)
	eventually(t, func() error {
		if err := cluster.Client.Get(t.Context(), types.NamespacedName{Name: crd.Name}, crd); err != nil {
			return err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%s is not established", crd.Name)
	})
	w.staysOurs(t)
	must(t, cluster.Client.Delete(t.Context(), crd))
	w.staysOurs(t)
}

// staysOurs waits until kube-apiserver's controllers have handled another CRD, that is, all that came before.
func (w *world) staysOurs(t *testing.T) {
	t.Helper()
	other := newWorld(t)
	other.installCRD(t)
	other.untilLocal(t)
	if !w.isOurs(t) {
		t.Errorf("the APIService is not ours any longer: %+v", w.get(t))
	}
}

func TestGroupOfAnotherServerIsLeft(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	other.group = w.group
	must(t, other.keeper(apiservices.TakeIfAbsent).RunOnce(t.Context()))
	must(t, w.keeper(apiservices.TakeAlways).RunOnce(t.Context()))
	w.patch(t, `{"metadata":{"annotations":{"reports.scanyard.io/managed":null,"reports.scanyard.io/service":null}}}`)
	must(t, w.keeper(apiservices.TakeAlways).RunOnce(t.Context()))
	if w.isOurs(t) || !other.isOurs(t) {
		t.Error("the group of another server was taken")
	}
	if first, second := w.event(), w.event(); first != "APIServiceGivenAway" || second != "APIServiceOfAnotherServer" {
		t.Errorf("events %q and %q", first, second)
	}
	w.release(t)
	if !other.isOurs(t) {
		t.Error("the group of another server was released")
	}
}

// release gives groups back, and lets the time pass that Release waits for.
func (w *world) release(t *testing.T) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- apiservices.Release(t.Context(), w.options(apiservices.TakeAlways)) }()
	eventually(t, func() error {
		if w.clock.HasWaiters() {
			return nil
		}
		return fmt.Errorf("Release waits for no server")
	})
	w.clock.Step(apiservices.Round)
	must(t, <-done)
}

func TestReleasedGroupsAreNotRecreated(t *testing.T) {
	w := newWorld(t)
	k := w.keeper(apiservices.TakeAlways)
	must(t, k.RunOnce(t.Context()))
	w.release(t)
	must(t, k.RunOnce(t.Context()))
	if w.get(t) != nil {
		t.Error("a server that goes has made its APIService again")
	}
	must(t, w.client.CoreV1().Services(w.namespace).Delete(t.Context(), "reports", metav1.DeleteOptions{}))
	if err := k.RunOnce(t.Context()); err == nil || w.get(t) != nil {
		t.Errorf("an APIService without a Service: %v", err)
	}
}

func TestDisabledGroupIsReleased(t *testing.T) {
	w := newWorld(t)
	must(t, w.keeper(apiservices.TakeIfAbsent).RunOnce(t.Context()))
	w.group.Served = false
	must(t, w.keeper(apiservices.TakeIfAbsent).RunOnce(t.Context()))
	if w.get(t) != nil {
		t.Error("an APIService of a group that nobody serves is left")
	}
}

// TestRunFollowsTimeAndTheAuthority: a look is due with each round, and at once when the authority changes.
func TestRunFollowsTimeAndTheAuthority(t *testing.T) {
	w := newWorld(t)
	k := w.keeper(apiservices.TakeIfAbsent)
	go k.Run(t.Context())
	eventually(t, func() error { return w.ours(t) })
	must(t, w.aggregator.ApiregistrationV1().APIServices().Delete(t.Context(), w.group.Name(), metav1.DeleteOptions{}))
	w.clock.Step(apiservices.Round)
	eventually(t, func() error { return w.ours(t) })
	must(t, w.aggregator.ApiregistrationV1().APIServices().Delete(t.Context(), w.group.Name(), metav1.DeleteOptions{}))
	k.Enqueue()
	eventually(t, func() error { return w.ours(t) })
}

func (w *world) ours(t *testing.T) error {
	if !w.isOurs(t) {
		return fmt.Errorf("the APIService is not ours")
	}
	return nil
}

// TestRotationIsSeenByKubeAPIServer asks through kube-apiserver, which verifies the server by the APIService, while the
// authority of the server is replaced.
func TestRotationIsSeenByKubeAPIServer(t *testing.T) {
	w := newWorld(t)
	certificates := certificate.New(certificate.Options{
		Client: w.client, Namespace: w.namespace, Secret: "reports-tls", Hosts: []string{"reports." + w.namespace + ".svc"}, Clock: w.clock,
	})
	must(t, certificates.RunOnce(t.Context()))
	w.bundle = certificates.CABundle
	k := w.keeper(apiservices.TakeIfAbsent)
	certificates.AddListener(k)
	w.serve(t, certificates)
	path := "/apis/" + w.group.Group + "/" + w.group.Version
	ask := func() error {
		_, err := w.client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		return err
	}
	must(t, k.RunOnce(t.Context()))
	eventually(t, ask)
	// kube-apiserver itself knows the real time only: the authority is replaced while its certificates are good.
	first := string(certificates.CABundle())
	secret, err := w.client.CoreV1().Secrets(w.namespace).Get(t.Context(), "reports-tls", metav1.GetOptions{})
	must(t, err)
	stranger := authority(t)
	secret.Data[certificate.BundleKey] = append(secret.Data[certificate.BundleKey], stranger...)
	_, err = w.client.CoreV1().Secrets(w.namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t, err)
	must(t, certificates.RunOnce(t.Context()))
	must(t, k.RunOnce(t.Context()))
	if got := string(w.get(t).Spec.CABundle); got != first+string(stranger) {
		t.Error("the APIService does not name both authorities")
	}
	must(t, ask())
	w.clock.Step(2 * time.Hour)
	must(t, certificates.RunOnce(t.Context()))
	must(t, k.RunOnce(t.Context()))
	if got := string(w.get(t).Spec.CABundle); got != first {
		t.Error("the authority that signs nothing is trusted on")
	}
	must(t, ask())
}

// serve answers discovery of the group at the machine's address, as a pod behind the Service.
func (w *world) serve(t *testing.T, p interface{ CurrentCertKeyContent() (cert, key []byte) }) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		must(t, json.NewEncoder(rw).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: w.group.Group + "/" + w.group.Version,
			APIResources: []metav1.APIResource{},
		}))
	}))
	must(t, s.Listener.Close())
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	s.Listener = listener
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cert, err := tls.X509KeyPair(p.CurrentCertKeyContent())
		return &tls.Config{Certificates: []tls.Certificate{cert}}, err
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	_, err = w.client.DiscoveryV1().EndpointSlices(w.namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "reports", Labels: map[string]string{discoveryv1.LabelServiceName: "reports"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{machineAddress(t)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
	}, metav1.CreateOptions{})
	must(t, err)
}

// machineAddress is an address that is not loopback: EndpointSlices refuse those.
func machineAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP.String()
		}
	}
	t.Fatal("this machine has no address beside loopback")
	return ""
}
