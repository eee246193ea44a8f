// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/scanyard/scanyard/apis/decision"
)

const (
	apiVersion = "audit.k8s.io/v1"
	kind       = "EventList"
	// complete is the stage in which the answer is known.
	complete = "ResponseComplete"
	// failures is the annotation of policies whose action is Audit.
	failures = "validation.policy.admission.k8s.io/validation_failure"
	// policyKind is the kind of the constraint where a policy of the API server has decided.
	policyKind = "ValidatingAdmissionPolicy"
	// webhookKind is that where a webhook has.
	webhookKind = "AdmissionWebhook"
)

// event is what is read of an event.
type event struct {
	AuditID        string            `json:"auditID"`
	Stage          string            `json:"stage"`
	RequestURI     string            `json:"requestURI"`
	Verb           string            `json:"verb"`
	User           user              `json:"user"`
	Impersonated   user              `json:"impersonatedUser"`
	ObjectRef      objectRef         `json:"objectRef"`
	ResponseStatus responseStatus    `json:"responseStatus"`
	RequestObject  requestObject     `json:"requestObject"`
	StageTimestamp string            `json:"stageTimestamp"`
	Annotations    map[string]string `json:"annotations"`
}

type user struct {
	Username string `json:"username"`
}

type objectRef struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	APIGroup    string `json:"apiGroup"`
	APIVersion  string `json:"apiVersion"`
	Subresource string `json:"subresource"`
}

type responseStatus struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type requestObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
}

// failure is one entry of the annotation.
type failure struct {
	Message    string          `json:"message"`
	Policy     string          `json:"policy"`
	Binding    string          `json:"binding"`
	Expression json.RawMessage `json:"expressionIndex"`
	Actions    []string        `json:"validationActions"`
}

// details are what a record tells beyond its keys.
type details struct {
	AuditID      string          `json:"auditID"`
	Verb         string          `json:"verb,omitempty"`
	User         string          `json:"user,omitempty"`
	Impersonated string          `json:"impersonatedUser,omitempty"`
	RequestURI   string          `json:"requestURI,omitempty"`
	APIGroup     string          `json:"apiGroup,omitempty"`
	APIVersion   string          `json:"apiVersion,omitempty"`
	Subresource  string          `json:"subresource,omitempty"`
	Code         int             `json:"code,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	Binding      string          `json:"binding,omitempty"`
	Expression   json.RawMessage `json:"expressionIndex,omitempty"`
	Actions      []string        `json:"validationActions,omitempty"`
}

// Read makes the records of an EventList, and counts the events that it passes over.
func Read(body []byte) (records []*decision.Record, passedOver int, err error) {
	var list struct {
		APIVersion string  `json:"apiVersion"`
		Kind       string  `json:"kind"`
		Items      []event `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, 0, fmt.Errorf("the body is no %s of %s: %w", kind, apiVersion, err)
	}
	if list.APIVersion != apiVersion || list.Kind != kind {
		return nil, 0, fmt.Errorf("the body is %s of %q: %s of %s is taken", list.Kind, list.APIVersion, kind, apiVersion)
	}
	for _, e := range list.Items {
		made, err := e.records()
		if err != nil {
			return nil, 0, err
		}
		if len(made) == 0 {
			passedOver++
		}
		records = append(records, made...)
	}
	return records, passedOver, nil
}

func (e *event) records() ([]*decision.Record, error) {
	if e.Stage != complete {
		return nil, nil
	}
	var records []*decision.Record
	add := func(r *decision.Record, d *details) error {
		d.AuditID, d.Verb, d.User, d.Impersonated, d.RequestURI = e.AuditID, e.Verb, e.User.Username, e.Impersonated.Username, e.RequestURI
		d.APIGroup, d.APIVersion, d.Subresource = e.ObjectRef.APIGroup, e.ObjectRef.APIVersion, e.ObjectRef.Subresource
		encoded, err := json.Marshal(d)
		if err != nil {
			return fmt.Errorf("event %s: %w", e.AuditID, err)
		}
		r.DecisionID, r.TimeStamp, r.Details = fmt.Sprintf("%s-%d", e.AuditID, len(records)), e.StageTimestamp, encoded
		r.ResourceKind, r.ResourceNamespace, r.ResourceName = e.resource()
		records = append(records, r)
		return nil
	}
	if e.denied() {
		by := deniedBy(e.ResponseStatus.Message)
		r := &decision.Record{
			EventType: decision.WebhookViolation, Message: e.ResponseStatus.Message, ConstraintKind: by.kind, ConstraintName: by.name, ConstraintAction: "deny",
		}
		if err := add(r, &details{Code: e.ResponseStatus.Code, Reason: e.ResponseStatus.Reason, Binding: by.binding}); err != nil {
			return nil, err
		}
	}
	for _, f := range e.failures() {
		r := &decision.Record{
			EventType: decision.AuditViolation, Message: f.Message, ConstraintKind: policyKind, ConstraintName: f.Policy, ConstraintAction: "audit",
		}
		if err := add(r, &details{Binding: f.Binding, Expression: f.Expression, Actions: f.Actions}); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// denied tells whether admission has refused the request. Refusals of authorization and validation read otherwise.
func (e *event) denied() bool {
	switch e.ResponseStatus.Code {
	case http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusBadRequest:
		message := e.ResponseStatus.Message
		return strings.Contains(message, "denied the request") || strings.Contains(message, policyKind)
	}
	return false
}

// failures are those that policies have noted. A note that cannot be read is a failure whose text is the note.
func (e *event) failures() []failure {
	note := e.Annotations[failures]
	if note == "" {
		return nil
	}
	var all []failure
	if err := json.Unmarshal([]byte(note), &all); err != nil {
		return []failure{{Message: note}}
	}
	return all
}

func (e *event) resource() (kind, namespace, name string) {
	kind, name = e.RequestObject.Kind, e.ObjectRef.Name
	if kind == "" {
		kind = e.ObjectRef.Resource
	}
	for _, other := range []string{e.RequestObject.Metadata.Name, e.RequestObject.Metadata.GenerateName} {
		if name == "" {
			name = other
		}
	}
	return kind, e.ObjectRef.Namespace, name
}

// decider is who has denied a request.
type decider struct{ kind, name, binding string }

var (
	byWebhook = regexp.MustCompile(`admission webhook "([^"]+)" denied the request`)
	byPolicy  = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' with binding '([^']+)'`)
)

// deniedBy reads the decider from the API server's words, which are all that an event has of it.
func deniedBy(message string) decider {
	if m := byPolicy.FindStringSubmatch(message); m != nil {
		return decider{kind: policyKind, name: m[1], binding: m[2]}
	}
	if m := byWebhook.FindStringSubmatch(message); m != nil {
		return decider{kind: webhookKind, name: m[1]}
	}
	return decider{}
}
