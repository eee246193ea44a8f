// SPDX-License-Identifier: Apache-2.0

package scrape_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/scanyard/scanyard/operator/internal/scrape"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// TestMetricsNeedAuthorization: no client without a token, and none that RBAC does not allow to get the path.
func TestMetricsNeedAuthorization(t *testing.T) {
	url := serve(t)
	kube, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	stranger, reader := account(t, kube, "stranger"), account(t, kube, "reader")
	const role = "scanyard-metrics-reader"
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "reader"}}
	_, err = kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The API server's authorizer takes a moment to know; an answer is kept for a while.
	err = wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return get(t, http.MethodGet, url, reader) == http.StatusOK, nil
	})
	if err != nil {
		t.Fatalf("the reader gets %d, want 200", get(t, http.MethodGet, url, reader))
	}
	for name, tc := range map[string]struct {
		method, token string
		want          int
	}{
		"Anonymous": {http.MethodGet, "", http.StatusUnauthorized},
		"NoToken":   {http.MethodGet, "invented", http.StatusUnauthorized},
		"TooLong":   {http.MethodGet, strings.Repeat("x", 20<<10), http.StatusUnauthorized},
		"Stranger":  {http.MethodGet, stranger, http.StatusForbidden},
		"Reader":    {http.MethodGet, reader, http.StatusOK},
		"Post":      {http.MethodPost, reader, http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := get(t, tc.method, url, tc.token); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

// serve serves metrics as the operator does.
func serve(t *testing.T) string {
	t.Helper()
	client, err := rest.HTTPClientFor(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := metricsserver.NewServer(metricsserver.Options{BindAddress: "127.0.0.1:0", SecureServing: true, FilterProvider: scrape.NewFilter}, cluster.Config, client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	bound, ok := server.(interface{ GetBindAddr() string })
	if !ok {
		t.Fatalf("%T does not show its address", server)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return bound.GetBindAddr() != "", nil
	})
	if err != nil {
		t.Fatal("the server does not start")
	}
	return "https://" + bound.GetBindAddr() + "/metrics"
}

// account makes a ServiceAccount and returns a token of it.
func account(t *testing.T, kube kubernetes.Interface, name string) string {
	t.Helper()
	accounts := kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

func get(t *testing.T, method, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}
