// SPDX-License-Identifier: Apache-2.0

package forwardingv1_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

var update = flag.Bool("update", false, "write testdata/digests.json anew")

const vectorsFile = "testdata/digests.json"

// vectors is testdata/digests.json: what another language has to compute alike.
type vectors struct {
	Digests  []digestVector `json:"digests"`
	EventIDs []idVector     `json:"eventIds"`
	Chains   []chainVector  `json:"chains"`
}

// digestVector is one body: as the protocol's bytes of a Record that holds nothing else, as JSON for readers, its canonical form and its digest.
type digestVector struct {
	Name      string          `json:"name"`
	Record    string          `json:"record"` // hexadecimal
	Body      json.RawMessage `json:"body"`
	Canonical string          `json:"canonical"`
	Digest    string          `json:"digest"`
}

type idVector struct {
	ClusterID string `json:"clusterId"`
	Kind      string `json:"kind"`
	Tenant    string `json:"tenant"`
	UID       string `json:"uid"`
	Revision  uint32 `json:"revision"`
	Sequence  uint64 `json:"sequence"`
	EventID   string `json:"eventId"`
}

type chainVector struct {
	Digests []string `json:"digests"`
	Chain   string   `json:"chain"`
}

// namedRecord is the source of a vector.
type namedRecord struct {
	name   string
	record *forwardingv1.Record
}

func result(name string, r *forwardingv1.Result) namedRecord {
	return namedRecord{"result: " + name, &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: r}}}
}

func summary(name string, s *forwardingv1.ScanSummary) namedRecord {
	return namedRecord{"summary: " + name, &forwardingv1.Record{Body: &forwardingv1.Record_ScanSummary{ScanSummary: s}}}
}

func decision(name string, d *forwardingv1.Decision) namedRecord {
	return namedRecord{"decision: " + name, &forwardingv1.Record{Body: &forwardingv1.Record_Decision{Decision: d}}}
}

func closing(name string, c *forwardingv1.Closing) namedRecord {
	return namedRecord{"closing: " + name, &forwardingv1.Record{Body: &forwardingv1.Record_Closing{Closing: c}}}
}

// sources are the bodies of the vectors: each field alone, each rule of the canonical form, and all fields together.
func sources() []namedRecord {
	fullResult, fullSummary, fullDecision, fullClosing := &forwardingv1.Result{}, &forwardingv1.ScanSummary{}, &forwardingv1.Decision{}, &forwardingv1.Closing{}
	for _, body := range []proto.Message{fullResult, fullSummary, fullDecision, fullClosing} {
		everything(body)
	}
	return []namedRecord{
		result("empty", &forwardingv1.Result{}),
		result("all fields", fullResult),
		result("subject", &forwardingv1.Result{Subject: "prod-eu"}),
		result("two texts", &forwardingv1.Result{Subject: "a", Control: "b"}),
		result("two texts, divided otherwise", &forwardingv1.Result{Subject: "ab"}),
		result("beyond ASCII", &forwardingv1.Result{Title: "Prüfung – 検査 🛡"}),
		result("decomposed is not composed", &forwardingv1.Result{Title: "Pru\u0308fung"}),
		result("zero byte in a text", &forwardingv1.Result{Description: "a\x00b"}),
		result("line ends", &forwardingv1.Result{Description: "one\r\ntwo\n"}),
		result("long text", &forwardingv1.Result{Description: strings.Repeat("finding ", 1000)}),
		result("map with one entry", &forwardingv1.Result{Extra: map[string]string{"namespace": "team-a"}}),
		result("map is sorted by bytes", &forwardingv1.Result{Extra: map[string]string{"b": "2", "a": "1", "B": "3", "ä": "4"}}),
		result("map with empty key and value", &forwardingv1.Result{Extra: map[string]string{"": "", "k": ""}}),
		result("one reference", &forwardingv1.Result{References: []*forwardingv1.Reference{{Type: "CVE", Value: "CVE-2026-0001"}}}),
		result("references in their order", &forwardingv1.Result{References: []*forwardingv1.Reference{{Type: "CWE", Value: "79"}, {Type: "CVE", Value: "CVE-2026-0001"}}}),
		result("references the other way round", &forwardingv1.Result{References: []*forwardingv1.Reference{{Type: "CVE", Value: "CVE-2026-0001"}, {Type: "CWE", Value: "79"}}}),
		result("empty reference", &forwardingv1.Result{References: []*forwardingv1.Reference{{}, {Value: "x"}}}),
		result("attributes byte for byte", &forwardingv1.Result{AttributesJson: []byte("{\"port\": 22,\n \"state\":\"open\"}")}),
		result("attributes without space", &forwardingv1.Result{AttributesJson: []byte(`{"port":22,"state":"open"}`)}),
		result("extra keys", &forwardingv1.Result{ExtraJson: []byte(`{"b":1,"a":2}`)}),
		result("times as written", &forwardingv1.Result{IdentifiedAt: "2026-11-23T05:00:00+01:00", ParsedAt: "2026-11-23T04:00:00Z"}),
		result("suppressed", &forwardingv1.Result{Suppressed: true, Exception: "team-a/accepted"}),
		summary("empty", &forwardingv1.ScanSummary{}),
		summary("all fields", fullSummary),
		summary("parameters", &forwardingv1.ScanSummary{ScanType: "nmap", Parameters: []string{"-p22", "", "scanme.example"}}),
		summary("one empty parameter", &forwardingv1.ScanSummary{Parameters: []string{""}}),
		summary("time", &forwardingv1.ScanSummary{CreatedAt: &timestamppb.Timestamp{Seconds: 1790000000, Nanos: 123456789}}),
		summary("time at the beginning of time", &forwardingv1.ScanSummary{StartedAt: &timestamppb.Timestamp{}}),
		summary("time before 1970", &forwardingv1.ScanSummary{FinishedAt: &timestamppb.Timestamp{Seconds: -1, Nanos: 5}}),
		summary("number", &forwardingv1.ScanSummary{Findings: 1}),
		summary("largest number", &forwardingv1.ScanSummary{Findings: 1<<64 - 1}),
		summary("numbers by name", &forwardingv1.ScanSummary{Severities: map[string]uint64{"high": 3, "low": 0, "INFORMATIONAL": 7}}),
		summary("labels", &forwardingv1.ScanSummary{Labels: map[string]string{"team": "a", "app.kubernetes.io/name": "shop"}}),
		summary("errored", &forwardingv1.ScanSummary{State: "Errored", ErrorDescription: "the scanner failed", Outcome: "ERROR"}),
		summary("cascade", &forwardingv1.ScanSummary{ParentScan: "nightly"}),
		decision("empty", &forwardingv1.Decision{}),
		decision("all fields", fullDecision),
		decision("audit violation", &forwardingv1.Decision{
			TimeStamp: "2026-11-23T05:00:00.123Z", DecisionId: "0b5a", Message: "host namespace", EventType: "audit_violation",
			ConstraintKind: "K8sPSPHostNamespace", ConstraintName: "no-host", ConstraintAction: "deny", ResourceKind: "Pod", ResourceNamespace: "team-a", ResourceName: "shell",
		}),
		decision("input byte for byte", &forwardingv1.Decision{InputJson: []byte(`{"a" : 1.0, "a": 2}`)}),
		decision("details that are null", &forwardingv1.Decision{DetailsJson: []byte("null")}),
		decision("large details", &forwardingv1.Decision{DetailsJson: fmt.Appendf(nil, `{"log":%q}`, strings.Repeat("x", 5000))}),
		decision("other keys and metadata", &forwardingv1.Decision{ExtraJson: []byte(`{"zone":"b"}`), Extra: map[string]string{"uid": "65532"}}),
		closing("empty", &forwardingv1.Closing{}),
		closing("all fields", fullClosing),
		closing("of a stream", &forwardingv1.Closing{Records: 101, Chain: bytes.Repeat([]byte{7}, 32), FindingsTotal: 100, Outcomes: map[string]uint64{"FAIL": 60, "INFO": 40}}),
		closing("with a filter", &forwardingv1.Closing{Records: 3, Chain: make([]byte, 32), FindingsTotal: 100, Filter: "minSeverity=HIGH"}),
	}
}

func makeVectors(t *testing.T) vectors {
	t.Helper()
	var made vectors
	for _, source := range sources() {
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(source.record)
		if err != nil {
			t.Fatal(err)
		}
		written, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(source.record)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer // protojson writes spaces at random
		if err := json.Compact(&body, written); err != nil {
			t.Fatal(err)
		}
		form := reference(source.record)
		sum := sha256.Sum256(form)
		made.Digests = append(made.Digests, digestVector{source.name, hex.EncodeToString(encoded), body.Bytes(), hex.EncodeToString(form), hex.EncodeToString(sum[:])})
	}
	for _, stream := range []*forwardingv1.StreamId{
		{ClusterId: "c0ffee00-0000-4000-8000-000000000001", Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: "5d1d8a3e-0f3a-4f5e-9a62-3c1ed9a7c001", Revision: 1},
		{ClusterId: "c0ffee00-0000-4000-8000-000000000001", Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: "5d1d8a3e-0f3a-4f5e-9a62-3c1ed9a7c001", Revision: 2},
		{ClusterId: "prüfung", Tenant: "", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Uid: "u", Revision: 4294967295},
	} {
		for _, sequence := range []uint64{1, 2, 1000001, 1<<64 - 1} {
			made.EventIDs = append(made.EventIDs, idVector{
				stream.ClusterId, forwardingv1.KindName(stream.Kind), stream.Tenant, stream.Uid, stream.Revision, sequence, forwardingv1.EventID(stream, sequence),
			})
		}
	}
	chain, digests := []byte(nil), []string{}
	for _, vector := range made.Digests[:5] {
		digest, err := hex.DecodeString(vector.Digest)
		if err != nil {
			t.Fatal(err)
		}
		before := make([]byte, 32)
		copy(before, chain)
		sum := sha256.Sum256(append(before, digest...))
		chain, digests = sum[:], append(digests, vector.Digest)
		made.Chains = append(made.Chains, chainVector{append([]string{}, digests...), hex.EncodeToString(chain)})
	}
	return made
}

func TestVectors(t *testing.T) {
	made, err := json.MarshalIndent(makeVectors(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	made = append(made, '\n')
	if *update {
		if err := os.WriteFile(vectorsFile, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, made) {
		t.Errorf("%s is not what the specification asks for: compare it with go test -run TestVectors -update", vectorsFile)
	}
	var read vectors
	if err := json.Unmarshal(stored, &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Digests) < 40 {
		t.Errorf("%d digests: at least 40 are asked for", len(read.Digests))
	}
	names := map[string]string{}
	for _, vector := range read.Digests {
		if other, twice := names[vector.Digest]; twice && !strings.Contains(vector.Name, "empty") {
			t.Errorf("%q and %q have one digest", vector.Name, other)
		}
		names[vector.Digest] = vector.Name
		encoded, err := hex.DecodeString(vector.Record)
		if err != nil {
			t.Fatal(err)
		}
		record := &forwardingv1.Record{}
		if err := proto.Unmarshal(encoded, record); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(forwardingv1.AppendCanonical(nil, record)); got != vector.Canonical {
			t.Errorf("%s: canonical form\n got %s\nwant %s", vector.Name, got, vector.Canonical)
		}
		if got := hex.EncodeToString(forwardingv1.Digest(record)); got != vector.Digest {
			t.Errorf("%s: digest is %s, want %s", vector.Name, got, vector.Digest)
		}
	}
	for _, vector := range read.Chains {
		var chain []byte
		for _, text := range vector.Digests {
			digest, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			chain = forwardingv1.AppendChain(chain, digest)
		}
		if got := hex.EncodeToString(chain); got != vector.Chain {
			t.Errorf("the chain over %d digests is %s, want %s", len(vector.Digests), got, vector.Chain)
		}
	}
}

func TestDigestKnowsEveryField(t *testing.T) {
	for _, source := range sources() {
		if !strings.HasSuffix(source.name, "all fields") {
			continue
		}
		message := source.record.ProtoReflect()
		body := message.Get(message.WhichOneof(message.Descriptor().Oneofs().ByName("body"))).Message()
		whole := forwardingv1.Digest(source.record)
		fields := body.Descriptor().Fields()
		for i := range fields.Len() {
			less := proto.CloneOf(source.record).ProtoReflect()
			less.Mutable(less.WhichOneof(less.Descriptor().Oneofs().ByName("body"))).Message().Clear(fields.Get(i))
			if bytes.Equal(forwardingv1.Digest(less.Interface().(*forwardingv1.Record)), whole) {
				t.Errorf("the digest of a body without %s is the same", fields.Get(i).FullName())
			}
		}
	}
}

func TestEventID(t *testing.T) {
	stream := &forwardingv1.StreamId{ClusterId: "c", Tenant: "t", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Uid: "u", Revision: 3}
	// python3: uuid.uuid5(uuid.UUID("8f0c6f0e-5a3b-4e0e-9b57-1d6c2f4a7e31"), "c/scan/t/u/3/7")
	if got, want := forwardingv1.EventID(stream, 7), "4fa9365b-2ef4-51d8-b916-c3780b189c9d"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	stream.Name = "other"
	if got := forwardingv1.EventID(stream, 7); got != "4fa9365b-2ef4-51d8-b916-c3780b189c9d" {
		t.Errorf("the name of the Scan must not count, got %s", got)
	}
	stream.Revision = 4
	if got := forwardingv1.EventID(stream, 7); got == "4fa9365b-2ef4-51d8-b916-c3780b189c9d" {
		t.Error("the revision must count")
	}
}

func FuzzDigest(f *testing.F) {
	for _, source := range sources() {
		encoded, err := proto.Marshal(source.record)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		record := &forwardingv1.Record{}
		if proto.Unmarshal(encoded, record) != nil {
			return
		}
		if got, want := forwardingv1.AppendCanonical(nil, record), reference(record); !bytes.Equal(got, want) {
			t.Fatalf("canonical form\n got %x\nwant %x", got, want)
		}
		record.EventId, record.Sequence, record.Digest, record.Schema = "id", 1, forwardingv1.Digest(record), forwardingv1.Schema
		if rejection := forwardingv1.Check(record, nil, 1); rejection.GetReason() == forwardingv1.RejectionReason_REJECTION_REASON_DIGEST_MISMATCH {
			t.Fatal("the record's own digest is refused")
		}
	})
}

func BenchmarkDigest(b *testing.B) {
	record := &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{
		Subject: "prod-eu", Control: "CVE: CVE-2026-0001", Rule: "trivy/CVE-2026-0001", AssessmentId: "5d1d8a3e-0f3a-4f5e-9a62-3c1ed9a7c001", Outcome: "FAIL",
		Description: strings.Repeat("d", 400), Severity: "high", Extra: map[string]string{"namespace": "team-a", "scan": "nightly", "scanType": "trivy"},
		Title: "a title", FindingId: "f", Category: "Vulnerability", Location: "image:tag", AttributesJson: bytes.Repeat([]byte("a"), 300),
	}}}
	b.SetBytes(int64(proto.Size(record)))
	b.ReportAllocs()
	for b.Loop() {
		forwardingv1.Digest(record)
	}
}
