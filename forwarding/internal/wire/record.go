// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// Fields of a record and of its time.
const (
	recordEventID, recordSequence, recordObservedAt, recordDigest, recordSchema protowire.Number = 1, 2, 3, 4, 5
	recordResult, recordDecision                                                protowire.Number = 10, 12
	timestampSeconds, timestampNanos                                            protowire.Number = 1, 2
)

// AppendRecord appends a record as protobuf has it. A Result, of which a Scan can have millions, and a decision are written field by field: protobuf
// counts the sizes of all parts first, and reads maps by reflection, which is most of what it takes.
func AppendRecord(to []byte, r *forwardingv1.Record) ([]byte, error) {
	if !isKnown(r) {
		return proto.MarshalOptions{}.MarshalAppend(to, r)
	}
	w := appender{to: to}
	w.text(recordEventID, r.GetEventId())
	w.number(recordSequence, r.GetSequence())
	if at := r.GetObservedAt(); at != nil {
		start := w.begin(recordObservedAt)
		w.number(timestampSeconds, uint64(at.GetSeconds()))
		w.number(timestampNanos, uint64(int64(at.GetNanos())))
		w.end(start)
	}
	w.bytes(recordDigest, r.GetDigest())
	w.number(recordSchema, uint64(r.GetSchema()))
	if result := r.GetResult(); result != nil {
		start := w.begin(recordResult)
		w.result(result)
		w.end(start)
	} else {
		start := w.begin(recordDecision)
		w.decision(r.GetDecision())
		w.end(start)
	}
	if w.wrong != 0 {
		return to, fmt.Errorf("field %d of a record is not valid UTF-8", w.wrong)
	}
	return w.to, nil
}

// isKnown tells whether a record is one that is written here: a Result or a decision, without fields of a later version.
func isKnown(r *forwardingv1.Record) bool {
	plain := func(m proto.Message) bool { return len(m.ProtoReflect().GetUnknown()) == 0 }
	if !plain(r) || !plain(r.GetObservedAt()) {
		return false
	}
	if d := r.GetDecision(); d != nil {
		return plain(d)
	}
	for _, reference := range r.GetResult().GetReferences() {
		if !plain(reference) {
			return false
		}
	}
	return r.GetResult() != nil && plain(r.GetResult())
}

// appender appends fields. It leaves out what is empty, as proto3 does.
type appender struct {
	to []byte
	// wrong is the number of a text that protobuf does not take; 0: none.
	wrong protowire.Number
}

func (w *appender) result(r *forwardingv1.Result) {
	w.text(1, r.GetSubject())
	w.text(2, r.GetControl())
	w.text(3, r.GetRule())
	w.text(4, r.GetAssessmentId())
	w.text(5, r.GetOutcome())
	w.text(6, r.GetDescription())
	w.text(7, r.GetSeverity())
	w.text(8, r.GetInstructions())
	w.entries(9, r.GetExtra())
	w.text(10, r.GetTitle())
	w.text(11, r.GetFindingId())
	w.text(12, r.GetFingerprint())
	w.text(13, r.GetCategory())
	w.text(14, r.GetLocation())
	w.text(15, r.GetOsiLayer())
	for _, reference := range r.GetReferences() {
		start := w.begin(16)
		w.text(1, reference.GetType())
		w.text(2, reference.GetValue())
		w.end(start)
	}
	w.bytes(17, r.GetAttributesJson())
	w.bytes(18, r.GetExtraJson())
	w.text(19, r.GetIdentifiedAt())
	w.text(20, r.GetParsedAt())
	if r.GetSuppressed() {
		w.number(21, 1)
	}
	w.text(22, r.GetException())
}

func (w *appender) decision(d *forwardingv1.Decision) {
	w.text(1, d.GetTimeStamp())
	w.text(2, d.GetDecisionId())
	w.text(3, d.GetMessage())
	w.text(4, d.GetEventType())
	w.text(5, d.GetConstraintKind())
	w.text(6, d.GetConstraintName())
	w.text(7, d.GetConstraintAction())
	w.text(8, d.GetResourceKind())
	w.text(9, d.GetResourceNamespace())
	w.text(10, d.GetResourceName())
	w.bytes(11, d.GetInputJson())
	w.bytes(12, d.GetDetailsJson())
	w.bytes(13, d.GetExtraJson())
	w.entries(14, d.GetExtra())
}

// entries appends a map.
func (w *appender) entries(number protowire.Number, all map[string]string) {
	for key, value := range all {
		start := w.begin(number)
		w.always(1, key)
		w.always(2, value)
		w.end(start)
	}
}

func (w *appender) text(number protowire.Number, text string) {
	if text != "" {
		w.always(number, text)
	}
}

// always appends a text also where it is empty, as in entries of maps.
func (w *appender) always(number protowire.Number, text string) {
	if !utf8.ValidString(text) {
		w.wrong = number
	}
	w.to = protowire.AppendString(protowire.AppendTag(w.to, number, protowire.BytesType), text)
}

func (w *appender) bytes(number protowire.Number, value []byte) {
	if len(value) > 0 {
		w.to = protowire.AppendBytes(protowire.AppendTag(w.to, number, protowire.BytesType), value)
	}
}

func (w *appender) number(number protowire.Number, value uint64) {
	if value != 0 {
		w.to = protowire.AppendVarint(protowire.AppendTag(w.to, number, protowire.VarintType), value)
	}
}

// begin begins a message; end puts its length in front of it.
func (w *appender) begin(number protowire.Number) (start int) {
	w.to = protowire.AppendTag(w.to, number, protowire.BytesType)
	return len(w.to)
}

func (w *appender) end(start int) {
	length := uint64(len(w.to) - start)
	var room [10]byte
	w.to = slices.Insert(w.to, start, protowire.AppendVarint(room[:0], length)...)
}
