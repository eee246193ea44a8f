// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/report"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	session     *session.Session
	reading     results.Options
	fingerprint string
	limit       int
}

func newExplainCommand(s *session.Session) *cobra.Command {
	o := &explainOptions{session: s}
	cmd := &cobra.Command{
		Use:   "explain SCAN",
		Short: "Say which exception holds for each finding of a Scan, and why the others do not",
		Long: `Say for each finding of a Scan which exception holds, and for each exception that holds for none why:
the field that leaves the Scan out, or those that the findings do not meet.

With --fingerprint it says so of one finding, with every exception that does not match it.`,
		Example: `  {{program}} exceptions explain trivy-shop
  {{program}} exceptions explain trivy-shop --fingerprint 2f1a…`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete.First(complete.Scans(s)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.limit < 0 {
				return fmt.Errorf("--limit is %d, want 0 for all or more", o.limit)
			}
			return o.run(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&o.fingerprint, "fingerprint", "", "only the finding with this `fingerprint`")
	cmd.Flags().IntVar(&o.limit, "limit", 100, "how many excepted `findings` are printed; 0 for all")
	o.reading.BindFlags(cmd.Flags())
	return cmd
}

func (o *explainOptions) run(ctx context.Context, name string) (err error) {
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	scan, err := o.session.Scan(ctx, c, namespace, name)
	if err != nil {
		return err
	}
	reader, err := results.New(o.session, c, o.reading)
	if err != nil {
		return err
	}
	of := NewLoader(o.session, c).of(ctx, scan.Namespace)
	e := explainer{
		options: o, list: of.list, scan: of.scan(scan), uses: make([]int, len(of.list)), reasons: make([]map[string]int, len(of.list)),
	}
	e.why = exception.NewExplainer(of.list, o.session.Now(), e.scan)
	source := reader.Source(scan, false)
	defer func() { err = errors.Join(err, source.Close()) }()
	in := report.Input{Findings: source.Each, Exceptions: of.matcher.For(e.scan)}
	if err := in.Each(ctx, e.add); err != nil {
		return o.session.Explain(err)
	}
	return e.end()
}

// explainer says what it sees of each finding, and at the end of each exception.
type explainer struct {
	options *explainOptions
	list    []exception.Exception
	scan    exception.Scan
	why     *exception.Explainer
	// uses are findings by the exception that holds for them, reasons what the others did not meet.
	uses            []int
	reasons         []map[string]int
	total, excepted int
}

func (e *explainer) add(entry *report.Entry) error {
	if e.options.fingerprint != "" && entry.Fingerprint != e.options.fingerprint {
		return nil
	}
	e.total++
	out := e.options.session.Out
	if m := entry.Exception; m != nil {
		e.excepted++
		if e.options.limit == 0 || e.excepted <= e.options.limit {
			fmt.Fprintf(out, "%s  %s\n    %s by %s %s: %s\n", entry.Severity, title(entry), m.Status, m.Kind, m.Name, termsafe.Line(m.Reason))
		}
	} else if e.options.fingerprint != "" {
		fmt.Fprintf(out, "%s  %s\n    no exception holds\n", entry.Severity, title(entry))
	}
	value, err := finding.DecodeValue(entry.Element, 0)
	if err != nil {
		return fmt.Errorf("read finding: %w", err)
	}
	object, _ := value.(finding.Object)
	for i, miss := range e.why.Explain(object) {
		switch {
		case miss == nil:
			e.uses[i]++
		case e.uses[i] > 0: // it matches another one: why it does not match this one is not asked
		default:
			if e.reasons[i] == nil {
				e.reasons[i] = map[string]int{}
			}
			e.reasons[i][reason(miss)]++
		}
	}
	return nil
}

func title(entry *report.Entry) string {
	text := entry.Name
	if entry.Location != "" {
		text += "  " + entry.Location
	}
	return termsafe.Fit(termsafe.Line(text), 160)
}

func reason(m *exception.Miss) string {
	text := strings.Join(m.Fields, ", ")
	if m.Err != nil {
		text += ": " + m.Err.Error()
	}
	return text
}

func (e *explainer) end() error {
	s := e.options.session
	if e.options.fingerprint != "" && e.total == 0 {
		return fmt.Errorf("no finding of the Scan has the fingerprint %s", e.options.fingerprint)
	}
	if shown := e.options.limit; shown > 0 && e.excepted > shown {
		fmt.Fprintf(s.ErrOut, "%d more excepted findings (--limit 0 shows all)\n", e.excepted-shown)
	}
	for i := range e.list {
		if e.uses[i] > 0 || e.total == 0 {
			continue
		}
		var all []string
		for text := range e.reasons[i] {
			all = append(all, text)
		}
		slices.SortFunc(all, func(a, b string) int { return e.reasons[i][b] - e.reasons[i][a] })
		fmt.Fprintf(s.Out, "%s %s matches none: %s\n", e.list[i].Kind(), e.list[i].Name, termsafe.Fit(termsafe.Line(strings.Join(all, "; ")), 400))
	}
	fmt.Fprintf(s.ErrOut, "%d of %d findings are excepted by %d exceptions\n", e.excepted, e.total, len(e.list))
	return nil
}
