// SPDX-License-Identifier: Apache-2.0

package forwardingv1_test

import (
	"strings"
	"testing"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

func TestCheck(t *testing.T) {
	limits := &forwardingv1.Limits{MaxRecordBytes: 1000}
	for name, test := range map[string]struct {
		change func(*forwardingv1.Record)
		sealed bool // the digest is made after the change
		want   forwardingv1.RejectionReason
		text   string
	}{
		"Fine":       {change: func(*forwardingv1.Record) {}},
		"LaterField": {change: func(r *forwardingv1.Record) { r.Schema, r.Body, r.Digest = 2, nil, make([]byte, 32) }},
		"TooLarge": {
			change: func(r *forwardingv1.Record) { r.GetDecision().Message = strings.Repeat("x", 2000) }, sealed: true,
			want: forwardingv1.RejectionReason_REJECTION_REASON_TOO_LARGE, text: "bytes: at most 1000 are taken",
		},
		"NoID":    {change: func(r *forwardingv1.Record) { r.EventId = "" }, want: forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, text: "event_id is empty"},
		"LongID":  {change: func(r *forwardingv1.Record) { r.EventId = strings.Repeat("x", 129) }, want: forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, text: "129 characters"},
		"SpaceID": {change: func(r *forwardingv1.Record) { r.EventId = "a b" }, want: forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, text: "0x20 at 1"},
		"NoSequence": {
			change: func(r *forwardingv1.Record) { r.Sequence = 0 }, want: forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, text: "sequence is 0",
		},
		"ShortDigest": {
			change: func(r *forwardingv1.Record) { r.Digest = r.Digest[:31] }, want: forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, text: "digest has 31 bytes",
		},
		"NoBody": {change: func(r *forwardingv1.Record) { r.Body = nil }, want: forwardingv1.RejectionReason_REJECTION_REASON_UNSUPPORTED, text: "no body"},
		"OtherBody": {
			change: func(r *forwardingv1.Record) { r.GetDecision().Message = "other" }, want: forwardingv1.RejectionReason_REJECTION_REASON_DIGEST_MISMATCH, text: "digest",
		},
		"NotJSON": {
			change: func(r *forwardingv1.Record) { r.GetDecision().DetailsJson = []byte("{") }, sealed: true,
			want: forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, text: "details_json is not JSON",
		},
		"ExtraIsNoObject": {
			change: func(r *forwardingv1.Record) { r.GetDecision().ExtraJson = []byte("[1]") }, sealed: true,
			want: forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, text: "extra_json is not JSON",
		},
	} {
		t.Run(name, func(t *testing.T) {
			record := &forwardingv1.Record{EventId: "id-1", Sequence: 1, Schema: forwardingv1.Schema, Body: &forwardingv1.Record_Decision{Decision: &forwardingv1.Decision{
				Message: "m", InputJson: []byte("1"), DetailsJson: []byte(`{"a":1}`), ExtraJson: []byte(" {}"),
			}}}
			record.Digest = forwardingv1.Digest(record)
			test.change(record)
			if test.sealed {
				record.Digest = forwardingv1.Digest(record)
			}
			rejection := forwardingv1.Check(record, limits, 4)
			if rejection.GetReason() != test.want || !strings.Contains(rejection.GetMessage(), test.text) {
				t.Errorf("got %v, want %s with %q", rejection, test.want, test.text)
			}
			if rejection != nil && (rejection.GetBatch() != 4 || rejection.GetEventId() != record.GetEventId()) {
				t.Errorf("the rejection names another record: %v", rejection)
			}
		})
	}
}

func TestWithDefaults(t *testing.T) {
	var none *forwardingv1.Limits
	if got := none.WithDefaults(); got.GetMaxRecordBytes() != 2<<20 || got.GetMaxMessageBytes() != 4<<20 || got.GetWindowBytes() != 8<<20 || got.GetMaxRecordsPerBatch() != 10000 {
		t.Errorf("got %v", got)
	}
	own := &forwardingv1.Limits{MaxMessageBytes: 1, WindowBytes: 2, MaxRecordsPerBatch: 3, MaxRecordBytes: 4}
	if got := own.WithDefaults(); got.GetMaxMessageBytes() != 1 || got.GetWindowBytes() != 2 || got.GetMaxRecordsPerBatch() != 3 || got.GetMaxRecordBytes() != 4 {
		t.Errorf("own limits are lost: %v", got)
	}
}
