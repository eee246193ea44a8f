// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Turn is how many findings were new on a day, and how many were fixed.
type Turn struct {
	Day        time.Time
	New, Fixed int64
}

const (
	turnoverHeight = 160
	// barShare is how much of its day a bar takes.
	barShare = 0.7
	// lineHeight is how far two texts of the axis must stand apart.
	lineHeight = 14.0
)

// NewTurnover draws days in their order, without a gap: what was new as bars upwards, what was fixed as bars downwards, to one scale. Where
// nothing was new or fixed at all, nothing is drawn.
func NewTurnover(title string, days []Turn) Trend {
	t := Trend{Areas: []Area{{Colour: "cbad", Name: "New"}, {Colour: "cgood", Name: "Fixed"}}}
	for _, d := range slices.Backward(days) {
		if d.New > 0 || d.Fixed > 0 {
			t.Rows = append(t.Rows, Row{d.Day.Format(time.DateOnly), []int64{d.New, d.Fixed}})
		}
	}
	if len(t.Rows) > 0 {
		t.Drawings = []Drawing{drawTurnover("wide", title, trendWidth, days), drawTurnover("narrow", title, trendNarrow, days)}
	}
	return t
}

func drawTurnover(name, title string, width int, days []Turn) Drawing {
	t := Drawing{Of: "turnover", Name: name, Title: title, Width: width, Height: turnoverHeight}
	var added, fixed, mostNew, mostFixed int64
	for _, d := range days {
		added, fixed, mostNew, mostFixed = added+d.New, fixed+d.Fixed, max(mostNew, d.New), max(mostFixed, d.Fixed)
	}
	up, down := nice(max(1, mostNew)), nice(max(1, mostFixed))
	scale := (turnoverHeight - trendTop - trendBottom) / float64(up+down)
	y := func(n int64) float64 { return round(trendTop + scale*float64(up-n)) }
	for _, n := range []int64{up, 0, -down} {
		if n == 0 || max(n, -n) == max(up, down) || scale*float64(max(n, -n)) >= lineHeight {
			t.Lines = append(t.Lines, Line{y(n), short(max(n, -n))})
		}
	}
	slot := (float64(width) - trendLeft) / float64(len(days))
	var above, below strings.Builder
	bar := func(path *strings.Builder, i int, n int64) {
		if n != 0 {
			x := round(trendLeft + slot*(float64(i)+(1-barShare)/2))
			fmt.Fprintf(path, "M%g %gh%gV%gH%gZ", x, y(0), round(slot*barShare), y(n), x)
		}
	}
	for i, d := range days {
		bar(&above, i, d.New)
		bar(&below, i, -d.Fixed)
	}
	t.Areas = []Area{{"fbad", "cbad", "New", above.String()}, {"fgood", "cgood", "Fixed", below.String()}}
	t.Days = labels(width, len(days), func(i int) time.Time { return days[i].Day })
	t.Description = fmt.Sprintf(
		"%d new and %d fixed from %s to %s.", added, fixed, days[0].Day.Format(time.DateOnly), days[len(days)-1].Day.Format(time.DateOnly),
	)
	return t
}
