// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"errors"
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/hinshun/vt10x"
)

// Sizes of a cell and of what is around the text, in pixels. A monospaced letter is 0.6 times as wide as its size in the usual fonts; each
// run of letters is told its length, so that others fit as well.
const (
	size, cellWidth, cellHeight = 14, 8.4, 19
	around, bar                 = 16, 30
)

// Colours of the picture: text has a contrast of 7 or more to the ground.
const (
	ground, ink, frameLine = "#141a24", "#e6eaf2", "#2a3342"
)

// palette are the sixteen colours of a terminal.
var palette = [16]string{
	"#8a94a8", "#ff8a8c", "#6fd69c", "#e3c64c", "#8fb0ff", "#d7a6ff", "#6fd0e0", "#e6eaf2",
	"#a0abbf", "#ff9fa0", "#8fe4b3", "#f0d978", "#adc5ff", "#e4c3ff", "#95e0ec", "#ffffff",
}

// bold is a bit of a glyph's mode; the library keeps its name to itself.
const bold = 1 << 2

// frame is what a terminal shows from a time on.
type frame struct {
	at   time.Duration
	rows []string
}

// frames plays a recording on a terminal, and returns what that shows, where something changes.
func (c Cast) frames() ([]frame, error) {
	screen := vt10x.New(vt10x.WithSize(c.Columns, c.Rows))
	var all []frame
	for _, e := range c.Events {
		if _, err := screen.Write([]byte(e.Text)); err != nil {
			return nil, fmt.Errorf("play a recording: %w", err)
		}
		f := frame{at: e.At}
		for y := range c.Rows {
			f.rows = append(f.rows, row(screen, c.Columns, y))
		}
		if n := len(all); n > 0 && strings.Join(all[n-1].rows, "\n") == strings.Join(f.rows, "\n") {
			continue
		}
		all = append(all, f)
	}
	return all, nil
}

// row draws a line of the screen: a text for each run of letters that look alike. Spaces at the end are left out.
func row(screen vt10x.Terminal, columns, y int) string {
	var out, run strings.Builder
	var look vt10x.Glyph
	from := 0
	flush := func(to int) {
		if text := run.String(); strings.TrimSpace(text) != "" {
			lead := len(text) - len(strings.TrimLeft(text, " "))
			text = strings.TrimSpace(text)
			length := len([]rune(text))
			x, wide := float64(from+lead)*cellWidth, float64(length)*cellWidth
			fmt.Fprintf(&out, `<text x="%.1f"%s textLength="%.1f">%s</text>`, x, style(look), wide, html.EscapeString(text))
		}
		run.Reset()
		from = to
	}
	for x := range columns {
		g := screen.Cell(x, y)
		if g.Char == 0 {
			g.Char = ' '
		}
		if x > 0 && (g.FG != look.FG || g.Mode&bold != look.Mode&bold) {
			flush(x)
		}
		look = g
		run.WriteRune(g.Char)
	}
	flush(columns)
	return out.String()
}

func style(g vt10x.Glyph) string {
	var s string
	if int(g.FG) < len(palette) {
		s = fmt.Sprintf(` fill="%s"`, palette[g.FG])
	}
	if g.Mode&bold != 0 {
		s += ` font-weight="700"`
	}
	return s
}

// Moving draws a recording as a picture that moves, without script. Who wants no motion sees its end.
func (c Cast) Moving(linger time.Duration) ([]byte, error) {
	all, err := c.frames()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	total := all[len(all)-1].at + linger
	height := c.height()
	var body, steps strings.Builder
	known := map[string]int{}
	body.WriteString("<defs>")
	for _, f := range all {
		for _, r := range f.rows {
			if _, ok := known[r]; !ok && r != "" {
				known[r] = len(known)
				fmt.Fprintf(&body, `<g id="r%d">%s</g>`, known[r], r)
			}
		}
	}
	body.WriteString(`</defs><g class="film">`)
	for i, f := range all {
		fmt.Fprintf(&steps, "%.2f%%{transform:translateY(-%dpx)}", 100*f.at.Seconds()/total.Seconds(), i*height)
		for y, r := range f.rows {
			if r != "" {
				fmt.Fprintf(&body, `<use href="#r%d" y="%d"/>`, known[r], i*height+y*cellHeight)
			}
		}
	}
	body.WriteString("</g>")
	last := (len(all) - 1) * height
	css := fmt.Sprintf("@keyframes film{0%%{transform:translateY(0)}%s100%%{transform:translateY(-%dpx)}}.film{animation:film %.1fs steps(1,end) infinite}"+
		"@media (prefers-reduced-motion:reduce){.film{animation:none;transform:translateY(-%dpx)}}", steps.String(), last, total.Seconds(), last)
	return c.picture(body.String(), css), nil
}

// Still draws the end of a recording, and no more of the terminal than has something on it.
func (c Cast) Still() ([]byte, error) {
	all, err := c.frames()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("nothing was recorded")
	}
	var body strings.Builder
	filled := c
	filled.Rows = 1
	for y, r := range all[len(all)-1].rows {
		if r != "" {
			filled.Rows = y + 1
			fmt.Fprintf(&body, `<g transform="translate(0 %d)">%s</g>`, y*cellHeight, r)
		}
	}
	return filled.picture(body.String(), ""), nil
}

func (c Cast) height() int { return c.Rows * cellHeight }

// picture puts a frame around what is drawn, which is cut off outside of it.
func (c Cast) picture(body, css string) []byte {
	inner := float64(c.Columns) * cellWidth
	width, height := inner+2*around, c.height()+bar+around
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img"><title>%s</title>`+
		`<style>text{white-space:pre}.text{font:%dpx ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:%s}%s</style>`+
		`<rect width="100%%" height="100%%" rx="10" fill="%s" stroke="%s"/>`+
		`<g fill="%s"><circle cx="20" cy="16" r="5"/><circle cx="38" cy="16" r="5"/><circle cx="56" cy="16" r="5"/></g>`+
		`<svg x="%d" y="%d" width="%.0f" height="%d"><g class="text" transform="translate(0 %d)">%s</g></svg></svg>`+"\n",
		width, height, width, height, html.EscapeString(c.Title), size, ink, css, ground, frameLine, frameLine, around, bar, inner, c.height(), size, body)
}
