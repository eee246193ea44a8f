// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
)

// fill sets each field of a message, those of messages in it too, and tells how many. Of a oneof the field that is named stays.
func fill(m protoreflect.Message, body protoreflect.Name) (count int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.ContainingOneof() != nil && field.Name() != body {
			continue
		}
		count++
		switch {
		case field.IsMap():
			entries := m.Mutable(field).Map()
			for _, key := range []string{"", "a", "b"} {
				entries.Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(key+key))
			}
		case field.IsList():
			list := m.Mutable(field).List()
			list.AppendMutable()
			fill(list.AppendMutable().Message(), body)
		case field.Kind() == protoreflect.MessageKind:
			count += fill(m.Mutable(field).Message(), body)
		default:
			m.Set(field, valueOf(field))
		}
	}
	return count
}

func valueOf(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0, 0xff, byte(field.Number())})
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1 << 20)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1 << 60)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(-5)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(-1 << 40)
	default:
		return protoreflect.ValueOfString(strings.Repeat("ü", int(field.Number())*9))
	}
}

// What is written field by field is what protobuf reads, whichever fields there are. A field that is new fails the test until it is written, too.
func TestAppendRecord(t *testing.T) {
	whole := &forwardingv1.Record{}
	if count := fill(whole.ProtoReflect(), "result"); count < 25 {
		t.Fatalf("%d fields are set", count)
	}
	decision := &forwardingv1.Record{}
	fill(decision.ProtoReflect(), "decision")
	unknown := proto.CloneOf(whole)
	unknown.GetResult().ProtoReflect().SetUnknown([]byte{0xf8, 0x3f, 1})
	for name, record := range map[string]*forwardingv1.Record{
		"Whole": whole, "Decision": decision, "Unknown": unknown, "Empty": {},
		"EmptyResult": {EventId: "e", Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{}}},
		"Other":       {EventId: "e", Body: &forwardingv1.Record_Closing{Closing: &forwardingv1.Closing{Records: 4}}},
	} {
		encoded, err := wire.AppendRecord([]byte("before"), record)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := &forwardingv1.Record{}
		if err := proto.Unmarshal([]byte(strings.TrimPrefix(string(encoded), "before")), got); err != nil || !proto.Equal(got, record) {
			t.Errorf("%s: %v\ngot  %v\nwant %v", name, err, got, record)
		}
		if want := proto.Size(record); len(encoded) != want+len("before") {
			t.Errorf("%s: %d bytes, protobuf writes %d", name, len(encoded)-len("before"), want)
		}
	}
}

// A text that is not UTF-8 is refused, as protobuf refuses it.
func TestAppendRecordOfNoUTF8(t *testing.T) {
	for name, record := range map[string]*forwardingv1.Record{
		"Result": {EventId: "e", Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{Extra: map[string]string{"a": "\xff"}}}},
		"Other":  {EventId: "e", Body: &forwardingv1.Record_Decision{Decision: &forwardingv1.Decision{Message: "\xff"}}},
	} {
		if to, err := wire.AppendRecord([]byte("before"), record); err == nil {
			t.Errorf("%s: %q", name, to)
		}
	}
}
