// SPDX-License-Identifier: Apache-2.0

package cloudevent

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/decisionwire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const typePrefix = "io.scanyard.forwarding.v1."

// Type gives the type of the event that a record becomes.
func Type(record sink.Record) string {
	if record.Message == nil {
		return typePrefix + "decision"
	}
	switch record.Message.GetBody().(type) {
	case *forwardingv1.Record_Result:
		return typePrefix + "result"
	case *forwardingv1.Record_ScanSummary:
		return typePrefix + "scan"
	case *forwardingv1.Record_Closing:
		return typePrefix + "closing"
	default:
		return typePrefix + "decision"
	}
}

// Attribute is one attribute of an event. None is empty.
type Attribute struct{ Key, Value string }

// Event is a record as an event.
type Event struct {
	Attributes []Attribute
	// Data is JSON, with no line break between its parts. It may change with the next event of the Stream.
	Data []byte
	// Message is the record as the protocol knows it.
	Message *forwardingv1.Record
}

// Of gives the event that a record becomes.
func Of(stream *forwardingv1.StreamId, record sink.Record) (Event, error) {
	return NewStream(stream).Event(record)
}

// Stream makes events of the records of one stream. What all of them have alike is made once. A Stream is for one goroutine.
type Stream struct {
	id      *forwardingv1.StreamId
	run     string
	sources map[string]string // by the name of the stream of a producer
	line    []byte            // of the last decision that came as a message
}

// NewStream gives the maker of a stream's events.
func NewStream(id *forwardingv1.StreamId) *Stream {
	return &Stream{id: id, run: id.GetUid() + "/" + strconv.FormatUint(uint64(id.GetRevision()), 10), sources: map[string]string{}}
}

// ID names the stream.
func (s *Stream) ID() *forwardingv1.StreamId { return s.id }

// Event gives the event that a record becomes.
func (s *Stream) Event(record sink.Record) (Event, error) {
	message, err := decisionwire.Message(record)
	if err != nil {
		return Event{}, fmt.Errorf("record %s: %w", record.EventID, err)
	}
	subject, data, err := s.content(record.Line, message)
	if err != nil {
		return Event{}, fmt.Errorf("record %s: %w", record.EventID, err)
	}
	const most = 11
	event := Event{Data: data, Message: message, Attributes: make([]Attribute, 0, most)}
	for _, attribute := range [...]Attribute{
		{"specversion", "1.0"},
		{"id", message.GetEventId()},
		{"source", s.source(&record)},
		{"type", Type(sink.Record{Message: message})},
		{"subject", subject},
		{"time", message.GetObservedAt().AsTime().UTC().Format(time.RFC3339Nano)},
		{"datacontenttype", "application/json"},
		{"scanyardsequence", strconv.FormatUint(message.GetSequence(), 10)},
		{"scanyarddigest", hex.EncodeToString(message.GetDigest())},
		{"scanyardstream", s.run},
	} {
		if attribute.Value != "" {
			event.Attributes = append(event.Attributes, attribute)
		}
	}
	if message.GetDecision() != nil {
		event.Attributes = append(event.Attributes, Attribute{"scanyardtenant", s.id.GetTenant()})
	}
	return event, nil
}

// source is a URI: what comes from outside is escaped.
func (s *Stream) source(record *sink.Record) string {
	stream := sink.Batch{Stream: s.id}.StreamOf(record)
	if made, known := s.sources[stream.GetName()]; known {
		return made
	}
	parts := []string{"/scanyard"}
	for _, part := range []string{stream.GetClusterId(), stream.GetTenant(), stream.GetName()} {
		parts = append(parts, url.PathEscape(part))
	}
	made := strings.Join(parts, "/")
	s.sources[stream.GetName()] = made
	return made
}

// Append appends one event as JSON without a newline.
func Append(dst []byte, stream *forwardingv1.StreamId, record sink.Record) ([]byte, error) {
	event, err := Of(stream, record)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, '{')
	for _, attribute := range event.Attributes {
		dst = appendMember(dst, attribute.Key, attribute.Value)
	}
	dst = append(dst, `"data":`...)
	dst = append(dst, event.Data...)
	if !utf8.Valid(dst[start:]) {
		return dst[:start], fmt.Errorf("record %s is not UTF-8", record.EventID)
	}
	return append(dst, '}'), nil
}

func appendMember(dst []byte, key, value string) []byte {
	dst = append(dst, '"')
	dst = append(dst, key...)
	dst = append(dst, '"', ':')
	quoted, _ := json.Marshal(value) // a text is always JSON
	return append(append(dst, quoted...), ',')
}

// oneLine takes line breaks out of JSON, where they stand between parts only.
func oneLine(data []byte) []byte {
	for i, c := range data {
		if c == '\n' || c == '\r' {
			data[i] = ' '
		}
	}
	return data
}

func (s *Stream) content(line []byte, message *forwardingv1.Record) (subject string, data []byte, err error) {
	switch body := message.GetBody().(type) {
	case *forwardingv1.Record_Decision:
		if line == nil {
			s.line, err = decisionwire.AppendLine(s.line[:0], body.Decision)
			line = s.line
		} else if bytes.IndexByte(line, '\n') >= 0 || bytes.IndexByte(line, '\r') >= 0 {
			line = oneLine(bytes.Clone(line))
		}
		return resource(body.Decision), line, err
	case *forwardingv1.Record_Result:
		data, err = result(body.Result)
		return body.Result.GetSubject(), oneLine(data), err
	case *forwardingv1.Record_ScanSummary:
		data, err = object(body.ScanSummary)
		return s.id.GetName(), data, err
	case *forwardingv1.Record_Closing:
		data, err = closing(body.Closing)
		return s.id.GetName(), data, err
	}
	return "", nil, errors.New("its body is of a kind that has no event")
}

// resource is what a decision is about: KIND/NAMESPACE/NAME, as far as they are known.
func resource(d *forwardingv1.Decision) string {
	var parts []string
	for _, part := range []string{d.GetResourceKind(), d.GetResourceNamespace(), d.GetResourceName()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

func result(r *forwardingv1.Result) ([]byte, error) {
	attributes, extra := r.GetAttributesJson(), r.GetExtraJson()
	if attributes != nil || extra != nil {
		r = proto.CloneOf(r)
		r.AttributesJson, r.ExtraJson = nil, nil
	}
	data, err := object(r)
	if err != nil {
		return nil, err
	}
	if data, err = with(data, "attributes", attributes); err != nil {
		return nil, err
	}
	return with(data, "extra_keys", extra)
}

func closing(c *forwardingv1.Closing) ([]byte, error) {
	chain := c.GetChain()
	c = proto.CloneOf(c)
	c.Chain = nil
	data, err := object(c)
	if err != nil || chain == nil {
		return data, err
	}
	return with(data, "chain", []byte(`"`+hex.EncodeToString(chain)+`"`))
}

// object is the JSON form of a message, always with the same bytes: protojson adds spaces at random.
func object(m proto.Message) ([]byte, error) {
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

// with adds a member to an object. Nil adds none.
func with(object []byte, key string, value []byte) ([]byte, error) {
	if value == nil {
		return object, nil
	}
	if !json.Valid(value) {
		return nil, fmt.Errorf("%s is not JSON", key)
	}
	object = object[:len(object)-1]
	if len(object) > 1 {
		object = append(object, ',')
	}
	object = append(object, `"`+key+`":`...)
	return append(append(object, value...), '}'), nil
}
