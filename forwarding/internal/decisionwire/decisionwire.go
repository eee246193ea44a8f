// SPDX-License-Identifier: Apache-2.0

package decisionwire

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scanyard/scanyard/apis/decision"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Message gives the record as the protocol knows it. Of a decision that has only its line the message is made: the time of intake and the
// event id stand for a timeStamp and a decisionId that the producer left out.
func Message(record sink.Record) (*forwardingv1.Record, error) {
	if record.Message != nil {
		return record.Message, nil
	}
	r, err := decision.Parse(record.Line)
	if err != nil {
		return nil, err
	}
	if r.TimeStamp == "" {
		r.TimeStamp = record.ObservedAt.UTC().Format(time.RFC3339Nano)
	}
	if r.DecisionID == "" {
		r.DecisionID = record.EventID
	}
	body := &forwardingv1.Decision{
		TimeStamp: r.TimeStamp, DecisionId: r.DecisionID, Message: r.Message, EventType: r.EventType,
		ConstraintKind: r.ConstraintKind, ConstraintName: r.ConstraintName, ConstraintAction: r.ConstraintAction,
		ResourceKind: r.ResourceKind, ResourceNamespace: r.ResourceNamespace, ResourceName: r.ResourceName,
		InputJson: r.Input, DetailsJson: r.Details, Extra: record.Metadata,
	}
	if len(r.Extra) > 0 {
		body.ExtraJson = decision.AppendMembers(nil, r.Extra)
	}
	message := &forwardingv1.Record{
		EventId: record.EventID, Sequence: record.Sequence, ObservedAt: timestamppb.New(record.ObservedAt), Schema: forwardingv1.Schema,
		Body: &forwardingv1.Record_Decision{Decision: body},
	}
	message.Digest = forwardingv1.Digest(message)
	return message, nil
}

// AppendLine appends the line of a decision that came as a message.
func AppendLine(dst []byte, d *forwardingv1.Decision) ([]byte, error) {
	r, err := recordOf(d)
	if err != nil {
		return dst, err
	}
	return decision.Append(dst, r)
}

// Validate tells which key of a decision that came as a message breaks its rule. What passes here and [forwardingv1.Check] has a line.
func Validate(d *forwardingv1.Decision) error {
	r, err := recordOf(d)
	if err != nil {
		return err
	}
	return r.Validate()
}

func recordOf(d *forwardingv1.Decision) (*decision.Record, error) {
	extra, err := decision.Members(d.GetExtraJson())
	if err != nil {
		return nil, err
	}
	return &decision.Record{
		TimeStamp: d.GetTimeStamp(), DecisionID: d.GetDecisionId(), Message: d.GetMessage(), EventType: d.GetEventType(),
		ConstraintKind: d.GetConstraintKind(), ConstraintName: d.GetConstraintName(), ConstraintAction: d.GetConstraintAction(),
		ResourceKind: d.GetResourceKind(), ResourceNamespace: d.GetResourceNamespace(), ResourceName: d.GetResourceName(),
		Input: d.GetInputJson(), Details: d.GetDetailsJson(), Extra: extra,
	}, nil
}
