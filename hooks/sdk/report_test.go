// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// withFindings puts findings into the store, and says in the Scan which bytes they are.
func withFindings(t *testing.T, w *sdktest.World, findings string) {
	t.Helper()
	w.Objects["/findings.json"] = []byte(findings)
	stored, err := json.Marshal(outcome.StoredBytes([]byte(findings)))
	if err != nil {
		t.Fatal(err)
	}
	w.Scan = strings.Replace(w.Scan, `"status":{`, fmt.Sprintf(`"status":{"storedFindings":%s,`, stored), 1)
}

func outcomeOf(t *testing.T, r sdktest.Result) *outcome.Outcome {
	t.Helper()
	o, err := outcome.Decode([]byte(r.LastWords))
	if r.ExitCode != 0 || err != nil {
		t.Fatalf("exit code %d, last words %q: %v; %s", r.ExitCode, r.LastWords, err, r.Stderr)
	}
	return o
}

// TestHandover holds that a hook whose Scan was handed over sends no request to the API server, and what it reports.
func TestHandover(t *testing.T) {
	w := sdktest.New(t)
	w.HandOver = true
	withFindings(t, w, `[{"severity":"LOW","category":"a"},{"severity":"HIGH","category":"b"}]`)

	got := w.Run(t, hookOf(false, func(ctx context.Context, s *sdk.Session) error {
		if s.Scan().Metadata.Name != "nmap-x" || !json.Valid(s.Scan().Raw) {
			t.Errorf("got %+v", s.Scan())
		}
		if err := s.ReportCondition(outcome.Condition{Type: "CascadingRulesMatched", Status: outcome.False, Reason: "CategoryMissing"}); err != nil {
			return err
		}
		return readAll(ctx, s)
	}), nil)
	want := &outcome.Outcome{Version: outcome.Version, Conditions: []outcome.Condition{{Type: "CascadingRulesMatched", Status: "False", Reason: "CategoryMissing"}}}
	if diff := cmp.Diff(want, outcomeOf(t, got)); diff != "" || len(got.Operations) > 0 {
		t.Errorf("%s, operations %v", diff, got.Operations)
	}

	got = w.Run(t, hookOf(true, func(ctx context.Context, s *sdk.Session) error {
		err := s.EditFindings(ctx, func(element []byte) ([]byte, error) {
			if strings.Contains(string(element), "LOW") {
				return nil, nil
			}
			return element, nil
		})
		if err != nil {
			return err
		}
		w.Objects["/findings.json"] = []byte(`[{"severity":"HIGH","category":"b"}]`)
		return readAll(ctx, s) // what it has written is what it must find now
	}), nil)
	want = &outcome.Outcome{Version: outcome.Version, Findings: &outcome.Findings{
		Stored: outcome.StoredBytes([]byte(`[{"severity":"HIGH","category":"b"}]`)), Count: 1,
		Severities: outcome.Severities{High: 1}, Categories: map[string]int64{"b": 1},
	}}
	if diff := cmp.Diff(want, outcomeOf(t, got)); diff != "" {
		t.Error(diff)
	}
	if len(got.Operations) != 1 || got.Operations[0].Method != http.MethodPut || string(got.Operations[0].Body) != `[{"severity":"HIGH","category":"b"}]` {
		t.Errorf("operations %v", got.Operations)
	}
}

// TestHandoverOfManyCategories stores beside the findings what does not fit into last words.
func TestHandoverOfManyCategories(t *testing.T) {
	w := sdktest.New(t)
	w.HandOver = true
	got := w.Run(t, hookOf(true, func(ctx context.Context, s *sdk.Session) error {
		return s.UpdateFindings(ctx, func(_ context.Context, out *sdk.Output) error {
			for i := range 200 {
				if err := out.WriteRaw(fmt.Appendf(nil, `{"severity":"LOW","category":"category number %d"}`, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}), nil)
	o := outcomeOf(t, got)
	if len(got.Operations) != 2 || got.Operations[1].Path != "/put-categories" {
		t.Fatalf("operations %v", got.Operations)
	}
	if categories, err := o.Findings.DecodeCategories(got.Operations[1].Body); err != nil || len(categories) != 200 {
		t.Errorf("got %d categories, %v", len(categories), err)
	}
}

// TestFindingsOfAnotherClient: they are not the ones that the operator knows; nothing of them is handed out where they are
// few, and the hook fails in any case.
func TestFindingsOfAnotherClient(t *testing.T) {
	small := `[{"severity":"LOW","category":"a"}]`
	large := `[{"severity":"LOW","category":"` + strings.Repeat("a", 2<<20) + `"}]`
	for name, c := range map[string]struct{ was, is string }{
		"Other":      {small, strings.Replace(small, "LOW", "low", 1)},
		"Longer":     {small, strings.Replace(small, "]", ",{}]", 1)},
		"Shorter":    {small, `[]`},
		"LargeOther": {large, strings.Replace(large, "LOW", "low", 1)},
		"LargeNow":   {small, large},
		"SmallNow":   {large, small},
	} {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.HandOver = true
			withFindings(t, w, c.was)
			w.Objects["/findings.json"] = []byte(c.is)
			handed := 0
			got := w.Run(t, hookOf(false, func(ctx context.Context, s *sdk.Session) error {
				return s.EachFinding(ctx, func([]byte) error { handed++; return nil })
			}), nil)
			if got.ExitCode != 1 || !strings.Contains(got.LastWords, "another client has written them since") {
				t.Errorf("exit code %d, last words %q", got.ExitCode, got.LastWords)
			}
			if handed > 0 && len(c.was) < 1<<20 {
				t.Errorf("%d findings were handed out", handed)
			}
		})
	}
}

// TestHookThatWritesIsTriedAgain finds what its first try has left, and goes on.
func TestHookThatWritesIsTriedAgain(t *testing.T) {
	w := sdktest.New(t)
	w.HandOver = true
	withFindings(t, w, `[{"severity":"LOW","category":"a"}]`)
	w.Objects["/findings.json"] = []byte(`[{"severity":"HIGH","category":"a"}]`)
	if o := outcomeOf(t, w.Run(t, hookOf(true, keep), nil)); o.Findings == nil || o.Findings.Severities.High != 1 {
		t.Errorf("got %+v", o)
	}
}

func TestHandoverThatIsNoScan(t *testing.T) {
	w := sdktest.New(t)
	w.HandOver, w.Scan = true, `{"metadata":`
	got := w.Run(t, hookOf(false, readAll), nil)
	if got.ExitCode != 1 || !strings.Contains(got.LastWords, handover.EnvScan) {
		t.Errorf("exit code %d, last words %q", got.ExitCode, got.LastWords)
	}
}
