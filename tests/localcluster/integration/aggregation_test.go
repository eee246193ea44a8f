// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/scanyard/scanyard/tests/localcluster/pki"
)

// TestAggregation holds that a server which extends the API is asked for its group, with the name of the user, and can
// tell by the certificate that kube-apiserver asks.
func TestAggregation(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	const group = "extension.example.com"
	ca := frontProxyCA(t, k)
	users := make(chan string, 1)
	address, bundle := serveExtension(t, k, ns, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/"+group+"/v1/greeting" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group + "/v1"})
			return
		}
		shown := r.TLS.PeerCertificates
		if len(shown) == 0 || shown[0].Subject.CommonName != pki.ProxyName {
			http.Error(w, "no certificate of the front proxy", http.StatusUnauthorized)
			return
		}
		if _, err := shown[0].Verify(x509.VerifyOptions{Roots: ca, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		users <- r.Header.Get("X-Remote-User")
		_, _ = io.WriteString(w, "hello")
	})
	extend(t, k, ns, group, address, bundle)
	var answer []byte
	eventually(t, "the answer of the extension", func(ctx context.Context) (bool, error) {
		var err error
		answer, err = k.CoreV1().RESTClient().Get().AbsPath("/apis", group, "v1", "greeting").DoRaw(ctx)
		return err == nil, nil
	})
	if string(answer) != "hello" {
		t.Errorf("got %q, want hello", answer)
	}
	if user := <-users; user != "admin" {
		t.Errorf("the extension was asked for user %q, want admin", user)
	}
}

// frontProxyCA is what servers that extend the API trust, as kube-apiserver publishes it.
func frontProxyCA(t *testing.T, k kubernetes.Interface) *x509.CertPool {
	t.Helper()
	m, err := k.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(m.Data["requestheader-client-ca-file"])) {
		t.Fatalf("requestheader-client-ca-file has no certificate: %v", m.Data)
	}
	return pool
}

// serveExtension serves at the address of the machine that pods have, and returns the address and what to trust.
func serveExtension(t *testing.T, k kubernetes.Interface, ns string, handle http.HandlerFunc) (*net.TCPAddr, []byte) {
	t.Helper()
	create(t, k, newPod(ns, "address", sh("c", "exit 0")))
	ip := podWhen(t, k, ns, "address", "with an address", func(p *corev1.Pod) bool { return p.Status.PodIP != "" }).Status.PodIP
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("extension."+ns+".svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(handle)
	srv.Listener.Close()
	srv.Listener = ln
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return ln.Addr().(*net.TCPAddr), certPEM
}

// extend has kube-apiserver ask the server at the address for the group.
func extend(t *testing.T, k kubernetes.Interface, ns, group string, address *net.TCPAddr, bundle []byte) {
	t.Helper()
	port := int32(address.Port)
	_, err := k.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "extension"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.DiscoveryV1().EndpointSlices(ns).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "extension", Labels: map[string]string{discoveryv1.LabelServiceName: "extension"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address.IP.String()}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := shared.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	services := d.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	_, err = services.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." + group},
		"spec": map[string]any{
			"group": group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "caBundle": base64.StdEncoding.EncodeToString(bundle),
			"service": map[string]any{"namespace": ns, "name": "extension", "port": int64(port)},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := services.Delete(context.Background(), "v1."+group, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
