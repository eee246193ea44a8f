// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/exception"
)

func newDescribeCommand(s *session.Session) *cobra.Command {
	o := &options{session: s}
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: "Show exceptions: what they except and why, who made them, and whether they hold",
		Long: `Show exceptions: what they except and why, for which Scans and until when, who made and who
changed them, how many findings they match in the latest runs, and whether they hold.`,
		Example: `  {{program}} exceptions describe accepted-3f0a9c2b17
  {{program}} exceptions describe --cluster-wide lodash-template`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: o.names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := s.Connect()
			if err != nil {
				return err
			}
			for i, name := range args {
				if i > 0 {
					fmt.Fprintln(s.Out)
				}
				if err := o.describe(cmd.Context(), c, namespace, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	o.bindCluster(cmd)
	return cmd
}

// fields prints names and values in two columns.
type fields struct{ *output.Wrapped }

func (o *options) describe(ctx context.Context, c client.Client, namespace, name string) error {
	object, _, err := o.get(ctx, c, namespace, name)
	if err != nil {
		return err
	}
	var e exception.Exception
	var status *settingsv1alpha2.FindingExceptionStatus
	switch x := object.(type) {
	case *settingsv1alpha2.FindingException:
		e, status = exception.Of(x), &x.Status
	case *settingsv1alpha2.ClusterFindingException:
		e, status = exception.OfCluster(x), &x.Status
	}
	w := &fields{output.NewWrapped(o.session, o.session.Out)}
	w.Field(e.Kind(), strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"))
	w.spec(&e.Spec)
	w.scope(&e.Scope)
	for i := range e.Spec.Match.AnyOf {
		w.Field("Excepts", entryLine(&e.Spec.Match.AnyOf[i]))
	}
	o.standing(w, &e, object, status)
	return w.Flush()
}

func (f *fields) spec(spec *settingsv1alpha2.ExceptionSpec) {
	f.Field("Status", strings.TrimSuffix(string(spec.Status)+": "+string(spec.Justification), ": "))
	f.Field("Reason", termsafe.Line(spec.Reason))
	f.Field("Reviewer", termsafe.Line(spec.Reviewer))
	f.Field("Ticket", termsafe.Line(spec.Ticket))
	f.Field("From", timeOf(spec.NotBefore))
	f.Field("Until", timeOf(spec.ExpiresAt))
}

func (f *fields) scope(scope *settingsv1alpha2.ClusterExceptionScope) {
	f.Field("Namespaces", words(scope.Namespaces, ", "))
	if scope.NamespaceSelector != nil {
		f.Field("Namespaces", termsafe.Line(metav1.FormatLabelSelector(scope.NamespaceSelector)))
	}
	f.Field("Scan types", words(scope.ScanTypes, ", "))
	f.Field("Scans", words(scope.Scans, ", "))
	f.Field("Targets", words(scope.Targets, ", "))
}

// standing is what the operator says of the exception; whether it holds is said where there is no operator, too.
func (o *options) standing(w *fields, e *exception.Exception, object client.Object, status *settingsv1alpha2.FindingExceptionStatus) {
	if status.Matched != nil {
		text := view.Plural(*status.Matched, "finding") + " in the latest runs"
		if status.LastMatched != nil {
			text += ", last at " + timeOf(status.LastMatched)
		}
		w.Field("Matches", text)
	}
	created := object.GetCreationTimestamp()
	w.Field("Created", strings.TrimSuffix(timeOf(&created)+" by "+termsafe.Line(status.CreatedBy), " by "))
	if status.ChangedAt != nil {
		w.Field("Changed", timeOf(status.ChangedAt)+" by "+termsafe.Line(status.ChangedBy))
	}
	w.condition(status, settingsv1alpha2.ConditionStamped)
	if w.condition(status, settingsv1alpha2.ConditionActive) {
		return
	}
	if problem := exception.Check(*e); problem != nil {
		w.Field("Active", "False, "+settingsv1alpha2.ReasonInvalid+": "+termsafe.Line(problem.String()))
		return
	}
	w.Field("Active", string(e.PhaseAt(o.session.Now())))
}

// condition prints one of what the operator says; false where it has not said it.
func (f *fields) condition(status *settingsv1alpha2.FindingExceptionStatus, name string) bool {
	c := meta.FindStatusCondition(status.Conditions, name)
	if c == nil {
		return false
	}
	f.Field(name, string(c.Status)+", "+c.Reason+": "+termsafe.Line(c.Message))
	return true
}

// entryLine is one entry of what is excepted: all of its fields have to fit.
func entryLine(e *settingsv1alpha2.ExceptionEntry) string {
	var parts []string
	for _, f := range []struct {
		name   string
		values []string
	}{
		{"fingerprint", e.Fingerprints},
		{"name", e.Names},
		{"category", e.Categories},
		{"location", e.Locations},
		{"severity", e.Severities},
		{"reference", e.References},
		{"package", e.Packages},
		{"product", e.Products},
	} {
		if len(f.values) > 0 {
			parts = append(parts, f.name+" "+words(f.values, " or "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
		value := e.Attributes[name]
		parts = append(parts, termsafe.Line(name+" = "+value.Raw()))
	}
	if e.Expression != "" {
		parts = append(parts, termsafe.Line(e.Expression))
	}
	return strings.Join(parts, " and ")
}

// shownWords is how many values of a list are shown.
const shownWords = 10

func words(list []string, between string) string {
	more := ""
	if n := len(list) - shownWords; n > 0 {
		list, more = list[:shownWords], fmt.Sprintf(" and %d more", n)
	}
	return termsafe.Line(strings.Join(list, between)) + more
}

func timeOf(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
