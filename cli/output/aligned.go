// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"io"
	"strings"

	"github.com/scanyard/scanyard/cli/termsafe"
)

// Aligned writes rows whose cells are separated by tabs as a table that fits the terminal.
type Aligned struct {
	out     io.Writer
	gap     int
	columns int
	text    bytes.Buffer
}

// NewAligned returns a table with a space between its columns, for a terminal of some columns; 0 has room for everything.
func NewAligned(out io.Writer, gap, columns int) *Aligned {
	return &Aligned{out: out, gap: gap, columns: columns}
}

// Write keeps rows, each a line, until Flush.
func (a *Aligned) Write(p []byte) (int, error) { return a.text.Write(p) }

// Flush writes the table. The first column, which names things, stays whole.
func (a *Aligned) Flush() error {
	var rows [][]string
	var widths []int
	for line := range strings.Lines(a.text.String()) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], termsafe.Width(cell))
		}
		rows = append(rows, cells)
	}
	a.text.Reset()
	termsafe.Narrow(widths, func(column int) bool { return column == 0 }, a.gap, least, a.columns)
	for _, cells := range rows {
		var line strings.Builder
		for i, cell := range cells {
			cell = termsafe.Fit(cell, widths[i])
			line.WriteString(cell)
			if i < len(cells)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-termsafe.Width(cell)+a.gap))
			}
		}
		if _, err := io.WriteString(a.out, line.String()+"\n"); err != nil {
			return err
		}
	}
	return nil
}
