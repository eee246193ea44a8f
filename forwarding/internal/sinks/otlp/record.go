// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"strings"
	"time"
	"unicode/utf8"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"

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

// logRecord is a record as OpenTelemetry has it.
func logRecord(batch sink.Batch, record sink.Record, now time.Time) (*logsv1.LogRecord, error) {
	event, err := cloudevent.Of(batch.Stream, record)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(event.Data) {
		return nil, &sink.Error{Class: sink.Refused, Reason: sink.RecordsRejected, Message: "the record is not UTF-8"}
	}
	l := &logsv1.LogRecord{
		ObservedTimeUnixNano: nanos(now), EventName: cloudevent.Type(sink.Record{Message: event.Message}), Body: text(string(event.Data)),
		SeverityNumber: logsv1.SeverityNumber_SEVERITY_NUMBER_INFO,
	}
	all := make(pairs, 0, 1+len(event.Attributes))
	all.add("scanyard.tenant", batch.Stream.GetTenant())
	if at := event.Message.GetObservedAt(); at.IsValid() {
		l.TimeUnixNano = nanos(at.AsTime())
	}
	if severity := event.Message.GetResult().GetSeverity(); severity != "" {
		l.SeverityText = severity
		if number, known := severities[strings.ToLower(severity)]; known {
			l.SeverityNumber = number
		}
	}
	for _, attribute := range event.Attributes {
		if name := attributes[attribute.Key]; name != "" {
			all.add(name, attribute.Value)
		}
	}
	l.Attributes = all.keyValues()
	return l, nil
}

// nanos are nanoseconds since 1970; 0, which means unknown, before.
func nanos(at time.Time) uint64 { return uint64(max(0, at.UnixNano())) }

func text(value string) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: value}}
}

// pairs are the attributes of one record, which are allocated together. There is room for all of them from the start.
type pairs []struct {
	pair  commonv1.KeyValue
	value commonv1.AnyValue
	text  commonv1.AnyValue_StringValue
}

func (p *pairs) add(key, value string) {
	*p = (*p)[:len(*p)+1]
	last := &(*p)[len(*p)-1]
	last.text.StringValue, last.value.Value = value, &last.text
	last.pair.Key, last.pair.Value = key, &last.value
}

func (p pairs) keyValues() []*commonv1.KeyValue {
	all := make([]*commonv1.KeyValue, 0, len(p))
	for i := range p {
		all = append(all, &p[i].pair)
	}
	return all
}

func pair(key, value string) *commonv1.KeyValue {
	return &commonv1.KeyValue{Key: key, Value: text(value)}
}
