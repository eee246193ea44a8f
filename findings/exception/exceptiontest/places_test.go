// SPDX-License-Identifier: Apache-2.0

package exceptiontest_test

import (
	"bytes"
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

var shop = exception.Scan{Namespace: namespace, Name: "shop"}

// TestPlaces runs the cases through what is made of findings in one process.
func TestPlaces(t *testing.T) {
	each := func(place string, run func(t *testing.T, c *exceptiontest.Case, held *exception.Selection)) {
		exceptiontest.Each(t, place, namespace, now, func(t *testing.T, c *exceptiontest.Case) {
			run(t, c, exception.Compile(c.List, now).For(shop))
		})
	}
	each("matcher", func(t *testing.T, c *exceptiontest.Case, held *exception.Selection) {
		c.Marked(t, matched(t, held, c.Finding))
	})
	each("handover to pods", func(t *testing.T, c *exceptiontest.Case, _ *exception.Selection) {
		c.Marked(t, matched(t, taken(t, c.List, shop), c.Finding))
	})
	each("explainer", func(t *testing.T, c *exceptiontest.Case, _ *exception.Selection) {
		c.Marked(t, explained(t, c.List, shop, c.Finding))
	})
	each("report entries", func(t *testing.T, c *exceptiontest.Case, held *exception.Selection) {
		c.Marked(t, reported(t, held, c.Finding))
	})
	each("counts", func(t *testing.T, c *exceptiontest.Case, held *exception.Selection) {
		c.Counts(t, counted(t, held, c.Finding))
	})
	each("PolicyReport", func(t *testing.T, c *exceptiontest.Case, held *exception.Selection) {
		c.Counts(t, skipped(t, held, c.Finding))
	})
	each("cascade", func(t *testing.T, c *exceptiontest.Case, held *exception.Selection) {
		c.Counts(t, !starts(t, held, c.Finding, ""))
		if !starts(t, held, c.Finding, `,"annotations":{"scanyard.io/exceptions":"ignore"}`) {
			t.Error("a rule that ignores exceptions starts nothing")
		}
	})
	for place, sign := range map[string]string{"SARIF": `"suppressions"`, "JUnit": "<skipped", "Markdown": "## Excepted findings", "CSV": "", "HTML": ""} {
		each(place, func(t *testing.T, c *exceptiontest.Case, held *exception.Selection) {
			text := written(t, held, c.Finding, strings.ToLower(place))
			if sign != "" {
				c.Counts(t, strings.Contains(text, sign))
			}
			_, name, _ := strings.Cut(c.Want, "/")
			if told := strings.Contains(text, c.Reason()); c.Reason() != "" && (c.Suppressed || sign == "") && !told {
				t.Errorf("does not say %q of %s:\n%.2000s", c.Reason(), name, text)
			}
			for i := range c.List {
				if e := &c.List[i]; e.String() != c.Want && strings.Contains(text, e.Spec.Reason) {
					t.Errorf("tells of %s", e)
				}
			}
		})
	}
}

// TestEveryPlace holds that whoever knows exceptions stands in the table, and that each place of the table runs the cases.
func TestEveryPlace(t *testing.T) {
	top := filepath.Join("..", "..", "..")
	known := map[string]bool{}
	for folder := range exceptiontest.Others {
		known[folder] = true
	}
	for _, p := range exceptiontest.Places {
		known[p.Package] = true
		if !runs(t, filepath.Join(top, p.Test), p.Name) {
			t.Errorf("%s: no test in %s runs its cases: exceptiontest.Each(t, %q, …)", p.Name, p.Test, p.Name)
		}
	}
	found := map[string]bool{}
	for _, pattern := range goFiles(t, top) {
		folder, err := filepath.Rel(top, filepath.Dir(pattern))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(pattern, "_test.go") && knowsExceptions(t, pattern) {
			found[filepath.ToSlash(folder)] = true
		}
	}
	for folder := range found {
		if !known[folder] {
			t.Errorf("%s goes by exceptions: it must be in exceptiontest.Places with a test that runs the cases, or in Others", folder)
		}
	}
	for folder := range known {
		if !found[folder] && folder != "findings/exception" {
			t.Errorf("%s does not know exceptions any more: take it out of the table", folder)
		}
	}
}

// goFiles are all of the repository, but for those of the tests' own module and of examples.
func goFiles(t *testing.T, top string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != top && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "tests", "testdata", "node_modules"}, name)):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// knowsExceptions tells of code that imports the matcher, or that is a hook with the setting EXCEPTED.
func knowsExceptions(t *testing.T, path string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range file.Imports {
		if of.Path.Value == `"github.com/scanyard/scanyard/findings/exception"` {
			return true
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(text, []byte("Excepted: sdk.Excepted"))
}

// runs tells whether a test in a folder runs the cases of a place.
func runs(t *testing.T, folder, place string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("exceptiontest.Each(")) && bytes.Contains(text, []byte(strconv.Quote(place))) {
			return true
		}
	}
	return false
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
