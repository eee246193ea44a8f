// SPDX-License-Identifier: Apache-2.0

package mapping

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/finding"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/findings/exception"
)

// Outcomes of a Result and of a summary.
const (
	OutcomeFail  = "FAIL"
	OutcomeInfo  = "INFO"
	OutcomePass  = "PASS"
	OutcomeError = "ERROR"
	// OutcomeExcepted is that of a finding that an exception suppresses.
	OutcomeExcepted = "EXCEPTED"
)

// ruleKeys are the attributes that name what a scanner has checked, the most telling first.
var ruleKeys = []string{"rule_id", "template_id", "zap_pluginid", "vulnerability_id", "check_id", "check"}

// mapper makes Results of the findings of one Scan.
type mapper struct {
	subject, assessment, scanType string
	extra                         map[string]string
	members, attributes           []member
	// namespace is that of the Scan, held the exceptions that held for the Scan.
	namespace string
	held      *exception.Selection
	decoder   *finding.Decoder
}

// except marks a Result with the exception that matches the finding. One that is under investigation keeps its outcome. A finding
// that cannot be read whole matches nothing, and is sent all the same.
func (m *mapper) except(r *forwardingv1.Result, element []byte) {
	mark, ok, err := m.held.MatchRaw(m.decoder, element)
	if !ok || err != nil {
		return
	}
	r.Exception = mark.Name
	if mark.Kind == exception.Kind {
		r.Exception = m.namespace + "/" + mark.Name
	}
	if r.Suppressed = mark.Suppresses(); r.Suppressed {
		r.Outcome = OutcomeExcepted
	}
}

// result makes a Result of an element of findings.json, an object whose syntax is checked. The Result holds nothing of element.
func (m *mapper) result(element []byte) *forwardingv1.Result {
	r := &forwardingv1.Result{Subject: m.subject, AssessmentId: m.assessment}
	m.members = appendMembers(m.members[:0], element)
	var attributes []byte
	description := -1
	for i := range m.members {
		f := &m.members[i]
		switch {
		case isNull(f.value) && isKnown(f.key): // as good as absent
			f.said = true
		case f.key == "attributes" && f.value[0] == '{':
			attributes, f.said = f.value, true
		case f.key == "references":
			f.said = setReferences(r, f.value)
		case f.key == "description" && isString(f.value):
			description = i
		default:
			f.said = setText(r, f)
		}
	}
	r.Description = r.GetTitle()
	if description >= 0 {
		describe(r, &m.members[description])
	}
	r.AttributesJson = slices.Clone(attributes)
	r.ExtraJson = objectOf(m.members)
	r.Control = controlOf(r.GetReferences())
	r.Rule = m.ruleOf(attributes, r.GetCategory())
	r.Outcome = outcomeOf(r.GetSeverity())
	r.Extra = m.extraOf(r.GetLocation(), attributes)
	return r
}

func isKnown(key string) bool {
	return key == "attributes" || key == "references" || key == "description" || field(&forwardingv1.Result{}, key) != nil
}

// field is the field of a Result for a text of a finding, but for the description.
func field(r *forwardingv1.Result, key string) *string {
	switch key {
	case "id":
		return &r.FindingId
	case "fingerprint":
		return &r.Fingerprint
	case "identified_at":
		return &r.IdentifiedAt
	case "parsed_at":
		return &r.ParsedAt
	case "name":
		return &r.Title
	case "category":
		return &r.Category
	case "severity":
		return &r.Severity
	case "mitigation":
		return &r.Instructions
	case "location":
		return &r.Location
	case "osi_layer":
		return &r.OsiLayer
	}
	return nil
}

// fieldKeys are the keys that field knows, in the order in which parsers write them.
var fieldKeys = []string{"name", "category", "location", "osi_layer", "severity", "mitigation", "id", "fingerprint", "identified_at", "parsed_at"}

// describe sets the description. One that is empty or the same as the title would not come back from the field.
func describe(r *forwardingv1.Result, f *member) {
	text := textOf(f.value)
	if text == "" {
		return
	}
	r.Description = strings.ToValidUTF8(text, "\uFFFD")
	f.said = r.GetDescription() == text && text != r.GetTitle()
}

// setText puts a text into its field, and tells whether the field says all of it.
func setText(r *forwardingv1.Result, f *member) bool {
	target := field(r, f.key)
	if target == nil || !isString(f.value) {
		return false
	}
	text := textOf(f.value)
	if f.key != "severity" {
		*target = strings.ToValidUTF8(text, "\uFFFD")
		return *target == text && text != ""
	}
	*target = strings.ToLower(strings.ToValidUTF8(text, "\uFFFD"))
	return strings.ToUpper(*target) == text && text != ""
}

// setReferences takes a list of references that have type and value and nothing else.
func setReferences(r *forwardingv1.Result, raw []byte) bool {
	var f finding.Finding
	if err := f.UnmarshalJSON(slices.Concat([]byte(`{"references":`), raw, []byte("}"))); err != nil || len(f.References.List) == 0 {
		return false
	}
	list := make([]*forwardingv1.Reference, 0, len(f.References.List))
	for _, reference := range f.References.List {
		if !utf8.ValidString(reference.Type) || !utf8.ValidString(reference.Value) {
			return false
		}
		list = append(list, &forwardingv1.Reference{Type: reference.Type, Value: reference.Value})
	}
	r.References = list
	return true
}

// objectOf writes the members that no field says as one object, their bytes as they are.
func objectOf(members []member) []byte {
	var out []byte
	for _, m := range members {
		if m.said {
			continue
		}
		separator := byte(',')
		if len(out) == 0 {
			separator = '{'
		}
		out = append(append(append(append(out, separator), m.rawKey...), ':'), m.value...)
	}
	if len(out) == 0 {
		return nil
	}
	return append(out, '}')
}

// controlOf groups the references that are not URLs by type, in the order in which the types appear first.
func controlOf(references []*forwardingv1.Reference) string {
	var types []string
	values := map[string][]string{}
	for _, reference := range references {
		if reference.GetType() == "URL" {
			continue
		}
		if _, seen := values[reference.GetType()]; !seen {
			types = append(types, reference.GetType())
		}
		values[reference.GetType()] = append(values[reference.GetType()], reference.GetValue())
	}
	groups := make([]string, 0, len(types))
	for _, name := range types {
		groups = append(groups, name+": "+strings.Join(values[name], ";"))
	}
	return strings.Join(groups, ", ")
}

// ruleOf names what was checked.
func (m *mapper) ruleOf(attributes []byte, category string) string {
	if attributes != nil {
		m.attributes = appendMembers(m.attributes[:0], attributes)
		for _, key := range ruleKeys {
			i := slices.IndexFunc(m.attributes, func(a member) bool { return a.key == key })
			if i < 0 {
				continue
			}
			if name := ruleName(m.attributes[i].value); name != "" {
				return m.scanType + "/" + name
			}
		}
	}
	return m.scanType + "/" + slug(category)
}

// ruleName is a non-empty text or an integer; empty for all else.
func ruleName(raw []byte) string {
	if isString(raw) {
		return strings.ToValidUTF8(textOf(raw), "\uFFFD")
	}
	digits := raw
	if digits[0] == '-' {
		digits = digits[1:]
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return ""
		}
	}
	return string(raw)
}

// slug is a text in lower case with a dash for each run of other characters than letters, digits and dots, none at the ends.
func slug(text string) string {
	var out strings.Builder
	gap := false
	for _, c := range strings.ToLower(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' {
			gap = true
			continue
		}
		if gap && out.Len() > 0 {
			out.WriteByte('-')
		}
		gap = false
		out.WriteRune(c)
	}
	return out.String()
}

func outcomeOf(severity string) string {
	if severity == "informational" {
		return OutcomeInfo
	}
	return OutcomeFail
}

// Keys of Result.extra beside the configured ones.
const (
	extraNamespace    = "namespace"
	extraScan         = "scan"
	extraScanType     = "scanType"
	extraResourceType = "resourceType"
)

// extraOf adds what kind of thing the finding is about. The map is the finding's own.
func (m *mapper) extraOf(location string, attributes []byte) map[string]string {
	extra := make(map[string]string, len(m.extra)+1)
	maps.Copy(extra, m.extra)
	extra[extraResourceType] = "target"
	if attributes != nil && isClusterObject(location, m.attributes) {
		extra[extraResourceType] = "cluster"
	}
	return extra
}

// isClusterObject tells whether a scanner of clusters has found it: the attributes name kind and name of an object, and the location ends with both.
func isClusterObject(location string, attributes []member) bool {
	var kind, name string
	for _, a := range attributes {
		switch {
		case !isString(a.value):
		case a.key == "kind":
			kind = textOf(a.value)
		case a.key == "name":
			name = textOf(a.value)
		}
	}
	return kind != "" && name != "" && strings.HasSuffix("/"+location, "/"+kind+"/"+name)
}

// FindingOf is the finding that a Result was made from. Keys that were null are absent, and keys of findings.json that have a field stand first.
func FindingOf(r *forwardingv1.Result) (*finding.Finding, error) {
	o := object{bytes: []byte{'{'}}
	if extra := r.GetExtraJson(); len(extra) > 0 {
		if err := finding.CheckValue(extra, 0); err != nil {
			return nil, fmt.Errorf("extra_json: %w", err)
		}
		if extra[0] != '{' {
			return nil, errors.New("extra_json is not an object")
		}
		o.further = appendMembers(nil, extra)
	}
	for _, key := range fieldKeys {
		text := *field(r, key)
		if key == "severity" {
			text = strings.ToUpper(text)
		}
		o.addText(key, text)
	}
	if description := r.GetDescription(); description != r.GetTitle() {
		o.addText("description", description)
	}
	if len(r.GetReferences()) > 0 {
		o.add("references", appendReferences(nil, r.GetReferences()))
	}
	if len(r.GetAttributesJson()) > 0 {
		o.add("attributes", r.GetAttributesJson())
	}
	f := &finding.Finding{}
	return f, f.UnmarshalJSON(o.close())
}

// object is JSON that is being put together. Members of further are written as they are, and in place of fields of the same key.
type object struct {
	bytes   []byte
	further []member
}

func (o *object) addText(key, text string) {
	if text != "" {
		o.add(key, finding.AppendString(nil, text))
	}
}

func (o *object) add(key string, value []byte) {
	if !slices.ContainsFunc(o.further, func(m member) bool { return m.key == key }) {
		o.write(finding.AppendString(nil, key), value)
	}
}

func (o *object) write(key, value []byte) {
	if len(o.bytes) > 1 {
		o.bytes = append(o.bytes, ',')
	}
	o.bytes = append(append(append(o.bytes, key...), ':'), value...)
}

func (o *object) close() []byte {
	for _, m := range o.further {
		o.write(m.rawKey, m.value)
	}
	return append(o.bytes, '}')
}

func appendReferences(dst []byte, references []*forwardingv1.Reference) []byte {
	for i, reference := range references {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		dst = append(append(dst, separator), `{"type":`...)
		dst = finding.AppendString(dst, reference.GetType())
		dst = append(dst, `,"value":`...)
		dst = append(finding.AppendString(dst, reference.GetValue()), '}')
	}
	return append(dst, ']')
}
