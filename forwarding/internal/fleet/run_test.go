// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/fleet"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/command"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
)

// write writes a file and gives its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubeconfig leads to the API server of the tests.
func kubeconfig(t *testing.T) string {
	t.Helper()
	c := fleet.Cluster.Config
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData, CertificateAuthority: c.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"c": {
			ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, ClientCertificate: c.CertFile, ClientKey: c.KeyFile, Token: c.BearerToken,
		}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}}, CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReceiverHandsOver runs the program: a Scan comes by gRPC, and a report is there.
func TestReceiverHandsOver(t *testing.T) {
	client, err := dynamic.NewForConfig(fleet.Cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(),
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "run-"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reports := client.Resource(schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}).Namespace(made.GetName())
	watch, err := reports.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	ctx, stop := context.WithCancel(t.Context())
	read, written := io.Pipe()
	root := command.New(written, io.Discard)
	root.SetArgs([]string{
		"run", "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--store=" + filepath.Join(t.TempDir(), "store"), "--print-address", "--kubeconfig=" + kubeconfig(t),
		"--reports-rules=" + write(t, "rules.yaml", "rules: [{cluster: cluster-1, tenant: team-a, namespace: "+made.GetName()+"}]"), "--reports-interval=50ms",
	})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(read).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var address struct{ GRPC string }
	if err := json.Unmarshal(line, &address); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(address.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	id := receivertest.Scan("u-run")
	request := &forwardingv1.ForwardBatchRequest{
		Hello: &forwardingv1.Hello{ApiVersion: forwardingv1.Version}, Batch: &forwardingv1.Batch{Number: 1, Stream: id, Records: receivertest.Records(id, 3)},
	}
	if _, err := forwardingv1.NewForwardingServiceClient(conn).ForwardBatch(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	event, ok := <-watch.ResultChan()
	if !ok {
		t.Fatal("no report comes")
	}
	list, _, _ := unstructured.NestedSlice(event.Object.(*unstructured.Unstructured).Object, "results")
	if len(list) != 3 {
		t.Errorf("the report has %d results", len(list))
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
