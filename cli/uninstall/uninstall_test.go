// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/pki"
	"github.com/scanyard/scanyard/apis/results"
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

// certificate is what a program keeps for its server, signed by an authority of that name.
func certificate(t *testing.T, namespace, name, authority string) *corev1.Secret {
	t.Helper()
	ca, err := pki.NewAuthority(authority, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue([]string{name}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: leaf.CertPEM, corev1.TLSPrivateKeyKey: leaf.KeyPEM},
	}
}

// made are objects of programs: those that go, and those that stay.
func made(t *testing.T, namespace string) (going, staying []client.Object) {
	t.Helper()
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	ours := map[string]string{"app.kubernetes.io/part-of": "scanyard"}
	ca := &corev1.ConfigMap{ObjectMeta: meta(results.CAConfigMap, nil)}
	ca.Annotations = map[string]string{"description": "Authority of the operator's results endpoint. Written at the operator's start."}
	held := &coordinationv1.Lease{ObjectMeta: meta("scanyard-forwarder", nil), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("forwarder-1"), RenewTime: new(metav1.NewMicroTime(time.Now())), LeaseDurationSeconds: new(int32(3600)),
	}}
	queue := certificate(t, namespace, "registry-nats", "scanyard-registry")
	queue.Data["controller-password"] = []byte("secret")
	going = []client.Object{
		certificate(t, namespace, "scanyard-webhook-tls", "scanyard-ca"), certificate(t, namespace, "scanyard-upload-tls", "scanyard-ca"), queue, ca,
		&corev1.Secret{ObjectMeta: meta("scanyard-forwarding-seal", ours)},
		&coordinationv1.Lease{ObjectMeta: meta("e341d981.securecodebox.io", nil)}, &coordinationv1.Lease{ObjectMeta: meta("registry-controller", nil)},
	}
	return going, []client.Object{
		certificate(t, namespace, "of-somebody-else", "another"), &corev1.ConfigMap{ObjectMeta: meta("scanyard-cluster-id", ours)}, held,
		&corev1.ConfigMap{ObjectMeta: meta("mine", map[string]string{"scanyard.io/board": "namespace"})},
	}
}

func claim(namespace, name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}
}

// TestLeftovers: what programs have made for themselves goes, with or without a release; what holds data stays until somebody asks.
func TestLeftovers(t *testing.T) {
	w := clitest.New(t, cluster)
	going, staying := made(t, w.Namespace)
	reports := claim(w.Namespace, "reports", map[string]string{"app.kubernetes.io/name": "reports", "helm.sh/chart": "reports-0.9.0"})
	theirs := claim(w.Namespace, "theirs", map[string]string{"app.kubernetes.io/name": "reports"})
	for _, o := range slices.Concat(going, staying, []client.Object{reports, theirs}) {
		if err := w.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	in := " in namespace " + w.Namespace + ": "
	stays := []string{
		"ConfigMap scanyard-cluster-id" + in + "the ID by which receivers know this cluster; a later installation takes it up",
		"Lease scanyard-forwarder" + in + "which replica of the forwarder works; a replica holds it now",
		"1 board of the console, which people have made (1 in " + w.Namespace + ")",
	}
	clitest.Ends(t, w.Run("uninstall", "--dry-run"), 0, append([]string{
		"4. Remove what the programs have made for themselves: ready",
		"Secret scanyard-webhook-tls" + in + "a certificate of the operator, with its key", "Secret scanyard-upload-tls" + in,
		"Secret registry-nats" + in + "a certificate of registry scanning, with its key, and the passwords of its queue",
		"ConfigMap scanyard-results-ca" + in, "Secret scanyard-forwarding-seal" + in, "Lease e341d981.securecodebox.io" + in, "Lease registry-controller" + in,
		"5. Remove the volumes: stays", "volume claim reports" + in + "the reports", "--volumes removes them, with the data",
	}, stays...)...)
	clitest.Ends(t, w.Run("uninstall", "--yes"), 0, append([]string{"4. Remove what the programs have made for themselves: done", "5. Remove the volumes: stays"}, stays...)...)
	has := func(o client.Object, want bool) {
		t.Helper()
		err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		if client.IgnoreNotFound(err) != nil || (err == nil) != want {
			t.Errorf("%T %s: %v, want it there: %v", o, o.GetName(), err, want)
		}
	}
	for _, o := range going {
		has(o, false)
	}
	for _, o := range append(staying, reports) {
		has(o, true)
	}
	clitest.Ends(t, w.Run("uninstall", "--yes", "--volumes"), 0, "5. Remove the volumes: done")
	has(theirs, true)
	// Nobody runs here who takes the protection of volumes in use off.
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(reports), reports); err == nil && reports.DeletionTimestamp.IsZero() || client.IgnoreNotFound(err) != nil {
		t.Errorf("the claim of the reports is not deleted: %v", err)
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
	clitest.Ends(t, w.Run("uninstall", "--yes"), 0, "Remove what the programs have made for themselves", "6. Remove the kinds: stays", "results in the bucket")
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
