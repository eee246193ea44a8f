// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"fmt"
	"slices"
)

// The severities a finding may have. There is none above HIGH.
const (
	Informational = "INFORMATIONAL"
	Low           = "LOW"
	Medium        = "MEDIUM"
	High          = "HIGH"
)

type textState uint8

const (
	textAbsent textState = iota
	textNull
	textString
)

// Text is a string of the wire format in its three states. The zero Text is absent: its key is not written.
// Two Texts compare with ==.
type Text struct {
	value string
	state textState
}

// String returns the Text that is written as a JSON string, also when s is empty.
func String(s string) Text { return Text{value: s, state: textString} }

// Null returns the Text that is written as JSON null.
func Null() Text { return Text{state: textNull} }

// StringOrNull returns null for the empty string, as the many "value or null" fields of parsers want it.
func StringOrNull(s string) Text {
	if s == "" {
		return Null()
	}
	return String(s)
}

// Equal lets go-cmp compare Texts.
func (t Text) Equal(u Text) bool { return t == u }

// IsAbsent reports that the key is not written at all.
func (t Text) IsAbsent() bool { return t.state == textAbsent }

// IsNull reports that the key is written with the value null.
func (t Text) IsNull() bool { return t.state == textNull }

// Get returns the string and whether there is one (neither absent nor null).
func (t Text) Get() (string, bool) { return t.value, t.state == textString }

// Or returns the string, or fallback where the Text is absent or null.
func (t Text) Or(fallback string) string {
	if t.state != textString {
		return fallback
	}
	return t.value
}

// String returns the text for people: empty where it is absent or null.
func (t Text) String() string { return t.value }

// Reference points to more about a finding: a CVE, a CWE, a URL.
type Reference struct {
	Type  string
	Value string
}

// References is the list of references in its three states: the zero value is absent, Null writes null, and any
// non-nil List, also an empty one, writes an array.
type References struct {
	List []Reference
	Null bool
}

// ScanInfo says which Scan a finding comes from. Parsers do not set it, the parser SDK does.
type ScanInfo struct {
	CreatedAt string
	Name      string
	Namespace string
	ScanType  string
}

// Finding is one entry of findings.json. Fields of type Text that are left zero are not written.
//
// A parser sets Name, Category, Severity and whatever else it knows; ID, ParsedAt and Scan are set by the parser SDK.
type Finding struct {
	// ID is a UUID derived from the content, see [ID].
	ID Text
	// Fingerprint is the same for the same thing found again, in whatever state; see [Fingerprint]. Absent where the
	// parser does not say what makes two findings the same.
	Fingerprint Text
	// IdentifiedAt is when the scanner saw it, an RFC 3339 time.
	IdentifiedAt Text
	// ParsedAt is when the raw result was parsed, an RFC 3339 time.
	ParsedAt Text
	// Name is the short title.
	Name Text
	// Description says more, in any length.
	Description Text
	// Category is the grouping key that the Scan's status counts by.
	Category Text
	// Severity is one of Informational, Low, Medium, High.
	Severity Text
	// Mitigation says what to do about it.
	Mitigation Text
	// References lists where to read more.
	References References
	// Attributes hold what is particular to the scanner. Nil is absent, an empty Object is {}.
	Attributes Object
	// Location says where the target is, mostly as a URL.
	Location Text
	// OSILayer is NETWORK, APPLICATION or NOT_APPLICABLE. Not in the schema, but written by most parsers.
	OSILayer Text
	// Scan names the Scan. Nil is absent.
	Scan *ScanInfo
	// Extra holds every other key, and known keys whose value has a type the fields above cannot hold
	// (then the field is left zero).
	Extra Object
}

// Member is one key and its value in an Object.
type Member struct {
	Key   string
	Value any
}

// Object is a JSON object that keeps the order of its keys. Values are nil, bool, string, [Text], all int and uint
// types up to 64 bits, float64, []string, []any, Object, []Object, [Raw] and map[string]any (written with sorted
// keys); anything else goes through encoding/json. A member whose value is an absent Text is not written.
// Decoding gives nil, bool, string, float64, []any and Object.
type Object []Member

// Raw is a JSON value written as it is. It must be valid JSON.
type Raw []byte

// Get returns the value of a key and whether the key is there.
func (o Object) Get(key string) (any, bool) {
	for i := range o {
		if o[i].Key == key {
			return o[i].Value, true
		}
	}
	return nil, false
}

// Text returns the value of a key as a Text: a string, null, or absent also where it is of another type.
func (o Object) Text(key string) Text {
	v, ok := o.Get(key)
	if !ok {
		return Text{}
	}
	switch v := v.(type) {
	case nil:
		return Null()
	case string:
		return String(v)
	case Text:
		return v
	}
	return Text{}
}

// Set gives a key a value: in its old place if it is there, else at the end.
func (o *Object) Set(key string, value any) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Member{key, value})
}

// Delete removes a key and tells whether it was there.
func (o *Object) Delete(key string) bool {
	for i := range *o {
		if (*o)[i].Key == key {
			*o = slices.Delete(*o, i, i+1)
			return true
		}
	}
	return false
}

// AppendJSON appends the finding as one compact JSON object. It fails only on an attribute value of a type that
// cannot be written.
func (f *Finding) AppendJSON(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, '{')
	dst, err := f.appendContent(dst)
	if err != nil {
		return dst[:start], err
	}
	dst = appendTextMember(dst, `,"id":`, f.ID)
	dst = appendTextMember(dst, `,"fingerprint":`, f.Fingerprint)
	dst = appendTextMember(dst, `,"identified_at":`, f.IdentifiedAt)
	dst = appendTextMember(dst, `,"parsed_at":`, f.ParsedAt)
	if f.Scan != nil {
		dst = appendScan(dst, f.Scan)
	}
	if len(dst) > start+1 { // every member was written with a comma before it
		dst = append(dst[:start+1], dst[start+2:]...)
	}
	return append(dst, '}'), nil
}

// appendContent writes what the id is derived from: all but id, fingerprint, identified_at, parsed_at and scan.
// Every member begins with a comma.
func (f *Finding) appendContent(dst []byte) ([]byte, error) {
	dst = appendTextMember(dst, `,"name":`, f.Name)
	dst = appendTextMember(dst, `,"description":`, f.Description)
	dst = appendTextMember(dst, `,"category":`, f.Category)
	dst = appendTextMember(dst, `,"location":`, f.Location)
	dst = appendTextMember(dst, `,"osi_layer":`, f.OSILayer)
	dst = appendTextMember(dst, `,"severity":`, f.Severity)
	dst = appendTextMember(dst, `,"mitigation":`, f.Mitigation)
	dst = appendReferences(dst, f.References)
	var err error
	if f.Attributes != nil {
		dst = append(dst, `,"attributes":`...)
		if dst, err = appendObject(dst, f.Attributes); err != nil {
			return dst, fmt.Errorf("attributes: %w", err)
		}
	}
	for _, m := range f.Extra {
		if t, ok := m.Value.(Text); ok && t.IsAbsent() {
			continue
		}
		dst = append(dst, ',')
		dst = AppendString(dst, m.Key)
		dst = append(dst, ':')
		if dst, err = AppendValue(dst, m.Value); err != nil {
			return dst, fmt.Errorf("%s: %w", m.Key, err)
		}
	}
	return dst, nil
}

func appendTextMember(dst []byte, key string, t Text) []byte {
	switch t.state {
	case textAbsent:
		return dst
	case textNull:
		dst = append(dst, key...)
		return append(dst, "null"...)
	case textString:
	}
	dst = append(dst, key...)
	return AppendString(dst, t.value)
}

func appendReferences(dst []byte, r References) []byte {
	if r.Null {
		return append(dst, `,"references":null`...)
	}
	if r.List == nil {
		return dst
	}
	dst = append(dst, `,"references":[`...)
	for i, ref := range r.List {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":`...)
		dst = AppendString(dst, ref.Type)
		dst = append(dst, `,"value":`...)
		dst = AppendString(dst, ref.Value)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendScan(dst []byte, s *ScanInfo) []byte {
	dst = append(dst, `,"scan":{"created_at":`...)
	dst = AppendString(dst, s.CreatedAt)
	dst = append(dst, `,"name":`...)
	dst = AppendString(dst, s.Name)
	dst = append(dst, `,"namespace":`...)
	dst = AppendString(dst, s.Namespace)
	dst = append(dst, `,"scan_type":`...)
	dst = AppendString(dst, s.ScanType)
	return append(dst, '}')
}

// MarshalJSON writes what AppendJSON writes. It has a value receiver so that a Finding inside an interface or a
// slice of values is not written field by field.
func (f Finding) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil) }

// UnmarshalJSON reads one finding. It fails on anything that is not one JSON object; whatever the object holds
// is kept, if need be in Extra.
func (f *Finding) UnmarshalJSON(data []byte) error {
	v, err := DecodeValue(data, defaultMaxDepth)
	if err != nil {
		return fmt.Errorf("finding: %w", err)
	}
	o, ok := v.(Object)
	if !ok {
		return fmt.Errorf("finding: is %s, must be an object", kindOf(v))
	}
	*f = Finding{}
	for _, m := range o {
		if !f.setKnown(m) {
			f.Extra = append(f.Extra, m)
		}
	}
	return nil
}

// setKnown puts a member into the field it belongs to, if there is one that can hold it.
func (f *Finding) setKnown(m Member) bool {
	if t := f.textField(m.Key); t != nil {
		switch v := m.Value.(type) {
		case nil:
			*t = Null()
		case string:
			*t = String(v)
		default:
			return false
		}
		return true
	}
	switch m.Key {
	case "attributes":
		o, ok := m.Value.(Object)
		if ok {
			f.Attributes = o
		}
		return ok
	case "references":
		return f.setReferences(m.Value)
	case "scan":
		s, ok := scanInfoOf(m.Value)
		if ok {
			f.Scan = s
		}
		return ok
	}
	return false
}

func (f *Finding) textField(key string) *Text {
	switch key {
	case "id":
		return &f.ID
	case "fingerprint":
		return &f.Fingerprint
	case "identified_at":
		return &f.IdentifiedAt
	case "parsed_at":
		return &f.ParsedAt
	case "name":
		return &f.Name
	case "description":
		return &f.Description
	case "category":
		return &f.Category
	case "severity":
		return &f.Severity
	case "mitigation":
		return &f.Mitigation
	case "location":
		return &f.Location
	case "osi_layer":
		return &f.OSILayer
	}
	return nil
}

func (f *Finding) setReferences(v any) bool {
	if v == nil {
		f.References.Null = true
		return true
	}
	list, ok := v.([]any)
	if !ok {
		return false
	}
	refs := make([]Reference, 0, len(list))
	for _, e := range list {
		o, ok := e.(Object)
		if !ok || len(o) != 2 {
			return false
		}
		typ, ok1 := o.Text("type").Get()
		val, ok2 := o.Text("value").Get()
		if !ok1 || !ok2 {
			return false
		}
		refs = append(refs, Reference{typ, val})
	}
	f.References.List = refs
	return true
}

// scanInfoOf takes only the exact shape; any other is kept as it is in Extra.
func scanInfoOf(v any) (*ScanInfo, bool) {
	o, ok := v.(Object)
	if !ok || len(o) != 4 {
		return nil, false
	}
	s := &ScanInfo{}
	for key, field := range map[string]*string{
		"created_at": &s.CreatedAt, "name": &s.Name, "namespace": &s.Namespace, "scan_type": &s.ScanType,
	} {
		if *field, ok = o.Text(key).Get(); !ok {
			return nil, false
		}
	}
	return s, true
}
