// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/report"
)

// maxWide is the longest cell of -o wide: with longer cells a table is not readable.
const maxWide = 1000

// column is a column of a table.
type column struct {
	title string
	// most is its greatest width in a narrow table.
	most int
	// wide says that only -o wide has it.
	wide bool
	cell func(e *report.Entry) string
}

// columnsOf returns the columns of a table, with states if findings were compared, with exceptions if these are shown.
func columnsOf(compared, excepted, wide bool) []column {
	all := []column{
		{title: "SEVERITY", most: 13, cell: func(e *report.Entry) string { return e.Severity.String() }},
		{title: "NAME", most: 60, cell: func(e *report.Entry) string { return e.Name }},
		{title: "CATEGORY", most: 30, cell: func(e *report.Entry) string { return e.Category }},
		{title: "LOCATION", most: 60, cell: locationOf},
	}
	if compared {
		state := column{title: "STATE", most: 5, cell: func(e *report.Entry) string { return string(e.State) }}
		all = append([]column{state}, all...)
	}
	if excepted {
		all = append(all, column{title: "EXCEPTION", most: 60, cell: exceptionOf})
	}
	if wide {
		all = append(all,
			column{title: "ID", wide: true, cell: func(e *report.Entry) string { return e.ID }},
			column{title: "IDENTIFIED AT", wide: true, cell: func(e *report.Entry) string { return e.IdentifiedAt }},
			column{title: "DESCRIPTION", wide: true, cell: func(e *report.Entry) string { return e.Description }},
		)
		for i := range all {
			all[i].most = maxWide
		}
	}
	return all
}

// group of rows: one of each severity, and at the end one of what is excepted.
const (
	exceptedGroup = int(report.Severities)
	groups        = exceptedGroup + 1
)

func groupOf(e *report.Entry) int {
	if e.Excepted() {
		return exceptedGroup
	}
	return int(e.Severity)
}

func exceptionOf(e *report.Entry) string {
	if e.Exception == nil {
		return ""
	}
	return string(e.Exception.Status) + ": " + e.Exception.Reason
}

// row is what a table keeps of a finding.
type row struct {
	severity report.Severity
	excepted bool
	state    compare.State
	cells    []string
}

// table keeps the first rows of each severity, and how many findings there were.
type table struct {
	columns []column
	// limit is how many rows are shown, 0 for all.
	limit  int
	rows   [groups][]row
	counts [groups]int
	// widths are the widths of everything that was added, at most the column's width.
	widths []int
}

func newTable(columns []column, limit int) *table {
	t := &table{columns: columns, limit: limit, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = len(c.title)
	}
	return t
}

// makeRow makes the cells of a finding.
func (t *table) makeRow(e *report.Entry) row {
	r := row{severity: e.Severity, excepted: e.Excepted(), state: e.State, cells: make([]string, len(t.columns))}
	for i, c := range t.columns {
		r.cells[i] = termsafe.Fit(termsafe.Line(cutBytes(c.cell(e), 4*maxWide)), c.most)
	}
	return r
}

// add counts a finding and keeps it while there is room. Without a limit only widths are kept.
func (t *table) add(e *report.Entry) {
	group := groupOf(e)
	t.counts[group]++
	if t.limit > 0 && len(t.rows[group]) >= t.limit {
		return
	}
	r := t.makeRow(e)
	if t.limit > 0 {
		t.rows[group] = append(t.rows[group], r)
		return
	}
	t.widen(r)
}

func (t *table) widen(r row) {
	for i, cell := range r.cells {
		t.widths[i] = max(t.widths[i], termsafe.Width(cell))
	}
}

// gap is the space between columns.
const gap = 3

// narrowest is what a column keeps where the terminal is narrow: the longest severity fits.
const narrowest = 13

// narrow takes width from the widest columns until rows fit into a terminal of some columns; 0 has room for everything.
// What fits into no terminal of that size, as with -o wide, stays as it is.
func (t *table) narrow(columns int) {
	if t.columns[0].most != maxWide {
		termsafe.Narrow(t.widths, func(int) bool { return false }, gap, narrowest, columns)
	}
}

func (t *table) total() (n int) {
	for _, c := range t.counts {
		n += c
	}
	return n
}

// worst are the rows that are shown.
func (t *table) worst() (rows []row) {
	for s := range t.rows {
		room := t.limit - len(rows)
		rows = append(rows, t.rows[s][:min(room, len(t.rows[s]))]...)
	}
	return rows
}

// printer writes rows below a header.
type printer struct {
	session *session.Session
	out     io.Writer
	table   *table
	header  bool
}

func (p *printer) print(r row) error {
	if !p.header {
		p.header = true
		titles := make([]string, len(p.table.columns))
		for i, c := range p.table.columns {
			titles[i] = c.title
		}
		if err := p.line(titles, func(_ int, text string) string { return p.session.Paint(session.Heading, text) }); err != nil {
			return err
		}
	}
	return p.line(r.cells, func(i int, text string) string {
		if r.excepted {
			return p.session.Paint(session.Quiet, text)
		}
		switch p.table.columns[i].title {
		case "SEVERITY":
			return p.session.Paint(paintOf(r.severity), text)
		case "STATE":
			return p.session.Paint(paintOfState(r.state), text)
		}
		return text
	})
}

// line pads cells but the last one, and paints what is shown without the padding.
func (p *printer) line(cells []string, paint func(i int, text string) string) error {
	var out strings.Builder
	for i, cell := range cells {
		cell = termsafe.Fit(cell, p.table.widths[i])
		out.WriteString(paint(i, cell))
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", p.table.widths[i]-termsafe.Width(cell)+gap))
		}
	}
	_, err := fmt.Fprintln(p.out, strings.TrimRight(out.String(), " "))
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func paintOf(s report.Severity) session.Paint {
	switch s {
	case report.High:
		return session.Bad
	case report.Medium:
		return session.Warn
	case report.Low:
		return session.Note
	default:
		return session.Quiet
	}
}

func paintOfState(s compare.State) session.Paint {
	switch s {
	case compare.New:
		return session.Bad
	case compare.Fixed:
		return session.Good
	default:
		return session.Quiet
	}
}

// each calls a function with every finding that is to be shown.
type each func(ctx context.Context, do func(*report.Entry) error) error

// printTable prints the findings of a source, the worst first. Without a limit it reads the source once to measure and once for
// each severity that occurs.
func printTable(ctx context.Context, s *session.Session, out io.Writer, t *table, source each) error {
	if err := source(ctx, func(e *report.Entry) error { t.add(e); return nil }); err != nil {
		return err
	}
	p := &printer{session: s, out: out, table: t}
	if t.limit > 0 {
		rows := t.worst()
		for _, r := range rows {
			t.widen(r)
		}
		t.narrow(s.Columns)
		for _, r := range rows {
			if err := p.print(r); err != nil {
				return err
			}
		}
		return nil
	}
	t.narrow(s.Columns)
	for group := range groups {
		if t.counts[group] == 0 {
			continue
		}
		err := source(ctx, func(e *report.Entry) error {
			if groupOf(e) != group {
				return nil
			}
			return p.print(t.makeRow(e))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// summary says in a line how many findings there are, and how many are not shown.
func (t *table) summary() string {
	total := t.total()
	if total == 0 {
		return ""
	}
	var parts []string
	for s, n := range t.counts {
		switch {
		case n == 0:
		case s == exceptedGroup:
			parts = append(parts, fmt.Sprintf("%d excepted", n))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(report.Severity(s).String())))
		}
	}
	text := plural(total, "finding") + ": " + strings.Join(parts, ", ")
	if left := total - t.limit; t.limit > 0 && left > 0 {
		text += fmt.Sprintf("; %d of them not shown, the least severe (--limit 0 shows all)", left)
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// cutBytes bounds how much of a very long text is looked at.
func cutBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// paintless is a session without colors and without a width, for files.
func paintless(s *session.Session, plain bool) *session.Session {
	if !plain {
		return s
	}
	copied := *s
	copied.Color, copied.Columns = false, 0
	return &copied
}

// locationOf returns where a finding is; for scanners of files, which set no location, the file.
func locationOf(e *report.Entry) string {
	if e.Location != "" {
		return e.Location
	}
	file, _ := e.Attributes.Text("file").Get()
	return file
}
