// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/report"
)

// Formats of documents.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatSARIF = "sarif"
	formatCSV   = "csv"
	formatHTML  = "html"
)

// document is how and where to a command prints.
type document struct {
	session *session.Session
	format  string
	file    string
	known   []string
}

func (d *document) bind(cmd *cobra.Command, usual string, known ...string) {
	d.known = known
	cmd.Flags().StringVarP(&d.format, "output", "o", usual, "`format`: "+strings.Join(known, ", "))
	cmd.Flags().StringVarP(&d.file, "output-file", "O", "", "write to this `file` instead of stdout, whole or not at all")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

func (d *document) check() error {
	d.format = strings.ToLower(d.format)
	if slices.Contains(d.known, d.format) {
		return nil
	}
	return fmt.Errorf("-o %q: there are the formats %s", d.format, strings.Join(d.known, ", "))
}

// write calls a function with where the output goes. Text for people is guarded also on its way to a pipe or a file.
func (d *document) write(do func(io.Writer) error) error {
	people := slices.Contains([]string{formatTable, formatWide, formatCSV}, d.format)
	to := func(out io.Writer) error {
		buffered := bufio.NewWriter(out)
		if !people {
			return errors.Join(do(buffered), buffered.Flush())
		}
		guard := termsafe.NewWriter(buffered, termsafe.Replace)
		return errors.Join(do(guard), guard.Flush(), buffered.Flush())
	}
	switch {
	case d.file != "" && d.file != "-":
		return results.WriteFile(d.file, to)
	case people:
		return to(d.session.Out)
	case d.format == formatHTML:
		return to(d.session.Data(termsafe.Replace))
	}
	return to(d.session.Data(termsafe.Escape))
}

// vulnsOptions are the flags of vulns.
type vulnsOptions struct {
	chosen
	document

	fixable     bool
	suppressed  bool
	minSeverity string
	failOn      string
}

func newVulnsCommand(s *session.Session) *cobra.Command {
	o := &vulnsOptions{document: document{session: s}}
	cmd := &cobra.Command{
		Use:   "vulns REF",
		Short: "Show the vulnerabilities of an image, the worst first",
		Long: `Show the vulnerabilities of an image, the worst first: the package, the installed version, the one
that fixes it, and with -o wide the layer that brings the package and the command that made the layer.

What an exception suppresses is left out unless --suppressed is given, and does not count for --fail-on.

Exit codes: 0 done, 1 errored, 2 vulnerabilities of the severity of --fail-on or above.`,
		Example: `  {{program}} registry vulns shop/api:1.2
  {{program}} registry vulns shop/api:1.2 --fixable --min-severity high -o wide
  {{program}} registry vulns shop/api:1.2 -o sarif -O api.sarif
  {{program}} registry vulns shop/api:1.2 --fail-on critical`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.chosen.bind(cmd)
	o.document.bind(cmd, formatTable, formatTable, formatWide, formatJSON, formatSARIF, formatCSV, formatHTML)
	f := cmd.Flags()
	f.BoolVar(&o.fixable, "fixable", false, "only what a newer version of the package fixes")
	f.BoolVar(&o.suppressed, "suppressed", false, "also what an exception suppresses")
	f.StringVar(&o.minSeverity, "min-severity", "", "only vulnerabilities of this `severity` or a worse one")
	f.StringVar(&o.failOn, "fail-on", "", "exit with code 2 when there are vulnerabilities of this `severity` or above: critical, high, medium, low, unknown")
	return cmd
}

func (o *vulnsOptions) check() (err error) {
	if err := o.document.check(); err != nil {
		return err
	}
	for flag, text := range map[string]*string{"min-severity": &o.minSeverity, "fail-on": &o.failOn} {
		if *text != "" {
			if *text, err = parseSeverity(flag, *text); err != nil {
				return err
			}
		}
	}
	if o.format == formatSARIF && (o.fixable || o.minSeverity != "") {
		return errors.New("-o sarif has all vulnerabilities: leave out --fixable and --min-severity")
	}
	return nil
}

// arguments are what the server leaves out.
func (o *vulnsOptions) arguments() []string {
	arguments := []string{"minSeverity", o.minSeverity}
	if o.fixable {
		arguments = append(arguments, "fixable", "true")
	}
	if !o.suppressed {
		arguments = append(arguments, "suppressed", "false")
	}
	return arguments
}

func (o *vulnsOptions) run(ctx context.Context, text string) error {
	if err := o.check(); err != nil {
		return err
	}
	r, err := newReader(o.session)
	if err != nil {
		return err
	}
	image, err := r.image(ctx, text, o.chosen)
	if err != nil {
		return err
	}
	if image.Status.ScannedAt == nil {
		return fmt.Errorf("%s has no report yet: it is %s%s", called(image), image.Status.State, suffix(", ", image.Status.Reason))
	}
	found := make([]int64, len(severities))
	each := func(visit func(*reportsv1.VulnerabilityFinding, []byte) error) error {
		clear(found)
		err := r.eachFinding(ctx, image.Namespace, image.Name, func(f *reportsv1.VulnerabilityFinding, line []byte) error {
			if f.Suppressed == nil {
				found[rank(f.Severity)]++
			}
			return visit(f, line)
		}, o.arguments()...)
		return explainReports(o.session, err)
	}
	err = o.write(func(out io.Writer) error { return o.print(ctx, out, r, image, each) })
	if err != nil {
		return err
	}
	if o.format == formatTable || o.format == formatWide {
		fmt.Fprintf(o.session.ErrOut, "%s: %s.\n", called(image), inWords(found))
	}
	if o.failOn == "" {
		return nil
	}
	if o.format == formatSARIF { // the server has written it
		found = counts(image.Status.Vulnerabilities)
	}
	return threshold(called(image), found, o.failOn)
}

// threshold is the error of --fail-on.
func threshold(what string, found []int64, failOn string) error {
	n := atLeast(found, failOn)
	if n == 0 {
		return nil
	}
	err := fmt.Errorf("%s has %s of severity %s or above (--fail-on)", what, plural(n, "vulnerability", "vulnerabilities"), failOn)
	return session.Exit(session.CodeThreshold, err)
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// eachOf reads the findings that are asked for.
type eachOf func(visit func(*reportsv1.VulnerabilityFinding, []byte) error) error

func (o *vulnsOptions) print(ctx context.Context, out io.Writer, r *reader, image *reportsv1.Image, each eachOf) error {
	switch o.format {
	case formatSARIF:
		body, err := r.open(ctx, image.Namespace, resourceReports, image.Name, "sarif")
		if err != nil {
			return explainReports(o.session, err)
		}
		_, err = io.Copy(out, body)
		return errors.Join(err, body.Close())
	case formatJSON:
		return printJSON(out, each)
	case formatCSV:
		return printRows(newCSV(out), columnsOf(image, true), each)
	case formatHTML:
		return printPage(ctx, out, image, each, o.session.Now())
	}
	return printRows(o.table(out), columnsOf(image, o.format == formatWide), each)
}

// printJSON prints findings as a list, as the server has them.
func printJSON(out io.Writer, each eachOf) error {
	between := "[\n"
	err := each(func(_ *reportsv1.VulnerabilityFinding, line []byte) error {
		_, err := fmt.Fprintf(out, "%s%s", between, line)
		between = ",\n"
		return err
	})
	if err != nil {
		return err
	}
	end := "\n]\n"
	if between == "[\n" {
		end = "[]\n"
	}
	_, err = io.WriteString(out, end)
	return err
}

// column is one of a table or a CSV file of findings.
type column struct {
	name string
	cell func(*reportsv1.VulnerabilityFinding) string
}

func columnsOf(image *reportsv1.Image, wide bool) []column {
	type finding = reportsv1.VulnerabilityFinding
	columns := []column{
		{"SEVERITY", func(f *finding) string { return f.Severity }},
		{"SCORE", func(f *finding) string { return score(f.Score) }},
		{"VULNERABILITY", func(f *finding) string { return f.VulnerabilityID }},
		{"PACKAGE", func(f *finding) string { return f.Package.Name }},
		{"INSTALLED", func(f *finding) string { return f.Package.Version }},
		{"FIXED", func(f *finding) string { return strings.Join(f.FixedVersions, ", ") }},
		{"TARGET", func(f *finding) string { return f.Target }},
	}
	if !wide {
		return columns
	}
	return append(columns,
		column{"FIRST-SEEN", firstSeen},
		column{"SUPPRESSED", func(f *finding) string { return suppressedBy(f.Suppressed) }},
		column{"TITLE", func(f *finding) string { return f.Title }},
		column{"LAYER", func(f *finding) string { return layerOf(f.Layer) }},
		column{"COMMAND", func(f *finding) string { return commandOf(image, f.Layer) }},
	)
}

func score(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', 1, 64)
}

func firstSeen(f *reportsv1.VulnerabilityFinding) string {
	if f.FirstSeenAt == nil {
		return ""
	}
	return f.FirstSeenAt.UTC().Format(time.DateOnly)
}

func suppressedBy(s *reportsv1.Suppressed) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(s.By + " " + s.Name)
}

func layerOf(l *reportsv1.FindingLayer) string {
	if l == nil {
		return ""
	}
	return short(cmp.Or(l.Digest, l.DiffID))
}

// commandOf is the command that made a layer of an image.
func commandOf(image *reportsv1.Image, l *reportsv1.FindingLayer) string {
	if l == nil {
		return ""
	}
	for i := range image.Spec.Layers {
		if have := &image.Spec.Layers[i]; l.DiffID != "" && have.DiffID == l.DiffID || l.Digest != "" && have.Digest == l.Digest {
			return have.Command
		}
	}
	return ""
}

// rows are written one after the other.
type rows interface {
	row(cells []string) error
	end() error
}

type tableRows struct{ *output.Aligned }

// columns is the width of the terminal that a table goes to; 0 for a file, and for a wide table.
func (d *document) columns() int {
	if d.format == formatWide || d.file != "" && d.file != "-" {
		return 0
	}
	return d.session.Columns
}

// table writes rows to out, as wide as the terminal.
func (d *document) table(out io.Writer) *tableRows {
	return &tableRows{output.NewAligned(out, 2, d.columns())}
}

func (t *tableRows) row(cells []string) error {
	const widest = 60
	for i, cell := range cells {
		cells[i] = termsafe.Fit(termsafe.Line(cell), widest)
	}
	_, err := fmt.Fprintln(t, termsafe.Row(cells...))
	return err
}

func (t *tableRows) end() error { return t.Flush() }

type csvRows struct{ *csv.Writer }

func newCSV(out io.Writer) *csvRows { return &csvRows{csv.NewWriter(out)} }

// row writes cells that no spreadsheet takes for formulas.
func (c *csvRows) row(cells []string) error {
	for i, cell := range cells {
		cells[i] = report.Inert(cell)
	}
	return c.Write(cells)
}

func (c *csvRows) end() error {
	c.Flush()
	return c.Error()
}

func printRows(to rows, columns []column, each eachOf) error {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.name
	}
	if err := to.row(cells); err != nil {
		return err
	}
	err := each(func(f *reportsv1.VulnerabilityFinding, _ []byte) error {
		for i, c := range columns {
			cells[i] = c.cell(f)
		}
		return to.row(cells)
	})
	return errors.Join(err, to.end())
}
