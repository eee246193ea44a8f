// SPDX-License-Identifier: Apache-2.0

package refs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/refs"
)

func TestList(t *testing.T) {
	tests := map[string]struct {
		add  func(*refs.List) bool
		want []finding.Reference
	}{
		"CVE": {func(l *refs.List) bool { return l.ID("cve-2024-12345-openssl") && l.ID("CVE-2024-12345") }, []finding.Reference{
			{Type: "CVE", Value: "CVE-2024-12345"}, {Type: "URL", Value: "https://nvd.nist.gov/vuln/detail/CVE-2024-12345"},
		}},
		"GHSA": {func(l *refs.List) bool { return l.ID("GHSA-vh95-RMGR-6w4m") }, []finding.Reference{
			{Type: "GHSA", Value: "GHSA-vh95-rmgr-6w4m"}, {Type: "URL", Value: "https://github.com/advisories/GHSA-vh95-rmgr-6w4m"},
		}},
		"CWEs": {func(l *refs.List) bool {
			return l.CWE("external/cwe/cwe-079") && l.CWE("CWE-79: XSS") && l.CWE("cwe_22")
		}, []finding.Reference{
			{Type: "CWE", Value: "CWE-79"},
			{Type: "URL", Value: "https://cwe.mitre.org/data/definitions/79.html"},
			{Type: "CWE", Value: "CWE-22"},
			{Type: "URL", Value: "https://cwe.mitre.org/data/definitions/22.html"},
		}},
		"URL": {func(l *refs.List) bool { l.URL("https://example.com/a"); l.URL("https://example.com/a"); return true }, []finding.Reference{
			{Type: "URL", Value: "https://example.com/a"},
		}},
		"NotALink": {func(l *refs.List) bool { l.URL("javascript:alert(1)"); l.URL(""); return true }, nil},
		"NotAnID": {func(l *refs.List) bool {
			return l.ID("GO-2024-1") || l.ID("CVE-2024") || l.CWE("CWE-0") || l.CWE("scwe-1")
		}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var l refs.List
			if got := tt.add(&l); got != (name != "NotAnID") {
				t.Errorf("told %v", got)
			}
			if diff := cmp.Diff(tt.want, l.References().List); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
