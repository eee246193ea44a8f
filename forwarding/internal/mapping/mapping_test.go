// SPDX-License-Identifier: Apache-2.0

package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const cluster = "0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10"

func nightly() *executionv1.Scan {
	three, one := int64(3), int64(1)
	finished := metav1.NewTime(time.Date(2026, 11, 20, 3, 4, 5, 0, time.UTC))
	return &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{
			Name: "nightly", Namespace: "team-a", UID: "f2a7c2a4-58c5-4b1c-a1f7-0a3a8d8a1c10", CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)),
			Labels:      map[string]string{"team": "a", "kubectl.kubernetes.io/x": "y"},
			Annotations: map[string]string{"cascading.securecodebox.io/parent-scan": "parent"},
		},
		Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"-p", "22"}},
		Status: executionv1.ScanStatus{
			State: executionv1.ScanStateDone, FinishedAt: &finished, RawResultType: "nmap-xml", RawResultFile: "nmap-results.xml",
			Findings: executionv1.FindingStats{
				Count:             &three,
				FindingSeverities: executionv1.FindingSeverities{High: &one}, FindingCategories: map[string]int64{"Open Port": 3},
			},
		},
	}
}

// read takes all records; the chain goes over those before the closing one.
func read(t *testing.T, source Source, findings string) ([]sink.Record, *Reader) {
	t.Helper()
	r := NewReader(source, strings.NewReader(findings))
	var records []sink.Record
	var chain []byte
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return append(records, r.Closing(uint64(len(records)), chain)), r
		}
		if err != nil {
			t.Fatal(err)
		}
		chain = forwardingv1.AppendChain(chain, record.Message.GetDigest())
		records = append(records, record)
	}
}

func resultOf(t *testing.T, scan *executionv1.Scan, element string) *forwardingv1.Result {
	t.Helper()
	records, _ := read(t, Source{ClusterID: cluster, Scan: scan}, "["+element+"]")
	if len(records) != 3 {
		t.Fatalf("want summary, result and closing, got %d records", len(records))
	}
	return records[1].Message.GetResult()
}

// TestMappingLossless rebuilds each finding of all golden files of the parsers. Null and absent count as equal.
func TestMappingLossless(t *testing.T) {
	files, err := filepath.Glob("../../../parsers/*/testdata/*.expected.json")
	if err != nil || len(files) < 300 {
		t.Fatalf("the golden files of the parsers are not there: %d, %v", len(files), err)
	}
	count := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		elements := finding.NewReader(bytes.NewReader(data), finding.Limits{})
		records, _ := read(t, Source{ClusterID: cluster, Scan: nightly()}, string(data))
		for _, record := range records[1 : len(records)-1] {
			element, err := elements.Next()
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if problem := roundTrip(element, record.Message.GetResult()); problem != "" {
				t.Fatalf("%s, record %d: %s", file, record.Sequence, problem)
			}
			count++
		}
	}
	if count < 1000 {
		t.Errorf("only %d findings were compared", count)
	}
}

// roundTrip sends a Result over the wire and compares the finding made of it with the element.
func roundTrip(element []byte, result *forwardingv1.Result) string {
	wire, err := proto.Marshal(result)
	if err != nil {
		return err.Error()
	}
	received := &forwardingv1.Result{}
	if err := proto.Unmarshal(wire, received); err != nil {
		return err.Error()
	}
	rebuilt, err := FindingOf(received)
	if err != nil {
		return err.Error()
	}
	var want finding.Finding
	if err := want.UnmarshalJSON(element); err != nil {
		return err.Error()
	}
	if before, after := plainOf(&want), plainOf(rebuilt); !reflect.DeepEqual(before, after) {
		return fmt.Sprintf("want %v, got %v", before, after)
	}
	return ""
}

// plainOf is a finding as a map without nulls at its top.
func plainOf(f *finding.Finding) map[string]any {
	raw, err := f.AppendJSON(nil)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	value, err := finding.DecodeValue(raw, 0)
	object, ok := value.(finding.Object)
	if err != nil || !ok {
		return map[string]any{"error": fmt.Sprint(err)}
	}
	plain := map[string]any{}
	for _, m := range object {
		if m.Value != nil {
			plain[m.Key] = m.Value
		}
	}
	return plain
}

func TestMappingResult(t *testing.T) {
	element := `{"name":"SSH open","description":"Port 22 is open","category":"Open  Port!","location":"ssh://10.0.0.1:22","osi_layer":"NETWORK","severity":"HIGH",` +
		`"mitigation":"Close it","references":[{"type":"CVE","value":"CVE-1"},{"type":"URL","value":"https://a"},{"type":"CWE","value":"79"},{"type":"CVE","value":"CVE-2"}],` +
		`"attributes": {"b" : 1.50, "a":"é"},"id":"i","fingerprint":"f","identified_at":"2026-01-01T00:00:00Z","parsed_at":"2026-01-02T00:00:00Z",` +
		`"scan":{"created_at":"x","name":"n","namespace":"s","scan_type":"nmap"},"false_positive": false}`
	source := Source{ClusterID: cluster, Scan: nightly(), Extra: map[string]string{"clusterName": "prod-1", "clusterType": "eks"}}
	records, _ := read(t, source, "["+element+"]")
	want := &forwardingv1.Result{
		Subject: "prod-1", Control: "CVE: CVE-1;CVE-2, CWE: 79", Rule: "nmap/open-port", AssessmentId: string(source.Scan.UID), Outcome: "FAIL",
		Description: "Port 22 is open", Severity: "high", Instructions: "Close it",
		Extra: map[string]string{"clusterType": "eks", "namespace": "team-a", "scan": "nightly", "scanType": "nmap", "resourceType": "target"},
		Title: "SSH open", FindingId: "i", Fingerprint: "f", Category: "Open  Port!", Location: "ssh://10.0.0.1:22", OsiLayer: "NETWORK",
		References:     []*forwardingv1.Reference{{Type: "CVE", Value: "CVE-1"}, {Type: "URL", Value: "https://a"}, {Type: "CWE", Value: "79"}, {Type: "CVE", Value: "CVE-2"}},
		AttributesJson: []byte(`{"b" : 1.50, "a":"é"}`),
		ExtraJson:      []byte(`{"scan":{"created_at":"x","name":"n","namespace":"s","scan_type":"nmap"},"false_positive":false}`),
		IdentifiedAt:   "2026-01-01T00:00:00Z", ParsedAt: "2026-01-02T00:00:00Z",
	}
	if diff := cmp.Diff(want, records[1].Message.GetResult(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestMappingFields(t *testing.T) {
	deep := strings.Repeat("[", 400) + strings.Repeat("]", 400)
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%d`, i%150, i)
	}
	tests := map[string]struct {
		element string
		check   func(*forwardingv1.Result) (got, want string)
	}{
		"RuleText":        {`{"attributes":{"check":"c","rule_id":"r"}}`, func(r *forwardingv1.Result) (string, string) { return r.GetRule(), "nmap/r" }},
		"RuleInteger":     {`{"attributes":{"rule_id":"","zap_pluginid":10038}}`, func(r *forwardingv1.Result) (string, string) { return r.GetRule(), "nmap/10038" }},
		"RuleNotFraction": {`{"category":"A.b c","attributes":{"rule_id":1.5,"check":null}}`, func(r *forwardingv1.Result) (string, string) { return r.GetRule(), "nmap/a.b-c" }},
		"RuleOfNothing":   {`{"category":"--"}`, func(r *forwardingv1.Result) (string, string) { return r.GetRule(), "nmap/" }},
		"RuleNotAscii":    {`{"category":"Ünder Größe"}`, func(r *forwardingv1.Result) (string, string) { return r.GetRule(), "nmap/nder-gr-e" }},
		"Informational": {`{"severity":"INFORMATIONAL"}`, func(r *forwardingv1.Result) (string, string) {
			return r.GetOutcome() + r.GetSeverity(), "INFOinformational"
		}},
		"NoSeverity": {`{}`, func(r *forwardingv1.Result) (string, string) { return r.GetOutcome() + r.GetSeverity(), "FAIL" }},
		"OtherSeverity": {`{"severity":"High"}`, func(r *forwardingv1.Result) (string, string) {
			return r.GetSeverity() + string(r.GetExtraJson()), `high{"severity":"High"}`
		}},
		"NameForText": {`{"name":"n","description":null}`, func(r *forwardingv1.Result) (string, string) {
			return r.GetDescription() + string(r.GetExtraJson()), "n"
		}},
		"EmptyText": {`{"description":"","name":"n"}`, func(r *forwardingv1.Result) (string, string) {
			return r.GetDescription() + string(r.GetExtraJson()), `n{"description":""}`
		}},
		"TextLikeName": {`{"description":"n","name":"n"}`, func(r *forwardingv1.Result) (string, string) { return string(r.GetExtraJson()), `{"description":"n"}` }},
		"WrongTypes": {`{"name":7,"attributes":[],"references":{},"z":1}`, func(r *forwardingv1.Result) (string, string) {
			return string(r.GetExtraJson()), `{"name":7,"attributes":[],"references":{},"z":1}`
		}},
		"ReferenceMore": {`{"references":[{"type":"a","value":"b","c":1}]}`, func(r *forwardingv1.Result) (string, string) { return strconv.Itoa(len(r.GetReferences())), "0" }},
		"LoneSurrogate": {`{"name":"a\ud800"}`, func(r *forwardingv1.Result) (string, string) { return string(r.GetExtraJson()), `{"name":"a\ud800"}` }},
		"SurrogateInText": {`{"description":"a\ud800"}`, func(r *forwardingv1.Result) (string, string) {
			return string(r.GetExtraJson()), `{"description":"a\ud800"}`
		}},
		"SurrogateInRule": {`{"attributes":{"rule_id":"\ud800"}}`, func(r *forwardingv1.Result) (string, string) { return r.GetRule(), "nmap/\uFFFD" }},
		"EscapedKey":      {`{"n\u0061me":"n"}`, func(r *forwardingv1.Result) (string, string) { return r.GetTitle(), "n" }},
		"TwiceTheSameKey": {`{"name":"a","name":"b"}`, func(r *forwardingv1.Result) (string, string) { return r.GetTitle(), "b" }},
		"ManyKeys": {"{" + strings.Join(many, ",") + "}", func(r *forwardingv1.Result) (string, string) {
			return strconv.Itoa(bytes.Count(r.GetExtraJson(), []byte(":"))), "150"
		}},
		"Deep": {`{"attributes":{"a":` + deep + `}}`, func(r *forwardingv1.Result) (string, string) {
			return string(r.GetAttributesJson()), `{"a":` + deep + `}`
		}},
		"AttributesByByte": {`{"attributes":{ "x":"\u00e9", "a" : 1e2 }}`, func(r *forwardingv1.Result) (string, string) {
			return string(r.GetAttributesJson()), `{ "x":"\u00e9", "a" : 1e2 }`
		}},
		"ClusterObject": {`{"location":"production/shop/Deployment/web","attributes":{"kind":"Deployment","name":"web"}}`, func(r *forwardingv1.Result) (string, string) {
			return r.GetExtra()["resourceType"], "cluster"
		}},
		"NoClusterObject": {`{"location":"https://a/","attributes":{"kind":"Deployment","name":"web"}}`, func(r *forwardingv1.Result) (string, string) {
			return r.GetExtra()["resourceType"], "target"
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			result := resultOf(t, nightly(), tt.element)
			if got, want := tt.check(result); got != want {
				t.Errorf("want %q, got %q", want, got)
			}
			if problem := roundTrip([]byte(tt.element), result); problem != "" {
				t.Error(problem)
			}
		})
	}
}

func TestMappingSummary(t *testing.T) {
	records, r := read(t, Source{ClusterID: cluster, Scan: nightly(), Extra: map[string]string{"clusterName": "prod-1"}}, "[]")
	got, scan := records[0].Message, nightly()
	want := &forwardingv1.ScanSummary{
		ScanType: "nmap", ResourceMode: "namespaceLocal", Parameters: []string{"-p", "22"}, State: "Done", CreatedAt: timeOf(&scan.CreationTimestamp), FinishedAt: timeOf(scan.Status.FinishedAt),
		RawResultType: "nmap-xml", RawResultFile: "nmap-results.xml", Findings: 3, Severities: map[string]uint64{"high": 1}, Categories: map[string]uint64{"Open Port": 3},
		Labels: map[string]string{"team": "a"}, Outcome: "FAIL", ParentScan: "parent", Extra: map[string]string{"clusterName": "prod-1"},
	}
	if diff := cmp.Diff(want, got.GetScanSummary(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	stream := &forwardingv1.StreamId{ClusterId: cluster, Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: string(scan.UID), Revision: 1}
	if diff := cmp.Diff(stream, r.Stream(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if got.GetEventId() != forwardingv1.EventID(stream, 1) || got.GetSequence() != 1 || got.GetSchema() != forwardingv1.Schema || !bytes.Equal(got.GetDigest(), forwardingv1.Digest(got)) {
		t.Errorf("the record's identity is wrong: %v", got)
	}
}

func TestMappingSummaryOutcome(t *testing.T) {
	one := int64(1)
	tests := map[string]struct {
		change func(*executionv1.Scan)
		want   string
	}{
		"High": {func(*executionv1.Scan) {}, OutcomeFail},
		"Informational": {func(s *executionv1.Scan) {
			s.Status.Findings.FindingSeverities = executionv1.FindingSeverities{Informational: &one}
		}, OutcomePass},
		"Nothing": {func(s *executionv1.Scan) { s.Status.Findings = executionv1.FindingStats{} }, OutcomePass},
		"Errored": {func(s *executionv1.Scan) { s.Status.State = executionv1.ScanStateErrored }, OutcomeError},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			scan := nightly()
			tt.change(scan)
			r := NewReader(Source{ClusterID: cluster, Scan: scan}, nil)
			record, err := r.Next()
			if err != nil || record.Message.GetScanSummary().GetOutcome() != tt.want {
				t.Errorf("want %s, got %v, %v", tt.want, record.Message.GetScanSummary().GetOutcome(), err)
			}
			if _, err := r.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("without findings.json nothing follows the summary: %v", err)
			}
			if closing := r.Closing(1, nil); closing.Sequence != 2 {
				t.Errorf("the closing record has sequence %d", closing.Sequence)
			}
		})
	}
}

func TestMappingRevision(t *testing.T) {
	scan := nightly()
	scan.Status.Attempts = &executionv1.PhaseAttempts{Scanner: 2, Parser: 3}
	scan.Status.OrderedHookStatuses = [][]executionv1.HookStatus{{{Attempt: 1}}, {{Attempt: 5}}}
	if got := Revision(scan); got != 5 {
		t.Errorf("got %d", got)
	}
	if got := Revision(nightly()); got != 1 {
		t.Errorf("a Scan that nobody has run again is of revision %d", got)
	}
}

func TestMappingSequences(t *testing.T) {
	findings := `[{"severity":"LOW"},7,{"severity":"HIGH"},{"severity":"HIGH","name":"` + strings.Repeat("x", 500) + `"},{"severity":"odd"},{"severity":"INFORMATIONAL"}]`
	records, r := read(t, Source{ClusterID: cluster, Scan: nightly(), MinSeverity: finding.Medium, MaxElement: 200}, findings)
	var sequences []uint64
	for _, record := range records {
		sequences = append(sequences, record.Sequence)
		if record.Message.GetEventId() != forwardingv1.EventID(r.Stream(), record.Sequence) || record.EventID != record.Message.GetEventId() {
			t.Errorf("record %d has the id %s", record.Sequence, record.EventID)
		}
	}
	if diff := cmp.Diff([]uint64{1, 4, 6, 8}, sequences); diff != "" {
		t.Error(diff)
	}
	closing := records[3].Message.GetClosing()
	if closing.GetRecords() != 3 || closing.GetFindingsTotal() != 6 || closing.GetFilter() != "minSeverity=MEDIUM" || closing.GetOutcomes()["FAIL"] != 2 || len(closing.GetChain()) != 32 {
		t.Errorf("got %v", closing)
	}
	rejected := r.Rejected()
	if len(rejected) != 2 || rejected[0].Index != 1 || rejected[0].Reason != "Malformed" || rejected[1].Index != 3 || rejected[1].Reason != "TooLarge" ||
		!strings.Contains(rejected[1].Message, "200") || rejected[1].EventID != forwardingv1.EventID(r.Stream(), 5) {
		t.Errorf("got %+v", rejected)
	}
	if filter := func() string {
		all, _ := read(t, Source{Scan: nightly(), MinSeverity: finding.Informational}, "[]")
		return all[1].Message.GetClosing().GetFilter()
	}(); filter != "" {
		t.Errorf("a filter that passes all is none: %q", filter)
	}
}

func TestMappingBrokenFindings(t *testing.T) {
	for _, findings := range []string{``, `{}`, `[{"a":1}`, `[{"a":}]`, `[] x`} {
		r := NewReader(Source{Scan: nightly()}, strings.NewReader(findings))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "read findings.json: ") {
			t.Errorf("%q: got %v", findings, err)
		}
	}
}

// endless is a findings.json of n findings, without being one in memory.
type endless struct {
	n    int
	rest []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.n < 0 {
			return 0, io.EOF
		}
		e.rest = []byte(`{"name":"port","severity":"LOW","attributes":{"port":22,"hostname":"` + strings.Repeat("h", 500) + `"}},`)
		if e.n == 0 {
			e.rest = []byte(`{}]`)
		}
		e.n--
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestMappingKeepsNoFindings asks that what a Reader holds does not grow with what it has read.
func TestMappingKeepsNoFindings(t *testing.T) {
	r := NewReader(Source{ClusterID: cluster, Scan: nightly()}, io.MultiReader(strings.NewReader("["), &endless{n: 20_000}))
	count := 0
	for {
		if _, err := r.Next(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
		count++
	}
	if count != 20_002 || len(r.rejected) != 0 || cap(r.mapper.members) > 64 || cap(r.mapper.attributes) > 64 {
		t.Errorf("%d records, %d members and %d attributes are held", count, cap(r.mapper.members), cap(r.mapper.attributes))
	}
}

func FuzzMapping(f *testing.F) {
	f.Add([]byte(`{"name":"a\ud800","name":"b","severity":"High","references":[{"type":"CVE","value":"1"}],"attributes":{"rule_id":-3},"x":[{}]}`))
	f.Add([]byte(`{"description":"","name":null,"attributes":[],"references":[]}`))
	f.Fuzz(func(t *testing.T, element []byte) {
		var want finding.Finding
		if len(element) > 1<<16 || want.UnmarshalJSON(element) != nil {
			return
		}
		records, _ := read(t, Source{ClusterID: cluster, Scan: nightly()}, "["+string(element)+"]")
		result := records[1].Message.GetResult()
		if problem := roundTrip(element, result); problem != "" {
			t.Error(problem)
		}
		for _, raw := range [][]byte{result.GetAttributesJson(), result.GetExtraJson()} {
			if len(raw) > 0 && !bytes.Contains(raw, []byte(`\u`)) && finding.CheckValue(raw, 0) != nil {
				t.Errorf("%s is not JSON", raw)
			}
		}
	})
}

func BenchmarkMapping(b *testing.B) {
	element := []byte(`{"name":"port","category":"Open Port","severity":"LOW","location":"tcp://10.0.0.1:22","attributes":{"port":22,"state":"open","hostname":"` + strings.Repeat("h", 300) + `"}}`)
	if !json.Valid(element) {
		b.Fatal("no JSON")
	}
	m := NewReader(Source{ClusterID: cluster, Scan: nightly()}, nil).mapper
	b.SetBytes(int64(len(element)))
	b.ReportAllocs()
	for b.Loop() {
		m.result(element)
	}
}

// TestMappingContinues reads on behind each record: what follows is the same as without the stop, the closing record too.
func TestMappingContinues(t *testing.T) {
	findings := ` [{"name":"a","severity":"HIGH"}, 7 ,{"name":"b","severity":"LOW"},{"name":"c","severity":"INFORMATIONAL"},{"name":"d","severity":"HIGH"},"x"] `
	for _, lowest := range []string{"", "LOW", "HIGH"} {
		source := Source{ClusterID: cluster, Scan: nightly(), MinSeverity: lowest}
		all := func(r *Reader) (records []sink.Record, positions []Position) {
			for {
				record, err := r.Next()
				if errors.Is(err, io.EOF) {
					return append(records, r.Closing(3, nil)), positions
				}
				if err != nil {
					t.Fatal(err)
				}
				at := r.Position()
				at.Outcomes = maps.Clone(at.Outcomes)
				records, positions = append(records, record), append(positions, at)
			}
		}
		want, positions := all(NewReader(source, strings.NewReader(findings)))
		for i, at := range positions {
			r := NewReaderAt(source, strings.NewReader(findings[at.Offset:]), at)
			got, _ := all(r)
			if diff := cmp.Diff(want[i+1:], got, protocmp.Transform()); diff != "" {
				t.Errorf("%s, behind %+v: %s", lowest, at, diff)
			}
			if r.RejectedCount() != 2 || r.Total() != 6 {
				t.Errorf("%d of %d were refused", r.RejectedCount(), r.Total())
			}
		}
	}
}

func TestMappingLeavesKindsOut(t *testing.T) {
	const findings = `[{"name":"a","severity":"HIGH"},{"name":"b","severity":"LOW"}]`
	stored := &Stored{Findings: Object{Key: "bucket/scan-1/findings.json", ETag: "e", Size: 7}, Raw: Object{Key: "bucket/scan-1/raw.xml", ETag: "r", Size: 9}}
	records, _ := read(t, Source{ClusterID: cluster, Scan: nightly(), NoResults: true, Stored: stored}, findings)
	summary := records[0].Message.GetScanSummary()
	if len(records) != 2 || summary.GetResultsKey() != "bucket/scan-1/findings.json" || summary.GetExtra()["rawResultSize"] != "9" || summary.GetExtra()["findingsETag"] != "e" {
		t.Errorf("got %v", records)
	}
	for want, source := range map[string]Source{
		"records=Summary":                  {NoResults: true},
		"records=Results":                  {NoSummary: true},
		"minSeverity=HIGH,records=Results": {NoSummary: true, MinSeverity: "HIGH"},
		"minSeverity=LOW":                  {MinSeverity: "LOW"},
		"":                                 {},
	} {
		source.Scan = nightly()
		_, r := read(t, source, findings)
		if got := r.Closing(1, nil).Message.GetClosing(); got.GetFilter() != want || got.GetFindingsTotal() != 2 {
			t.Errorf("%v, want %s", got, want)
		}
	}
	records, _ = read(t, Source{ClusterID: cluster, Scan: nightly(), NoSummary: true}, findings)
	if len(records) != 3 || records[0].Sequence != 2 {
		t.Errorf("got %v", records)
	}
}
