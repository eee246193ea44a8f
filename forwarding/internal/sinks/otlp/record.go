// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// attributes are the names of the attributes of CloudEvents as log records have them. For the others there are fields.
var attributes = map[string]string{
	"specversion": "cloudevents.event_spec_version", "id": "cloudevents.event_id", "source": "cloudevents.event_source", "type": "cloudevents.event_type",
	"subject": "cloudevents.event_subject", "scanyardsequence": "scanyard.sequence", "scanyarddigest": "scanyard.digest", "scanyardstream": "scanyard.stream",
}

// severities are those of findings.
var severities = map[string]logsv1.SeverityNumber{
	"informational": logsv1.SeverityNumber_SEVERITY_NUMBER_INFO, "low": logsv1.SeverityNumber_SEVERITY_NUMBER_INFO2,
	"medium": logsv1.SeverityNumber_SEVERITY_NUMBER_WARN, "high": logsv1.SeverityNumber_SEVERITY_NUMBER_ERROR,
}

// Fields of the messages of OTLP that are written here. The messages are written as bytes, without an object for each of their parts: an exporter that
// has a backlog writes tens of thousands of records a second.
const (
	requestResourceLogs                                                   = 1
	resourceLogsResource, resourceLogsScopeLogs                           = 1, 2
	resourceAttributes                                                    = 1
	scopeLogsScope, scopeLogsLogRecords                                   = 1, 2
	scopeName, scopeVersion                                               = 1, 2
	keyValueKey, keyValueValue                                            = 1, 2
	anyValueString                                                        = 1
	logTime, logSeverityNumber, logSeverityText, logBody                  = 1, 2, 3, 5
	logAttributes, logObservedTime, logEventName         protowire.Number = 6, 11, 12
)

// appendLogRecord appends a record as OpenTelemetry has it.
func appendLogRecord(to []byte, stream *cloudevent.Stream, record sink.Record, now time.Time) ([]byte, error) {
	event, err := stream.Event(record)
	if err != nil {
		return to, err
	}
	if !utf8.Valid(event.Data) {
		return to, &sink.Error{Class: sink.Refused, Reason: sink.RecordsRejected, Message: "the record is not UTF-8"}
	}
	if at := event.Message.GetObservedAt(); at.IsValid() {
		to = appendFixed(to, logTime, nanos(at.AsTime()))
	}
	number, text := logsv1.SeverityNumber_SEVERITY_NUMBER_INFO, event.Message.GetResult().GetSeverity()
	if known := severities[strings.ToLower(text)]; known != 0 {
		number = known
	}
	to = protowire.AppendVarint(protowire.AppendTag(to, logSeverityNumber, protowire.VarintType), uint64(number))
	if text != "" {
		to = appendText(to, logSeverityText, text)
	}
	to, body := openMessage(to, logBody)
	to = closeMessage(appendText(to, anyValueString, event.Data), body)
	to = appendAttribute(to, logAttributes, "scanyard.tenant", stream.ID().GetTenant())
	for _, attribute := range event.Attributes {
		if name := attributes[attribute.Key]; name != "" {
			to = appendAttribute(to, logAttributes, name, attribute.Value)
		}
	}
	to = appendFixed(to, logObservedTime, nanos(now))
	return appendText(to, logEventName, cloudevent.Type(sink.Record{Message: event.Message})), nil
}

// nanos are nanoseconds since 1970; 0, which means unknown, before.
func nanos(at time.Time) uint64 { return uint64(max(0, at.UnixNano())) }

func appendFixed(to []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(to, field, protowire.Fixed64Type), value)
}

func appendText[T string | []byte](to []byte, field protowire.Number, value T) []byte {
	to = protowire.AppendVarint(protowire.AppendTag(to, field, protowire.BytesType), uint64(len(value)))
	return append(to, value...)
}

func appendAttribute(to []byte, field protowire.Number, key, value string) []byte {
	to, pair := openMessage(to, field)
	to = appendText(to, keyValueKey, key)
	to, text := openMessage(to, keyValueValue)
	to = closeMessage(appendText(to, anyValueString, value), text)
	return closeMessage(to, pair)
}

// openMessage begins a message in a field, which closeMessage ends.
func openMessage(to []byte, field protowire.Number) (longer []byte, start int) {
	to = protowire.AppendTag(to, field, protowire.BytesType)
	return to, len(to)
}

// closeMessage puts the length before what was appended since start.
func closeMessage(to []byte, start int) []byte {
	size := len(to) - start
	var room [binary.MaxVarintLen64]byte
	length := binary.PutUvarint(room[:], uint64(size))
	to = append(to, room[:length]...)
	copy(to[start+length:], to[start:start+size])
	copy(to[start:], room[:length])
	return to
}
