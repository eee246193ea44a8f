// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// DecodeRecord reads the encoded form of a record. What is bytes in the record is a part of encoded, which must not change as long as the record is used.
func DecodeRecord(encoded []byte) (*forwardingv1.Record, error) {
	if d := (&decodedDecision{text: string(encoded)}); d.record(encoded) {
		return &d.whole, nil
	}
	r := &forwardingv1.Record{}
	return r, proto.Unmarshal(encoded, r)
}

// decodedDecision is a record of a decision in one piece of memory. Its texts are parts of text, which is all that was encoded.
type decodedDecision struct {
	text     string
	whole    forwardingv1.Record
	body     forwardingv1.Record_Decision
	decision forwardingv1.Decision
	at       timestamppb.Timestamp
}

// record is false where the record is one for package proto: another body, fields that are not known here or come twice, maps, texts that are not UTF-8.
func (d *decodedDecision) record(encoded []byte) bool {
	fields := walk{encoded: encoded, text: d.text}
	for fields.next() {
		switch fields.number {
		case recordEventID:
			d.whole.EventId = fields.string()
		case recordSequence:
			d.whole.Sequence = fields.varint()
		case recordObservedAt:
			if d.whole.ObservedAt != nil || !d.timestamp(fields.message()) {
				return false
			}
			d.whole.ObservedAt = &d.at
		case recordDigest:
			d.whole.Digest = fields.bytes()
		case recordSchema:
			d.whole.Schema = uint32(fields.varint())
		case recordDecision:
			if d.whole.Body != nil || !d.decide(fields.message()) {
				return false
			}
			d.body.Decision, d.whole.Body = &d.decision, &d.body
		default:
			return false
		}
	}
	return !fields.odd && d.whole.Body != nil
}

func (d *decodedDecision) timestamp(fields walk) bool {
	for fields.next() {
		switch fields.number {
		case timestampSeconds:
			d.at.Seconds = int64(fields.varint())
		case timestampNanos:
			d.at.Nanos = int32(fields.varint())
		default:
			return false
		}
	}
	return !fields.odd
}

func (d *decodedDecision) decide(fields walk) bool {
	to := &d.decision
	texts := [...]*string{
		1: &to.TimeStamp, 2: &to.DecisionId, 3: &to.Message, 4: &to.EventType, 5: &to.ConstraintKind, 6: &to.ConstraintName, 7: &to.ConstraintAction,
		8: &to.ResourceKind, 9: &to.ResourceNamespace, 10: &to.ResourceName,
	}
	for fields.next() {
		switch number := fields.number; {
		case number < protowire.Number(len(texts)):
			*texts[number] = fields.string()
		case number == 11:
			to.InputJson = fields.bytes()
		case number == 12:
			to.DetailsJson = fields.bytes()
		case number == 13:
			to.ExtraJson = fields.bytes()
		default:
			return false
		}
	}
	return !fields.odd
}

// walk goes over the fields of a message. text is the same as encoded.
type walk struct {
	encoded []byte
	text    string
	at      int
	number  protowire.Number
	kind    protowire.Type
	odd     bool // something is not as it should be: the walk has ended
}

// next steps to the next field; the caller reads it.
func (w *walk) next() bool {
	if w.odd || w.at == len(w.encoded) {
		return false
	}
	number, kind, n := protowire.ConsumeTag(w.encoded[w.at:])
	if n < 0 {
		w.odd = true
		return false
	}
	w.number, w.kind, w.at = number, kind, w.at+n
	return true
}

func (w *walk) varint() uint64 {
	value, n := protowire.ConsumeVarint(w.encoded[w.at:])
	if w.kind != protowire.VarintType || n < 0 {
		w.odd = true
		return 0
	}
	w.at += n
	return value
}

// span gives where the bytes of the field are.
func (w *walk) span() (from, to int) {
	value, n := protowire.ConsumeBytes(w.encoded[w.at:])
	if w.kind != protowire.BytesType || n < 0 {
		w.odd = true
		return w.at, w.at
	}
	w.at += n
	return w.at - len(value), w.at
}

func (w *walk) bytes() []byte {
	from, to := w.span()
	if from == to {
		return nil // as package proto has it
	}
	return w.encoded[from:to:to]
}

func (w *walk) string() string {
	from, to := w.span()
	text := w.text[from:to]
	w.odd = w.odd || !utf8.ValidString(text)
	return text
}

func (w *walk) message() walk {
	from, to := w.span()
	return walk{encoded: w.encoded[from:to], text: w.text[from:to], odd: w.odd}
}
