// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/scanyard/scanyard/apis/decision"
)

// refused are the details of an object that admission has refused.
type refused struct {
	Causes    []metav1.StatusCause `json:"causes"`
	Operation string               `json:"operation"`
	User      string               `json:"user"`
	DryRun    bool                 `json:"dryRun,omitempty"`
}

// AdmissionRefused tells that the validating webhook, by the name of its configuration, has refused an object.
func (l *Log) AdmissionRefused(configuration string, req *admission.Request, answer *metav1.Status) {
	if l == nil {
		return
	}
	d := refused{Operation: string(req.Operation), User: req.UserInfo.Username, DryRun: req.DryRun != nil && *req.DryRun}
	if answer.Details != nil {
		d.Causes = answer.Details.Causes
	}
	name := req.Name
	if name == "" { // metadata.generateName
		name = nameOf(req.Object.Raw)
	}
	l.log(decision.Record{
		EventType: decision.WebhookViolation, Message: answer.Message,
		ConstraintKind: "ValidatingWebhookConfiguration", ConstraintName: configuration, ConstraintAction: "deny",
		ResourceKind: req.Kind.Kind, ResourceNamespace: req.Namespace, ResourceName: name, Input: withoutSecrets(req.Object.Raw),
	}, d)
}

func nameOf(raw []byte) string {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		return ""
	}
	return o.GenerateName
}

// withoutSecrets gives an object without what may hold a secret; nothing where it cannot be read.
func withoutSecrets(raw []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil
	}
	strip(object)
	out, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	return out
}

func strip(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			switch key {
			case "data", "stringData", "managedFields", "kubectl.kubernetes.io/last-applied-configuration":
				delete(v, key)
			case "env":
				v[key] = namesOnly(inner)
			case "patch": // a text in YAML that may set variables
				if text, ok := inner.(string); ok {
					v[key] = fmt.Sprintf("(%d bytes are left out)", len(text))
					continue
				}
				strip(inner)
			default:
				strip(inner)
			}
		}
	case []any:
		for _, inner := range v {
			strip(inner)
		}
	}
}

// namesOnly gives the names of environment variables. What is not a list of variables is left out.
func namesOnly(env any) any {
	list, ok := env.([]any)
	if !ok {
		return nil
	}
	for i, variable := range list {
		v, ok := variable.(map[string]any)
		if !ok {
			list[i] = nil
			continue
		}
		delete(v, "value")
		strip(v)
	}
	return list
}
