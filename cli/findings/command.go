// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/exceptions"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/scanview"
)

// findingsOptions are the flags of the command findings.
type findingsOptions struct {
	session *session.Session
	client  client.WithWatch
	reader  *results.Reader

	filter  filter
	output  output
	reading results.Options
	onlyNew bool
	against string
	failOn  string
	// allowUnreached lets failOn pass a Scan whose scanner reached nothing.
	allowUnreached bool
	excepting      excepting
	choice         choice
	scan           *executionv1.Scan
}

// excepting are the flags about exceptions.
type excepting struct{ show, ignore bool }

func (x *excepting) bindFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&x.show, "show-excepted", false, "list excepted findings as well, in the table after the others")
	cmd.Flags().BoolVar(&x.ignore, "no-exceptions", false, "take no notice of exceptions")
	cmd.MarkFlagsMutuallyExclusive("show-excepted", "no-exceptions")
}

// read reads the exceptions that hold for a Scan; nil with --no-exceptions.
func (x *excepting) read(ctx context.Context, s *session.Session, c client.Client, scan *executionv1.Scan) *exception.Selection {
	if x.ignore {
		return nil
	}
	return exceptions.For(ctx, s, c, scan)
}

// NewFindingsCommand is "scanyard findings".
func NewFindingsCommand(s *session.Session) *cobra.Command {
	o := &findingsOptions{session: s}
	cmd := &cobra.Command{
		Use:     "findings SCAN | -l LABELS",
		Aliases: []string{"finding"},
		Short:   "Print the findings of a Scan, or of many",
		Long: `Print the findings of a Scan, the worst first, or write them in a format for other programs.

With --selector or --all-namespaces they are those of many Scans: of the last good run of each schedule
and of each target. Tables get a column SCAN, lists of objects a member "scan".

The findings are downloaded through the links in the status of the Scan. Links that have run out are
asked for anew: that changes an annotation of the Scan, so it needs the role "edit".

Formats of -o:
  table     the worst findings, as many as --limit says
  wide      the same with id, time and description
  json      an array of the findings as the parser wrote them
  jsonl     one finding per line
  yaml      a list
  csv       for spreadsheets; cells that would be formulas begin with an apostrophe
  sarif     SARIF 2.1.0, for code hosts
  junit     a test case per finding, for build servers; those of --fail-on, or of low and above, fail
  markdown  a summary with the worst findings
  html      one page that works by itself, with charts and filters

With --new, or --against, findings are compared by their fingerprint with those of another Scan:
the last good one of the same ScheduledScan, or else of the same target. The table
gets a column STATE, JSON a member "comparison".

A scan that has reached nothing, such as one of a host that does not respond, has no findings either: it is
said on stderr, and in the formats sarif, junit, markdown and html.

Findings that an exception suppresses do not count for --fail-on. Tables leave them out but for a line that
says how many there are; lists of objects have all findings, with a member "exception".

Exit codes: 0 printed, 1 errored, 2 printed, and there are findings of --fail-on or worse, 4 printed, and
with --fail-on: the scanner reached nothing. All filters apply before --fail-on looks.`,
		Example: `  # What is bad
  {{program}} findings nmap-example --min-severity medium

  # Let a pipeline fail on what is new and bad
  {{program}} findings nightly-1893499200 --new --fail-on high

  # What is open in all that belongs to a team, and in everything
  {{program}} findings -l team=blue --fail-on high
  {{program}} findings -A --min-severity high

  # For a code host, for a spreadsheet, for a browser
  {{program}} findings trivy-shop -o sarif -O shop.sarif
  {{program}} findings trivy-shop -o csv > shop.csv
  {{program}} findings trivy-shop -o html -O shop.html`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: complete.First(complete.Scans(s)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.choice.bindFlags(cmd)
	o.filter.bindFlags(cmd.Flags())
	o.output.bindFlags(cmd, append([]string{formatTable, formatWide, formatJSON, formatLines, formatYAML}, report.FormatNames()...)...)
	o.reading.BindFlags(cmd.Flags())
	o.excepting.bindFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.onlyNew, "new", false, "only findings that the previous run, or the Scan of --against, does not have")
	flags.StringVar(&o.against, "against", "", "compare with the findings of this `Scan`")
	flags.StringVar(&o.failOn, "fail-on", "", "exit with code 2 if there are findings of this "+orWorse)
	flags.BoolVar(&o.allowUnreached, "allow-unreached", false, allowUnreachedUsage)
	return cmd
}

// orWorse ends what is said of flags for a threshold.
const orWorse = "`severity` or a worse one; critical is by the CVSS score or the scanner's word"

const allowUnreachedUsage = "let --fail-on pass a scan that has reached nothing, instead of exit code 4; no error in JUnit"

func (o *findingsOptions) run(cmd *cobra.Command, args []string) (err error) {
	in := report.Input{FailOn: report.AtLeast(report.Low)}
	if o.failOn != "" {
		if in.FailOn, err = thresholdFlag("fail-on", o.failOn); err != nil {
			return err
		}
	}
	wanted, err := o.filter.compile()
	if err == nil {
		err = o.output.check(cmd)
	}
	if err == nil {
		err = o.choice.check(o, args)
	}
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if o.choice.isSet() {
		return o.runMany(ctx, in.FailOn, wanted)
	}
	scan, err := o.connect(ctx, args[0])
	if err != nil {
		return err
	}
	known, err := o.compareWith(ctx, scan)
	if err != nil {
		return err
	}
	source := o.reader.Source(scan, !o.output.isOnce())
	defer func() { err = errors.Join(err, source.Close()) }()
	o.scan = scan
	in.Findings, in.Scan, in.AllowUnreached = source.Each, facts(scan), o.allowUnreached
	if known != nil {
		in.Comparison = known
	}
	in.Exceptions = o.excepting.read(ctx, o.session, o.client, scan)
	in.Keep = func(e *report.Entry) bool { return (!o.onlyNew || e.State == compare.New) && wanted(e) }
	return o.print(ctx, in)
}

// connect finds the Scan, and makes the clients that read its results.
func (o *findingsOptions) connect(ctx context.Context, name string) (scan *executionv1.Scan, err error) {
	o.client, o.reader, scan, err = connect(ctx, o.session, o.reading, name)
	return scan, err
}

func connect(ctx context.Context, s *session.Session, reading results.Options, name string) (client.WithWatch, *results.Reader, *executionv1.Scan, error) {
	c, namespace, err := s.Connect()
	if err != nil {
		return nil, nil, nil, err
	}
	reader, err := results.New(s, c, reading)
	if err != nil {
		return nil, nil, nil, err
	}
	scan, err := s.Scan(ctx, c, namespace, name)
	return c, reader, scan, err
}

// facts are what reports say about a Scan.
func facts(s *executionv1.Scan) report.Scan {
	return report.Scan{
		Name: s.Name, Namespace: s.Namespace, Type: s.Spec.ScanType, Parameters: s.Spec.Parameters,
		Started: instant(&s.CreationTimestamp), Finished: instant(s.Status.FinishedAt),
		Reached: reached(s),
	}
}

func reached(s *executionv1.Scan) *report.Reached {
	c := scanview.Reached(s)
	if c.Status == "" {
		return nil
	}
	return &report.Reached{Status: string(c.Status), Message: c.Message}
}

func instant(at *metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// print writes the findings, and returns the error with the exit code.
func (o *findingsOptions) print(ctx context.Context, in report.Input) error {
	counts := tally{failOn: in.FailOn}
	counted := func(ctx context.Context, do func(*report.Entry) error) error {
		counts = tally{failOn: in.FailOn} // reset, since a source may be read again
		return in.Each(ctx, func(e *report.Entry) error {
			counts.add(e)
			if e.Excepted() && o.hidesExcepted() {
				return nil
			}
			return do(e)
		})
	}
	var said string
	err := o.output.write(o.session, func(out io.Writer) error {
		if o.output.isTable() {
			t := newTable(columnsOf(in.Comparison != nil, o.excepting.show, o.output.format == formatWide), o.output.limit)
			err := printTable(ctx, paintless(o.session, o.output.file != ""), out, t, counted)
			said = t.summary()
			return err
		}
		format, isReport := report.FormatNamed(o.output.format)
		switch {
		case !isReport:
			return printList(ctx, out, o.output.format, counted)
		case o.output.isOnce():
			keep := in.Keep
			in.Keep = func(e *report.Entry) bool {
				kept := keep(e)
				if kept {
					counts.add(e)
				}
				return kept
			}
			return in.WriteCSV(ctx, out)
		}
		r, err := report.New(ctx, in)
		if err != nil {
			return err
		}
		counts.total, counts.excepted, counts.failing = r.Total(), r.Excepted(), r.Failing()
		return r.Write(ctx, out, format)
	})
	if err != nil {
		return o.session.Explain(err)
	}
	return o.conclude(counts, said)
}

// tally counts findings: all, the excepted ones, and the others that reach a threshold.
type tally struct {
	failOn                   report.Threshold
	total, excepted, failing int
}

func (t *tally) add(e *report.Entry) {
	t.total++
	switch {
	case e.Excepted():
		t.excepted++
	case t.failOn.Reached(e):
		t.failing++
	}
}

// conclude prints the summary, and returns the error of --fail-on.
func (o *findingsOptions) conclude(counts tally, said string) error {
	unreached := view.Unreached(o.scan)
	switch doubt := view.ReachDoubt(o.scan); {
	case unreached != "":
		fmt.Fprintln(o.session.ErrOut, unreached)
	case doubt != "" && o.scan.Status.Findings.Count != nil && *o.scan.Status.Findings.Count == 0:
		fmt.Fprintln(o.session.ErrOut, doubt)
	}
	switch {
	case counts.total == 0 && (o.filter.isSet() || o.onlyNew):
		fmt.Fprintln(o.session.ErrOut, "no findings are left by the filters")
	case counts.total == 0:
		fmt.Fprintln(o.session.ErrOut, "no findings")
	case said != "":
		fmt.Fprintln(o.session.ErrOut, said)
	}
	return o.judge(counts, failUnreached(o.scan, o.allowUnreached))
}

// judge says how many findings a table leaves out, and returns the error of --fail-on. unreached is what --fail-on says of what was not reached.
func (o *findingsOptions) judge(counts tally, unreached error) error {
	if n := counts.excepted; n > 0 && o.hidesExcepted() {
		fmt.Fprintln(o.session.ErrOut, exceptedLine(n))
	}
	if o.failOn == "" {
		return nil
	}
	if err := failing(counts.failOn, "finding", counts.failing); err != nil {
		return err
	}
	return unreached
}

// hidesExcepted reports whether excepted findings are counted and not printed.
func (o *findingsOptions) hidesExcepted() bool { return o.output.isTable() && !o.excepting.show }

func exceptedLine(n int) string {
	if n == 1 {
		return "1 finding is excepted, --show-excepted lists it"
	}
	return fmt.Sprintf("%d findings are excepted, --show-excepted lists them", n)
}

// failUnreached ends with exit code 4 if the scanner of a Scan reached nothing.
func failUnreached(scan *executionv1.Scan, allowed bool) error {
	unreached := view.Unreached(scan)
	if unreached == "" || allowed {
		return nil
	}
	return session.Exit(session.CodeUnreached, fmt.Errorf("--fail-on: %s (--allow-unreached lets it pass)", unreached))
}

// failing ends with exit code 2 if there are findings that reach the threshold.
func failing(least report.Threshold, noun string, n int) error {
	if n == 0 {
		return nil
	}
	words := "%s of that severity or worse"
	if least.IsCritical() {
		words = "%s with a CVSS score of 9 or more, or that the scanner calls critical"
	}
	return session.Exit(session.CodeThreshold, fmt.Errorf("--fail-on %s: "+words, least, plural(n, noun)))
}
