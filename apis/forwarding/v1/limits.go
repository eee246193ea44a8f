// SPDX-License-Identifier: Apache-2.0

package forwardingv1

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/scanyard/scanyard/apis/internal/jsontext"
)

// Limits that a receiver has unless it says otherwise.
const (
	DefaultMaxMessageBytes    = 4 << 20
	DefaultWindowBytes        = 8 << 20
	DefaultMaxRecordsPerBatch = 10_000
	DefaultMaxRecordBytes     = 2 << 20
)

// DefaultLimits are the limits of a receiver that says nothing else.
func DefaultLimits() *Limits {
	return &Limits{
		MaxMessageBytes: DefaultMaxMessageBytes, WindowBytes: DefaultWindowBytes,
		MaxRecordsPerBatch: DefaultMaxRecordsPerBatch, MaxRecordBytes: DefaultMaxRecordBytes,
	}
}

// WithDefaults fills the limits that are not given.
func (l *Limits) WithDefaults() *Limits {
	filled := DefaultLimits()
	if l.GetMaxMessageBytes() > 0 {
		filled.MaxMessageBytes = l.GetMaxMessageBytes()
	}
	if l.GetWindowBytes() > 0 {
		filled.WindowBytes = l.GetWindowBytes()
	}
	if l.GetMaxRecordsPerBatch() > 0 {
		filled.MaxRecordsPerBatch = l.GetMaxRecordsPerBatch()
	}
	if l.GetMaxRecordBytes() > 0 {
		filled.MaxRecordBytes = l.GetMaxRecordBytes()
	}
	return filled
}

const maxEventID = 128

// Check tells why a receiver refuses the record, or nil. It looks at size, identity, body and digest; batch is the number that the rejection names.
func Check(record *Record, limits *Limits, batch uint64) *Rejection {
	reject := func(reason RejectionReason, format string, values ...any) *Rejection {
		return &Rejection{Batch: batch, EventId: record.GetEventId(), Reason: reason, Message: fmt.Sprintf(format, values...)}
	}
	size, most := uint64(proto.Size(record)), limits.WithDefaults().GetMaxRecordBytes()
	if size > most {
		return reject(RejectionReason_REJECTION_REASON_TOO_LARGE, "the record has %d bytes: at most %d are taken", size, most)
	}
	if wrong := wrongEventID(record.GetEventId()); wrong != "" {
		return reject(RejectionReason_REJECTION_REASON_MALFORMED, "event_id %s", wrong)
	}
	if record.GetSequence() == 0 {
		return reject(RejectionReason_REJECTION_REASON_MALFORMED, "sequence is 0: the first record of a stream has 1")
	}
	if len(record.GetDigest()) != DigestSize {
		return reject(RejectionReason_REJECTION_REASON_MALFORMED, "digest has %d bytes: SHA-256 has %d", len(record.GetDigest()), DigestSize)
	}
	if record.GetSchema() > Schema {
		return nil
	}
	if record.GetBody() == nil {
		return reject(RejectionReason_REJECTION_REASON_UNSUPPORTED, "the record has no body that wire version %s knows", Version)
	}
	if !bytes.Equal(Digest(record), record.GetDigest()) {
		return reject(RejectionReason_REJECTION_REASON_DIGEST_MISMATCH, "the body is not the one that the digest was made of")
	}
	if field := notJSON(record); field != "" {
		return reject(RejectionReason_REJECTION_REASON_MALFORMED, "%s is not JSON", field)
	}
	return nil
}

func wrongEventID(id string) string {
	if id == "" {
		return "is empty"
	}
	if len(id) > maxEventID {
		return fmt.Sprintf("has %d characters: at most %d are taken", len(id), maxEventID)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fmt.Sprintf("has the byte %#x at %d: printable ASCII without space is taken", id[i], i)
		}
	}
	return ""
}

// notJSON names the field that has to be JSON and is not.
func notJSON(record *Record) string {
	valid := func(value []byte) bool { return len(value) == 0 || jsontext.Valid(value) }
	object := func(value []byte) bool {
		return len(value) == 0 || jsontext.Valid(value) && bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("{"))
	}
	switch body := record.GetBody().(type) {
	case *Record_Result:
		if !valid(body.Result.GetAttributesJson()) {
			return "attributes_json"
		}
		if !object(body.Result.GetExtraJson()) {
			return "extra_json"
		}
	case *Record_Decision:
		if !valid(body.Decision.GetInputJson()) {
			return "input_json"
		}
		if !valid(body.Decision.GetDetailsJson()) {
			return "details_json"
		}
		if !object(body.Decision.GetExtraJson()) {
			return "extra_json"
		}
	}
	return ""
}
