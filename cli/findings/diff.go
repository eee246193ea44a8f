// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/report"
)

// diffOptions are the flags of the command diff.
type diffOptions struct {
	session *session.Session
	filter  filter
	output  output
	reading results.Options
	all     bool
	failOn  string
	// allowUnreached lets failOn pass if the scanner of the second Scan reached nothing.
	allowUnreached bool
	excepting      excepting
}

// NewDiffCommand is "scanyard diff".
func NewDiffCommand(s *session.Session) *cobra.Command {
	o := &diffOptions{session: s}
	cmd := &cobra.Command{
		Use:   "diff OLD-SCAN NEW-SCAN",
		Short: "Show what is new and what is fixed between two Scans",
		Long: `Show which findings of the second Scan the first one does not have (new), which findings of the first
one are gone (fixed) and, with --all, which both have (known).

Findings are the same if their fingerprints are, or, where a parser gives none, what they say. Each
finding of the second Scan is new or known; fixed findings are printed as the first Scan had them.

Findings that an exception suppresses are neither new nor known, and do not count for --fail-on.

If one of the Scans has reached nothing, or if their types or parameters differ, the comparison says
little; a warning on stderr says so.

Exit codes: 0 compared, 1 errored, 2 compared, and there are new findings of --fail-on or worse, 4 compared,
and with --fail-on: the scanner of the second Scan reached nothing. Filters apply before --fail-on looks.`,
		Example: `  # What has changed since yesterday
  {{program}} diff nightly-1893412800 nightly-1893499200

  # Nothing bad may come in with a change
  {{program}} diff before after --min-severity medium --fail-on medium

  # For a comment on a merge request
  {{program}} diff before after -o markdown`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: twoScans(s),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0], args[1]) },
	}
	o.filter.bindFlags(cmd.Flags())
	o.output.bindFlags(cmd, formatTable, formatWide, formatJSON, formatLines, formatYAML, formatMarkdown)
	o.reading.BindFlags(cmd.Flags())
	o.excepting.bindFlags(cmd)
	cmd.Flags().BoolVar(&o.all, "all", false, "print known findings as well")
	cmd.Flags().StringVar(&o.failOn, "fail-on", "", "exit with code 2 if there are new findings of this "+orWorse)
	cmd.Flags().BoolVar(&o.allowUnreached, "allow-unreached", false, "let --fail-on pass if the second Scan has reached nothing, instead of exit code 4")
	return cmd
}

func twoScans(s *session.Session) complete.Func {
	scans := complete.Scans(s)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return scans(cmd, args, toComplete)
	}
}

func (o *diffOptions) run(cmd *cobra.Command, oldName, newName string) error {
	var least report.Threshold
	if o.failOn != "" {
		var err error
		if least, err = thresholdFlag("fail-on", o.failOn); err != nil {
			return err
		}
	}
	wanted, err := o.filter.compile()
	if err == nil {
		err = o.output.check(cmd)
	}
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	c, reader, before, err := connect(ctx, o.session, o.reading, oldName)
	if err != nil {
		return err
	}
	after, err := o.session.Scan(ctx, c, before.Namespace, newName)
	if err != nil {
		return err
	}
	d := &diff{
		before: reader.Source(before, true), after: reader.Source(after, !o.output.isOnce()),
		all: o.all, wanted: wanted, failOn: least,
		exceptions: o.excepting.read(ctx, o.session, c, after), showExcepted: o.excepting.show,
	}
	err = o.print(ctx, d, before, after)
	if err = errors.Join(err, d.before.Close(), d.after.Close()); err != nil {
		return o.session.Explain(err)
	}
	if differs := unlike(before, after); differs != "" {
		fmt.Fprintln(o.session.ErrOut, differs)
	}
	for _, scan := range []*executionv1.Scan{before, after} {
		if unreached := view.Unreached(scan); unreached != "" {
			fmt.Fprintf(o.session.ErrOut, "%s: %s\n", scan.Name, unreached)
		}
	}
	if o.failOn == "" {
		return nil
	}
	if err := failing(least, "new finding", d.failing); err != nil {
		return err
	}
	return failUnreached(after, o.allowUnreached)
}

// diff reads two Scans as one list of findings with states.
type diff struct {
	before, after *results.Source
	all           bool
	wanted        func(*report.Entry) bool
	// exceptions are those of the second Scan. What they suppress is neither new nor known.
	exceptions   *exception.Selection
	showExcepted bool
	excepted     int

	marks  *compare.Set
	states map[compare.State]int
	// failing are the new findings that reach failOn.
	failOn  report.Threshold
	failing int
}

// each calls a function with the findings of the second Scan, and then with the findings of the first one that are gone.
func (d *diff) each(ctx context.Context, do func(*report.Entry) error) (err error) {
	if d.marks == nil {
		if d.marks, err = marksOf(ctx, d.before); err != nil {
			return err
		}
	}
	d.states, d.failing, d.excepted = map[compare.State]int{}, 0, 0
	count := func(e *report.Entry) error {
		if e.Excepted() {
			if d.excepted++; !d.showExcepted {
				return nil
			}
			return do(e)
		}
		d.states[e.State]++
		if e.State == compare.New && d.failOn.Reached(e) {
			d.failing++
		}
		if e.State == compare.Known && !d.all {
			return nil
		}
		return do(e)
	}
	after := report.Input{Findings: d.after.Each, Scan: facts(d.after.Scan()), Comparison: d.marks, Keep: d.wanted, Exceptions: d.exceptions}
	if err := after.Each(ctx, count); err != nil {
		return fmt.Errorf("read Scan %s: %w", d.after.Scan().Name, err)
	}
	seen := gone{marks: d.marks}
	before := report.Input{Findings: d.before.Each, Scan: facts(d.before.Scan()), Comparison: &seen}
	before.Keep = func(e *report.Entry) bool { return e.State == compare.Fixed && d.wanted(e) }
	if err := before.Each(ctx, count); err != nil {
		return fmt.Errorf("read Scan %s: %w", d.before.Scan().Name, err)
	}
	return nil
}

// gone decides for findings of the first Scan whether they are fixed. It is a report.Comparison.
type gone struct{ marks *compare.Set }

// State returns fixed or known.
func (g *gone) State(element []byte) (compare.State, error) {
	mark, err := compare.MarkOf(element)
	switch {
	case err != nil:
		return "", err
	case g.marks.IsFixed(mark):
		return compare.Fixed, nil
	}
	return compare.Known, nil
}

// FixedCount counts them by their marks.
func (g *gone) FixedCount() int { return g.marks.FixedCount() }

// print writes the comparison.
func (o *diffOptions) print(ctx context.Context, d *diff, before, after *executionv1.Scan) error {
	err := o.output.write(o.session, func(out io.Writer) error {
		switch o.output.format {
		case formatJSON:
			return d.printJSON(ctx, out, before, after)
		case formatMarkdown:
			return d.printMarkdown(ctx, out, before, after)
		case formatTable, formatWide:
			t := newTable(columnsOf(true, o.excepting.show, o.output.format == formatWide), o.output.limit)
			if err := printTable(ctx, paintless(o.session, o.output.file != ""), out, t, d.each); err != nil {
				return err
			}
			if left := t.total() - o.output.limit; o.output.limit > 0 && left > 0 {
				fmt.Fprintf(o.session.ErrOut, "%s not shown, the least severe (--limit 0 shows all)\n", plural(left, "finding"))
			}
			return nil
		}
		return printList(ctx, out, o.output.format, d.each)
	})
	if err == nil {
		fmt.Fprintf(o.session.ErrOut, "%s compared with %s: %s\n", after.Name, before.Name, d.summary())
	}
	return err
}

func (d *diff) summary() string {
	text := fmt.Sprintf("%d new, %d known, %d fixed", d.states[compare.New], d.states[compare.Known], d.states[compare.Fixed])
	if d.excepted > 0 {
		text += fmt.Sprintf(", %d excepted", d.excepted)
	}
	return text
}

// printJSON writes an object: the Scans, the findings with their states, the counts.
func (d *diff) printJSON(ctx context.Context, out io.Writer, before, after *executionv1.Scan) error {
	head, err := finding.AppendValue(nil, finding.Object{
		{Key: "old", Value: scanRef(before)}, {Key: "new", Value: scanRef(after)},
	})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	l := &lister{out: out, format: formatJSON}
	if err := l.write(head[:len(head)-1], []byte(`,"findings":`)); err != nil {
		return err
	}
	if err := d.each(ctx, l.add); err != nil {
		return err
	}
	if err := l.end(); err != nil {
		return err
	}
	counts := fmt.Sprintf(`,"counts":{"new":%d,"known":%d,"fixed":%d}}`, d.states[compare.New], d.states[compare.Known], d.states[compare.Fixed])
	return l.write([]byte(counts + "\n"))
}

func scanRef(s *executionv1.Scan) finding.Object {
	return finding.Object{
		{Key: "name", Value: s.Name},
		{Key: "namespace", Value: s.Namespace},
		{Key: "uid", Value: string(s.UID)},
		{Key: "finishedAt", Value: instant(s.Status.FinishedAt)},
	}
}

// maxMarkdown is how many rows Markdown has: it is for reading.
const maxMarkdown = 100

// printMarkdown writes the counts and a table of the worst findings of each state.
func (d *diff) printMarkdown(ctx context.Context, out io.Writer, before, after *executionv1.Scan) error {
	tables := map[compare.State]*table{}
	for _, state := range states {
		tables[state] = newTable(columnsOf(false, false, false), maxMarkdown)
	}
	if err := d.each(ctx, func(e *report.Entry) error { tables[e.State].add(e); return nil }); err != nil {
		return err
	}
	l := &lister{out: out}
	err := l.write(fmt.Appendf(nil, "# %s since %s\n\n| State | Findings |\n| --- | ---: |\n", report.Plain(after.Name), report.Plain(before.Name)))
	for _, state := range states {
		err = errors.Join(err, l.write(fmt.Appendf(nil, "| %s | %d |\n", state, d.states[state])))
	}
	for _, state := range states {
		err = errors.Join(err, markdownTable(l, state, tables[state]))
	}
	return err
}

// states are in the order of their importance to users.
var states = []compare.State{compare.New, compare.Fixed, compare.Known}

func markdownTable(l *lister, state compare.State, t *table) error {
	if t.total() == 0 {
		return nil
	}
	title := map[compare.State]string{compare.New: "New", compare.Fixed: "Fixed", compare.Known: "Known"}[state]
	err := l.write(fmt.Appendf(nil, "\n## %s\n\n| Severity | Name | Category | Location |\n| --- | --- | --- | --- |\n", title))
	for _, r := range t.worst() {
		line := fmt.Appendf(nil, "| %s |", r.severity.Words())
		for _, cell := range r.cells[1:] {
			line = fmt.Appendf(line, " %s |", report.Plain(cell))
		}
		err = errors.Join(err, l.write(append(line, '\n')))
	}
	if left := t.total() - maxMarkdown; left > 0 {
		err = errors.Join(err, l.write(fmt.Appendf(nil, "\n%d more are not shown, the least severe.\n", left)))
	}
	return err
}
