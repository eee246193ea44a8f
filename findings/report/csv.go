// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/scanyard/scanyard/apis/finding"
)

// columns of the CSV. New ones come at the end.
var columns = []string{
	"severity", "name", "category", "location", "description", "mitigation", "references", "identified_at", "osi_layer",
	"state", "id", "attributes", "exception",
}

func writeCSV(ctx context.Context, r *Report, w io.Writer) error { return r.WriteCSV(ctx, w) }

// WriteCSV writes all findings as RFC 4180 says, with a header. It needs no sums, so it reads the findings once.
func (in *Input) WriteCSV(ctx context.Context, w io.Writer) error {
	out := &quoted{to: bufio.NewWriter(w)}
	if err := out.write(columns); err != nil {
		return err
	}
	err := in.Each(ctx, func(e *Entry) error {
		var references []string
		for _, ref := range e.References {
			references = append(references, strings.TrimSpace(ref.Type+" "+ref.Value))
		}
		attributes := ""
		if len(e.Attributes) > 0 {
			text, err := finding.AppendValue(nil, e.Attributes)
			if err != nil {
				return fmt.Errorf("attributes: %w", err)
			}
			attributes = string(text)
		}
		cells := []string{
			e.Severity.String(), e.Name, e.Category, e.Location, e.Description, e.Mitigation,
			strings.Join(references, "\n"), e.IdentifiedAt, e.OSILayer, string(e.State), e.ID, attributes, e.exception(),
		}
		for i := range cells {
			cells[i] = Inert(cells[i])
		}
		return out.write(cells)
	})
	if err != nil {
		return err
	}
	if err := out.to.Flush(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// Inert puts an apostrophe before what a spreadsheet would take for a formula, also after white space and what is not
// seen, which some programs drop, and behind what separates cells and rows where a spreadsheet does not look for commas.
func Inert(cell string) string {
	// NUL would end the cell for some programs.
	cell = strings.ReplaceAll(cell, "\x00", "\uFFFD")
	if !strings.ContainsAny(cell, formulas) && !strings.ContainsAny(cell, separators) {
		return cell
	}
	var out strings.Builder
	out.Grow(len(cell) + 8)
	if cell != "" && strings.IndexByte("\t\r\n", cell[0]) >= 0 {
		out.WriteByte('\'')
	}
	for len(cell) > 0 {
		end := strings.IndexAny(cell, separators) + 1
		if end == 0 {
			end = len(cell)
		}
		part := cell[:end]
		cell = cell[end:]
		if begins := strings.TrimLeftFunc(part, unseen); strings.TrimLeft(begins, formulas) != begins {
			out.WriteByte('\'')
		}
		out.WriteString(part)
	}
	return out.String()
}

const (
	// formulas begin with one of these.
	formulas = "=+-@＝＋－＠"
	// separators of cells and rows are these in other locales, and where quotes are not understood.
	separators = ";|\t\r\n"
)

// unseen are spaces of all alphabets, and characters without a shape.
func unseen(r rune) bool {
	return unicode.IsSpace(r) || unicode.In(r, unicode.Z, unicode.Cf, unicode.Cc) || r == 0x180e || r == 0x115f || r == 0x1160 || r == 0x3164
}

// quoted writes rows in which every cell is quoted: one with a semicolon would be two to a spreadsheet that separates by
// it, and cells look the same in all locales.
type quoted struct {
	to  *bufio.Writer
	err error
}

func (q *quoted) write(cells []string) error {
	for i, cell := range cells {
		if i > 0 {
			q.put(",")
		}
		q.put(`"`)
		q.put(strings.ReplaceAll(cell, `"`, `""`))
		q.put(`"`)
	}
	q.put("\r\n")
	if q.err != nil {
		return fmt.Errorf("write CSV: %w", q.err)
	}
	return nil
}

func (q *quoted) put(text string) {
	if q.err == nil {
		_, q.err = q.to.WriteString(text)
	}
}
