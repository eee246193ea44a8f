// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Path is the path that the API server calls.
const Path = "/validate"

// Check returns what is wrong with an object. An error means that the check itself failed, such as for JSON that is not of
// this kind.
type Check func(ctx context.Context, asked *Asked) (field.ErrorList, error)

// Asked is what a Check is asked about.
type Asked struct {
	// Object is the object as JSON, and Before the object as it was; Before is empty where the object is new.
	Object, Before []byte
	// User is who writes it.
	User string
}

// created says that the object is new.
func (a *Asked) created() bool { return len(a.Before) == 0 }

// handler validates by kind, and tells what was refused.
type handler struct {
	checks  map[schema.GroupKind]Check
	refused Refused
}

// Refused is told of each object that is refused, with the answer to the API server.
type Refused func(req *admission.Request, answer *metav1.Status)

// NewHandler returns the handler of [Path]. Refused may be nil.
func NewHandler(checks map[schema.GroupKind]Check, refused Refused) http.Handler {
	return &admission.Webhook{Handler: &handler{checks, refused}}
}

// refuse is the answer for an object with problems.
func (h *handler) refuse(req *admission.Request, errs field.ErrorList) admission.Response {
	answer := refusal(req, errs)
	if h.refused != nil {
		h.refused(req, answer)
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: answer}}
}

// Handle validates one object. A kind without a check is allowed: the configuration may be newer than the operator.
func (h *handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	check, ok := h.checks[schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}]
	if !ok || len(req.Object.Raw) == 0 {
		return admission.Allowed("")
	}
	if req.Operation == admissionv1.Update {
		// Before the comparison of specs: a stale copy differs in its annotation only.
		stale, err := staleCopy(req)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if len(stale) > 0 {
			return h.refuse(&req, stale)
		}
		same, err := sameSpec(req.OldObject.Raw, req.Object.Raw)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if same {
			return admission.Allowed("")
		}
	}
	asked := &Asked{Object: req.Object.Raw, User: req.UserInfo.Username}
	if req.Operation == admissionv1.Update {
		asked.Before = req.OldObject.Raw
	}
	errs, err := check(ctx, asked)
	switch {
	case err != nil:
		return admission.Errored(http.StatusBadRequest, err)
	case len(errs) > 0:
		return h.refuse(&req, errs)
	default:
		return admission.Allowed("")
	}
}

// refusal is the message in the form of the API server's own refusals.
func refusal(req *admission.Request, errs field.ErrorList) *metav1.Status {
	messages := make([]string, 0, len(errs))
	causes := make([]metav1.StatusCause, 0, len(errs))
	for _, e := range errs {
		messages = append(messages, e.Error())
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(e.Type), Message: e.ErrorBody(), Field: e.Field})
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s %q is invalid: %s", req.Kind.Kind, req.Name, strings.Join(messages, "; ")),
		Details: &metav1.StatusDetails{Group: req.Kind.Group, Kind: req.Kind.Kind, Name: req.Name, Causes: causes},
	}
}

func sameSpec(before, after []byte) (bool, error) {
	var a, b struct {
		Spec any `json:"spec"`
	}
	if err := json.Unmarshal(before, &a); err != nil {
		return false, fmt.Errorf("read the object as it was: %w", err)
	}
	if err := json.Unmarshal(after, &b); err != nil {
		return false, fmt.Errorf("read the object: %w", err)
	}
	return reflect.DeepEqual(a.Spec, b.Spec), nil
}
