// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/report"
)

var queryFormats = []string{"table", "wide", "json", "yaml", "csv", "name"}

// answerPrinter prints the pages of an answer.
type answerPrinter interface {
	page(*reportsv1alpha1.FindingQueryStatus) error
	// end prints what has to wait for the last page.
	end() error
}

// newAnswerPrinter prints what a question is answered with; fixed says that it is about what is in no report any more.
func newAnswerPrinter(format string, spec *reportsv1alpha1.FindingQuerySpec, fixed bool, s *session.Session) (answerPrinter, error) {
	shape := layout{columns: rowColumns(format, spec.IncludeSuppressed)}
	if fixed {
		shape.columns = fixedColumns()
	}
	switch {
	case spec.Trend != nil:
		shape = layout{columns: trendColumns(), counts: true, trend: true}
	case isCount(spec):
		shape = layout{columns: groupColumns(spec.GroupBy, spec.Aggregate), counts: true}
	}
	switch format {
	case "table", "wide":
		return &tablePrinter{layout: shape, out: s.Out, now: s.Now()}, nil
	case "csv":
		return &csvPrinter{layout: shape, out: csv.NewWriter(s.Data(termsafe.Replace))}, nil
	case "json", "yaml":
		return &objectPrinter{format: format, session: s}, nil
	case "name":
		if isCount(spec) {
			return nil, fmt.Errorf("-o name prints reports, and a count has none: choose %s", strings.Join(queryFormats[:5], ", "))
		}
		if fixed {
			return nil, fmt.Errorf("-o name prints reports, and what was fixed is in none: choose %s", strings.Join(queryFormats[:5], ", "))
		}
		return &namePrinter{out: s.Out, seen: map[string]bool{}}, nil
	}
	return nil, fmt.Errorf("-o %s is not a format of this command: choose %s", format, strings.Join(queryFormats, ", "))
}

// layout is what a table or a CSV file has of an answer.
type layout struct {
	columns []column
	// counts says that it has groups, and no rows; trend, that its groups are those of [byDay].
	counts, trend bool
}

// column is one of a table or a CSV file. Exactly one of row and group is set. now is the zero time for files, which have
// times instead of ages.
type column struct {
	name  string
	row   func(r *reportsv1alpha1.FindingRow, now time.Time) string
	group func(g *reportsv1alpha1.FindingGroup) string
}

func rowColumns(format string, suppressed bool) []column {
	type row = reportsv1alpha1.FindingRow
	text := func(name string, get func(*row) string) column {
		return column{name: name, row: func(r *row, _ time.Time) string { return get(r) }}
	}
	columns := []column{
		text("NAMESPACE", func(r *row) string { return r.Namespace }),
		text("SEVERITY", func(r *row) string { return r.Severity }),
		text("CVSS", func(r *row) string { return score(r.CVSS) }),
		text("POLICY", func(r *row) string { return r.Policy }),
		text("RULE", func(r *row) string { return r.Rule }),
		text("RESOURCE", resourceOf),
		text("REPORT", func(r *row) string { return r.Report }),
		{name: "FIRST-SEEN", row: firstSeen},
	}
	exception := text("EXCEPTION", func(r *row) string { return r.Exception })
	switch {
	case format == "table" && suppressed:
		return append(columns, exception)
	case format == "table":
		return columns
	}
	return append(columns,
		text("RESULT", func(r *row) string { return r.Result }),
		text("SOURCE", func(r *row) string { return r.Source }),
		text("CATEGORY", func(r *row) string { return r.Category }),
		text("TARGET", func(r *row) string { return r.Target }),
		text("MESSAGE", func(r *row) string { return r.Message }),
		exception,
	)
}

func fixedColumns() []column {
	type row = reportsv1alpha1.FindingRow
	text := func(name string, get func(*row) string) column {
		return column{name: name, row: func(r *row, _ time.Time) string { return get(r) }}
	}
	return []column{
		text("NAMESPACE", func(r *row) string { return r.Namespace }),
		text("SEVERITY", func(r *row) string { return r.Severity }),
		text("POLICY", func(r *row) string { return r.Policy }),
		text("RULE", func(r *row) string { return r.Rule }),
		text("TARGET", func(r *row) string { return r.Target }),
		{name: "FIRST-SEEN", row: firstSeen},
		{name: "FIXED", row: func(r *row, now time.Time) string { return moment(r.FixedAt, now) }},
	}
}

func resourceOf(r *reportsv1alpha1.FindingRow) string {
	switch {
	case r.Resource == nil:
		return ""
	case r.Resource.Kind == "":
		return r.Resource.Name
	}
	return r.Resource.Kind + "/" + r.Resource.Name
}

func firstSeen(r *reportsv1alpha1.FindingRow, now time.Time) string { return moment(r.FirstSeen, now) }

// moment is how long ago something was, or in a file when.
func moment(at *metav1.Time, now time.Time) string {
	switch {
	case at == nil:
		return ""
	case now.IsZero():
		return at.UTC().Format(time.RFC3339)
	}
	return view.Short(now.Sub(at.Time))
}

func score(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', 1, 64)
}

func groupColumns(fields []string, aggregate string) []column {
	type group = reportsv1alpha1.FindingGroup
	var columns []column
	for _, field := range fields {
		columns = append(columns, column{name: strings.ToUpper(field), group: func(g *reportsv1alpha1.FindingGroup) string { return g.Key[field] }})
	}
	columns = append(columns, column{name: "COUNT", group: func(g *group) string { return strconv.FormatInt(g.Count, 10) }})
	switch aggregate {
	case countDistinctResources:
		return append(columns, column{name: "RESOURCES", group: func(g *group) string { return optional(g.DistinctResources) }})
	case meanTimeToFix:
		return append(columns, column{name: "MEAN-TIME-TO-FIX", group: func(g *group) string {
			if g.MeanTimeToFix == nil {
				return ""
			}
			return view.Short(g.MeanTimeToFix.Duration)
		}})
	}
	return append(columns, column{name: "MAX-CVSS", group: func(g *group) string { return score(g.MaxScore) }})
}

func optional(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// trendColumns are those of groups that [byDay] has put together.
func trendColumns() []column {
	columns := []column{{name: "DAY", group: func(g *reportsv1alpha1.FindingGroup) string { return g.Key["day"] }}}
	for _, severity := range []string{"critical", "high", "medium", "low", "info"} {
		columns = append(columns, column{name: strings.ToUpper(severity), group: func(g *reportsv1alpha1.FindingGroup) string { return g.Key[severity] }})
	}
	return columns
}

// byDay puts the counts of a day's severities into one group, with a key for each severity. Counts of severities that are
// absent are 0.
func byDay(groups []reportsv1alpha1.FindingGroup) []reportsv1alpha1.FindingGroup {
	days := map[string]map[string]string{}
	for i := range groups {
		g := &groups[i]
		key := days[g.Key["day"]]
		if key == nil {
			key = map[string]string{"day": g.Key["day"], "critical": "0", "high": "0", "medium": "0", "low": "0", "info": "0"}
			days[g.Key["day"]] = key
		}
		key[g.Key["severity"]] = strconv.FormatInt(g.Count, 10)
	}
	var out []reportsv1alpha1.FindingGroup
	for _, d := range slices.Sorted(maps.Keys(days)) {
		out = append(out, reportsv1alpha1.FindingGroup{Key: days[d]})
	}
	return out
}

// lines are those of a page, each with a cell for each column.
func (l *layout) lines(a *reportsv1alpha1.FindingQueryStatus, now time.Time) [][]string {
	var lines [][]string
	line := func(cell func(column) string) {
		cells := make([]string, len(l.columns))
		for i, c := range l.columns {
			cells[i] = cell(c)
		}
		lines = append(lines, cells)
	}
	if !l.counts {
		for i := range a.Rows {
			line(func(c column) string { return c.row(&a.Rows[i], now) })
		}
		return lines
	}
	groups := a.Groups
	if l.trend {
		groups = byDay(groups)
	}
	for i := range groups {
		line(func(c column) string { return c.group(&groups[i]) })
	}
	return lines
}

func (l *layout) headers() []string {
	out := make([]string, len(l.columns))
	for i, c := range l.columns {
		out[i] = c.name
	}
	return out
}

// tablePrinter aligns each page on its own, with headers before the first.
type tablePrinter struct {
	layout

	out   io.Writer
	now   time.Time
	begun bool
}

func (p *tablePrinter) page(a *reportsv1alpha1.FindingQueryStatus) error {
	lines := p.lines(a, p.now)
	if len(lines) == 0 {
		return nil
	}
	w := printers.GetNewTabWriter(p.out)
	if !p.begun {
		p.begun = true
		fmt.Fprintln(w, strings.Join(p.headers(), "\t"))
	}
	for _, line := range lines {
		for i, cell := range line {
			line[i] = strings.Join(strings.Fields(cell), " ") // a line break or a tab would break the table
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	return w.Flush()
}

func (*tablePrinter) end() error { return nil }

type csvPrinter struct {
	layout

	out   *csv.Writer
	begun bool
}

func (p *csvPrinter) page(a *reportsv1alpha1.FindingQueryStatus) error {
	if !p.begun {
		p.begun = true
		if err := p.out.Write(p.headers()); err != nil {
			return err
		}
	}
	for _, line := range p.lines(a, time.Time{}) {
		for i, cell := range line {
			line[i] = report.Inert(cell)
		}
		if err := p.out.Write(line); err != nil {
			return err
		}
	}
	p.out.Flush()
	return p.out.Error()
}

func (*csvPrinter) end() error { return nil }

// objectPrinter prints the pages as one status.
type objectPrinter struct {
	format  string
	session *session.Session
	all     *reportsv1alpha1.FindingQueryStatus
}

func (p *objectPrinter) page(a *reportsv1alpha1.FindingQueryStatus) error {
	if p.all == nil {
		p.all = a.DeepCopy()
		return nil
	}
	p.all.Rows, p.all.Groups, p.all.Continue = append(p.all.Rows, a.Rows...), append(p.all.Groups, a.Groups...), a.Continue
	return nil
}

func (p *objectPrinter) end() error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.all)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if p.format == "yaml" {
		return writeYAML(p.session.Data(termsafe.Replace), fields)
	}
	enc := json.NewEncoder(p.session.Data(termsafe.Escape))
	enc.SetIndent("", "    ")
	return enc.Encode(fields)
}

// namePrinter prints each report once.
type namePrinter struct {
	out  io.Writer
	seen map[string]bool
}

func (p *namePrinter) page(a *reportsv1alpha1.FindingQueryStatus) error {
	for i := range a.Rows {
		r := &a.Rows[i]
		key := strings.ToLower(r.Kind) + "/" + r.Report
		if full := r.Namespace + "/" + key; !p.seen[full] {
			p.seen[full] = true
			if _, err := fmt.Fprintln(p.out, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (*namePrinter) end() error { return nil }
