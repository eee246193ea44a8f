// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// columns of the CSV. New ones come at the end.
var columns = []string{
	"severity", "name", "category", "location", "description", "mitigation", "references", "identified_at", "osi_layer",
	"state", "id", "attributes",
}

func writeCSV(ctx context.Context, r *Report, w io.Writer) error { return r.WriteCSV(ctx, w) }

// WriteCSV writes all findings as RFC 4180 says, with a header. It needs no sums, so it reads the findings once.
func (in *Input) WriteCSV(ctx context.Context, w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	if err := out.Write(columns); err != nil {
		return fmt.Errorf("write CSV: %w", err)
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
			strings.Join(references, "\n"), e.IdentifiedAt, e.OSILayer, string(e.State), e.ID, attributes,
		}
		for i := range cells {
			cells[i] = Inert(cells[i])
		}
		if err := out.Write(cells); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// Inert puts an apostrophe before what a spreadsheet would take for a formula, also after white space, which some
// programs drop.
func Inert(cell string) string {
	// NUL would end the cell for some programs.
	cell = strings.ReplaceAll(cell, "\x00", "\uFFFD")
	trimmed := strings.TrimLeft(cell, " \u00a0\ufeff\u200b")
	if trimmed != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(trimmed)[0]) {
		return "'" + cell
	}
	return cell
}
