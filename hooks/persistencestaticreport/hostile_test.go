// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
)

// hostileTexts are at most ten.
var hostileTexts = []string{
	`</script><script>window.ran='script'</script>`,
	`<!--<script>`,
	`]]>--></script></body><svg/onload=alert(1)>`,
	"line\u2028separator\u2029'\"`\\u003cb\\u003e",
	`<img src=http://127.0.0.1:9/x onerror=alert(2)>`,
	`javascript:alert(3)//{{script}}{{policy}}`,
	`=HYPERLINK("http://127.0.0.1:9/","click")`,
	"\x1b[31m\x00\x07 | `cell` **bold** [a](javascript:alert(4))",
	`"><a href="http://127.0.0.1:9/">x</a> &lt;b&gt;`,
}

// hostileFindings have the texts in every field, in this order of severity.
func hostileFindings(t *testing.T) []byte {
	t.Helper()
	var all []any
	for _, text := range hostileTexts {
		all = append(all, finding.Object{
			{Key: "id", Value: text},
			{Key: "name", Value: text},
			{Key: "category", Value: text},
			{Key: "severity", Value: "HIGH"},
			{Key: "location", Value: text},
			{Key: "description", Value: text},
			{Key: "mitigation", Value: text},
			{Key: "identified_at", Value: text},
			{Key: "references", Value: []any{finding.Object{{Key: "type", Value: text}, {Key: "value", Value: text}}}},
			{Key: "attributes", Value: finding.Object{{Key: text, Value: text}, {Key: "__proto__", Value: finding.Object{{Key: "polluted", Value: text}}}}},
		})
	}
	text, err := finding.AppendValue(nil, all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
