// SPDX-License-Identifier: Apache-2.0

package policyreport

import (
	"cmp"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/exception"
)

// AnnotationExceptions with the value ignore says of a report that exceptions are not for its results.
const (
	AnnotationExceptions = "scanyard.io/exceptions"
	ExceptionsIgnored    = "ignore"
)

// The properties of a result that an exception matches.
const (
	propertyException       = "exception" // as KIND/NAME
	propertyExceptionStatus = "exceptionStatus"
	propertyExceptionReason = "exceptionReason"
	// propertyExceptionResult is the result that the finding has by itself, where the exception has made it a skip.
	propertyExceptionResult = "exceptionResult"
)

// Properties that hold what a result cannot say otherwise, for exceptions.
const (
	propertyFingerprint = "fingerprint"
	propertySeverity    = "severity" // that of the finding, where the result's is critical
	prefixAttribute     = "attr."
)

// propertyOrigin names the stored object that a finding is a copy of, as VulnerabilityReport/NAME.
const propertyOrigin = "scanyard.io/origin"

// IsCopy reports whether a result is a copy of what a VulnerabilityReport holds, by its properties: that one counts.
func IsCopy(properties map[string]string) bool {
	return strings.HasPrefix(properties[propertyOrigin], "VulnerabilityReport/")
}

// Except marks the result with the exception that matches its finding; nil for none. One that suppresses makes it a skip.
func (r *Result) Except(m *exception.Mark) {
	if m != nil {
		r.Result = Remark(r.Result, r.Severity, r.Properties, m)
	}
}

// Remark marks a stored result with the exception that matches its finding now; nil for none. It changes the properties, takes
// back what an earlier exception has made of the result, and returns the result.
func Remark(result, severity string, properties map[string]string, m *exception.Mark) string {
	own := result
	if Suppressed(properties) {
		own = cmp.Or(properties[propertyExceptionResult], usual(severity))
	}
	for _, key := range []string{propertyException, propertyExceptionStatus, propertyExceptionReason, propertyExceptionResult} {
		delete(properties, key)
	}
	if m == nil {
		return own
	}
	properties[propertyException] = m.Kind + "/" + m.Name
	properties[propertyExceptionStatus] = string(m.Status)
	properties[propertyExceptionReason] = text.Cut(m.Reason, maxAttribute)
	if !m.Suppresses() {
		return own
	}
	properties[propertyExceptionResult] = own
	return "skip"
}

// ExceptionOf is the exception that a result is marked with, as KIND/NAME; empty for none.
func ExceptionOf(properties map[string]string) string {
	if properties[propertyExceptionStatus] == "" { // a result of others, whose property means something else
		return ""
	}
	return properties[propertyException]
}

// Suppressed tells whether a result is marked by an exception that suppresses its finding.
func Suppressed(properties map[string]string) bool {
	status := settingsv1alpha2.ExceptionStatus(properties[propertyExceptionStatus])
	return ExceptionOf(properties) != "" && status.Suppresses()
}

// usual is the result of findings where nobody has chosen another one.
func usual(severity string) string {
	if severity == severities[finding.Informational] {
		return "warn"
	}
	return "fail"
}

// Remains is what a result says of its finding.
func Remains(rule, category, severity string, properties map[string]string) *exception.Remains {
	r := &remains{lacks: map[string]bool{"expression": true}}
	r.text("fingerprint", "fingerprints", properties[propertyFingerprint], maxFingerprint)
	r.lacks["fingerprints"] = r.lacks["fingerprints"] || properties[propertyFingerprint] == ""
	r.text("name", "names", rule, maxName)
	r.text("category", "categories", category, maxName)
	r.severity(severity, properties[propertySeverity])
	r.text("location", "locations", properties["location"], maxLocation)
	r.references(properties["references"])
	attributes := map[string]string{}
	for key, value := range properties {
		if name, ok := strings.CutPrefix(key, prefixAttribute); ok {
			attributes[name] = value
		}
	}
	r.attributes(attributes)
	return &exception.Remains{Finding: r.object, Lacks: r.isLacking, Held: ExceptionOf(properties)}
}

// remains collects what is left of a finding. What may have been cut is left out, and told to be lacking.
type remains struct {
	object finding.Object
	lacks  map[string]bool
	// all says that the finding has no further attributes that a result could hold.
	all bool
	has map[string]bool // the attributes that are there, and whether they are whole
}

// longer tells whether a text may have been cut to a bound: one that was ends within the bytes of a character before it.
func longer(value string, most int) bool {
	return len(value) > most-4 && strings.HasSuffix(value, "…")
}

func (r *remains) text(key, field, value string, most int) {
	if longer(value, most) {
		r.lacks[field] = true
		return
	}
	if value != "" {
		r.object.Set(key, value)
	}
}

func (r *remains) severity(severity, own string) {
	for word, of := range severities {
		if of == severity {
			own = word
		}
	}
	if own == "" && severity != "" {
		r.lacks["severities"] = true
		return
	}
	r.object.Set("severity", own)
}

func (r *remains) references(joined string) {
	r.lacks["references"] = longer(joined, maxReferences)
	var list []any
	for value := range strings.SplitSeq(joined, ",") {
		list = append(list, finding.Object{{Key: "value", Value: value}})
	}
	r.object.Set("references", list)
}

func (r *remains) attributes(all map[string]string) {
	var attributes finding.Object
	r.has = map[string]bool{}
	r.all = len(all) < maxAttributes
	for key, value := range all {
		r.has[key] = !longer(value, maxAttribute)
		r.all = r.all && !longer(key, maxAttribute)
		if r.has[key] {
			attributes = append(attributes, finding.Member{Key: key, Value: value})
		}
	}
	r.object.Set("attributes", attributes)
}

func (r *remains) isLacking(field string) bool {
	switch key, attribute := strings.CutPrefix(field, "attributes."); {
	case attribute:
		return r.lacksAttribute(key)
	case field == "packages":
		return r.lacksAttribute("purl")
	case field == "products":
		return r.lacks["locations"] || r.lacksAttribute("digest")
	}
	return r.lacks[field]
}

// lacksAttribute tells of an attribute that is not there whether the finding may have it all the same: in an object, which no
// result holds, beyond those that a result holds, or longer.
func (r *remains) lacksAttribute(path string) bool {
	if whole, there := r.has[path]; there {
		return !whole
	}
	return !r.all || strings.Contains(path, ".")
}
