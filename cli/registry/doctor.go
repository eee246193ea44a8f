// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

func newDatabasesCommand(s *session.Session) *cobra.Command {
	out := output.New(s, "", true)
	cmd := &cobra.Command{
		Use:     "db",
		Aliases: []string{"databases"},
		Short:   "Show which vulnerability data there is, and how old it is",
		Long:    `Show the vulnerability data of each adapter: its version, when it was built, and whether it is fresh.`,
		Example: `  {{program}} registry db`,
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return explainReports(s, databases(cmd.Context(), s, out))
		},
	}
	out.Bind(cmd)
	return cmd
}

func databases(ctx context.Context, s *session.Session, out *output.Flags) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	table, wide := out.Table()
	if !table {
		list := &reportsv1.VulnerabilityDatabaseList{}
		if err := c.List(ctx, list); err != nil {
			return err
		}
		return out.Print(s, list)
	}
	tables, err := output.NewTables(s, reportsv1.SchemeGroupVersion.WithKind("VulnerabilityDatabase"))
	if err != nil {
		return err
	}
	show, rows := output.PrintTables(s.Out, output.TableOptions{Wide: wide, Columns: s.Columns}), 0
	_, err = tables.List(ctx, "", metav1.ListOptions{}, func(t *metav1.Table) error {
		if rows += len(t.Rows); len(t.Rows) == 0 {
			return nil
		}
		return show(t)
	})
	if err == nil && rows == 0 {
		fmt.Fprintln(s.ErrOut, "There is no vulnerability data yet: workers fetch it when the chart registry names it (database.*.repository).")
	}
	return err
}

// Grades of checks.
const (
	gradeOK   = "ok"
	gradeWarn = "warn"
	gradeFail = "FAIL"
)

// checkup prints results of checks, and counts them.
type checkup struct {
	session        *session.Session
	failed, warned int
}

func newDoctorCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check registry scanning in this namespace, and say what to do",
		Long: `Check registry scanning in this namespace: are the kinds and the reports API there, is there fresh
vulnerability data, are the Registries ready and reached, and does anything hang?

Exit codes: 0 all is well, or only warnings; 1 something does not work.`,
		Example: `  {{program}} registry doctor`,
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &checkup{session: s}
			return d.run(cmd.Context())
		},
	}
}

var grades = map[string]session.Paint{gradeOK: session.Good, gradeWarn: session.Warn, gradeFail: session.Bad}

func (d *checkup) report(grade, check, says, remedy string) {
	switch grade {
	case gradeFail:
		d.failed++
	case gradeWarn:
		d.warned++
	}
	s := d.session
	fmt.Fprintf(s.Out, "%s  %-20s %s\n", s.Paint(grades[grade], fmt.Sprintf("%-4s", grade)), check, termsafe.Line(says))
	if remedy != "" {
		fmt.Fprintf(s.Out, "      %-20s %s %s\n", "", s.Paint(session.Note, "→"), remedy)
	}
}

func (d *checkup) run(ctx context.Context) error {
	r, err := newReader(d.session)
	if err != nil {
		return err
	}
	registries := &registryv1alpha1.RegistryList{}
	if err := r.List(ctx, registries, client.InNamespace(r.namespace)); err != nil {
		return explain(d.session, err)
	}
	d.report(gradeOK, "Registries", fmt.Sprintf("%d in namespace %s", len(registries.Items), r.namespace), "")
	if d.reportsAPI(ctx, r) {
		d.data(ctx, r)
	}
	for i := range registries.Items {
		if err := d.registry(ctx, r, &registries.Items[i]); err != nil {
			return explain(d.session, err)
		}
	}
	switch {
	case d.failed > 0:
		return session.Exit(session.CodeErrored, fmt.Errorf("%d of the checks failed", d.failed))
	case d.warned > 0:
		fmt.Fprintln(d.session.Out, "It works, with warnings.")
	default:
		fmt.Fprintln(d.session.Out, "All is well.")
	}
	return nil
}

// errEnough ends a list that was only asked whether it is answered.
var errEnough = errors.New("enough")

// reportsAPI asks for one page of Images.
func (d *checkup) reportsAPI(ctx context.Context, r *reader) bool {
	err := r.eachImage(ctx, r.namespace, fields.Set{}, func(*reportsv1.Image) error { return errEnough })
	if err != nil && !errors.Is(err, errEnough) {
		d.report(gradeFail, "reports API", explainReports(d.session, err).Error(), "kubectl get apiservice v1alpha1.reports.scanyard.io says whether it is Available")
		return false
	}
	d.report(gradeOK, "reports API", "answers", "")
	return true
}

// data looks at the vulnerability data of each adapter.
func (d *checkup) data(ctx context.Context, r *reader) {
	list := &reportsv1.VulnerabilityDatabaseList{}
	if err := r.List(ctx, list); err != nil {
		d.report(gradeFail, "vulnerability data", explainReports(d.session, err).Error(), "")
		return
	}
	if len(list.Items) == 0 {
		d.report(gradeWarn, "vulnerability data", "no worker has fetched any yet", "name it in the values of the chart registry: database.*.repository")
	}
	for i := range list.Items {
		db := &list.Items[i]
		says := "data of " + db.Name + suffix(", built ", stamp(db.Status.BuiltAt, d.session.Now()))
		grade := gradeOK
		for _, kind := range []string{"Fresh", "Available"} {
			if c := meta.FindStatusCondition(db.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
				grade, says = gradeWarn, says+", not "+kind+suffix(": ", c.Message)
			}
		}
		d.report(grade, "vulnerability data", says, "")
	}
}

// registry looks at the conditions of a Registry and at its jobs.
func (d *checkup) registry(ctx context.Context, r *reader, registry *registryv1alpha1.Registry) error {
	grade, says := gradeOK, "ready"
	for _, c := range registry.Status.Conditions {
		if c.Status != metav1.ConditionFalse {
			continue
		}
		switch {
		case c.Reason == registryv1alpha1.ReasonSuspended, c.Type == registryv1alpha1.ConditionSecure, c.Type == registryv1alpha1.ConditionUpToDate,
			c.Type == registryv1alpha1.ConditionCatalogAvailable:
			if grade == gradeOK {
				grade, says = gradeWarn, c.Reason+suffix(": ", c.Message)
			}
		default:
			grade, says = gradeFail, c.Reason+suffix(": ", c.Message)
		}
	}
	if len(registry.Status.Conditions) == 0 {
		grade, says = gradeFail, "the registry controller has not looked at it: is it running?"
	}
	remedy := ""
	if advice := adviceOf(d.session, registry); grade != gradeOK && len(advice) > 0 && len(registry.Status.Conditions) > 0 {
		remedy = advice[0]
	}
	d.report(grade, "registry "+registry.Name, says, remedy)
	jobs, err := jobsOf(ctx, r, registry)
	for _, job := range jobs {
		c := meta.FindStatusCondition(statusOf(job).Conditions, registryv1alpha1.ConditionProgressing)
		if c != nil && c.Status == metav1.ConditionFalse {
			d.report(gradeWarn, "job "+job.GetName(), c.Reason+suffix(": ", c.Message), "")
		}
	}
	return err
}
