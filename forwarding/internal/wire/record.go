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

// AppendRecord appends a record as protobuf has it. A Result, of which a Scan can have millions, is written field by field: protobuf counts the sizes
// of all parts first, and reads maps by reflection, which is most of what it takes.
func AppendRecord(to []byte, r *forwardingv1.Record) ([]byte, error) {
	result := r.GetResult()
	if result == nil || len(r.ProtoReflect().GetUnknown()) > 0 || len(result.ProtoReflect().GetUnknown()) > 0 {
		return proto.MarshalOptions{}.MarshalAppend(to, r)
	}
	w := appender{to: to}
	w.text(1, r.GetEventId())
	w.number(2, r.GetSequence())
	if at := r.GetObservedAt(); at != nil {
		start := w.begin(3)
		w.number(1, uint64(at.GetSeconds()))
		w.number(2, uint64(int64(at.GetNanos())))
		w.end(start)
	}
	w.bytes(4, r.GetDigest())
	w.number(5, uint64(r.GetSchema()))
	start := w.begin(10)
	w.result(result)
	w.end(start)
	if w.wrong != 0 {
		return to, fmt.Errorf("field %d of a record is not valid UTF-8", w.wrong)
	}
	return w.to, nil
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
	for key, value := range r.GetExtra() {
		start := w.begin(9)
		w.always(1, key)
		w.always(2, value)
		w.end(start)
	}
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
