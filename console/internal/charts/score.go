// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Score is how many checks passed at the end of a day, and how many did not.
type Score struct {
	Day            time.Time
	Passed, Failed int64
}

// share is which part has passed, in percent; false where nothing was checked.
func (s Score) share() (float64, bool) {
	if s.Passed+s.Failed == 0 {
		return 0, false
	}
	return 100 * float64(s.Passed) / float64(s.Passed+s.Failed), true
}

const scoreHeight = 120

// NewScore draws which share of the checks passed on days, in their order. Where nothing has passed ever, nothing is drawn: then results are
// findings, and no checks.
func NewScore(title string, days []Score) Trend {
	t := Trend{Areas: []Area{{Colour: "cgood", Name: "Passed"}, {Colour: "coff", Name: "Not passed"}}}
	days = slices.DeleteFunc(slices.Clone(days), func(s Score) bool { _, checked := s.share(); return !checked })
	if !slices.ContainsFunc(days, func(s Score) bool { return s.Passed > 0 }) {
		return t
	}
	for _, d := range slices.Backward(days) {
		t.Rows = append(t.Rows, Row{d.Day.Format(time.DateOnly), []int64{d.Passed, d.Failed}})
	}
	t.Drawings = []Drawing{drawScore("wide", title, trendWidth, days), drawScore("narrow", title, trendNarrow, days)}
	return t
}

func drawScore(name, title string, width int, days []Score) Drawing {
	t := Drawing{Of: "score", Name: name, Title: title, Width: width, Height: scoreHeight}
	y := func(percent float64) float64 {
		return round(trendTop + (scoreHeight-trendTop-trendBottom)*(1-percent/100))
	}
	for _, percent := range []int{0, 50, 100} {
		t.Lines = append(t.Lines, Line{y(float64(percent)), fmt.Sprintf("%d %%", percent)})
	}
	var path strings.Builder
	for i, d := range days {
		share, _ := d.share()
		fmt.Fprintf(&path, "%s%g %g", letter(i), round(trendLeft+(float64(width)-trendLeft)*float64(i)/float64(max(1, len(days)-1))), y(share))
	}
	fmt.Fprintf(&path, "H%dV%gH%gZ", width, y(0), trendLeft)
	t.Areas = []Area{
		{"foff", "coff", "Not passed", fmt.Sprintf("M%g %gH%dV%gH%gZ", trendLeft, y(100), width, y(0), trendLeft)},
		{"fgood", "cgood", "Passed", path.String()},
	}
	t.Days = labels(width, len(days), func(i int) time.Time { return days[i].Day })
	first, _ := days[0].share()
	last, _ := days[len(days)-1].share()
	t.Description = fmt.Sprintf(
		"%.0f %% passed on %s, %.0f %% on %s.", first, days[0].Day.Format(time.DateOnly), last, days[len(days)-1].Day.Format(time.DateOnly),
	)
	return t
}
