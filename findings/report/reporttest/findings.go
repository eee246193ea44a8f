// SPDX-License-Identifier: Apache-2.0

package reporttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
)

// HostileTexts mean something to a browser, a spreadsheet, a terminal, Markdown or XML. They are at most ten.
var HostileTexts = []string{
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

// HostileFindings are an array of findings with such a text in every field, in their order.
func HostileFindings(t testing.TB) []byte {
	t.Helper()
	var all []any
	for _, text := range HostileTexts {
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

// VariedFindings are an array of findings as scanners make them, of all severities.
func VariedFindings(count int) []byte {
	names := []string{
		"SQL Injection", "Cross Site Scripting (Reflected)", "Missing Content Security Policy",
		"Cookie Without Secure Flag", "Server Leaks Version Information", "Open Port: 443 (https)",
		"Outdated TLS 1.0 is enabled", "Directory Listing", "Weak Password Found",
		"Vulnerable JavaScript Library",
	}
	categories := []string{
		"Injection", "Cross Site Scripting", "Missing Header", "Cookie", "Information Leak",
		"Open Port", "Outdated TLS Version", "Misconfiguration", "Discovered Credentials",
		"Vulnerable Dependency",
	}
	severities := []string{"HIGH", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "INFORMATIONAL", "MEDIUM", "LOW", "HIGH", "MEDIUM"}
	var out strings.Builder
	out.WriteByte('[')
	for i := range count {
		if i > 0 {
			out.WriteByte(',')
		}
		k := (i*i + i/7) % len(names)
		if i%3 != 0 {
			k = 4 + i%2
		}
		fmt.Fprintf(
			&out,
			`{"id":"%08x-0000-5000-8000-000000000000","name":%q,"category":%q,"severity":%q,"location":"https://shop-%d.example.com/app/%s"`+
				`,"description":"The response of this page shows it. Number %d.\nSecond line.","mitigation":"Change the settings of the server."`+
				`,"references":[{"type":"CVE","value":"CVE-2029-%04d"},{"type":"URL","value":"https://cve.example.org/CVE-2029-%04d"}]`+
				`,"attributes":{"port":443,"confidence":"Medium","cwe":%d,"evidence":{"header":"Server: x","line":%d}},"identified_at":"2030-01-01T11:30:00Z"}`,
			i, names[k], categories[k], severities[k], i%17, strings.ToLower(categories[k][:4]), i, i%9999, i%9999, 20+i%70, i,
		)
	}
	out.WriteByte(']')
	return []byte(out.String())
}
