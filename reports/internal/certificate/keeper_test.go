// SPDX-License-Identifier: Apache-2.0

package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanyard/scanyard/reports/internal/certificate"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

const (
	host   = "reports.team.svc"
	secret = "reports-tls"
	day    = 24 * time.Hour
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a namespace with the empty Secret that the chart makes, and a clock.
type world struct {
	client    kubernetes.Interface
	namespace string
	clock     *clocktesting.FakeClock
}

func newWorld(t *testing.T) *world {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config)
	must(t, err)
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.CoreV1().Secrets(ns.Name).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}}, metav1.CreateOptions{})
	must(t, err)
	return &world{client, ns.Name, clocktesting.NewFakeClock(time.Now())}
}

func (w *world) replica() *certificate.Keeper {
	return certificate.New(certificate.Options{Client: w.client, Namespace: w.namespace, Secret: secret, Hosts: []string{host}, Clock: w.clock})
}

func (w *world) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s, err := w.client.CoreV1().Secrets(w.namespace).Get(t.Context(), secret, metav1.GetOptions{})
	must(t, err)
	return s
}

func TestReplicasThatStartAtOnceServeTheSame(t *testing.T) {
	w := newWorld(t)
	replicas := make([]*certificate.Keeper, 8)
	var all sync.WaitGroup
	for i := range replicas {
		replicas[i] = w.replica()
		all.Go(func() {
			if err := replicas[i].RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	stored := w.secret(t)
	for i, r := range replicas {
		cert, key := r.CurrentCertKeyContent()
		if !slices.Equal(cert, stored.Data[corev1.TLSCertKey]) || !slices.Equal(key, stored.Data[corev1.TLSPrivateKeyKey]) || !slices.Equal(r.CABundle(), stored.Data[certificate.BundleKey]) {
			t.Errorf("replica %d serves with something else than what is stored", i)
		}
	}
	before := stored.ResourceVersion
	must(t, replicas[0].RunOnce(t.Context()))
	if after := w.secret(t).ResourceVersion; after != before {
		t.Error("a round without anything due has written")
	}
}

func TestMissingSecretIsMade(t *testing.T) {
	w := newWorld(t)
	must(t, w.client.CoreV1().Secrets(w.namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}))
	r := w.replica()
	if cert, _ := r.CurrentCertKeyContent(); cert != nil || r.CABundle() != nil || !r.Expires().IsZero() {
		t.Error("there is something to serve before the first round")
	}
	must(t, r.RunOnce(t.Context()))
	if !slices.Equal(r.CABundle(), w.secret(t).Data[certificate.BundleKey]) {
		t.Error("what is served is not in the Secret")
	}
}

type counter struct{ n atomic.Int32 }

func (c *counter) Enqueue() { c.n.Add(1) }

// TestRotationFailsNoRequest asks two replicas through a rotation of the authority. They take their steps one after the
// other, and the client, as kube-apiserver by an APIService, trusts what one of them has published last.
// This is row 18 of the fault list.
func TestRotationFailsNoRequest(t *testing.T) {
	w := newWorld(t)
	told := &counter{}
	replicas := []*certificate.Keeper{w.replica(), w.replica()}
	replicas[1].AddListener(told)
	servers := make([]*httptest.Server, len(replicas))
	for i, r := range replicas {
		must(t, r.RunOnce(t.Context()))
		servers[i] = serve(t, r)
	}
	bundles := map[string]bool{}
	ask := func(published []byte) {
		t.Helper()
		bundles[string(published)] = true
		for _, s := range servers {
			request(t, s, published, w.clock.Now())
		}
	}
	authority := 10 * 365 * day * 2 / 3
	for _, pass := range []time.Duration{0, 61 * day, authority, time.Hour, time.Hour, time.Minute} {
		w.clock.Step(pass)
		// After years without a round nothing is left to be trusted: that is not what is tested.
		if pass == authority {
			must(t, replicas[0].RunOnce(t.Context()))
			must(t, replicas[1].RunOnce(t.Context()))
		}
		published := replicas[0].CABundle()
		for _, r := range replicas {
			must(t, r.RunOnce(t.Context()))
			ask(published)
			ask(r.CABundle())
		}
	}
	if len(bundles) != 3 {
		t.Errorf("%d bundles were published, want the old authority, both, and the new one", len(bundles))
	}
	if told.n.Load() < 4 {
		t.Errorf("the listener was told %d times", told.n.Load())
	}
	if left := replicas[0].Expires().Sub(w.clock.Now()); left < 30*day {
		t.Errorf("the certificate ends in %s", left)
	}
}

// TestRunTakesWhatAnotherReplicaHasWritten: a replica that runs serves the new certificate after a tick of its clock.
func TestRunTakesWhatAnotherReplicaHasWritten(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	must(t, r.RunOnce(t.Context()))
	changed := make(chan struct{}, 1)
	r.AddListener(listener(changed))
	go r.Run(t.Context(), 1)
	must(t, w.client.CoreV1().Secrets(w.namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}))
	other := w.replica()
	must(t, other.RunOnce(t.Context()))
	for w.clock.Waiters() == 0 {
		if t.Context().Err() != nil {
			t.Fatal("Run waits for no tick")
		}
	}
	w.clock.Step(time.Minute)
	<-changed
	if !slices.Equal(r.CABundle(), other.CABundle()) {
		t.Error("the replica serves another certificate")
	}
}

type listener chan<- struct{}

func (l listener) Enqueue() { l <- struct{}{} }

// serve starts a server that takes its certificate from the provider at each connection, as the generic server does.
func serve(t *testing.T, p dynamiccertificates.CertKeyContentProvider) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cert, err := tls.X509KeyPair(p.CurrentCertKeyContent())
		return &tls.Config{Certificates: []tls.Certificate{cert}}, err
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func request(t *testing.T, s *httptest.Server, bundle []byte, now time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host, Time: func() time.Time { return now }}}
	defer transport.CloseIdleConnections()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	must(t, err)
	answer, err := (&http.Client{Transport: transport}).Get("https://127.0.0.1:" + port)
	must(t, err)
	answer.Body.Close()
}
