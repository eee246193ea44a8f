// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// asOperator has the test's program be the operator.
const asOperator = "TEST_AS_OPERATOR"

func TestMain(m *testing.M) {
	if os.Getenv(asOperator) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// TestOldCRDsEndTheOperator: Helm never upgrades CRDs. An operator whose settings are served in the older version only says what to do, and
// ends with 2.
func TestOldCRDsEndTheOperator(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		}
		if r.URL.Path == "/apis/settings.scanyard.io/v1alpha1" {
			answer = &metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "settings.scanyard.io/v1alpha1",
				APIResources: []metav1.APIResource{{Name: "scansettings", Kind: "ScanSetting", Namespaced: true}, {Name: "clusterscansettings", Kind: "ClusterScanSetting"}},
			}
		} else {
			w.WriteHeader(http.StatusNotFound)
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"], config.Contexts["c"], config.CurrentContext = &clientcmdapi.Cluster{Server: api.URL}, &clientcmdapi.Context{Cluster: "c"}, "c"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	operator := exec.CommandContext(t.Context(), os.Args[0], "--kubeconfig", kubeconfig)
	operator.Env = append(os.Environ(), asOperator+"=1", "S3_ENDPOINT=s3.example.com", "S3_BUCKET=results")
	said, err := operator.CombinedOutput()
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok || ended.ExitCode() != 2 {
		t.Fatalf("ends with %v, want 2:\n%s", err, said)
	}
	if want := "CRD scansettings.settings.scanyard.io does not serve v1alpha2: kubectl apply --server-side -f charts/scanyard/crds"; !strings.Contains(string(said), want) {
		t.Errorf("does not say %q:\n%s", want, said)
	}
}
