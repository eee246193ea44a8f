// SPDX-License-Identifier: Apache-2.0

package certificate_test

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/operator/internal/certificate"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCertificateIsSharedAndRenewed(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	must(t, cluster.Client.Create(t.Context(), ns))
	key, now := client.ObjectKey{Namespace: ns.Name, Name: "tls"}, time.Now()
	ensure := func(host string, at time.Time) string {
		t.Helper()
		c, err := certificate.Ensure(t.Context(), cluster.Client, certificate.Request{Secret: key, Host: host, Purpose: "test"}, at)
		must(t, err)
		return c.CA
	}
	first := ensure("scanyard.ns.svc", now)
	if again := ensure("scanyard.ns.svc", now.Add(24*time.Hour)); again != first {
		t.Error("a valid certificate was made again")
	}
	if other := ensure("other.ns.svc", now); other == first {
		t.Error("a certificate for another host was kept")
	}
	second := ensure("other.ns.svc", now)
	if late := ensure("other.ns.svc", now.Add(10*365*24*time.Hour)); late == second {
		t.Error("a certificate that is about to expire was kept")
	}
}
