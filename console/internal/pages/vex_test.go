// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/http"
	"testing"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

const vexDocument = `{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://vendor.example/1","author":"Vendor","timestamp":"2026-01-01T00:00:00Z","version":1,"statements":[
{"vulnerability":{"name":"CVE-2021-23337"},"products":[{"@id":"pkg:npm/lodash@4.17.20"}],"status":"not_affected","justification":"vulnerable_code_not_in_execute_path","impact_statement":"template() is never called"},
{"vulnerability":{"name":"CVE-2024-3"},"products":[{"@id":"pkg:npm/a@1"}],"status":"affected"}]}`

func TestVEXDocumentsAreImported(t *testing.T) {
	w := consoletest.Full(t).Enter()
	const page = "/exceptions/import"
	has(t, w.Get(page), "Show what it says")
	fields := []string{"namespace", "team-blue", "document", vexDocument, "expires", "2027-01-31"}
	a := w.Post(page, page, append(fields, "do", "check")...)
	has(t, a, "It would make 1 exception", "new", "NotAffected", "CVE-2021-23337", "Statement 2", "affected makes no exception", "Import</button>")
	a = w.Post(page, page, append(fields, "do", "import")...)
	has(t, a, "Imported.", "new")
	list := &settingsv1alpha2.FindingExceptionList{}
	if err := w.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		if e := &list.Items[i]; e.Spec.Status == settingsv1alpha2.ExceptionNotAffected {
			n++
			if e.Namespace != "team-blue" || e.Spec.ExpiresAt == nil {
				t.Errorf("it is %+v", e)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d exceptions are made, want 1", n)
	}
	has(t, w.Post(page, page, append(fields, "do", "import")...), "there already")
	for name, tc := range map[string]struct{ field, value, want string }{
		"NoDocument":  {"document", "hello", "neither OpenVEX nor CycloneDX"},
		"NoNamespace": {"namespace", "Team Blue", "Namespace: "},
		"EndIsOver":   {"expires", "2020-01-01", "End: "},
	} {
		t.Run(name, func(t *testing.T) {
			changed := append([]string{}, fields...)
			for i := 0; i < len(changed); i += 2 {
				if changed[i] == tc.field {
					changed[i+1] = tc.value
				}
			}
			a := w.Post(page, page, append(changed, "do", "import")...)
			if a.Code != http.StatusUnprocessableEntity {
				t.Errorf("it answers %d", a.Code)
			}
			a.Code = http.StatusOK
			has(t, a, tc.want)
		})
	}
	w = consoletest.Full(t).Enter()
	w.Denied = []string{"create findingexceptions team-blue"}
	has(t, w.Post(page, page, append(fields, "do", "import")...), "refused", "cannot create findingexceptions")
}
