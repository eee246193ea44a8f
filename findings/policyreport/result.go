// SPDX-License-Identifier: Apache-2.0

package policyreport

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/rating"
)

// Outcomes are what a result can be, in the order of a summary.
var Outcomes = []string{"pass", "fail", "warn", "error", "skip"}

// Ranks order the severities of findings. 0 is none.
var Ranks = map[string]int{finding.Informational: 1, finding.Low: 2, finding.Medium: 3, finding.High: 4}

// severities are the words of reports for those of findings.
var severities = map[string]string{finding.Informational: "info", finding.Low: "low", finding.Medium: "medium", finding.High: "high"}

// Bounds of one result: findings may be of any size, chunks may not.
const (
	maxName        = 253
	maxMessage     = 4 << 10
	maxMitigation  = 1 << 10
	maxLocation    = 1 << 10
	maxReferences  = 4 << 10
	maxFingerprint = 1 << 10
	maxAttributes  = 32
	maxAttribute   = 256
)

// Result is one element of a report's results. The fields are those of PolicyReportResult.
type Result struct {
	Source     string            `json:"source"`
	Policy     string            `json:"policy"`
	Rule       string            `json:"rule,omitempty"`
	Category   string            `json:"category,omitempty"`
	Severity   string            `json:"severity,omitempty"`
	Timestamp  *timestamp        `json:"timestamp,omitempty"`
	Result     string            `json:"result"`
	Scored     bool              `json:"scored"`
	Resources  []ObjectReference `json:"resources,omitempty"`
	Message    string            `json:"message,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
}

type timestamp struct {
	Seconds int64 `json:"seconds"`
	Nanos   int32 `json:"nanos"`
}

// ObjectReference names an object of Kubernetes.
type ObjectReference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
}

// Mapping is how results are made of findings.
type Mapping struct {
	Informational string // the result of INFORMATIONAL findings
	Least         int    // the rank below which findings are left out

	// Of the Scan:
	Source   string
	Finished string           // when the Scan ended, an RFC 3339 time; may be empty
	Resource *ObjectReference // what the Scan is about; may be nil
}

// Result makes the result of a finding; false leaves the finding out.
func (m *Mapping) Result(f finding.Object) (Result, bool) {
	severity := strings.ToUpper(f.Text("severity").String())
	if Ranks[severity] < m.Least {
		return Result{}, false
	}
	attributes := objectAt(f, "attributes")
	score, scored := rating.Score(attributes)
	name := f.Text("name").String()
	r := Result{
		Source:     m.Source,
		Policy:     policyOf(f, attributes),
		Rule:       text.Cut(name, maxName),
		Category:   text.Cut(f.Text("category").String(), maxName),
		Severity:   severities[severity],
		Timestamp:  timestampOf(f.Text("identified_at").String(), f.Text("parsed_at").String(), m.Finished),
		Result:     "fail",
		Scored:     true,
		Message:    messageOf(f, name),
		Properties: propertiesOf(f, attributes),
	}
	if rating.IsCritical(attributes) {
		if r.Severity != "" {
			r.Properties[propertySeverity] = severity
		}
		r.Severity = "critical"
	}
	if scored {
		r.Properties["cvss"] = strconv.FormatFloat(score, 'f', -1, 64)
	}
	if severity == finding.Informational {
		r.Result = m.Informational
	}
	if mark, _ := f.Get("false_positive"); mark == true {
		r.Result = "skip"
	}
	if about := cmp.Or(referenceOf(attributes), m.Resource); about != nil {
		r.Resources = []ObjectReference{*about}
	}
	return r, true
}

// policyOf names what was violated: a known weakness, else a rule of the scanner, else the category.
func policyOf(f, attributes finding.Object) string {
	for _, wanted := range []string{"CVE", "GHSA", "CWE"} {
		for _, reference := range objectsAt(f, "references") {
			if value := reference.Text("value").String(); value != "" && strings.EqualFold(reference.Text("type").String(), wanted) {
				return text.Cut(value, maxName)
			}
		}
	}
	for _, key := range []string{"rule_id", "id", "template_id"} {
		if value := attributes.Text(key).String(); value != "" {
			return text.Cut(value, maxName)
		}
	}
	return text.Cut(cmp.Or(f.Text("category").String(), "scanyard"), maxName)
}

// messageOf is what people read, with the place at its end, which long texts must not push out.
func messageOf(f finding.Object, name string) string {
	message := cmp.Or(f.Text("description").String(), name)
	location := text.Cut(f.Text("location").String(), maxLocation)
	if location == "" {
		return text.Cut(message, maxMessage)
	}
	place := " (" + location + ")"
	return text.Cut(message, maxMessage-len(place)) + place
}

// timestampOf is the first of the times that is one.
func timestampOf(times ...string) *timestamp {
	for _, t := range times {
		if at, err := time.Parse(time.RFC3339Nano, t); err == nil {
			return &timestamp{Seconds: at.Unix(), Nanos: int32(at.Nanosecond())}
		}
	}
	return nil
}

// propertiesOf are further facts as texts: of a finding's attributes only scalars, in their order, so many as fit.
func propertiesOf(f, attributes finding.Object) map[string]string {
	properties := map[string]string{}
	set := func(key, value string, most int) {
		if value != "" {
			properties[key] = text.Cut(value, most)
		}
	}
	set("id", f.Text("id").String(), maxAttribute)
	set(propertyFingerprint, f.Text("fingerprint").String(), maxFingerprint)
	set(propertyOrigin, attributes.Text("origin").String(), maxAttribute)
	set("location", f.Text("location").String(), maxLocation)
	set("osi_layer", f.Text("osi_layer").String(), maxAttribute)
	set("mitigation", f.Text("mitigation").String(), maxMitigation)
	var references []string
	for _, reference := range objectsAt(f, "references") {
		if value := reference.Text("value").String(); value != "" {
			references = append(references, value)
		}
	}
	set("references", strings.Join(references, ","), maxReferences)
	taken := 0
	for _, member := range attributes {
		value, scalar := scalarOf(member.Value)
		if !scalar || value == "" {
			continue
		}
		if taken++; taken > maxAttributes {
			break
		}
		set(prefixAttribute+text.Cut(member.Key, maxAttribute), value, maxAttribute)
	}
	return properties
}

func scalarOf(value any) (string, bool) {
	switch value.(type) {
	case string, float64, bool:
		return finding.ToString(value), true
	default:
		return "", false
	}
}

// referenceOf is the object of Kubernetes that attributes name: {"kubernetes": {"kind", "name", …}}, or the same with dots.
// Nil where kind or name is missing.
func referenceOf(attributes finding.Object) *ObjectReference {
	nested := objectAt(attributes, "kubernetes")
	field := func(key string) string {
		return text.Cut(cmp.Or(nested.Text(key).String(), attributes.Text("kubernetes."+key).String()), maxName)
	}
	return named(ObjectReference{APIVersion: field("apiVersion"), Kind: field("kind"), Namespace: field("namespace"), Name: field("name")})
}

// named is the reference, or nil where it names nothing.
func named(r ObjectReference) *ObjectReference {
	if r.Kind == "" || r.Name == "" {
		return nil
	}
	return &r
}

func objectAt(o finding.Object, key string) finding.Object {
	value, _ := o.Get(key)
	object, _ := value.(finding.Object)
	return object
}

func objectsAt(o finding.Object, key string) []finding.Object {
	value, _ := o.Get(key)
	list, _ := value.([]any)
	var objects []finding.Object
	for _, element := range list {
		if object, ok := element.(finding.Object); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// Decode reads one finding.
func Decode(decoder *finding.Decoder, element []byte) (finding.Object, error) {
	value, err := decoder.Value(element)
	if err != nil {
		return nil, fmt.Errorf("read finding: %w", err)
	}
	object, ok := value.(finding.Object)
	if !ok {
		return nil, errors.New("must be an object")
	}
	return object, nil
}

// indexOf is the index of an outcome in a summary.
func indexOf(outcome string) int { return slices.Index(Outcomes, outcome) }
