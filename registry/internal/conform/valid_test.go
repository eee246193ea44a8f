// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"strings"
	"testing"
)

const goodSPDX = `{"SPDXID":"SPDXRef-DOCUMENT","spdxVersion":"SPDX-2.3","dataLicense":"CC0-1.0","name":"a","documentNamespace":"https://example.com/a",
	"creationInfo":{"created":"2025-09-01T00:00:00Z","creators":["Tool: a"]},
	"packages":[{"SPDXID":"SPDXRef-a","name":"a","downloadLocation":"NOASSERTION"}],
	"relationships":[{"spdxElementId":"SPDXRef-DOCUMENT","relatedSpdxElement":"SPDXRef-a","relationshipType":"DESCRIBES"}]}`

const goodCycloneDX = `{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,"components":[{"type":"library","name":"a","bom-ref":"a"}]}`

func TestDocumentsAreHeldToTheirSchemas(t *testing.T) {
	for name, test := range map[string]struct {
		valid             func([]byte) error
		good, part, wrong string
		want              string
	}{
		"AMemberIsMissing": {validSPDX, goodSPDX, `,"downloadLocation":"NOASSERTION"`, ``, "/packages/0: "},
		"AKindIsNotKnown":  {validSPDX, goodSPDX, `"DESCRIBES"`, `"LIKES"`, "/relationships/0/relationshipType: "},
		"AMemberTooMany":   {validSPDX, goodSPDX, `"name":"a","documentNamespace"`, `"nick":"b","name":"a","documentNamespace"`, "'nick'"},
		"NothingDescribed": {validSPDX, goodSPDX, `"DESCRIBES"`, `"CONTAINS"`, "DESCRIBES"},
		"ATypeIsNotKnown":  {validCycloneDX, goodCycloneDX, `"library"`, `"book"`, "/components/0/type: "},
		"AnotherVersion":   {validCycloneDX, goodCycloneDX, `"1.6"`, `"1.4"`, "specVersion 1.6"},
		"TwoOfOneName": {
			validCycloneDX, goodCycloneDX, `"components":[`, `"components":[{"type":"library","name":"b","bom-ref":"a"},`, `component "a"`,
		},
		"NoJSON": {validCycloneDX, goodCycloneDX, `{"bomFormat"`, `"bomFormat"`, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.valid([]byte(test.good)); err != nil {
				t.Fatal(err)
			}
			bad := strings.Replace(test.good, test.part, test.wrong, 1)
			if err := test.valid([]byte(bad)); bad == test.good || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error with %s, got %v", test.want, err)
			}
		})
	}
}
