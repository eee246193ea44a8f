// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"bytes"
	"html/template"
	"strings"
	"testing"
	"time"
)

func render(t *testing.T, name string, data any) string {
	t.Helper()
	parsed, err := template.ParseFS(Files, "charts.html")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := parsed.ExecuteTemplate(&out, name, data); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTrend(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	trend := NewTrend("Open findings", []Day{{day, [5]int64{0, 1, 2}}, {day.AddDate(0, 0, 1), [5]int64{1, 3, 0, 4, 0}}})
	out := render(t, "trend", trend)
	for _, want := range []string{"<title", "Open findings", "3 open on 2026-11-01, 8 on 2026-11-02.", "<td>2026-11-02</td>", `class="f4"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	if want := "M44 208L860 183"; !strings.HasPrefix(trend.Drawings[0].Areas[0].Path, want) {
		t.Errorf("critical is %s, want %s…", trend.Drawings[0].Areas[0].Path, want)
	}
	if want := "M44 208L320 183"; !strings.HasPrefix(trend.Drawings[1].Areas[0].Path, want) {
		t.Errorf("critical of narrow pages is %s, want %s…", trend.Drawings[1].Areas[0].Path, want)
	}
	for _, days := range [][]Day{nil, {{day, [5]int64{}}}} {
		if got := NewTrend("", days); len(got.Rows) != len(days) {
			t.Errorf("%d days have %d rows", len(days), len(got.Rows))
		}
	}
}

func TestTurnover(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	trend := NewTurnover("New and fixed", []Turn{{day, 10, 0}, {day.AddDate(0, 0, 1), 0, 0}, {day.AddDate(0, 0, 2), 3, 10}})
	out := render(t, "trend", trend)
	for _, want := range []string{"13 new and 10 fixed from 2026-11-01 to 2026-11-03.", "<td>2026-11-03</td><td class=\"r\">3</td><td class=\"r\">10</td>", `id="turnover-title-wide"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	if strings.Contains(out, "<td>2026-11-02</td>") {
		t.Error("a day without anything has a row")
	}
	d := trend.Drawings[0]
	if got, want := d.Areas[0].Path, "M84.8 73h190.4V8H84.8Z"; !strings.HasPrefix(got, want) {
		t.Errorf("what is new is %s, want %s…", got, want)
	}
	if got, want := d.Areas[1].Path, "M628.8 73h190.4V138H628.8Z"; got != want {
		t.Errorf("what is fixed is %s, want %s", got, want)
	}
	if len(d.Lines) != 3 || d.Lines[2].Text != "10" {
		t.Errorf("the axis has %+v", d.Lines)
	}
	if lines := NewTurnover("", []Turn{{day, 8000, 1}}).Drawings[0].Lines; len(lines) != 2 {
		t.Errorf("texts of the axis stand on top of each other: %+v", lines)
	}
	for _, days := range [][]Turn{nil, {{day, 0, 0}}} {
		if got := NewTurnover("", days); len(got.Drawings)+len(got.Rows) != 0 {
			t.Errorf("%d days with nothing are drawn", len(days))
		}
	}
}

func TestScore(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	score := NewScore("Passed", []Score{{day, 0, 0}, {day.AddDate(0, 0, 1), 1, 1}, {day.AddDate(0, 0, 2), 3, 0}})
	out := render(t, "trend", score)
	for _, want := range []string{"50 % passed on 2026-11-02, 100 % on 2026-11-03.", "<td>2026-11-02</td><td class=\"r\">1</td><td class=\"r\">1</td>"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	if strings.Contains(out, "<td>2026-11-01</td>") {
		t.Error("a day on which nothing was checked has a share")
	}
	if want := "M44 53L860 8H860V98H44Z"; score.Drawings[0].Areas[1].Path != want {
		t.Errorf("what passed is %s, want %s", score.Drawings[0].Areas[1].Path, want)
	}
	for name, days := range map[string][]Score{"nothing": nil, "findings": {{day, 0, 7}}, "nothing checked": {{day, 0, 0}}} {
		if got := NewScore("", days); len(got.Drawings)+len(got.Rows) != 0 {
			t.Errorf("%s is drawn", name)
		}
	}
}

func TestScaleLabelsFit(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 9, 10, 11, 55, 99, 101, 8001, 999_999} {
		if got := nice(n); got < n || got > max(2, 3*n) || got%2 != 0 {
			t.Errorf("the scale of %d ends at %d", n, got)
		}
	}
}

func TestMeter(t *testing.T) {
	m := NewMeter(10, 5, 0, 5)
	if len(m.Parts) != 2 || m.Parts[1].X != 50 || m.Parts[1].Class != "f2" {
		t.Errorf("got %+v", m.Parts)
	}
	if len(NewMeter(0, 1).Parts) != 0 {
		t.Error("a share of nothing is drawn")
	}
}

func TestHostileTitlesAreText(t *testing.T) {
	strip := Strip{Title: `</title><script>alert(1)</script>`}
	strip.Add("fbad", `"><script>alert(1)</script>`)
	if out := render(t, "strip", strip); strings.Contains(out, "<script") {
		t.Errorf("a title is script: %s", out)
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 2: "2", 500: "500", 2000: "2000", 20_000: "20k", 500_000: "500k", 1_000_000: "1M", 1_500_000: "1.5M", 40_000_000: "40M"} {
		if got := short(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
