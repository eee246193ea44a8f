// SPDX-License-Identifier: Apache-2.0

package forwardingv1_test

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// reference is the canonical form by reflection, written from the specification alone: it knows no message by name.
// A field that somebody adds to a body and forgets in digest.go shows as a difference.
func reference(record *forwardingv1.Record) []byte {
	message := record.ProtoReflect()
	body := message.WhichOneof(message.Descriptor().Oneofs().ByName("body"))
	if body == nil {
		return nil
	}
	return referenceMessage(message.Get(body).Message())
}

func referenceMessage(message protoreflect.Message) []byte {
	fields := message.Descriptor().Fields()
	var numbers []protoreflect.FieldDescriptor
	for i := range fields.Len() {
		if message.Has(fields.Get(i)) {
			numbers = append(numbers, fields.Get(i))
		}
	}
	slices.SortFunc(numbers, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number() - b.Number()) })
	var form []byte
	for _, field := range numbers {
		value := message.Get(field)
		switch {
		case field.IsMap():
			form = append(form, referenceMap(field, value.Map())...)
		case field.IsList():
			for i := range value.List().Len() {
				form = append(form, referenceField(field.Number(), referenceValue(field, value.List().Get(i)))...)
			}
		default:
			form = append(form, referenceField(field.Number(), referenceValue(field, value))...)
		}
	}
	return form
}

func referenceMap(field protoreflect.FieldDescriptor, entries protoreflect.Map) []byte {
	var keys []string
	entries.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key.String())
		return true
	})
	slices.Sort(keys)
	var form []byte
	for _, key := range keys {
		value := entries.Get(protoreflect.ValueOfString(key).MapKey())
		entry := slices.Concat(referenceField(1, []byte(key)), referenceField(2, referenceValue(field.MapValue(), value)))
		form = append(form, referenceField(field.Number(), entry)...)
	}
	return form
}

func referenceField(number protoreflect.FieldNumber, value []byte) []byte {
	form := binary.BigEndian.AppendUint32(nil, uint32(number))
	form = binary.BigEndian.AppendUint64(form, uint64(len(value)))
	return append(form, value...)
}

func referenceValue(field protoreflect.FieldDescriptor, value protoreflect.Value) []byte {
	switch field.Kind() {
	case protoreflect.StringKind:
		return []byte(value.String())
	case protoreflect.BytesKind:
		return value.Bytes()
	case protoreflect.BoolKind:
		if value.Bool() {
			return []byte{1}
		}
		return []byte{0}
	case protoreflect.MessageKind:
		return referenceMessage(value.Message())
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return binary.BigEndian.AppendUint64(nil, uint64(value.Int()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return binary.BigEndian.AppendUint64(nil, value.Uint())
	default:
		panic("the specification has no rule for " + field.Kind().String())
	}
}

// everything fills each field of the body, also those that are added later.
func everything(body proto.Message) {
	fill(body.ProtoReflect(), 1)
}

func fill(message protoreflect.Message, seed int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
			entries := message.Mutable(field).Map()
			for _, key := range []string{"b", "a", "Ä", ""} {
				entries.Set(protoreflect.ValueOfString(key).MapKey(), filled(message, field.MapValue(), seed+len(key)))
			}
		case field.IsList():
			list := message.Mutable(field).List()
			for n := range 2 {
				if field.Kind() == protoreflect.MessageKind {
					element := list.NewElement()
					fill(element.Message(), seed+n)
					list.Append(element)
					continue
				}
				list.Append(filled(message, field, seed+n))
			}
		default:
			message.Set(field, filled(message, field, seed+i))
		}
	}
}

func filled(message protoreflect.Message, field protoreflect.FieldDescriptor, seed int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(field.Name()) + string(rune('a'+seed%26)))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{byte(seed), 0, 255})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(seed) - 5)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(seed))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(seed) << 40)
	case protoreflect.MessageKind:
		inner := message.NewField(field)
		fill(inner.Message(), seed)
		return inner
	default:
		panic("no value for " + field.Kind().String())
	}
}
