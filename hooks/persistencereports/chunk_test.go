// SPDX-License-Identifier: Apache-2.0

package persistencereports

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChunks(t *testing.T) {
	one := len(`{"source":"","policy":"p","result":"fail","scored":false}`)
	for name, c := range map[string]struct {
		reason  string
		limits  limits
		results int
		empty   bool
		want    []int
	}{
		"Full":       {"the last may be full", limits{2, 1 << 20}, 4, true, []int{2, 2}},
		"Rest":       {"the last holds the rest", limits{2, 1 << 20}, 5, true, []int{2, 2, 1}},
		"Bytes":      {"bytes count with the commas between", limits{1000, 2*one + 1}, 3, true, []int{2, 1}},
		"TooLarge":   {"one result always fits", limits{1000, 1}, 2, true, []int{1, 1}},
		"None":       {"nothing found is said by an empty report", limits{2, 1 << 20}, 0, true, []int{0}},
		"NoneUnsaid": {"unless it is switched off", limits{2, 1 << 20}, 0, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			chunks := &chunker{limits: c.limits, emit: func(part *chunk) error {
				if part.number != len(got) {
					t.Errorf("number %d, want %d", part.number, len(got))
				}
				if list := plain(t, []byte("["+string(part.encoded)+"]")).([]any); len(list) != part.results {
					t.Errorf("%d results in a chunk of %d", len(list), part.results)
				}
				if part.summary[indexOf("fail")] != int64(part.results) {
					t.Errorf("summary %v, want %d that fail", part.summary, part.results)
				}
				got = append(got, part.results)
				return nil
			}}
			for range c.results {
				if err := chunks.add(&result{Policy: "p", Result: "fail"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := chunks.close(c.empty); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestReportNamesFit(t *testing.T) {
	o := &origin{}
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

func TestObsolete(t *testing.T) {
	report := func(name, uid, created, run, number string) stored {
		var s stored
		s.Metadata.Name = name
		s.Metadata.Labels = map[string]string{labelChunk: number}
		s.Metadata.Annotations = map[string]string{annotationScanUID: uid, annotationCreated: created, annotationRun: run}
		return s
	}
	names := func(all []stored) []string {
		var names []string
		for _, s := range all {
			names = append(names, s.Metadata.Name)
		}
		return names
	}
	mine := []stored{
		report("a-00", "a", "", "new", "00"), report("a-01", "a", "", "old", "01"), report("a-02", "a", "", "new", "02"), report("a-x", "a", "", "new", "x"),
	}
	if diff := cmp.Diff([]string{"a-01", "a-02", "a-x"}, names(replacedBy(plan{chunks: 2, run: "new"}, mine))); diff != "" {
		t.Errorf("of the same Scan (-want +got):\n%s", diff)
	}
	o := &origin{}
	o.Metadata.UID, o.Metadata.CreationTimestamp = "c", "2026-01-03T00:00:00Z"
	all := []stored{
		report("a-00", "a", "2026-01-01T00:00:00Z", "", "00"), report("a-01", "a", "2026-01-01T00:00:00Z", "", "01"),
		report("b-00", "b", "2026-01-02T00:00:00Z", "", "00"), report("c-00", "c", "2026-01-03T00:00:00Z", "", "00"),
		report("d-00", "d", "2026-01-04T00:00:00Z", "", "00"), report("e-00", "e", "no time", "", "00"),
	}
	for history, want := range map[int][]string{1: {"b-00", "a-00", "a-01"}, 2: {"a-00", "a-01"}, 3: nil} {
		if diff := cmp.Diff(want, names(outlived(o, all, history))); diff != "" {
			t.Errorf("history of %d (-want +got):\n%s", history, diff)
		}
	}
	o.Metadata.CreationTimestamp = ""
	if got := outlived(o, all, 1); got != nil {
		t.Errorf("without a time: %v", names(got))
	}
}

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct{ key, value, says string }{
		"Group":         {"REPORTS_GROUP", "example.com", "want wgpolicyk8s.io or openreports.io"},
		"Chunk":         {"REPORTS_CHUNK_RESULTS", "1001", "want 1000 at most"},
		"NoChunk":       {"REPORTS_CHUNK_RESULTS", "0", "want a number of 1 or more"},
		"Severity":      {"REPORTS_MIN_SEVERITY", "critical", "want INFORMATIONAL, LOW, MEDIUM or HIGH"},
		"Informational": {"REPORTS_INFORMATIONAL_RESULT", "ok", "want one of pass, fail, warn, error, skip"},
		"Zero":          {"REPORTS_ZERO_FINDINGS", "perhaps", "neither true nor false"},
		"Keep":          {"REPORTS_KEEP", "perhaps", "neither true nor false"},
		"History":       {"REPORTS_HISTORY_PER_SCHEDULE", "-1", "want a number of 1 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{c.key: c.value}
			_, err := newHandler(func(key string) (string, bool) { value, ok := env[key]; return value, ok })
			if err == nil || !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %s and %q", err, c.key, c.says)
			}
		})
	}
}
