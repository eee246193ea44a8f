// SPDX-License-Identifier: Apache-2.0

// Package charts draws: it turns figures into the geometry of SVG, which its templates write. Each chart has a title, and the
// same figures as a table. Foreign text comes into them as text only.
package charts

import (
	"embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Files has the templates "meter", "strip" and "trend".
//
//go:embed charts.html
var Files embed.FS

// Part is a rectangle.
type Part struct {
	Class    string
	X, Width float64
	Title    string
}

// Meter is a bar whose parts are shares of the whole.
type Meter struct{ Parts []Part }

// NewMeter draws counts by severity, the worst first, as shares of a whole.
func NewMeter(whole int64, counts ...int64) Meter {
	m := Meter{}
	if whole <= 0 {
		return m
	}
	at := 0.0
	for i, n := range counts {
		if n <= 0 {
			continue
		}
		width := round(100 * float64(n) / float64(whole))
		m.Parts = append(m.Parts, Part{Class: "f" + strconv.Itoa(min(i, severities-1)), X: round(at), Width: width})
		at += width
	}
	return m
}

// Span is a bar for a time within a longer one.
func Span(class string, begin, end, first, last time.Time) Meter {
	whole := last.Sub(first).Seconds()
	if begin.IsZero() || whole <= 0 {
		return Meter{}
	}
	if end.IsZero() {
		end = last
	}
	x := 100 * begin.Sub(first).Seconds() / whole
	width := max(1, 100*end.Sub(begin).Seconds()/whole)
	return Meter{Parts: []Part{{Class: class, X: round(min(x, 99)), Width: round(width)}}}
}

// Strip is a row of marks, one for each run.
type Strip struct {
	Title string
	Width int
	Parts []Part
}

const stripStep = 12

// Add appends a mark.
func (s *Strip) Add(class, title string) {
	s.Parts = append(s.Parts, Part{Class: class, X: float64(len(s.Parts) * stripStep), Title: title})
	s.Width = len(s.Parts) * stripStep
}

// severities is how many there are.
const severities = 5

var names = [severities]string{"Critical", "High", "Medium", "Low", "Info"}

// Day is how many findings were open at the end of a day, by severity, the worst first.
type Day struct {
	Day    time.Time
	Counts [severities]int64
}

// Line is a line of the grid.
type Line struct {
	Y    float64
	Text string
}

// Area is what is drawn in one colour: a severity, or what was new or fixed.
type Area struct{ Class, Colour, Name, Path string }

// Label is a text below the chart.
type Label struct {
	X            float64
	Anchor, Text string
}

// Row is a row of the table: a count for each area.
type Row struct {
	Day    string
	Counts []int64
}

// Drawing is a chart in one size.
type Drawing struct {
	// Of is what is drawn: two drawings of a page have no identifier in common.
	Of string
	// Name is wide or narrow.
	Name               string
	Title, Description string
	Width, Height      int
	Lines              []Line
	Areas              []Area
	Days               []Label
}

// Trend is a chart over days, drawn for wide and for narrow pages: letters of a chart that is made smaller cannot be read.
type Trend struct {
	Drawings []Drawing
	Areas    []Area // those of the legend
	Rows     []Row
}

const (
	trendWidth  = 860
	trendNarrow = 320
	trendHeight = 230
	trendLeft   = 44.0
	trendTop    = 8.0
	trendBottom = 22.0
)

// NewTrend draws what was open on days, in their order, as areas on top of each other.
func NewTrend(title string, days []Day) Trend {
	t := Trend{}
	for s := range severities {
		t.Areas = append(t.Areas, Area{Colour: fmt.Sprintf("c%d", s), Name: names[s]})
	}
	if len(days) == 0 {
		return t
	}
	for _, d := range slices.Backward(days) {
		t.Rows = append(t.Rows, Row{d.Day.Format(time.DateOnly), d.Counts[:]})
	}
	t.Drawings = []Drawing{draw("wide", title, trendWidth, days), draw("narrow", title, trendNarrow, days)}
	return t
}

func draw(name, title string, width int, days []Day) Drawing {
	t := Drawing{Of: "open", Name: name, Title: title, Width: width, Height: trendHeight}
	var most int64 = 1
	for _, d := range days {
		most = max(most, sum(d.Counts[:]))
	}
	top := nice(most)
	y := func(n int64) float64 {
		return round(trendTop + (trendHeight-trendTop-trendBottom)*(1-float64(n)/float64(top)))
	}
	x := func(i int) float64 {
		return round(trendLeft + (float64(width)-trendLeft)*float64(i)/float64(max(1, len(days)-1)))
	}
	for _, share := range []int64{0, 1, 2} {
		t.Lines = append(t.Lines, Line{y(top * share / 2), short(top * share / 2)})
	}
	// The worst stand at the bottom, where their heights compare.
	for s := range severities {
		var forth, back strings.Builder
		for i, d := range days {
			fmt.Fprintf(&forth, "%s%g %g", letter(i), x(i), y(sum(d.Counts[:s+1])))
			j := len(days) - 1 - i
			fmt.Fprintf(&back, "L%g %g", x(j), y(sum(days[j].Counts[:s])))
		}
		if len(days) == 1 {
			fmt.Fprintf(&forth, "H%d", width)
			back.Reset()
			fmt.Fprintf(&back, "V%gH%g", y(sum(days[0].Counts[:s])), trendLeft)
		}
		t.Areas = append(t.Areas, Area{fmt.Sprintf("f%d", s), fmt.Sprintf("c%d", s), names[s], forth.String() + back.String() + "Z"})
	}
	first, last := days[0], days[len(days)-1]
	t.Days = labels(width, len(days), func(i int) time.Time { return days[i].Day })
	t.Description = fmt.Sprintf(
		"%d open on %s, %d on %s.", sum(first.Counts[:]), first.Day.Format(time.DateOnly), sum(last.Counts[:]), last.Day.Format(time.DateOnly),
	)
	return t
}

// labels name the first, the middle and the last of n days.
func labels(width, n int, day func(i int) time.Time) []Label {
	if n == 1 {
		return []Label{{trendLeft, "start", day(0).Format("2 Jan")}}
	}
	out := []Label{{trendLeft, "start", day(0).Format("2 Jan")}, {float64(width), "end", day(n - 1).Format("2 Jan")}}
	if n > 2 {
		middle := round(trendLeft + (float64(width)-trendLeft)*float64(n/2)/float64(n-1))
		out = append(out, Label{middle, "middle", day(n / 2).Format("2 Jan")})
	}
	return out
}

// short is a number as an axis has room for it: 500, 20k, 1.5M.
func short(n int64) string {
	for _, unit := range []struct {
		of   int64
		name string
	}{{1_000_000, "M"}, {1_000, "k"}} {
		if n >= 10*unit.of || n >= unit.of && unit.name == "M" {
			return strconv.FormatFloat(float64(n)/float64(unit.of), 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func letter(i int) string {
	if i == 0 {
		return "M"
	}
	return "L"
}

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// nice is the next number for a scale that has a half.
func nice(n int64) int64 {
	step := int64(math.Pow10(len(strconv.FormatInt(n, 10)) - 1))
	for _, times := range []int64{1, 2, 4, 6, 8, 10} {
		if n <= step*times {
			return max(2, step*times)
		}
	}
	return n
}

func round(f float64) float64 { return math.Round(f*100) / 100 }
