// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/parsers/sdk"
)

func TestRunTurnsCrashesIntoErrors(t *testing.T) {
	p := sdk.Parser{ResultType: "x", Parse: func(context.Context, *sdk.Input, sdk.Emit) error {
		var none map[string]int
		none["a"] = 1 //nolint:staticcheck // SA5000: the crash that is asked for
		return nil
	}}
	err := sdk.Run(t.Context(), p, &sdk.Input{}, nil)
	if err == nil || !strings.Contains(err.Error(), "parser for x crashed") || !strings.Contains(err.Error(), "sdk_test.go") {
		t.Errorf("got %v", err)
	}
}

var info = finding.ScanInfo{CreatedAt: "2026-01-01T00:00:00Z", Name: "s", Namespace: "n", ScanType: "t"}

var parser = sdk.Parser{ResultType: "x", Kinds: []sdk.Kind{{
	Category: "c", When: "always", Severities: []string{finding.Low},
	Attributes: []sdk.Attribute{{Name: "rule", Type: sdk.Text}, {Name: "line", Type: sdk.Number | sdk.Optional}},
	Identity:   []string{"location", "attributes.rule"},
}}}

func valid() *finding.Finding {
	return &finding.Finding{Name: finding.String("n"), Category: finding.String("c"), Severity: finding.String(finding.Low)}
}

func TestEncoder(t *testing.T) {
	tests := map[string]struct {
		change  func(*finding.Finding)
		invalid string
	}{
		"Valid":            {func(*finding.Finding) {}, ""},
		"GoodTime":         {func(f *finding.Finding) { f.IdentifiedAt = finding.String("2026-01-01T00:00:00Z") }, ""},
		"MoreKeys":         {func(f *finding.Finding) { f.Extra.Set("hint", 1) }, ""},
		"OwnIDIsReplaced":  {func(f *finding.Finding) { f.Extra.Set("id", 1) }, ""},
		"NoName":           {func(f *finding.Finding) { f.Name = finding.Text{} }, "finding 0: name: is missing"},
		"NullCategory":     {func(f *finding.Finding) { f.Category = finding.Null() }, "category: is null"},
		"UnknownSeverity":  {func(f *finding.Finding) { f.Severity = finding.String("CRITICAL") }, "severity: must be one of"},
		"BadTime":          {func(f *finding.Finding) { f.IdentifiedAt = finding.String("now") }, "identified_at: must be"},
		"FalseDescription": {func(f *finding.Finding) { f.Extra.Set("description", false) }, "description: is a boolean"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := valid()
			tt.change(f)
			var out bytes.Buffer
			e := sdk.NewEncoder(&out, parser, info, time.Unix(0, 0))
			if err := e.Emit(f); err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			err := e.Strict()
			if tt.invalid == "" {
				if err != nil || e.Invalid != 0 || e.Stats.Count != 1 {
					t.Errorf("got %v, %d invalid of %d", err, e.Invalid, e.Stats.Count)
				}
				return
			}
			if !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), tt.invalid) || e.Invalid != 1 {
				t.Errorf("want %q, got %v", tt.invalid, err)
			}
		})
	}
}

func TestEncoderNeedsASeverity(t *testing.T) {
	f := valid()
	f.Severity = finding.Text{}
	e := sdk.NewEncoder(&bytes.Buffer{}, parser, info, time.Unix(0, 0))
	if err := e.Emit(f); !errors.Is(err, finding.ErrNoSeverity) || !strings.Contains(err.Error(), `finding 0 ("n")`) {
		t.Errorf("got %v", err)
	}
	if err := sdk.NewBareEncoder(&bytes.Buffer{}).Emit(f); err != nil {
		t.Errorf("a bare finding was refused: %v", err)
	}
}

func TestDecodeScan(t *testing.T) {
	s, err := sdk.DecodeScan([]byte(`{"metadata":{"name":"s","annotations":{"a":"b"}},"spec":{"parameters":[]},` +
		`"status":{"rawResultType":"t","findings":{"categories":{"b":1,"a":2}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Metadata.Annotations["a"] != "b" || s.Spec.Parameters == nil || strings.Join(s.CountedCategories(), ",") != "a,b" {
		t.Errorf("got %+v", s)
	}
	if _, err := sdk.DecodeScan([]byte(`[]`)); err == nil {
		t.Error("an array was taken")
	}
}

func TestFingerprint(t *testing.T) {
	of := func(change func(*finding.Finding)) string {
		f := valid()
		f.Location = finding.String("here")
		f.Attributes = finding.Object{{Key: "rule", Value: "r"}, {Key: "line", Value: 1}}
		change(f)
		var out bytes.Buffer
		e := sdk.NewEncoder(&out, parser, info, time.Unix(0, 0))
		if err := errors.Join(e.Emit(f), e.Close()); err != nil {
			t.Fatal(err)
		}
		if own := f.Fingerprint.Or(""); own != "" && own != "own" {
			t.Errorf("the parser's finding was changed: %s", own)
		}
		var got []struct{ Fingerprint string }
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got[0].Fingerprint
	}
	base := of(func(*finding.Finding) {})
	if len(base) != 32 {
		t.Fatalf("got %q", base)
	}
	same := map[string]func(*finding.Finding){
		"Line":        func(f *finding.Finding) { f.Attributes.Set("line", 2) },
		"Description": func(f *finding.Finding) { f.Description = finding.String("reworded") },
		"Time":        func(f *finding.Finding) { f.IdentifiedAt = finding.String("2026-01-01T00:00:00Z") },
	}
	for name, change := range same {
		if got := of(change); got != base {
			t.Errorf("%s: another fingerprint", name)
		}
	}
	other := map[string]func(*finding.Finding){
		"Location": func(f *finding.Finding) { f.Location = finding.String("there") },
		"Rule":     func(f *finding.Finding) { f.Attributes.Set("rule", "s") },
		"NoRule":   func(f *finding.Finding) { f.Attributes.Delete("rule") },
	}
	for name, change := range other {
		if got := of(change); got == base || len(got) != 32 {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := of(func(f *finding.Finding) { f.Category = finding.String("unknown") }); got != "" {
		t.Errorf("a finding of no kind has fingerprint %q", got)
	}
	if got := of(func(f *finding.Finding) { f.Fingerprint = finding.String("own") }); got != "own" {
		t.Errorf("the scanner's own fingerprint became %q", got)
	}
}

func TestCheckFinding(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"Good":     {`{"category":"c","severity":"LOW","attributes":{"rule":"r"}}`, ""},
		"Category": {`{"category":"d"}`, `category "d" is not listed`},
		"Severity": {`{"category":"c","severity":"HIGH","attributes":{"rule":"r"}}`, "severity HIGH"},
		"More":     {`{"category":"c","attributes":{"rule":"r","x":1}}`, `attribute "x" is not listed`},
		"Type":     {`{"category":"c","attributes":{"rule":1}}`, `attribute "rule" is number, listed as string`},
		"Null":     {`{"category":"c","attributes":{"rule":null}}`, `attribute "rule" is null`},
		"Missing":  {`{"category":"c","attributes":{}}`, `attribute "rule" is missing`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var f finding.Finding
			if err := f.UnmarshalJSON([]byte(tt.in)); err != nil {
				t.Fatal(err)
			}
			err := parser.CheckFinding(&f)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want %q, got %v", tt.want, err)
			}
		})
	}
}

func TestLocationWithoutLines(t *testing.T) {
	p := sdk.Parser{ResultType: "x", Kinds: []sdk.Kind{{
		Category: "c", When: "always", Severities: []string{finding.Low}, Identity: []string{sdk.LocationWithoutLines},
	}}}
	of := func(location string) string {
		f := valid()
		f.Location = finding.String(location)
		var out bytes.Buffer
		e := sdk.NewEncoder(&out, p, info, time.Unix(0, 0))
		if err := errors.Join(e.Emit(f), e.Close()); err != nil {
			t.Fatal(err)
		}
		var got []struct{ Fingerprint string }
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got[0].Fingerprint
	}
	if of("a.py:3-5") != of("a.py:30-31") || of("a.py:3") != of("a.py:4") {
		t.Error("the lines count")
	}
	if of("a.py:3-5") == of("b.py:3-5") || of("c:a.py") == of("c:b.py") || of("a.py") == of("b.py") {
		t.Error("the file does not count")
	}
}

// TestReach runs parsers that report reached targets, in every way and in none.
func TestReach(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, tt := range map[string]struct {
		parse  func(in *sdk.Input) error
		status outcome.Status
		want   string
		count  int
	}{
		"Reached":        {func(in *sdk.Input) error { in.Reached("%d of %d hosts", 1, 2); return nil }, outcome.True, "1 of 2 hosts", 0},
		"NothingReached": {func(in *sdk.Input) error { in.NothingReached("0 of 2"); return nil }, outcome.False, "0 of 2", 1},
		"Unknown":        {func(in *sdk.Input) error { in.ReachUnknown("no list"); return nil }, outcome.Unknown, "no list", 0},
		"NotReported":    {func(*sdk.Input) error { return nil }, outcome.Unknown, "the parser does not report what was reached", 0},
		"TheLastCounts":  {func(in *sdk.Input) error { in.NothingReached("a"); in.Reached("b"); return nil }, outcome.True, "b", 0},
		"Failed":         {func(in *sdk.Input) error { in.NothingReached("a"); return errors.New("broken") }, outcome.False, "a", 0},
		"Inert":          {func(in *sdk.Input) error { in.NothingReached("%s", "a\x1b[31m\n b"); return nil }, outcome.False, "a[31m b", 1},
		"Long": {
			func(in *sdk.Input) error { in.ReachUnknown("%s", long); return nil }, outcome.Unknown,
			long[:outcome.MaxMessage-len("…")] + "…", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := parser
			p.Parse = func(_ context.Context, in *sdk.Input, _ sdk.Emit) error { return tt.parse(in) }
			for _, asked := range []string{"true", "false", ""} {
				in := &sdk.Input{Env: func(name string) string { return map[string]string{sdk.EnvFindingWhenUnreached: asked}[name] }}
				var out bytes.Buffer
				e := sdk.NewEncoder(&out, p, info, time.Unix(0, 0))
				err := sdk.Run(t.Context(), p, in, e.Emit)
				if got := in.Reach(); got.Status != tt.status || got.Message != tt.want || (err != nil) != (name == "Failed") {
					t.Errorf("got %+v, %v", got, err)
				}
				want := 0
				if asked == "true" {
					want = tt.count
				}
				if e.Stats.Count != want || e.Strict() != nil {
					t.Errorf("%q: got %d findings, want %d: %s (%v)", asked, e.Stats.Count, want, out.String(), e.Strict())
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				if want == 1 && (e.Stats.Medium != 1 || !strings.Contains(out.String(), `"fingerprint"`)) {
					t.Errorf("got %s", out.String())
				}
			}
		})
	}
}

// TestUnreachedKind holds the finding that a setting asks for to what is said of it, whatever the parser.
func TestUnreachedKind(t *testing.T) {
	p := sdk.Parser{ResultType: "x", Kinds: []sdk.Kind{sdk.UnreachedKind()}}
	if err := p.CheckKinds(); err != nil {
		t.Error(err)
	}
	p = sdk.Parser{ResultType: "x", Kinds: []sdk.Kind{{Category: sdk.AnyCategory}}, Parse: func(_ context.Context, in *sdk.Input, _ sdk.Emit) error {
		in.NothingReached("0 of 1 hosts answered")
		return nil
	}}
	in := &sdk.Input{Env: func(string) string { return "true" }}
	err := sdk.Run(t.Context(), p, in, func(f *finding.Finding) error { return p.CheckFinding(f) })
	if err != nil {
		t.Error(err)
	}
}
