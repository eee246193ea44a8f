// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"cmp"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
)

// Stamped is what the stamp of a stored exception is read from.
type Stamped struct {
	Subject    Subject
	Annotation string
	// Status is believed: clients may not write it.
	Status     *settingsv1alpha2.FindingExceptionStatus
	generation int64
}

// Of reads an exception of a namespace.
func Of(e *settingsv1alpha2.FindingException) (*Stamped, error) {
	return of(exception.Kind, &e.ObjectMeta, &e.Spec, &e.Status)
}

// OfCluster reads an exception of the cluster.
func OfCluster(e *settingsv1alpha2.ClusterFindingException) (*Stamped, error) {
	return of(exception.ClusterKind, &e.ObjectMeta, &e.Spec, &e.Status)
}

func of(kind string, meta *metav1.ObjectMeta, spec any, status *settingsv1alpha2.FindingExceptionStatus) (*Stamped, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("write the spec: %w", err)
	}
	return &Stamped{
		Subject:    Subject{Kind: kind, Namespace: meta.Namespace, Name: cmp.Or(meta.GenerateName, meta.Name), Spec: text},
		Annotation: meta.Annotations[Annotation], Status: status, generation: meta.Generation,
	}, nil
}

// Last is what is known of an exception. Who has changed a spec whose stamp does not fit is not known. A Sealer that is nil
// knows no stamp: what status has of this very spec stays.
func (s *Sealer) Last(e *Stamped) Stamp {
	stamp, err := s.Open(&e.Subject, e.Annotation)
	if err != nil && e.Status.ObservedGeneration == e.generation && e.Status.ChangedAt != nil {
		// The status is of this very spec: the key is another one since then.
		stamp = Stamp{ChangedBy: e.Status.ChangedBy, ChangedAt: e.Status.ChangedAt.UTC()}
	}
	stamp.CreatedBy = cmp.Or(e.Status.CreatedBy, stamp.CreatedBy)
	return stamp
}
