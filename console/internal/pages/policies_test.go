// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/http"
	"testing"

	"github.com/scanyard/scanyard/console/internal/consoletest"
)

func TestPolicyReports(t *testing.T) {
	w := consoletest.Full(t).Enter()
	has(t, w.Get("/policyreports"), "The reports API is not installed.", "charts/reports")
	w.Rows = consoletest.Rows(500)
	w.Rows[0].Result, w.Rows[0].Source, w.Rows[0].Policy = "pass", "kyverno", "disallow-latest-tag"
	has(t, w.Get("/policyreports"), "CVE-2024-30", "50 shown of 1", "Next page")
	has(t, w.Get("/policyreports?by=source"), "kyverno", "scanyard/nmap", "?source=kyverno")
	has(t, w.Get("/policyreports?by=namespace"), "team-red", "?ns=team-red")
	has(t, w.Get("/policyreports?ns=team-red"), `<input type="hidden" name="ns" value="team-red">`)
	one := w.Get("/policyreports?policy=disallow-latest-tag")
	has(t, one, "1 result", "kyverno", "pass", "/findings/reported?index=0")
	lacks(t, one, "scanyard/nmap")
	has(t, w.Get("/policyreports?resource=shop&result=fail"), "Next page", "resource: shop", "result: fail")
	has(t, w.Get("/policyreports?policy=none"), "No results match.", "Clear the filter")
	has(t, w.Get("/policyreports?text=LATEST"), "disallow-latest-tag", "1 shown of 1")
	if a := w.Get("/policyreports?by=weather"); a.Code != http.StatusBadRequest {
		t.Errorf("an unknown group answers %d", a.Code)
	}
}
