// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
)

// withUnknown gives a message a field that this program does not know.
func withUnknown[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 4000, protowire.BytesType), "later"))
	return m
}

func ofResult(r *forwardingv1.Result) *forwardingv1.Record {
	return &forwardingv1.Record{EventId: "e", Sequence: 1, Body: &forwardingv1.Record_Result{Result: r}}
}

func ofDecision(d *forwardingv1.Decision) *forwardingv1.Record {
	return &forwardingv1.Record{EventId: "e", Sequence: 1, Body: &forwardingv1.Record_Decision{Decision: d}}
}

// records are of each kind, and with each peculiarity.
func records() map[string]*forwardingv1.Record {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC))
	return map[string]*forwardingv1.Record{
		"Empty": {},
		"Result": {
			EventId: "id", Sequence: math.MaxUint64, ObservedAt: at, Digest: bytes.Repeat([]byte{1}, 32), Schema: math.MaxUint32,
			Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{
				Subject: "1", Control: "2", Rule: "3", AssessmentId: "4", Outcome: "5", Description: "6 ü", Severity: "7", Instructions: "8",
				Extra: map[string]string{"a": "b", "": "", "k": ""}, Title: "10", FindingId: "11", Fingerprint: "12", Category: "13", Location: "14", OsiLayer: "15",
				References: []*forwardingv1.Reference{{Type: "CVE", Value: "1"}, {}}, AttributesJson: []byte(`{}`), ExtraJson: []byte(`[1]`), IdentifiedAt: "19",
				ParsedAt: "20", Suppressed: true, Exception: "22",
			}},
		},
		"Decision": {
			EventId: "id", Sequence: 7, ObservedAt: at, Digest: bytes.Repeat([]byte{1}, 32), Schema: 1,
			Body: &forwardingv1.Record_Decision{Decision: &forwardingv1.Decision{
				TimeStamp: "1", DecisionId: "2", Message: "3", EventType: "4", ConstraintKind: "5", ConstraintName: "6", ConstraintAction: "7", ResourceKind: "8",
				ResourceNamespace: "9", ResourceName: "10", InputJson: []byte("11"), DetailsJson: bytes.Repeat([]byte("1"), 100_000), ExtraJson: []byte(`{"a":1}`),
			}},
		},
		"DecisionWithMetadata": ofDecision(&forwardingv1.Decision{Message: "m", Extra: map[string]string{"uid": "0"}}),
		"EmptyResult":          ofResult(&forwardingv1.Result{}),
		"EmptyDecision":        ofDecision(&forwardingv1.Decision{}),
		"NoResult":             {EventId: "e", Body: &forwardingv1.Record_Result{}},
		"NoDecision":           {EventId: "e", Body: &forwardingv1.Record_Decision{}},
		"NoReference":          ofResult(&forwardingv1.Result{References: []*forwardingv1.Reference{nil}}),
		"Before1970":           {ObservedAt: &timestamppb.Timestamp{Seconds: -5, Nanos: 1}, Body: &forwardingv1.Record_Decision{Decision: &forwardingv1.Decision{}}},
		"EmptyTime":            {ObservedAt: &timestamppb.Timestamp{}, Body: &forwardingv1.Record_Decision{Decision: &forwardingv1.Decision{}}},
		"Summary":              {EventId: "e", Body: &forwardingv1.Record_ScanSummary{ScanSummary: &forwardingv1.ScanSummary{ScanType: "nmap", Findings: 3}}},
		"Closing":              {EventId: "e", Body: &forwardingv1.Record_Closing{Closing: &forwardingv1.Closing{Records: 4, Chain: []byte{1}}}},
		"LaterRecord":          withUnknown(ofResult(&forwardingv1.Result{Title: "t"})),
		"LaterTime":            {ObservedAt: withUnknown(timestamppb.New(time.Unix(1, 0))), Body: &forwardingv1.Record_Decision{Decision: &forwardingv1.Decision{}}},
		"LaterResult":          ofResult(withUnknown(&forwardingv1.Result{Title: "t"})),
		"LaterReference":       ofResult(&forwardingv1.Result{References: []*forwardingv1.Reference{withUnknown(&forwardingv1.Reference{Type: "t"})}}),
		"LaterDecision":        ofDecision(withUnknown(&forwardingv1.Decision{Message: "m"})),
		"ResultNotUTF8":        ofResult(&forwardingv1.Result{Title: "\xff"}),
		"ExtraNotUTF8":         ofResult(&forwardingv1.Result{Extra: map[string]string{"a": "\xff"}}),
		"DecisionNotUTF8":      ofDecision(&forwardingv1.Decision{Message: "\xff"}),
	}
}

func TestRecordsAreEncodedAsPackageProtoDoes(t *testing.T) {
	for name, record := range records() {
		t.Run(name, func(t *testing.T) {
			before := []byte("before")
			got, err := wire.AppendRecord(before, record)
			want, wantErr := proto.Marshal(record)
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("got %v, want %v", err, wantErr)
			}
			if err != nil {
				return
			}
			if !bytes.HasPrefix(got, before) || len(got) != len(before)+len(want) {
				t.Fatalf("%d bytes, want %d", len(got)-len(before), len(want))
			}
			again, expected := &forwardingv1.Record{}, &forwardingv1.Record{}
			if err := proto.Unmarshal(got[len(before):], again); err != nil {
				t.Fatal(err)
			}
			if err := proto.Unmarshal(want, expected); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(again, expected) {
				t.Errorf("got %v, want %v", again, expected)
			}
		})
	}
}

// FuzzDecodeRecord holds what is read, and what is written of that, against package proto.
func FuzzDecodeRecord(f *testing.F) {
	for _, record := range records() {
		if encoded, err := proto.Marshal(record); err == nil {
			f.Add(encoded)
			f.Add(append(encoded, encoded...))
		}
	}
	f.Add([]byte{0x0a, 0x01, 0xff})
	f.Add([]byte{0x62, 0x03, 0x1a, 0x01, 0xff})
	f.Add([]byte{0x62, 0x02, 0x5a, 0x00})
	f.Add([]byte{0x0a, 0x7f})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		want := &forwardingv1.Record{}
		wantErr := proto.Unmarshal(encoded, want)
		got, err := wire.DecodeRecord(encoded)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("got %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if !proto.Equal(got, want) || (got.GetDecision().GetInputJson() == nil) != (want.GetDecision().GetInputJson() == nil) {
			t.Fatalf("got %v, want %v", got, want)
		}
		written, err := wire.AppendRecord(nil, got)
		if err != nil {
			t.Fatal(err)
		}
		again := &forwardingv1.Record{}
		if err := proto.Unmarshal(written, again); err != nil || !proto.Equal(again, want) {
			t.Fatalf("written: got %v, %v, want %v", again, err, want)
		}
	})
}
