// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/forwarding/internal/plan"
)

// SealSecret holds the key of seals, and while it is rotated the one before.
const SealSecret = "scanyard-forwarding-seal"

const (
	keyPresent  = "key"
	keyPrevious = "previous"
	keyBytes    = 32
	// sealAge is how often the keys are read.
	sealAge = time.Minute
)

// EnsureKeys reads the keys of seals, and makes the first one where there is none.
func EnsureKeys(ctx context.Context, c client.Client, live client.Reader, namespace string) (plan.Keys, error) {
	keys, err := readKeys(ctx, live, namespace)
	if !apierrors.IsNotFound(err) {
		return keys, err
	}
	key := make([]byte, keyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	immutable := false
	err = c.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SealSecret, Labels: map[string]string{"app.kubernetes.io/part-of": "scanyard"}},
		Immutable:  &immutable, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{keyPresent: key},
	})
	if err == nil || apierrors.IsAlreadyExists(err) {
		return readKeys(ctx, live, namespace)
	}
	return nil, fmt.Errorf("create the Secret %s/%s: %w", namespace, SealSecret, err)
}

func readKeys(ctx context.Context, live client.Reader, namespace string) (plan.Keys, error) {
	secret := &corev1.Secret{}
	if err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: SealSecret}, secret); err != nil {
		return nil, fmt.Errorf("get the Secret %s/%s: %w", namespace, SealSecret, err)
	}
	var keys plan.Keys
	for _, name := range []string{keyPresent, keyPrevious} {
		if key := secret.Data[name]; len(key) >= keyBytes {
			keys = append(keys, key)
		} else if len(key) > 0 || name == keyPresent {
			return nil, fmt.Errorf("the Secret %s/%s: %s must have at least %d bytes", namespace, SealSecret, name, keyBytes)
		}
	}
	return keys, nil
}

// keepKeys reads the keys again and again until the context ends.
func (f *Follower) keepKeys(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.o.Clock.After(sealAge):
		}
		keys, err := readKeys(ctx, f.o.Live, f.o.Namespace)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Read the keys of seals; those of before count")
			continue
		}
		f.SetKeys(keys)
	}
}
