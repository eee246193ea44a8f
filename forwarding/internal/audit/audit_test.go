// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/forwarding/internal/audit"
)

// TestEventsOfAServer reads what a kube-apiserver has written: testdata/events.json is of version 1.36, shortened by nothing but the text of a regular expression.
func TestEventsOfAServer(t *testing.T) {
	body, err := os.ReadFile("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	records, passedOver, err := audit.Read(body)
	if err != nil || passedOver != 2 {
		t.Fatalf("%d events are passed over, %v", passedOver, err)
	}
	var lines []string
	for _, r := range records {
		line, err := decision.Append(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	const uri = `"user":"admin","requestURI":"/api/v1/namespaces/default/configmaps?fieldManager=kubectl-create\u0026fieldValidation=Strict","apiVersion":"v1"`
	const tail = `"binding":"owner-audit-all","expressionIndex":%,"validationActions":["Audit","Warn"]}}`
	want := []string{
		`{"timeStamp":"2026-11-23T09:37:05.370649Z","decisionId":"cddeb3fb-dc9b-41aa-a7a6-fc0e517a1b86-0","eventType":"webhook_violation",` +
			`"message":"configmaps \"bad-one\" is forbidden: ValidatingAdmissionPolicy 'replicas-deny' with binding 'replicas-deny-all' denied request: names must not begin with bad",` +
			`"constraintKind":"ValidatingAdmissionPolicy","constraintName":"replicas-deny","constraintAction":"deny","resourceKind":"configmaps","resourceNamespace":"default","resourceName":"bad-one",` +
			`"details":{"auditID":"cddeb3fb-dc9b-41aa-a7a6-fc0e517a1b86","verb":"create",` + uri + `,"code":422,"reason":"Invalid","binding":"replicas-deny-all"}}`,
		`{"timeStamp":"2026-11-23T09:37:05.370649Z","decisionId":"cddeb3fb-dc9b-41aa-a7a6-fc0e517a1b86-1","eventType":"audit_violation","message":"a ConfigMap should have an owner",` +
			`"constraintKind":"ValidatingAdmissionPolicy","constraintName":"owner-audit","constraintAction":"audit","resourceKind":"configmaps","resourceNamespace":"default","resourceName":"bad-one",` +
			`"details":{"auditID":"cddeb3fb-dc9b-41aa-a7a6-fc0e517a1b86","verb":"create",` + uri + `,` + strings.Replace(tail, "%", "1", 1),
		`{"timeStamp":"2026-11-23T09:37:05.422015Z","decisionId":"c509bd6a-5c91-471a-9f6a-2a78e2fe8aa1-0","eventType":"audit_violation","message":"names should not begin with odd",` +
			`"constraintKind":"ValidatingAdmissionPolicy","constraintName":"owner-audit","constraintAction":"audit","resourceKind":"configmaps","resourceNamespace":"default","resourceName":"odd-one",` +
			`"details":{"auditID":"c509bd6a-5c91-471a-9f6a-2a78e2fe8aa1","verb":"create",` + uri + `,` + strings.Replace(tail, "%", "0", 1),
		`{"timeStamp":"2026-11-23T09:37:05.422015Z","decisionId":"c509bd6a-5c91-471a-9f6a-2a78e2fe8aa1-1","eventType":"audit_violation","message":"a ConfigMap should have an owner",` +
			`"constraintKind":"ValidatingAdmissionPolicy","constraintName":"owner-audit","constraintAction":"audit","resourceKind":"configmaps","resourceNamespace":"default","resourceName":"odd-one",` +
			`"details":{"auditID":"c509bd6a-5c91-471a-9f6a-2a78e2fe8aa1","verb":"create",` + uri + `,` + strings.Replace(tail, "%", "1", 1),
		`{"timeStamp":"2026-11-23T09:37:05.487130Z","decisionId":"e97c5c25-1b1f-4ed3-a5d9-b45340bf5a5d-0","eventType":"webhook_violation",` +
			`"message":"admission webhook \"deny.example.com\" denied the request: [no-secrets] secrets come from the vault",` +
			`"constraintKind":"AdmissionWebhook","constraintName":"deny.example.com","constraintAction":"deny","resourceKind":"secrets","resourceNamespace":"default","resourceName":"s1",` +
			`"details":{"auditID":"e97c5c25-1b1f-4ed3-a5d9-b45340bf5a5d","verb":"create",` + strings.ReplaceAll(uri, "configmaps", "secrets") + `,"code":403}}`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func list(items string) []byte {
	return []byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + items + `]}`)
}

func TestEvents(t *testing.T) {
	denied := `"responseStatus":{"code":400,"message":"admission webhook \"w\" denied the request: no"}`
	for name, c := range map[string]struct {
		event   string
		records int
		kind    string
		object  string
	}{
		"TheAnswerIsNotKnown": {`{"auditID":"a","stage":"RequestReceived",` + denied + `}`, 0, "", ""},
		"ANoteIsNoList": {
			`{"auditID":"a","stage":"ResponseComplete","annotations":{"validation.policy.admission.k8s.io/validation_failure":"oops"}}`, 1, "ValidatingAdmissionPolicy", "",
		},
		"AnotherCode":         {`{"auditID":"a","stage":"ResponseComplete","responseStatus":{"code":500,"message":"w denied the request"}}`, 0, "", ""},
		"AnUnknownDecider":    {`{"auditID":"a","stage":"ResponseComplete","responseStatus":{"code":403,"message":"w denied the request"}}`, 1, "", ""},
		"NoObject":            {`{"auditID":"a","stage":"ResponseComplete",` + denied + `}`, 1, "AdmissionWebhook", ""},
		"TheKindOfTheRequest": {`{"auditID":"a","stage":"ResponseComplete","objectRef":{"resource":"pods"},"requestObject":{"kind":"Pod","metadata":{"generateName":"p-"},"data":{"a":"hunter2"}},` + denied + `}`, 1, "AdmissionWebhook", "Pod p-"},
	} {
		t.Run(name, func(t *testing.T) {
			records, passedOver, err := audit.Read(list(c.event))
			if err != nil || len(records) != c.records || (passedOver == 1) != (c.records == 0) {
				t.Fatalf("%v, %d, %v", records, passedOver, err)
			}
			if c.records == 0 {
				return
			}
			line, err := decision.Append(nil, records[0])
			if err != nil || strings.Contains(string(line), "hunter2") {
				t.Errorf("%s, %v", line, err)
			}
			if r := records[0]; r.ConstraintKind != c.kind || strings.TrimSpace(r.ResourceKind+" "+r.ResourceName) != c.object || r.DecisionID != "a-0" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		``:   "is no EventList",
		`[]`: "is no EventList",
		`{"kind":"EventList","apiVersion":"audit.k8s.io/v1beta1"}`: `EventList of "audit.k8s.io/v1beta1": EventList of audit.k8s.io/v1 is taken`,
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1"}`:          "EventList of audit.k8s.io/v1 is taken",
	} {
		if _, _, err := audit.Read([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
