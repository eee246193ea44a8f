// SPDX-License-Identifier: Apache-2.0

package nuclei

import (
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

func kinds() []sdk.Kind {
	// As reported, but null in place of what is missing, false, 0 or empty; so it can be anything.
	const textOrNull, listOrNull = sdk.Text | sdk.Null | sdk.AsReported, sdk.List | sdk.Null | sdk.AsReported
	const optional = sdk.Text | sdk.AsReported
	return []sdk.Kind{{
		Category:   sdk.AnyCategory,
		When:       "a match of a template; the category is the template's id; CRITICAL becomes HIGH, INFO INFORMATIONAL, UNKNOWN LOW",
		Severities: []string{finding.Informational, finding.Low, finding.Medium, finding.High},
		Attributes: []sdk.Attribute{
			{Name: "ip_addresses", Type: sdk.List},
			{Name: "hostname", Type: textOrNull, Doc: "the host name of the host, or the host where that is not a URL"},
			{Name: "type", Type: textOrNull, Doc: "the protocol: http, dns, ssl, tcp …"},
			{Name: "path", Type: textOrNull},
			{Name: "tags", Type: listOrNull, Doc: "of the template"},
			{Name: "reference", Type: listOrNull, Doc: "of the template"},
			{Name: "author", Type: listOrNull, Doc: "of the template"},
			{Name: "metadata", Type: sdk.Map | sdk.Null | sdk.AsReported, Doc: "of the template"},
			{Name: "timestamp", Type: textOrNull, Doc: "as reported; identified_at has it in UTC"},
			{Name: "matcher_status", Type: sdk.Bool | sdk.Null | sdk.AsReported, Doc: "true or null"},
			{Name: "matcher_name", Type: textOrNull},
			{Name: "matched_at", Type: textOrNull, Doc: "the URL or address that matched"},
			{Name: "matched_line", Type: sdk.Text | sdk.List | sdk.Null | sdk.AsReported},
			{Name: "extracted_results", Type: listOrNull},
			{Name: "request", Type: textOrNull, Doc: "if nuclei runs with -include-rr"},
			{Name: "response", Type: textOrNull, Doc: "if nuclei runs with -include-rr"},
			{Name: "curl_command", Type: textOrNull},
			{Name: "template", Type: optional},
			{Name: "template_url", Type: optional},
			{Name: "template_id", Type: optional},
		},
		Identity: []string{"location", "attributes.matched_at", "attributes.matcher_name"},
	}}
}
