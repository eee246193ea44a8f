// SPDX-License-Identifier: Apache-2.0

package output

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

const (
	// gapOfWrapped is the space between columns.
	gapOfWrapped = 2
	// leastWrapped is the room in which texts still read well. Where a column has less, or less than a word of a text needs, the text
	// begins below its row.
	leastWrapped = 24
	// belowRow is how far such texts are indented.
	belowRow = 4
)

// Cell is a text of a row.
type Cell struct {
	Text string
	// Paint is the color of the text; empty is none.
	Paint session.Paint
}

// Wrapped writes rows in columns. The text of the last cell of a row goes on below itself where the terminal is narrower, broken at
// words. The other cells stay whole: people copy them.
type Wrapped struct {
	session *session.Session
	out     io.Writer
	rows    [][]Cell
}

// NewWrapped returns rows for the terminal of a session.
func NewWrapped(s *session.Session, out io.Writer) *Wrapped { return &Wrapped{session: s, out: out} }

// Row adds a row. What would end a cell or its line becomes a space.
func (w *Wrapped) Row(cells ...Cell) {
	for i := range cells {
		cells[i].Text = termsafe.Row(cells[i].Text)
	}
	w.rows = append(w.rows, cells)
}

// Texts adds a row without colors.
func (w *Wrapped) Texts(texts ...string) {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	w.Row(cells...)
}

// Field adds a name with its value; an empty value is left out.
func (w *Wrapped) Field(name, value string) {
	if value != "" {
		w.Texts(name+":", value)
	}
}

// Flush writes the rows.
func (w *Wrapped) Flush() error {
	var widths []int
	for _, cells := range w.rows {
		for i := range len(cells) - 1 {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], termsafe.Width(cells[i].Text))
		}
	}
	var errs []error
	for _, cells := range w.rows {
		for _, line := range w.lines(cells, widths) {
			_, err := fmt.Fprintln(w.out, strings.TrimRight(line, " "))
			errs = append(errs, err)
		}
	}
	w.rows = nil
	return errors.Join(errs...)
}

// Hang writes one text behind what is before it, and below where it began; start is the width of what is before.
func Hang(s *session.Session, out io.Writer, before string, start int, text string) {
	for _, line := range NewWrapped(s, out).hang(before, start, Cell{Text: text}) {
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// lines are those of a row.
func (w *Wrapped) lines(cells []Cell, widths []int) []string {
	if len(cells) == 0 {
		return []string{""}
	}
	last := len(cells) - 1
	var before strings.Builder
	start := 0
	for i, cell := range cells[:last] {
		before.WriteString(w.paint(cell.Paint, cell.Text))
		before.WriteString(strings.Repeat(" ", widths[i]-termsafe.Width(cell.Text)+gapOfWrapped))
		start += widths[i] + gapOfWrapped
	}
	text := strings.TrimLeft(cells[last].Text, " ")
	own := len(cells[last].Text) - len(text)
	return w.hang(before.String()+strings.Repeat(" ", own), start+own, Cell{text, cells[last].Paint})
}

// hang writes a text behind what is before it, and below where it began; start is the width of what is before.
func (w *Wrapped) hang(before string, start int, c Cell) []string {
	columns := w.session.Columns
	if columns <= 0 || start+termsafe.Width(c.Text) <= columns {
		return []string{before + w.paint(c.Paint, c.Text)}
	}
	var lines []string
	if columns-start < max(leastWrapped, min(longestWord(c.Text), columns-belowRow)) {
		lines, before, start = append(lines, before), strings.Repeat(" ", belowRow), belowRow
	}
	for _, line := range termsafe.Wrap(c.Text, max(columns-start, 1)) {
		lines = append(lines, before+w.paint(c.Paint, line))
		before = strings.Repeat(" ", start)
	}
	return lines
}

func longestWord(text string) int {
	longest := 0
	for word := range strings.FieldsSeq(text) {
		longest = max(longest, termsafe.Width(word))
	}
	return longest
}

func (w *Wrapped) paint(p session.Paint, text string) string {
	if p == "" || text == "" {
		return text
	}
	return w.session.Paint(p, text)
}
