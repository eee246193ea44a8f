// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

// Questions are created, never stored: the answer is what comes back.
var (
	findingQuery        = kind{reportsv1alpha1.SchemeGroupVersion.WithKind("FindingQuery"), "findingqueries", nil, false, ""}
	clusterFindingQuery = kind{reportsv1alpha1.SchemeGroupVersion.WithKind("ClusterFindingQuery"), "clusterfindingqueries", nil, true, ""}
)

// What is computed for each group: count by itself, the others beside it; the last two with a trend, instead of what is open.
const (
	count                  = "count"
	maxScore               = "maxScore"
	countDistinctResources = "countDistinctResources"
	meanTimeToFix          = "meanTimeToFix"
)

var aggregates = []string{maxScore, countDistinctResources, meanTimeToFix, "new", "fixed"}

// isCount tells whether a question is answered with groups, and not with findings.
func isCount(spec *reportsv1alpha1.FindingQuerySpec) bool {
	return spec.Trend != nil || len(spec.GroupBy) > 0 || spec.Aggregate != ""
}

const (
	maxRows   = 1000
	maxGroups = 10000
)

type queryOptions struct {
	session *session.Session
	all     bool
	groupBy []string
	// aggregate is what is counted of a group; "" is its findings.
	aggregate string
	trend     string
	fixed     string
	since     string
	sort      []string
	format    string
	limit     int32
	pages     bool
	exitCode  bool
	// suppressed counts findings that an exception accepts, too.
	suppressed bool
	of         imageFlags
}

func newQueryCommand(s *session.Session) *cobra.Command {
	o := &queryOptions{session: s}
	cmd := &cobra.Command{
		Use:   "query [FILTER]",
		Short: "Ask which findings there are, how many, and since when",
		Long: `Ask which findings there are, how many, and since when. The reports API server answers from its
database: for the namespace, or with --all-namespaces for the cluster if you may ask that.

A filter compares fields: namespace, source, policy, rule, category, severity, result, cvss, timestamp,
firstSeen, fixedAt, openFor, target, resource.kind, resource.name, report, suppressed, exception; of
images also package.type, package.version, fixable. Operators are
== != < <= > >= in, && || ! ( ), .startsWith('…') .contains('…') and has(field). Severities compare
by their rank: critical, high, medium, low, info. A range of --package is a version, or comparisons with
a comma between them, in the order of versions of the package's type.`,
		Example: examples(s, `  # The worst of the namespace
  {{reports}} query 'cvss >= 8'

  # Who has it
  {{reports}} query "policy == 'CVE-2024-3094'" -A

  # What is new since last week, by team
  {{reports}} query "severity >= 'high'" -A --since 7d --group-by namespace

  # What was fixed since last week
  {{reports}} query --fixed 7d
  # Open findings per day, and what was fixed
  {{reports}} query --trend 30d
  {{reports}} query --trend 30d --aggregate fixed
  # How long it takes to fix them, by severity
  {{reports}} query -A --aggregate meanTimeToFix --group-by severity

  # What can be fixed in the images that are there, and who has a package that is too old
  {{reports}} query -A --presence Present --fixable --group-by rule
  {{reports}} query -A --package 'lodash@>=4.0.0,<4.17.21'

  # Fail a pipeline
  {{reports}} query "severity == 'critical'" --exit-code`),
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter := ""
			if len(args) == 1 {
				filter = args[0]
			}
			return o.run(cmd.Context(), filter)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "ask about the findings of all namespaces")
	flags.StringSliceVar(&o.groupBy, "group-by", nil, "count by up to three fields, such as namespace,severity")
	flags.StringVar(&o.aggregate, "aggregate", "",
		"what is counted beside the number of findings: "+strings.Join(aggregates[:3], ", ")+
			"; with --trend "+strings.Join(aggregates[3:], " or ")+" instead of open ones")
	flags.StringVar(&o.trend, "trend", "", "open findings at the end of each day, by severity, for so long, such as 30d")
	flags.StringVar(&o.since, "since", "", "findings that were first seen within this time, such as 7d or 12h")
	flags.StringVar(&o.fixed, "fixed", "", "findings that were fixed within this time, such as 7d")
	flags.StringSliceVar(&o.sort, "sort", nil, "order by fields; - before a field puts its largest first, such as -cvss")
	flags.StringVarP(&o.format, "output", "o", "table", "print as "+strings.Join(queryFormats, ", "))
	flags.Int32Var(&o.limit, "limit", 100, "how many rows or groups to print")
	flags.BoolVar(&o.pages, "all", false, "print all rows or groups, fetched in pages")
	flags.BoolVar(&o.exitCode, "exit-code", false, "end with exit code 2 where something is found")
	flags.BoolVar(&o.suppressed, "include-suppressed", false, "count findings that an exception accepts, too")
	o.of.bind(flags)
	// Fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(queryFormats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("aggregate", cobra.FixedCompletions(aggregates, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *queryOptions) run(ctx context.Context, filter string) error {
	spec, err := o.spec(filter)
	if err != nil {
		return err
	}
	out, err := newAnswerPrinter(o.format, spec, o.fixed != "", o.session)
	if err != nil {
		return err
	}
	k := findingQuery
	if o.all {
		k = clusterFindingQuery
	}
	t, err := open(o.session, k, false)
	if err != nil {
		return err
	}
	found := 0
	for {
		answer, err := ask(ctx, t, spec)
		if err != nil {
			return explain(o.session, k, o.of.explain(err))
		}
		found += len(answer.Rows) + len(answer.Groups)
		if err := out.page(answer); err != nil {
			return err
		}
		if spec.Continue = answer.Continue; !o.pages || spec.Continue == "" {
			if err := out.end(); err != nil {
				return err
			}
			o.tellRest(answer, found)
			break
		}
	}
	if o.exitCode && found > 0 {
		return session.Exit(session.CodeThreshold, nil)
	}
	return nil
}

// tellRest says on stderr what is not shown.
func (o *queryOptions) tellRest(last *reportsv1alpha1.FindingQueryStatus, found int) {
	switch {
	case found == 0:
		fmt.Fprintln(o.session.ErrOut, "Nothing found.")
	case last.Continue == "":
	case last.Total != nil:
		fmt.Fprintf(o.session.ErrOut, "Shown are %d of %d; --all shows the rest.\n", found, *last.Total)
	default:
		fmt.Fprintf(o.session.ErrOut, "Shown are %d, and there are more; --all shows the rest.\n", found)
	}
}

// ask creates the question; the object that comes back has the answer.
func ask(ctx context.Context, t *target, spec *reportsv1alpha1.FindingQuerySpec) (*reportsv1alpha1.FindingQueryStatus, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return nil, fmt.Errorf("write the question: %w", err)
	}
	q := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	q.SetGroupVersionKind(t.kind.gvk)
	got, err := t.resource.Create(ctx, q, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	answer := &reportsv1alpha1.FindingQuery{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, answer); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return &answer.Status, nil
}

// spec makes the question of the flags.
func (o *queryOptions) spec(filter string) (*reportsv1alpha1.FindingQuerySpec, error) {
	spec := &reportsv1alpha1.FindingQuerySpec{
		Filter: filter, GroupBy: o.groupBy, Aggregate: o.aggregate, Limit: o.limit, IncludeSuppressed: o.suppressed,
	}
	if o.aggregate != "" && o.aggregate != count && !slices.Contains(aggregates, o.aggregate) {
		return nil, fmt.Errorf("--aggregate %s is not known: choose %s or one of %s", o.aggregate, count, strings.Join(aggregates, ", "))
	}
	if o.trend != "" {
		if len(o.groupBy) > 0 {
			return nil, errors.New("--trend counts by day and severity: leave out --group-by")
		}
		d, err := session.ParsePeriod(o.trend, maxPeriod)
		if err != nil {
			return nil, fmt.Errorf("--trend %w", err)
		}
		spec.Trend = &reportsv1alpha1.TrendQuery{Days: int32(d / session.Day)}
		if spec.Trend.Days == 0 {
			return nil, fmt.Errorf("--trend %s is less than a day: write days, such as 30d", o.trend)
		}
	}
	if err := o.times(spec); err != nil {
		return nil, err
	}
	o.of.ask(spec)
	for _, field := range o.sort {
		order := "asc"
		if rest, descending := strings.CutPrefix(field, "-"); descending {
			field, order = rest, "desc"
		}
		spec.Sort = append(spec.Sort, reportsv1alpha1.SortKey{Field: field, Order: order})
	}
	most := int32(maxRows)
	if isCount(spec) {
		most = maxGroups
	}
	if o.limit < 1 || o.limit > most {
		return nil, fmt.Errorf("--limit %d must be between 1 and %d: --all fetches all, page by page", o.limit, most)
	}
	if o.pages {
		spec.Limit = most
	}
	return spec, nil
}

// times bounds when findings were first seen, and when they were fixed.
func (o *queryOptions) times(spec *reportsv1alpha1.FindingQuerySpec) error {
	if o.since != "" {
		d, err := session.ParsePeriod(o.since, maxPeriod)
		if err != nil {
			return fmt.Errorf("--since %w", err)
		}
		spec.Since = &metav1.Duration{Duration: d}
	}
	if o.fixed != "" {
		d, err := session.ParsePeriod(o.fixed, maxPeriod)
		if err != nil {
			return fmt.Errorf("--fixed %w", err)
		}
		from := o.session.Now().Add(-d).UTC().Format(time.RFC3339)
		spec.Where = []reportsv1alpha1.Term{{Field: "fixedAt", Op: ">=", Value: from}}
	}
	return nil
}

// maxPeriod is the most that the server keeps.
const maxPeriod = 400 * session.Day
