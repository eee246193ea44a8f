// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
)

// StampPath is the path that the API server calls to have exceptions stamped.
const StampPath = "/stamp"

// stamper writes into exceptions who made and who changed them.
type stamper struct {
	sealer *stamp.Sealer
	clock  clock.PassiveClock
}

// NewStamper returns the handler of [StampPath].
func NewStamper(sealer *stamp.Sealer, now clock.PassiveClock) http.Handler {
	return &admission.Webhook{Handler: &stamper{sealer, now}}
}

// Handle stamps one object. A kind that is not known is let pass: the configuration may be newer than the operator.
func (s *stamper) Handle(_ context.Context, req admission.Request) admission.Response {
	if len(req.Object.Raw) == 0 || req.Kind.Group != settingsv1alpha2.SchemeGroupVersion.Group ||
		req.Kind.Kind != exception.Kind && req.Kind.Kind != exception.ClusterKind {
		return admission.Allowed("")
	}
	annotation, err := s.stamp(&req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	changed, err := annotated(req.Object.Raw, annotation)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, changed)
}

// stamp is the annotation that an exception gets, "" where nothing is known. What the client has sent does not matter.
func (s *stamper) stamp(req *admission.Request) (string, error) {
	now, err := readStamped(req.Kind.Kind, req.Object.Raw)
	if err != nil {
		return "", fmt.Errorf("read the exception: %w", err)
	}
	user, at := req.UserInfo.Username, s.clock.Now().UTC().Truncate(time.Second)
	if req.Operation != admissionv1.Update {
		return s.sealer.Seal(&now.Subject, stamp.Stamp{CreatedBy: user, ChangedBy: user, ChangedAt: at})
	}
	before, err := readStamped(req.Kind.Kind, req.OldObject.Raw)
	if err != nil {
		return "", fmt.Errorf("read the exception as it was: %w", err)
	}
	made := s.sealer.Last(before)
	if !bytes.Equal(before.Subject.Spec, now.Subject.Spec) {
		made.ChangedBy, made.ChangedAt = user, at
	}
	if made.IsEmpty() {
		return "", nil
	}
	return s.sealer.Seal(&now.Subject, made)
}

func readStamped(kind string, raw []byte) (*stamp.Stamped, error) {
	if kind == exception.Kind {
		e := &settingsv1alpha2.FindingException{}
		if err := json.Unmarshal(raw, e); err != nil {
			return nil, err
		}
		return stamp.Of(e)
	}
	e := &settingsv1alpha2.ClusterFindingException{}
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, err
	}
	return stamp.OfCluster(e)
}

// annotated returns the object with the annotation, or without any where text is empty. All else stays as it was written.
func annotated(raw []byte, text string) ([]byte, error) {
	var object, metadata map[string]json.RawMessage
	var annotations map[string]string
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return nil, err
	}
	if list, ok := metadata["annotations"]; ok {
		if err := json.Unmarshal(list, &annotations); err != nil {
			return nil, err
		}
	}
	delete(annotations, stamp.Annotation)
	if text != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[stamp.Annotation] = text
	}
	delete(metadata, "annotations")
	var err error
	if len(annotations) > 0 {
		if metadata["annotations"], err = json.Marshal(annotations); err != nil {
			return nil, err
		}
	}
	if object["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}
