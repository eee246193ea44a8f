// SPDX-License-Identifier: Apache-2.0

package exceptiontest_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/findings/cascade/plan"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/findings/report"
)

const namespace = "team"

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// TestPlaces runs the cases through what is made of findings in one process. Hooks and command line run them as well.
func TestPlaces(t *testing.T) {
	for _, c := range exceptiontest.Cases(namespace, now) {
		t.Run(c.Name, func(t *testing.T) {
			scan := exception.Scan{Namespace: namespace, Name: "shop"}
			held := exception.Compile(c.List, now).For(scan)
			for place, got := range map[string]string{
				"matcher": matched(t, held, c.Finding), "pod": matched(t, taken(t, c.List, scan), c.Finding), "report": reported(t, held, c.Finding),
				"explainer": explained(t, c.List, scan, c.Finding),
			} {
				if got != c.Want {
					t.Errorf("%s: %q holds, want %q", place, got, c.Want)
				}
			}
			for place, got := range map[string]bool{
				"tally": counted(t, held, c.Finding), "PolicyReport": skipped(t, held, c.Finding), "cascade": !starts(t, held, c.Finding, ""),
				"SARIF": strings.Contains(written(t, held, c.Finding, "sarif"), `"suppressions"`),
				"JUnit": strings.Contains(written(t, held, c.Finding, "junit"), "<skipped"),
			} {
				if got != c.Suppressed {
					t.Errorf("%s: suppressed is %t, want %t", place, got, c.Suppressed)
				}
			}
			if !starts(t, held, c.Finding, `,"annotations":{"scanyard.io/exceptions":"ignore"}`) {
				t.Error("a rule that ignores exceptions starts nothing")
			}
		})
	}
}

func object(t *testing.T, text string) finding.Object {
	t.Helper()
	value, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := value.(finding.Object)
	return o
}

func markOf(t *testing.T, held *exception.Selection, text string) *exception.Mark {
	t.Helper()
	mark, ok, err := held.MatchRaw(finding.NewDecoder(0), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil
	}
	return &mark
}

func matched(t *testing.T, held *exception.Selection, text string) string {
	t.Helper()
	return exceptiontest.Of(markOf(t, held, text))
}

// taken is what a pod takes over.
func taken(t *testing.T, list []exception.Exception, scan exception.Scan) *exception.Selection {
	t.Helper()
	text, err := exception.HandOver(list, scan, now)
	if err != nil || text == nil {
		return nil
	}
	held, err := exception.TakeOver(text)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// explained is the one exception that the explainer says matches first.
func explained(t *testing.T, list []exception.Exception, scan exception.Scan, text string) string {
	t.Helper()
	misses := exception.NewExplainer(list, now, scan).Explain(object(t, text))
	mark := markOf(t, exception.Compile(list, now).For(scan), text)
	for i, miss := range misses {
		if miss == nil && mark != nil && list[i].Name == mark.Name {
			return list[i].Kind() + "/" + list[i].Name
		}
	}
	for _, miss := range misses {
		if miss == nil {
			return "another one"
		}
	}
	return ""
}

func input(held *exception.Selection, text string) *report.Input {
	return &report.Input{
		Scan: report.Scan{Name: "shop", Namespace: namespace}, FailOn: report.AtLeast(report.Low), Exceptions: held,
		Findings: func(_ context.Context, do func([]byte) error) error { return do([]byte(text)) },
	}
}

func reported(t *testing.T, held *exception.Selection, text string) (name string) {
	t.Helper()
	err := input(held, text).Each(t.Context(), func(e *report.Entry) error {
		name = exceptiontest.Of(e.Exception)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func written(t *testing.T, held *exception.Selection, text, format string) string {
	t.Helper()
	r, err := report.New(t.Context(), *input(held, text))
	if err != nil {
		t.Fatal(err)
	}
	f, _ := report.FormatNamed(format)
	var out bytes.Buffer
	if err := r.Write(t.Context(), &out, f); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func counted(t *testing.T, held *exception.Selection, text string) bool {
	t.Helper()
	tally, f := exception.NewTally(held), &outcome.Findings{}
	if err := tally.Add([]byte(text)); err != nil {
		t.Fatal(err)
	}
	tally.Report(f)
	if f.Open != nil && f.Excepted+f.Open.High != 1 {
		t.Errorf("%d excepted and %d open findings of one", f.Excepted, f.Open.High)
	}
	return f.Excepted == 1
}

func skipped(t *testing.T, held *exception.Selection, text string) bool {
	t.Helper()
	mapping := policyreport.Mapping{Informational: "warn"}
	r, _ := mapping.Result(object(t, text))
	mark := markOf(t, held, text)
	r.Except(mark)
	if got := r.Properties["exception"]; got != exceptiontest.Of(mark) {
		t.Errorf("PolicyReport: property exception %q, want %q", got, exceptiontest.Of(mark))
	}
	return r.Result == "skip"
}

// starts says whether a rule that matches the finding starts a Scan.
func starts(t *testing.T, held *exception.Selection, text, annotations string) bool {
	t.Helper()
	p, err := plan.New(plan.Input{
		Scan: object(t, `{"kind":"Scan","metadata":{"name":"shop","namespace":"team","uid":"u"},"spec":{"scanType":"nmap","cascades":{}}}`),
		Rules: []finding.Object{object(t, fmt.Sprintf(
			`{"metadata":{"name":"rule"%s},"spec":{"matches":{"anyOf":[{"category":"Vulnerability"}]},"scanSpec":{"scanType":"nuclei","parameters":["x"]}}}`, annotations))},
		Exceptions: held,
	})
	if err == nil {
		err = p.Add([]byte(text))
	}
	if err != nil {
		t.Fatal(err)
	}
	source := func(yield func([]byte) error) error { return yield([]byte(text)) }
	if err := p.Children(source, func(plan.Child) (plan.Result, error) { return plan.Started, nil }); err != nil {
		t.Fatal(err)
	}
	o := p.Outcomes()[0]
	if o.Matched+o.Excepted != 1 || o.Error != "" || o.Excepted == 1 && !strings.Contains(o.Reason, "excepted") {
		t.Errorf("cascade: %+v", o)
	}
	return o.Started == 1
}
