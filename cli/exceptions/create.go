// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/report"
)

// createOptions are the flags of create.
type createOptions struct {
	options
	output  *output.Flags
	reading results.Options
	from    string
	status  string
	expires string
	dryRun  bool
	spec    settingsv1alpha2.ExceptionSpec
	entry   settingsv1alpha2.ExceptionEntry
	justify string
	scope   settingsv1alpha2.ExceptionScope
}

// statuses are those of exceptions, by what a user may type for them.
var statuses = []settingsv1alpha2.ExceptionStatus{
	settingsv1alpha2.ExceptionAccepted, settingsv1alpha2.ExceptionFalsePositive, settingsv1alpha2.ExceptionNotAffected,
	settingsv1alpha2.ExceptionMitigated, settingsv1alpha2.ExceptionUnderInvestigation,
}

func statusNames() (names []string) {
	for _, s := range statuses {
		names = append(names, string(s))
	}
	return names
}

func newCreateCommand(s *session.Session) *cobra.Command {
	o := &createOptions{options: options{session: s}, output: output.New(s, "created", false)}
	cmd := &cobra.Command{
		Use:   "create [NAME]",
		Short: "Make an exception",
		Long: `Make an exception. A finding is excepted where it meets all of the flags that say which findings
are meant; a flag that is given several times is met by one of its values. Names, categories
and locations may have * for any text and ? for one character.

With --from the fingerprints must be those of findings of that Scan, so that a typo is told.

Without a NAME the exception is called after its status and what it matches, so that making the
same one twice is refused.`,
		Example: `  # The usual way: one finding of a Scan
  {{program}} exceptions create --from trivy-shop --fingerprint 2f1a… --status Accepted --reason "Fixed by the release of March" --expires 90d

  # A vulnerability that cannot be used, in all versions below the fix
  {{program}} exceptions create --package 'pkg:npm/lodash?vers=vers:npm/<4.17.21' --status NotAffected ` +
			`--justification vulnerable_code_not_in_execute_path --reason "template() is not called"`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.spec.Reason = strings.TrimSpace(o.spec.Reason)
			return o.run(cmd.Context(), slices.Concat(args, []string{""})[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "the `Scan` that has the findings of --fingerprint")
	f.StringArrayVar(&o.entry.Fingerprints, "fingerprint", nil, "findings with this `fingerprint`")
	f.StringArrayVar(&o.entry.Names, "name", nil, "findings whose name matches this `glob`")
	f.StringArrayVar(&o.entry.Categories, "category", nil, "findings whose category matches this `glob`")
	f.StringArrayVar(&o.entry.Locations, "location", nil, "findings whose location matches this `glob`")
	f.StringArrayVar(&o.entry.References, "reference", nil, "findings with this `reference`, such as CVE-2024-3094 or CWE-79")
	f.StringArrayVar(&o.entry.Packages, "package", nil, "findings about this package `URL`; ?vers= takes a range of versions")
	f.StringArrayVar(&o.entry.Products, "product", nil, "findings about this `image`: a glob on its reference, or its digest")
	f.StringSliceVar(&o.entry.Severities, "severity", nil, "findings of these `severities`")
	f.StringVar(&o.entry.Expression, "expression", "", "findings for which this CEL `expression` over finding is true")
	f.StringArrayVar(&o.scope.ScanTypes, "scan-type", nil, "only for Scans whose type matches this `glob`")
	f.StringArrayVar(&o.scope.Scans, "scan", nil, "only for Scans whose name matches this `glob`")
	f.StringArrayVar(&o.scope.Targets, "target", nil, "only for Scans whose label scanyard.io/target matches this `glob`")
	f.StringVar(&o.status, "status", "", "`why`: "+strings.Join(statusNames(), ", "))
	f.StringVar(&o.justify, "justification", "", "with --status NotAffected: a `justification` of OpenVEX")
	f.StringVar(&o.spec.Reason, "reason", "", "the reason in `words`, for the auditor in a year")
	f.StringVar(&o.expires, "expires", "", "`when` it ends: 90d, 2027-01-31, 2027-01-31T12:00:00Z; --status Accepted needs it")
	f.StringVar(&o.spec.Reviewer, "reviewer", "", "`who` has agreed")
	f.StringVar(&o.spec.Ticket, "ticket", "", "the `URL` where it was decided")
	f.BoolVar(&o.dryRun, "dry-run", false, "let the API server check the exception without keeping it")
	o.bindCluster(cmd)
	o.output.Bind(cmd)
	o.reading.BindFlags(f)
	// The only error is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statusNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("from", complete.Scans(s))
	return cmd
}

// check reads the flags that no server need be asked about.
func (o *createOptions) check() error {
	if err := o.output.Check(); err != nil {
		return err
	}
	at := slices.IndexFunc(statuses, func(s settingsv1alpha2.ExceptionStatus) bool { return strings.EqualFold(string(s), o.status) })
	if at < 0 {
		return fmt.Errorf("--status %q must be one of %s", o.status, strings.Join(statusNames(), ", "))
	}
	o.spec.Status, o.spec.Justification = statuses[at], settingsv1alpha2.Justification(o.justify)
	if o.spec.Reason == "" {
		return errors.New("--reason must say why, for the auditor in a year")
	}
	for i, text := range o.entry.Severities {
		severity, ok := report.ParseSeverity(text)
		if !ok {
			return fmt.Errorf("--severity %q must be one of %s", text, strings.ToLower(strings.Join(report.SeverityNames(), ", ")))
		}
		o.entry.Severities[i] = severity.String()
	}
	if o.expires != "" {
		end, err := endOf(o.expires, o.session.Now())
		if err != nil {
			return fmt.Errorf("--expires: %w", err)
		}
		stamp := metav1.NewTime(end)
		o.spec.ExpiresAt = &stamp
	}
	o.spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{o.entry}
	namespace := "namespace" // of the kind; which one does not count here
	if o.cluster {
		namespace = ""
	}
	if problem := exception.Check(exception.Exception{Namespace: namespace, Spec: o.spec}); problem != nil {
		return errors.New(problem.String())
	}
	if o.from != "" && len(o.entry.Fingerprints) == 0 {
		return errors.New("--from goes with --fingerprint, which findings of the Scan have: see " + o.session.Suggest("findings", o.from, "-o", "json"))
	}
	return nil
}

func (o *createOptions) run(ctx context.Context, name string) error {
	if err := o.check(); err != nil {
		return err
	}
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	if o.from != "" {
		if err := o.checkFingerprints(ctx, c, namespace); err != nil {
			return err
		}
	}
	object, err := o.object(namespace, name)
	if err != nil {
		return err
	}
	var options []client.CreateOption
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := c.Create(ctx, object, options...); err != nil {
		return o.session.Explain(fmt.Errorf("create %s: %w", o.kind().Kind, err))
	}
	if o.output.Set() {
		return o.output.Print(o.session, object)
	}
	word := "created"
	if o.dryRun {
		word += " (dry run)"
	}
	fmt.Fprintf(o.session.Out, "%s/%s %s\n", strings.ToLower(o.kind().Kind), object.GetName(), word)
	return nil
}

func (o *createOptions) object(namespace, name string) (client.Object, error) {
	raw, err := json.Marshal([]any{o.spec.Match, o.scope})
	if err != nil {
		return nil, fmt.Errorf("name the exception: %w", err)
	}
	name = cmp.Or(name, fmt.Sprintf("%s-%x", strings.ToLower(string(o.spec.Status)), sha256.Sum256(raw))[:len(o.spec.Status)+11])
	scoped := len(o.scope.ScanTypes)+len(o.scope.Scans)+len(o.scope.Targets) > 0
	if o.cluster {
		e := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{Name: name}}
		e.Spec.ExceptionSpec = o.spec
		if scoped {
			e.Spec.Scope = &settingsv1alpha2.ClusterExceptionScope{ExceptionScope: o.scope}
		}
		return e, nil
	}
	e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	e.Spec.ExceptionSpec = o.spec
	if scoped {
		e.Spec.Scope = &o.scope
	}
	return e, nil
}

// checkFingerprints looks for the fingerprints among the findings of the Scan.
func (o *createOptions) checkFingerprints(ctx context.Context, c client.WithWatch, namespace string) (err error) {
	scan, err := o.session.Scan(ctx, c, namespace, o.from)
	if err != nil {
		return err
	}
	reader, err := results.New(o.session, c, o.reading)
	if err != nil {
		return err
	}
	source := reader.Source(scan, false)
	defer func() { err = errors.Join(err, source.Close()) }()
	in := report.Input{Findings: source.Each}
	missing := map[string]bool{}
	for _, f := range o.entry.Fingerprints {
		missing[f] = true
	}
	if err := in.Each(ctx, func(e *report.Entry) error { delete(missing, e.Fingerprint); return nil }); err != nil {
		return o.session.Explain(err)
	}
	for _, f := range o.entry.Fingerprints {
		if missing[f] {
			return fmt.Errorf("--fingerprint %s: no finding of Scan %s has it; see %s", f, o.from, o.session.Suggest("findings", o.from, "-o", "json"))
		}
	}
	return nil
}
