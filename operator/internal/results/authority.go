// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/scanyard/scanyard/apis/results"
)

// Publish writes the authority of the endpoint's certificate into a ConfigMap, for callers. The private key stays in the Secret of
// the operator.
func Publish(ctx context.Context, c client.Client, namespace, ca string) error {
	key := client.ObjectKey{Namespace: namespace, Name: api.CAConfigMap}
	for range 3 {
		var have corev1.ConfigMap
		err := c.Get(ctx, key, &have)
		switch {
		case apierrors.IsNotFound(err):
			err = c.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: key.Name,
					Annotations: map[string]string{"description": "Authority of the operator's results endpoint. Written at the operator's start."},
				},
				Data: map[string]string{api.CAKey: ca},
			})
		case err == nil && have.Data[api.CAKey] != ca:
			have.Data = map[string]string{api.CAKey: ca}
			err = c.Update(ctx, &have)
		}
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			continue // another replica was faster
		}
		if err != nil {
			return fmt.Errorf("publish the authority in ConfigMap %s: %w", key, err)
		}
		return nil
	}
	return fmt.Errorf("publish the authority in ConfigMap %s: other clients keep changing the ConfigMap", key)
}
