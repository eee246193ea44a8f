// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	chosen

	session *session.Session
	since   string
	all     bool
	failOn  string
}

// mostSince is as far back as the server remembers.
const mostSince = 400 * session.Day

func newDiffCommand(s *session.Session) *cobra.Command {
	o := &diffOptions{session: s}
	cmd := &cobra.Command{
		Use:   "diff REF [REF]",
		Short: "Compare the vulnerabilities of two images, or of one image with earlier times",
		Long: `Compare the vulnerabilities of two images: what is new in the second one, and what it no longer has.
With --since and one image: which of its vulnerabilities were first seen within that time, and which it no
longer has since.

A vulnerability is the same where its id, its package and the place of the package are. What an exception
suppresses does not count.

Exit codes: 0 done, 1 errored, 2 new vulnerabilities of the severity of --fail-on or above.`,
		Example: `  {{program}} registry diff shop/api:1.1 shop/api:1.2
  {{program}} registry diff shop/api:1.2 --since 7d --fail-on high`,
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "", "compare one image with how it was so long ago, such as 7d or 12h")
	f.BoolVar(&o.all, "all", false, "also list what has not changed")
	f.StringVar(&o.failOn, "fail-on", "", "exit with code 2 when there are new vulnerabilities of this `severity` or above")
	return cmd
}

// What has become of a vulnerability.
const (
	changeNew   = "new"
	changeFixed = "fixed"
	changeKnown = "unchanged"
)

// change is a vulnerability and what has become of it.
type change struct {
	what    string
	finding *reportsv1.VulnerabilityFinding
}

func (o *diffOptions) run(ctx context.Context, args []string) (err error) {
	if o.failOn != "" {
		if o.failOn, err = parseSeverity("fail-on", o.failOn); err != nil {
			return err
		}
	}
	var changes []change
	what := args[len(args)-1]
	switch {
	case len(args) == 2 && o.since != "":
		return errors.New("--since compares one image with earlier times: leave out the second one")
	case len(args) == 1 && o.since == "":
		return errors.New("name a second image, or give --since, such as --since 7d")
	}
	r, err := newReader(o.session)
	if err != nil {
		return err
	}
	if len(args) == 2 {
		changes, err = o.between(ctx, r, args[0], args[1])
	} else {
		changes, err = o.lately(ctx, r, args[0])
	}
	if err != nil {
		return err
	}
	found := make([]int64, len(severities))
	number := map[string]int{}
	for _, c := range changes {
		if number[c.what]++; c.what == changeNew {
			found[rank(c.finding.Severity)]++
		}
	}
	if err := o.print(changes); err != nil {
		return err
	}
	fmt.Fprintf(o.session.ErrOut, "%d new, %d fixed, %d unchanged.\n", number[changeNew], number[changeFixed], number[changeKnown])
	if o.failOn == "" {
		return nil
	}
	return threshold("what is new in "+what, found, o.failOn)
}

// findingsOf reads the findings of an image that count, by what they are known by.
func (o *diffOptions) findingsOf(ctx context.Context, r *reader, text string) (map[string]*reportsv1.VulnerabilityFinding, error) {
	image, err := r.image(ctx, text, o.chosen)
	if err != nil {
		return nil, err
	}
	if image.Status.ScannedAt == nil {
		return nil, fmt.Errorf("%s has no report yet: it is %s", called(image), image.Status.State)
	}
	found := map[string]*reportsv1.VulnerabilityFinding{}
	err = r.eachFinding(ctx, image.Namespace, image.Name, func(f *reportsv1.VulnerabilityFinding, _ []byte) error {
		found[strings.Join([]string{f.VulnerabilityID, f.Package.Type, f.Package.Name, f.Target}, "\x00")] = f
		return nil
	}, "suppressed", "false")
	return found, explainReports(o.session, err)
}

func (o *diffOptions) between(ctx context.Context, r *reader, first, second string) ([]change, error) {
	before, err := o.findingsOf(ctx, r, first)
	if err != nil {
		return nil, err
	}
	after, err := o.findingsOf(ctx, r, second)
	if err != nil {
		return nil, err
	}
	var changes []change
	for key, f := range after {
		what := changeNew
		if before[key] != nil {
			what = changeKnown
		}
		changes = append(changes, change{what, f})
	}
	for key, f := range before {
		if after[key] == nil {
			changes = append(changes, change{changeFixed, f})
		}
	}
	return changes, nil
}

// lately compares an image with how it was.
func (o *diffOptions) lately(ctx context.Context, r *reader, text string) ([]change, error) {
	period, err := session.ParsePeriod(o.since, mostSince)
	if err != nil {
		return nil, fmt.Errorf("--since %w", err)
	}
	now, err := o.findingsOf(ctx, r, text)
	if err != nil {
		return nil, err
	}
	from := o.session.Now().Add(-period)
	gone, err := o.goneSince(ctx, r, text, from)
	return append(since(now, from), gone...), err
}

// goneSince are the vulnerabilities that an image has had, and that were fixed at a time or later. The reports API keeps of them what they
// were, in which package, and how severe.
func (o *diffOptions) goneSince(ctx context.Context, r *reader, text string, from time.Time) (gone []change, err error) {
	image, err := r.image(ctx, text, o.chosen)
	if err != nil {
		return nil, err
	}
	of := reportsv1.ImageRef{
		Registry: &image.Spec.Registry, Repository: image.Spec.Repository, Tag: image.Spec.Tag, Digest: image.Spec.Digest, Platform: image.Spec.Platform,
	}
	q := &reportsv1.FindingQuery{ObjectMeta: metav1.ObjectMeta{Namespace: image.Namespace}}
	q.Spec.Limit, q.Spec.Where = maxRows, []reportsv1.Term{
		{Field: "target", Op: "==", Value: of.Target()}, {Field: "fixedAt", Op: ">=", Value: from.UTC().Format(time.RFC3339)},
	}
	for {
		asked := q.DeepCopy()
		if err := r.Create(ctx, asked); err != nil {
			return nil, explainReports(o.session, err)
		}
		for i := range asked.Status.Rows {
			row := &asked.Status.Rows[i]
			gone = append(gone, change{changeFixed, &reportsv1.VulnerabilityFinding{
				VulnerabilityID: row.Policy, Package: reportsv1.VulnerablePackage{Name: row.Rule}, Severity: cmp.Or(strings.ToUpper(row.Severity), "UNKNOWN"),
				FirstSeenAt: row.FirstSeen,
			}})
		}
		if q.Spec.Continue = asked.Status.Continue; q.Spec.Continue == "" {
			return gone, nil
		}
	}
}

// since tells apart what was first seen at a time or later.
func since(findings map[string]*reportsv1.VulnerabilityFinding, from time.Time) []change {
	changes := make([]change, 0, len(findings))
	for _, f := range findings {
		what := changeKnown
		if f.FirstSeenAt != nil && !f.FirstSeenAt.Time.Before(from) {
			what = changeNew
		}
		changes = append(changes, change{what, f})
	}
	return changes
}

func (o *diffOptions) print(changes []change) error {
	order := []string{changeNew, changeFixed, changeKnown}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(slices.Index(order, a.what)-slices.Index(order, b.what), rank(a.finding.Severity)-rank(b.finding.Severity),
			strings.Compare(a.finding.VulnerabilityID, b.finding.VulnerabilityID), strings.Compare(a.finding.Package.Name, b.finding.Package.Name),
			strings.Compare(a.finding.Target, b.finding.Target))
	})
	if !o.all {
		changes = slices.DeleteFunc(changes, func(c change) bool { return c.what == changeKnown })
	}
	if len(changes) == 0 {
		return nil
	}
	d := document{session: o.session, format: formatTable}
	return d.write(func(out io.Writer) error { return printChanges(d.table(out), changes) })
}

func printChanges(table *tableRows, changes []change) error {
	columns := columnsOf(&reportsv1.Image{}, false)
	cells := []string{"CHANGE"}
	for _, c := range columns {
		cells = append(cells, c.name)
	}
	if err := table.row(cells); err != nil {
		return err
	}
	for _, c := range changes {
		cells = append(cells[:0], c.what)
		for _, column := range columns {
			cells = append(cells, column.cell(c.finding))
		}
		if err := table.row(cells); err != nil {
			return err
		}
	}
	return table.end()
}
