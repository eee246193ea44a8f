// SPDX-License-Identifier: Apache-2.0

package cloudevent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/decisionwire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

var (
	at   = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	scan = &forwardingv1.StreamId{ClusterId: "c", Tenant: "team a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: "u-1", Revision: 2}
)

func event(t *testing.T, stream *forwardingv1.StreamId, record sink.Record) (string, map[string]json.RawMessage) {
	t.Helper()
	line, err := cloudevent.Append([]byte("x"), stream, record)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimPrefix(string(line), "x")
	if strings.ContainsAny(text, "\r\n") {
		t.Errorf("more than one line: %q", text)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return text, members
}

func TestDecisionKeepsItsLine(t *testing.T) {
	line := `{"message":"x",  "eventType":"audit_violation","details":{"a" :1.0},"resourceKind":"Pod","resourceName":"p","odd":[1, 2]}`
	record := sink.Record{EventID: "d-1", Sequence: 7, ObservedAt: at, Line: []byte(line)}
	stream := &forwardingv1.StreamId{ClusterId: "c", Tenant: "t", Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS, Name: "exporter", Uid: "q"}
	text, members := event(t, stream, record)
	if !strings.HasSuffix(text, `,"data":`+line+`}`) {
		t.Errorf("the line is not the data: %s", text)
	}
	for key, want := range map[string]string{
		"specversion": `"1.0"`, "id": `"d-1"`, "source": `"/scanyard/c/t/exporter"`, "type": `"io.scanyard.forwarding.v1.decision"`, "subject": `"Pod/p"`,
		"time": `"2026-01-02T03:04:05.0000006Z"`, "datacontenttype": `"application/json"`, "scanyardsequence": `"7"`, "scanyardstream": `"q/0"`, "scanyardtenant": `"t"`,
	} {
		if string(members[key]) != want {
			t.Errorf("%s is %s, want %s", key, members[key], want)
		}
	}
	message, err := decisionwire.Message(record)
	if err != nil {
		t.Fatal(err)
	}
	_, members = event(t, stream, sink.Record{EventID: "d-1", Sequence: 7, ObservedAt: at, Message: message})
	want := `{"timeStamp":"2026-01-02T03:04:05.0000006Z","decisionId":"d-1","eventType":"audit_violation","message":"x",` +
		`"resourceKind":"Pod","resourceName":"p","details":{"a" :1.0},"odd":[1, 2]}`
	if string(members["data"]) != want {
		t.Errorf("made from the message: %s", members["data"])
	}
}

func TestRecordsOfScans(t *testing.T) {
	stamp := timestamppb.New(at)
	for name, c := range map[string]struct {
		record *forwardingv1.Record
		data   string
		kind   string
		start  string
	}{
		"Result": {
			record: &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{
				Subject: "prod", FindingId: "f", AttributesJson: []byte("{\"z\" :\n1.0}"), ExtraJson: []byte(`{"k": 1}`),
			}}},
			data: `{"subject":"prod","finding_id":"f","attributes":{"z" : 1.0},"extra_keys":{"k": 1}}`, kind: "result", start: `"prod"`,
		},
		"OnlyAttributes": {
			record: &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{AttributesJson: []byte("{}")}}},
			data:   `{"attributes":{}}`, kind: "result",
		},
		"Summary": {
			record: &forwardingv1.Record{Body: &forwardingv1.Record_ScanSummary{ScanSummary: &forwardingv1.ScanSummary{ScanType: "nmap", Findings: 3}}},
			data:   `{"scan_type":"nmap","findings":"3"}`, kind: "scan", start: `"nightly"`,
		},
		"Closing": {
			record: &forwardingv1.Record{Body: &forwardingv1.Record_Closing{Closing: &forwardingv1.Closing{Records: 4, Chain: []byte{0xab, 1}}}},
			data:   `{"records":"4","chain":"ab01"}`, kind: "closing", start: `"nightly"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.record.EventId, c.record.Sequence, c.record.ObservedAt, c.record.Digest = "e", 3, stamp, []byte{1, 2}
			_, members := event(t, scan, sink.Record{Message: c.record})
			if string(members["data"]) != c.data {
				t.Errorf("data is %s, want %s", members["data"], c.data)
			}
			if want := `"io.scanyard.forwarding.v1.` + c.kind + `"`; string(members["type"]) != want || string(members["subject"]) != c.start {
				t.Errorf("type %s, subject %s", members["type"], members["subject"])
			}
			if string(members["source"]) != `"/scanyard/c/team%20a/nightly"` || string(members["scanyardstream"]) != `"u-1/2"` || string(members["scanyarddigest"]) != `"0102"` {
				t.Errorf("got %s", members)
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	for name, record := range map[string]sink.Record{
		"Line":       {Line: []byte("{")},
		"Attributes": {Message: &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{AttributesJson: []byte("{")}}}},
		"NoBody":     {Message: &forwardingv1.Record{}},
	} {
		t.Run(name, func(t *testing.T) {
			if line, err := cloudevent.Append([]byte("keep"), scan, record); err == nil || string(line) != "keep" {
				t.Errorf("got %q, %v", line, err)
			}
		})
	}
}
