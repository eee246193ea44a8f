// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/internal/jsontext"
)

// Event types of other programs that have a meaning here. Any other name of the form [a-z][a-z0-9_]* is kept.
const (
	AuditViolation   = "audit_violation"
	WebhookViolation = "webhook_violation"
)

// Bounds of a record.
const (
	maxID        = 128
	maxEventType = 63
)

// Record is one decision. Message and EventType are required.
type Record struct {
	// TimeStamp is a time of RFC 3339; empty: the time of intake.
	TimeStamp string
	// DecisionID is 1 to 128 printable ASCII characters without space; empty: the exporter makes one.
	DecisionID string
	// Message is for people. It is never cut.
	Message string
	// EventType is such as audit_violation.
	EventType string
	// ConstraintKind, ConstraintName and ConstraintAction name the policy, and what it does: dryrun, deny, warn or other.
	ConstraintKind, ConstraintName, ConstraintAction string
	// ResourceKind, ResourceNamespace and ResourceName name what was decided about.
	ResourceKind, ResourceNamespace, ResourceName string
	// Input and Details are any JSON values, byte for byte; nil: absent.
	Input, Details json.RawMessage
	// Extra holds all other keys in their order.
	Extra []Member
}

// Member is a key of a JSON object and its value, byte for byte.
type Member struct {
	Key   string
	Value json.RawMessage
}

// MalformedError tells why a line is not a record: at a byte of the line, or by a key.
type MalformedError struct {
	Offset  int // from 0; only where Key is empty
	Key     string
	Message string
}

// Error names the key or the byte.
func (e *MalformedError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("key %s: %s", e.Key, e.Message)
	}
	return fmt.Sprintf("byte %d: %s", e.Offset, e.Message)
}

// field gives the text of a known key; nil for input, details and keys that are not known.
func (r *Record) field(key string) *string {
	switch key {
	case "timeStamp":
		return &r.TimeStamp
	case "decisionId":
		return &r.DecisionID
	case "message":
		return &r.Message
	case "eventType":
		return &r.EventType
	case "constraintKind":
		return &r.ConstraintKind
	case "constraintName":
		return &r.ConstraintName
	case "constraintAction":
		return &r.ConstraintAction
	case "resourceKind":
		return &r.ResourceKind
	case "resourceNamespace":
		return &r.ResourceNamespace
	case "resourceName":
		return &r.ResourceName
	}
	return nil
}

// Validate tells which key breaks its rule, by a [MalformedError]; nil for a record that an exporter takes. Of values it looks at their encoding, and
// not at whether they are JSON.
func (r *Record) Validate() error {
	switch {
	case r.EventType == "":
		return &MalformedError{Key: "eventType", Message: "is required, such as audit_violation"}
	case !isEventType(r.EventType):
		message := fmt.Sprintf("must be lower-case letters, digits and _, a letter first, at most %d characters", maxEventType)
		return &MalformedError{Key: "eventType", Message: message}
	}
	if r.TimeStamp != "" {
		if _, err := time.Parse(time.RFC3339, r.TimeStamp); err != nil {
			return &MalformedError{Key: "timeStamp", Message: "must be a time of RFC 3339, such as 2026-01-02T15:04:05Z"}
		}
	}
	if r.DecisionID != "" && !isID(r.DecisionID) {
		return &MalformedError{Key: "decisionId", Message: fmt.Sprintf("must be 1 to %d printable ASCII characters without space", maxID)}
	}
	return r.validateValues()
}

func (r *Record) validateValues() error {
	for _, m := range []Member{{Key: "input", Value: r.Input}, {Key: "details", Value: r.Details}} {
		if !utf8.Valid(m.Value) {
			return notJSON(m.Key)
		}
	}
	var known Record
	for _, m := range r.Extra {
		switch {
		case m.Key == "input" || m.Key == "details" || known.field(m.Key) != nil:
			return &MalformedError{Key: m.Key, Message: "has a field of its own and must not be in Extra"}
		case m.Value == nil:
			return &MalformedError{Key: m.Key, Message: "has no value"}
		case !utf8.Valid(m.Value):
			return notJSON(m.Key)
		}
	}
	return nil
}

func notJSON(key string) error { return &MalformedError{Key: key, Message: "must be a JSON value"} }

func isEventType(s string) bool {
	if len(s) > maxEventType || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

func isID(s string) bool {
	if len(s) > maxID {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Append appends the record as one line of JSON without its newline, or tells what is wrong with the record.
// Values keep their bytes, but for line breaks between their parts, which become spaces.
func Append(dst []byte, r *Record) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(slices.Grow(dst, r.length()), '{')
	text := func(key, value string, required bool) {
		if value != "" || required {
			dst = appendKey(dst, start, key)
			dst = appendString(dst, value)
		}
	}
	text("timeStamp", r.TimeStamp, false)
	text("decisionId", r.DecisionID, false)
	text("eventType", r.EventType, true)
	text("message", r.Message, true)
	text("constraintKind", r.ConstraintKind, false)
	text("constraintName", r.ConstraintName, false)
	text("constraintAction", r.ConstraintAction, false)
	text("resourceKind", r.ResourceKind, false)
	text("resourceNamespace", r.ResourceNamespace, false)
	text("resourceName", r.ResourceName, false)
	var err error
	if dst, err = appendValue(dst, start, "input", r.Input); err != nil {
		return dst[:start], err
	}
	if dst, err = appendValue(dst, start, "details", r.Details); err != nil {
		return dst[:start], err
	}
	for _, m := range r.Extra {
		if dst, err = appendValue(dst, start, m.Key, m.Value); err != nil {
			return dst[:start], err
		}
	}
	return append(dst, '}'), nil
}

// length is about what the line of a record has, if nothing is to be escaped in it.
func (r *Record) length() int {
	const names = 256 // all that are known, with what is between them
	n := names + len(r.Input) + len(r.Details)
	for _, text := range []string{
		r.TimeStamp, r.DecisionID, r.EventType, r.Message, r.ConstraintKind, r.ConstraintName, r.ConstraintAction, r.ResourceKind, r.ResourceNamespace,
		r.ResourceName,
	} {
		n += len(text)
	}
	for _, m := range r.Extra {
		n += len(m.Key) + len(m.Value) + len(`"":,`)
	}
	return n
}

func appendKey(dst []byte, start int, key string) []byte {
	if len(dst) > start+1 {
		dst = append(dst, ',')
	}
	return append(appendString(dst, key), ':')
}

func appendValue(dst []byte, start int, key string, value json.RawMessage) ([]byte, error) {
	if value == nil {
		return dst, nil
	}
	if !jsontext.Valid(value) {
		return dst, notJSON(key)
	}
	dst = appendKey(dst, start, key)
	at := len(dst)
	dst = append(dst, value...)
	if bytes.IndexByte(value, '\n') >= 0 || bytes.IndexByte(value, '\r') >= 0 { // between parts only: texts hold them escaped
		for i := at; i < len(dst); i++ {
			if dst[i] == '\n' || dst[i] == '\r' {
				dst[i] = ' '
			}
		}
	}
	return dst, nil
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON text. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	asIs := 0 // from here on nothing is appended yet, and nothing has to be changed
	for i := 0; i < len(s); {
		if i+8 <= len(s) && jsontext.Plain(s[i:i+8]) {
			i += 8
			continue
		}
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[asIs:i]...)
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		asIs = i
		switch {
		case c >= utf8.RuneSelf:
			dst = utf8.AppendRune(dst, r)
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, s[asIs:]...), '"')
}
