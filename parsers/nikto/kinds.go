// SPDX-License-Identifier: Apache-2.0

package nikto

import (
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// class is what the findings of some of nikto's tests are.
type class struct {
	first, last        float64
	category, severity string
}

// classes are looked through in order. The last takes every other number, and none.
var classes = []class{
	{999957, 999957, "X-Frame-Options Header", finding.Low},
	{999102, 999102, "X-XSS-Protection", finding.Low},
	{999100, 999100, "Uncommon Header", finding.Informational},
	{999996, 999996, "robots.txt", finding.Informational},
	{740001, 740001, "Potential Backup File", finding.Informational},
	{999103, 999103, "X-Content-Type-Options Header", finding.Informational},
	{521000, 521000, "Path Traversal", finding.High},
	{600000, 699999, "Outdated Software", finding.Medium},
	{800000, 899999, "Identified Software", finding.Informational},
	{0, 99999, "Potential Vulnerability", finding.High},
	{500017, 599999, "Identified Software", finding.Informational},
	{300000, 399999, "Embedded Device", finding.Informational},
}

var other = class{category: "Nikto Finding", severity: finding.Informational}

func classify(number float64) class {
	i := slices.IndexFunc(classes, func(c class) bool { return number >= c.first && number <= c.last })
	if i < 0 {
		return other
	}
	return classes[i]
}

func kinds() []sdk.Kind {
	const text, numberOrNull = sdk.Text | sdk.AsReported, sdk.Number | sdk.Null
	attributes := []sdk.Attribute{
		{Name: "ip_addresses", Type: sdk.List, Doc: "the one that nikto has asked"},
		{Name: "hostname", Type: text},
		{Name: "banner", Type: text, Doc: "of the server"},
		{Name: "method", Type: text, Doc: "of the request, mostly GET"},
		{Name: "port", Type: numberOrNull},
		{Name: "niktoId", Type: numberOrNull, Doc: "the number of nikto's test"},
		{Name: "references", Type: sdk.List | sdk.Null, Doc: "objects with type (URL or CWE) and value"},
	}
	var list []sdk.Kind
	for _, k := range []struct{ category, when string }{
		{"X-Frame-Options Header", "test 999957"},
		{"X-XSS-Protection", "test 999102"},
		{"Uncommon Header", "test 999100: a header that servers do not have as a rule"},
		{"robots.txt", "test 999996"},
		{"Potential Backup File", "test 740001"},
		{"X-Content-Type-Options Header", "test 999103"},
		{"Path Traversal", "test 521000"},
		{"Outdated Software", "tests 600000 to 699999"},
		{"Identified Software", "tests 500017 to 599999 and 800000 to 899999"},
		{"Potential Vulnerability", "tests 0 to 99999"},
		{"Embedded Device", "tests 300000 to 399999"},
		{other.category, "any other test"},
	} {
		list = append(list, sdk.Kind{
			Category: k.category, When: k.when, Attributes: attributes,
			Severities: []string{severityOf(k.category)}, Identity: identityOf(k.category),
		})
	}
	return list
}

func severityOf(category string) string {
	i := slices.IndexFunc(classes, func(c class) bool { return c.category == category })
	if i < 0 {
		return other.severity
	}
	return classes[i].severity
}

// identityOf leaves the message out, which has versions, counts and times in it, where the test and the URL do. Where
// one test tells of many headers or cookies of one URL, only the message says which.
func identityOf(category string) []string {
	identity := []string{"location", "attributes.port", "attributes.niktoId"}
	if category == "Uncommon Header" || category == other.category {
		identity = append(identity, "name")
	}
	return identity
}
