// SPDX-License-Identifier: Apache-2.0

package clusterid

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReasonForeign is the reason of the Event about an ID that was made elsewhere.
const ReasonForeign = "ClusterIDForeign"

// Report makes an Event of a foreign ID, once for each pair of IDs. It does nothing for any other.
func (id ID) Report(ctx context.Context, c client.Client, namespace string, now time.Time) error {
	if id.Foreign == "" {
		return nil
	}
	err := c.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%.8s.%.8s", ConfigMap, id.Value, id.Foreign)},
		EventTime:  metav1.NewMicroTime(now), ReportingController: "scanyard.io/forwarder", ReportingInstance: "forwarder", Action: "Read",
		Reason: ReasonForeign, Type: corev1.EventTypeWarning,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: ConfigMap},
		Note: fmt.Sprintf("the stored cluster ID %s is not the one of this cluster, %s: "+
			"where the ConfigMap came with a backup of another cluster, delete it, or results of two clusters are mixed", id.Value, id.Foreign),
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the Event %s: %w", ReasonForeign, err)
	}
	return nil
}
