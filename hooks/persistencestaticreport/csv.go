// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

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

// writeCSV writes all findings as RFC 4180 says, with a header.
func writeCSV(ctx context.Context, r *report, w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	if err := out.Write(columns); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	err := r.each(ctx, func(e *entry) error {
		var references []string
		for _, ref := range e.references {
			references = append(references, strings.TrimSpace(ref.Type+" "+ref.Value))
		}
		attributes := ""
		if len(e.attributes) > 0 {
			text, err := finding.AppendValue(nil, e.attributes)
			if err != nil {
				return fmt.Errorf("attributes: %w", err)
			}
			attributes = string(text)
		}
		cells := []string{
			e.severity.String(), e.name, e.category, e.location, e.description, e.mitigation,
			strings.Join(references, "\n"), e.identifiedAt, e.osiLayer, string(e.state), e.id, attributes,
		}
		for i := range cells {
			cells[i] = inert(cells[i])
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

// inert puts an apostrophe before what a spreadsheet would take for a formula, also after white space, which some
// programs drop.
func inert(cell string) string {
	// NUL would end the cell for some programs.
	cell = strings.ReplaceAll(cell, "\x00", "\uFFFD")
	trimmed := strings.TrimLeft(cell, " \u00a0\ufeff\u200b")
	if trimmed != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(trimmed)[0]) {
		return "'" + cell
	}
	return cell
}
