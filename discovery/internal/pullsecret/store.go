// SPDX-License-Identifier: Apache-2.0

package pullsecret

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// Keys of the Secret, which are the contract with scanners.
const (
	usernameKey = "username"
	passwordKey = "password"
)

// maxOwners bounds the pods that share a Secret; the oldest are left out.
const maxOwners = 16

// ErrForeign is returned where the name of the Secret belongs to something else.
var ErrForeign = errors.New("there is a Secret of this name that is not a scan's")

// Pod is the pod that the Secret belongs to.
type Pod struct {
	Name, Namespace string
	UID             types.UID
}

// Validate says which of the pod's variables are missing or wrong.
func (p Pod) Validate() error {
	var errs []error
	check := func(variable, value string, problems []string) {
		switch {
		case value == "":
			errs = append(errs, fmt.Errorf("the variable %s is empty; set it from the downward API", variable))
		case len(problems) > 0:
			errs = append(errs, fmt.Errorf("the variable %s is %q: %s", variable, value, problems[0]))
		}
	}
	check("POD_NAME", p.Name, validation.IsDNS1123Subdomain(p.Name))
	check("NAMESPACE", p.Namespace, validation.IsDNS1123Label(p.Namespace))
	check("POD_UID", string(p.UID), nil)
	return errors.Join(errs...)
}

// NewSecret builds the Secret. It goes when its pod goes.
func NewSecret(name string, pod Pod, c Credentials) (*corev1.Secret, error) {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return nil, fmt.Errorf("%q cannot be the name of a Secret: %s", name, problems[0])
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: pod.Namespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Type:       corev1.SecretTypeOpaque,
		StringData: map[string]string{usernameKey: c.Username, passwordKey: c.Password},
	}, nil
}

// Outcome says what Store has done.
type Outcome int

const (
	// Created is the outcome where there was no Secret.
	Created Outcome = iota
	// Refreshed is the outcome where an earlier pod of the scan had left one, which has
	// the new credentials now and outlives that pod.
	Refreshed
	// Kept is the outcome where there is one that may be neither read nor written: what an
	// earlier pod has stored is used.
	Kept
)

// Store creates the Secret, or brings one up to date that an earlier pod of the scan has
// left. The right to create is all it needs; get and update let it refresh, and would let
// the scanner, which has the same ServiceAccount, read every Secret of the namespace. A
// Secret that is known to be anything else is left alone.
func Store(ctx context.Context, client kubernetes.Interface, secret *corev1.Secret) (outcome Outcome, err error) {
	secrets := client.CoreV1().Secrets(secret.Namespace)
	err = retry.OnError(retry.DefaultBackoff, again, func() error {
		outcome = Created
		_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return explain("create", secret, err)
		}
		old, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
		if apierrors.IsForbidden(err) {
			outcome = Kept
			return nil
		}
		if err != nil {
			return explain("get", secret, err)
		}
		if !isOurs(old) {
			return fmt.Errorf("%w: %s/%s; delete it, or rename the scan", ErrForeign, secret.Namespace, secret.Name)
		}
		outcome = Refreshed
		_, err = secrets.Update(ctx, refreshed(old, secret), metav1.UpdateOptions{})
		return explain("update", secret, err)
	})
	return outcome, err
}

// again are errors after which a retry may succeed: another client was faster.
func again(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

func explain(verb string, secret *corev1.Secret, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s Secret %s/%s: %w", verb, secret.Namespace, secret.Name, err)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the ServiceAccount of the scan needs the right to %s secrets", err, verb)
	}
	return err
}

// isOurs recognises what NewSecret makes.
func isOurs(s *corev1.Secret) bool {
	if s.Type != corev1.SecretTypeOpaque || len(s.OwnerReferences) == 0 || len(s.Data) != 2 || s.Data[usernameKey] == nil || s.Data[passwordKey] == nil {
		return false
	}
	return !slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return o.APIVersion != "v1" || o.Kind != "Pod" })
}

// refreshed is the old Secret with the credentials of the new one, and its pod as a further owner.
func refreshed(old, secret *corev1.Secret) *corev1.Secret {
	out := old.DeepCopy()
	out.Data, out.StringData = nil, secret.StringData
	for _, o := range secret.OwnerReferences {
		out.OwnerReferences = slices.DeleteFunc(out.OwnerReferences, func(have metav1.OwnerReference) bool { return have.UID == o.UID })
		out.OwnerReferences = append(out.OwnerReferences, o)
	}
	if n := len(out.OwnerReferences); n > maxOwners {
		out.OwnerReferences = out.OwnerReferences[n-maxOwners:]
	}
	return out
}
