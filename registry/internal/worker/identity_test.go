// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/cloud"
	"github.com/scanyard/scanyard/registry/internal/config"
)

// TestIdentityOfThePodNeedsLeave: a worker gives its identity at a cloud only where the installation says so, and never over a connection
// that somebody else could read, whatever the controller has let in.
func TestIdentityOfThePodNeedsLeave(t *testing.T) {
	none := &cloud.Identities{Env: func(string) string { return "" }, Now: time.Now}
	for name, test := range map[string]struct {
		namespace  string
		identities *cloud.Identities
		insecure   registryv1alpha1.Insecure
		want       string
	}{
		"OtherNamespace": {"shop", none, "", "Unauthorized: the installation does not allow this namespace the identity of its workers"},
		"NoIdentities":   {"cloud", nil, "", "Unauthorized: the installation does not allow this namespace the identity of its workers"},
		"NoTLS":          {"cloud", none, registryv1alpha1.SkipVerify, "Unauthorized: the identity of workers is for registries whose certificate the system trusts"},
		"NoneInThePod":   {"cloud", none, "", "Unauthorized: identity of the workers in Azure: the pod has none: there is no AZURE_CLIENT_ID in its environment"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Worker{Options: Options{Config: &config.Config{CloudIdentityNamespaces: []string{"cloud"}}, Identities: test.identities}}
			r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace}, Spec: registryv1alpha1.RegistrySpec{
				Auth: &registryv1alpha1.Auth{Provider: registryv1alpha1.ProviderAzure}, Insecure: test.insecure,
			}}
			_, _, err := w.credentialsOf(t.Context(), r, "shop.azurecr.io")
			if refused, is := errors.AsType[*refusedError](err); !is || refused.Error() != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}
