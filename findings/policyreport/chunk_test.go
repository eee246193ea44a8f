// SPDX-License-Identifier: Apache-2.0

package policyreport

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChunks(t *testing.T) {
	one := len(`{"source":"","policy":"p","result":"fail","scored":false}`)
	for name, c := range map[string]struct {
		reason  string
		Limits  Limits
		results int
		empty   bool
		want    []int
	}{
		"Full":       {"the last may be full", Limits{2, 1 << 20}, 4, true, []int{2, 2}},
		"Rest":       {"the last holds the rest", Limits{2, 1 << 20}, 5, true, []int{2, 2, 1}},
		"Bytes":      {"bytes count with the commas between", Limits{1000, 2*one + 1}, 3, true, []int{2, 1}},
		"TooLarge":   {"one result always fits", Limits{1000, 1}, 2, true, []int{1, 1}},
		"None":       {"nothing found is said by an empty report", Limits{2, 1 << 20}, 0, true, []int{0}},
		"NoneUnsaid": {"unless it is switched off", Limits{2, 1 << 20}, 0, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			chunks := &Chunker{Limits: c.Limits, Emit: func(part *Chunk) error {
				if part.number != len(got) {
					t.Errorf("number %d, want %d", part.number, len(got))
				}
				if list := plain(t, []byte("["+string(part.Encoded)+"]")).([]any); len(list) != part.results {
					t.Errorf("%d results in a chunk of %d", len(list), part.results)
				}
				if part.summary[indexOf("fail")] != int64(part.results) {
					t.Errorf("summary %v, want %d that fail", part.summary, part.results)
				}
				got = append(got, part.results)
				return nil
			}}
			for range c.results {
				if err := chunks.Add(&Result{Policy: "p", Result: "fail"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := chunks.Close(c.empty); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestReportNamesFit(t *testing.T) {
	o := &Origin{}
	o.Metadata.Name = "nightly"
	if got := o.reportName(3); got != "nightly-03" {
		t.Errorf("got %s", got)
	}
	if got := o.reportName(1234); got != "nightly-1234" {
		t.Errorf("got %s", got)
	}
	o.Metadata.Name = strings.Repeat("a", 253)
	first := o.reportName(0)
	o.Metadata.Name = strings.Repeat("a", 252) + "b"
	if second := o.reportName(0); first == second || len(first) > 253 || len(first) != len(second) {
		t.Errorf("%s and %s", first, second)
	}
}

func TestTargetOfScans(t *testing.T) {
	origin := func(spec string) *Origin {
		o := &Origin{}
		if err := json.Unmarshal([]byte(`{"spec":`+spec+`}`), o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	same := origin(`{"scanType":"nmap","parameters":["-sV","example.com"],"env":[{"name":"A","value":"b"}]}`).target()
	if !strings.HasPrefix(same, "nmap/") || len(same) != len("nmap/")+targetDigits {
		t.Errorf("got %q", same)
	}
	for spec, want := range map[string]bool{
		`{"env":[{"value":"b","name":"A"}],"parameters":["-sV","example.com"],"scanType":"nmap","resourceMode":"namespaceLocal"}`: true,
		`{"scanType":"nmap","parameters":["-sV","example.org"],"env":[{"name":"A","value":"b"}]}`:                                 false,
		`{"scanType":"nmap","parameters":["-sV","example.com"],"env":[{"name":"A","value":"c"}]}`:                                 false,
		`{"scanType":"zap","parameters":["-sV","example.com"],"env":[{"name":"A","value":"b"}]}`:                                  false,
		`{"scanType":"nmap","parameters":["-sV","example.com"],"env":[{"name":"A","value":"b"}],"volumes":[{"name":"v"}]}`:        false,
	} {
		if got := origin(spec).target(); (got == same) != want {
			t.Errorf("%s: %s and %s", spec, got, same)
		}
	}
}

func TestObsolete(t *testing.T) {
	report := func(name, uid, created, run, number string) Stored {
		var s Stored
		s.Metadata.Name = name
		s.Metadata.Labels = map[string]string{LabelChunk: number}
		s.Metadata.Annotations = map[string]string{AnnotationScanUID: uid, annotationCreated: created, AnnotationRun: run}
		return s
	}
	names := func(all []Stored) []string {
		var names []string
		for _, s := range all {
			names = append(names, s.Metadata.Name)
		}
		return names
	}
	mine := []Stored{
		report("a-00", "a", "", "new", "00"), report("a-01", "a", "", "old", "01"), report("a-02", "a", "", "new", "02"), report("a-x", "a", "", "new", "x"),
	}
	if diff := cmp.Diff([]string{"a-01", "a-02", "a-x"}, names(ReplacedBy(Plan{Chunks: 2, Run: "new"}, mine))); diff != "" {
		t.Errorf("of the same Scan (-want +got):\n%s", diff)
	}
	o := &Origin{}
	o.Metadata.UID, o.Metadata.CreationTimestamp = "c", "2026-01-03T00:00:00Z"
	all := []Stored{
		report("a-00", "a", "2026-01-01T00:00:00Z", "", "00"), report("a-01", "a", "2026-01-01T00:00:00Z", "", "01"),
		report("b-00", "b", "2026-01-02T00:00:00Z", "", "00"), report("c-00", "c", "2026-01-03T00:00:00Z", "", "00"),
		report("d-00", "d", "2026-01-04T00:00:00Z", "", "00"), report("e-00", "e", "no time", "", "00"),
	}
	for history, want := range map[int][]string{1: {"b-00", "a-00", "a-01"}, 2: {"a-00", "a-01"}, 3: nil} {
		if diff := cmp.Diff(want, names(Outlived(o, all, history))); diff != "" {
			t.Errorf("history of %d (-want +got):\n%s", history, diff)
		}
	}
	o.Metadata.CreationTimestamp = ""
	if got := Outlived(o, all, 1); got != nil {
		t.Errorf("without a time: %v", names(got))
	}
}
