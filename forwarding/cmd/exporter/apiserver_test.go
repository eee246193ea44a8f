// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// policy forbids ConfigMaps whose name begins with a word, or only notes them.
func policy(word string, action admissionv1.ValidationAction) []client.Object {
	name := "no-" + word
	return []client.Object{
		&admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create},
						Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
					},
				}}},
				Validations: []admissionv1.Validation{{
					Expression: "!object.metadata.generateName.startsWith('" + word + "')", Message: "names do not begin with " + word,
				}},
			},
		},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-everywhere"},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionv1.ValidationAction{action},
			},
		},
	}
}

// auditKubeconfig is the file by which an API server finds the audit intake.
func auditKubeconfig(t *testing.T, address string, authority []byte, own trusttest.Pair) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["exporter"] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthorityData: authority}
	config.AuthInfos["apiserver"] = &clientcmdapi.AuthInfo{ClientCertificateData: own.Certificate, ClientKeyData: own.Key}
	config.Contexts["audit"] = &clientcmdapi.Context{Cluster: "exporter", AuthInfo: "apiserver"}
	config.CurrentContext = "audit"
	path := filepath.Join(t.TempDir(), "audit.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAPIServer has a real kube-apiserver post what its policies decide.
func TestAPIServer(t *testing.T) {
	authority := trusttest.NewAuthority(t, "authority")
	ends := time.Now().Add(time.Hour)
	pair, own := authority.Issue(t, "127.0.0.1", ends), authority.Issue(t, "kube-apiserver", ends)
	dir := t.TempDir()
	write := func(name string, content []byte) string { return trusttest.Write(t, dir, name, content) }
	far := newFarEnd(t)
	p := newPlace(t, far.URL)
	r := p.start(t, "--audit-listen", "127.0.0.1:0", "--audit-tls-cert", write("cert", pair.Certificate), "--audit-tls-key", write("key", pair.Key), "--audit-client-ca", write("ca", authority.PEM))
	cluster, err := testcluster.Start(t.Context(), "--audit-webhook", auditKubeconfig(t, r.audit, authority.PEM, own))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, o := range append(policy("denied", admissionv1.Deny), policy("noted", admissionv1.Audit)...) {
		if err := cluster.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	make := func(name string) error {
		return cluster.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: name}})
	}
	for denied := false; !denied; { // policies hold a moment after they were made
		err := make("denied-")
		if denied = apierrors.IsInvalid(err) || apierrors.IsForbidden(err); err != nil && !denied {
			t.Fatal(err)
		}
	}
	const denial = "ValidatingAdmissionPolicy 'no-denied' with binding 'no-denied-everywhere' denied request: names do not begin with denied"
	arrived := func(text string) bool {
		far.mu.Lock()
		defer far.mu.Unlock()
		for message := range far.got {
			if strings.Contains(message, text) {
				return true
			}
		}
		return false
	}
	tick := time.NewTicker(100 * time.Millisecond) // policies of the action Audit hold a moment after they were made, too
	defer tick.Stop()
	for patience := time.After(time.Minute); !arrived(denial) || !arrived("names do not begin with noted"); {
		if err := make("noted-"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-patience:
			far.mu.Lock()
			t.Fatalf("the far end has %v, and the exporter says %s", far.got, r.log)
		}
	}
}
