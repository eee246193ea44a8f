// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

// TestMain starts a cluster that nobody uses later: the test takes the kinds away.
func TestMain(m *testing.M) {
	if err := os.Unsetenv("TESTCLUSTER_POOL"); err != nil {
		panic(err)
	}
	clitest.Main(m, &cluster)
}

// release is what Helm keeps of a release.
func release(t *testing.T, namespace, name, chart string) *corev1.Secret {
	t.Helper()
	text, err := json.Marshal(map[string]any{"name": name, "chart": map[string]any{"metadata": map[string]any{"name": chart, "home": "https://github.com/scanyard/scanyard"}}})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sh.helm.release.v1." + name + ".v1", Labels: map[string]string{"owner": "helm", "status": "deployed", "name": name}},
		Type:       "helm.sh/release.v1",
		Data:       map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(packed.Bytes()))},
	}
}

// account is what the operator makes in a namespace that scans.
func account(namespace, name, role string) []client.Object {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: m},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}},
		&rbacv1.RoleBinding{
			ObjectMeta: m, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		},
	}
}

// TestUninstall goes all the way, on an API server of its own where nobody runs an operator.
func TestUninstall(t *testing.T) {
	w := clitest.New(t, cluster)
	nmap := release(t, w.Namespace, "my-nmap", "nmap")
	scan := &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "held", Finalizers: []string{executionv1.FinalizerStorage}},
		Spec:       executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{}},
	}
	const copied = "backup.example.com/copy"
	theirs := &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "copied", Finalizers: []string{executionv1.FinalizerDelivery, copied, executionv1.FinalizerStorageLegacy}},
		Spec:       executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{}},
	}
	schedule := &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "nightly"},
		Spec:       executionv1.ScheduledScanSpec{Schedule: "0 3 * * *", ScanSpec: &executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{}}},
	}
	objects := append(account(w.Namespace, "lurker", "lurker"), nmap, scan, theirs, schedule)
	objects = append(objects, account(w.Namespace, "parser", "of-somebody-else")...)
	for _, o := range objects {
		if err := w.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	has := func(o client.Object, want bool) {
		t.Helper()
		err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		if client.IgnoreNotFound(err) != nil || (err == nil) != want {
			t.Errorf("%T %s: %v, want it there: %v", o, o.GetName(), err, want)
		}
	}

	clitest.Ends(t, w.Run("uninstall"), 1, "say --dry-run to see what would be done")
	clitest.Ends(t, w.Run("uninstall", "--results", "burn", "--yes"), 1, "must be keep or delete")
	clitest.Ends(t, w.Run("uninstall", "--dry-run"), 0, "1. Stop what starts scans: ready", "1 schedule: deleted (1 in "+w.Namespace+")",
		"2. Delete the scans, while the operator runs: later", "say --results=keep or --results=delete", "helm -n "+w.Namespace+" uninstall my-nmap", "1 ServiceAccount, each")
	has(schedule, true)

	clitest.Ends(t, w.Run("uninstall", "--yes"), 1, "Stop what starts scans", "1. Stop what starts scans: done", "2. Delete the scans, while the operator runs: to decide")
	has(schedule, false)
	has(scan, true)
	clitest.Ends(t, w.Run("uninstall", "--yes", "--results=keep"), 1, "or say --without-operator")
	clitest.Ends(t, w.Run("uninstall", "--yes", "--results=delete", "--without-operator"), 1, "no operator runs that could delete results")
	has(scan, true)

	clitest.Ends(t, w.Run("uninstall", "--yes", "--results=keep", "--without-operator"), 1, "the finalizers of 2 scans are taken off",
		"1 scan with finalizers of others", "1 scan left, with finalizers of others: "+w.Namespace+"/copied ("+copied+")")
	has(scan, false)
	has(theirs, true)
	if diff := cmp.Diff([]string{copied}, theirs.Finalizers); diff != "" {
		t.Errorf("finalizers of the scan that somebody copies: %s", diff)
	}
	theirs.Finalizers = nil // as those who copy do
	if err := w.Client.Update(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run("uninstall", "--yes", "--results=keep"), 1, "3. Uninstall the charts, the operator last: by hand")
	has(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "lurker"}}, true)

	if err := w.Client.Delete(t.Context(), nmap); err != nil { // as Helm does
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run("uninstall", "--yes"), 0, "Remove the accounts that the operator has made", "5. Remove the kinds: stays", "results in the bucket")
	for _, o := range account(w.Namespace, "lurker", "lurker") {
		has(o, false)
	}
	for _, o := range account(w.Namespace, "parser", "of-somebody-else") {
		has(o, true)
	}
	clitest.Ends(t, w.Run("uninstall", "--yes", "--crds"), 0, "Remove the kinds", "scans.execution.securecodebox.io")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Name: "scans.execution.securecodebox.io"}, crd); err == nil && crd.DeletionTimestamp.IsZero() || err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("the kind Scan is still there: %v", err)
	}
}
