// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
)

func newExpiringCommand(s *session.Session) *cobra.Command {
	o := &options{session: s}
	var within string
	cmd := &cobra.Command{
		Use:   "expiring",
		Short: "List exceptions that end soon, the next one first",
		Long: `List the exceptions that hold and end soon, the next one first. Their findings are open again from
then on: mend them, or set spec.expiresAt to a later time.`,
		Example: `  {{program}} exceptions expiring --within 14d
  {{program}} exceptions expiring -A`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			period, err := session.ParsePeriod(within, longest)
			if err != nil {
				return fmt.Errorf("--within %w", err)
			}
			return s.Explain(o.expiring(cmd.Context(), period, within))
		},
	}
	cmd.Flags().StringVar(&within, "within", "14d", "how far `ahead`, such as 14d or 12h")
	o.bindCluster(cmd)
	o.bindAll(cmd)
	return cmd
}

// ending is an exception with an end.
type ending struct {
	object client.Object
	spec   *settingsv1alpha2.ExceptionSpec
}

func (o *options) expiring(ctx context.Context, within time.Duration, words string) error {
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	if o.all {
		namespace = ""
	}
	var found []ending
	now := o.session.Now()
	add := func(object client.Object, spec *settingsv1alpha2.ExceptionSpec) {
		if end := spec.ExpiresAt; end != nil && end.After(now) && end.Sub(now) <= within {
			found = append(found, ending{object, spec})
		}
	}
	if o.cluster {
		list := &settingsv1alpha2.ClusterFindingExceptionList{}
		err = pages(ctx, c, list, func() {
			for i := range list.Items {
				add(list.Items[i].DeepCopy(), &list.Items[i].Spec.ExceptionSpec)
			}
		})
	} else {
		list := &settingsv1alpha2.FindingExceptionList{}
		err = pages(ctx, c, list, func() {
			for i := range list.Items {
				add(list.Items[i].DeepCopy(), &list.Items[i].Spec.ExceptionSpec)
			}
		}, client.InNamespace(namespace))
	}
	if err != nil {
		return err
	}
	if len(found) == 0 {
		fmt.Fprintf(o.session.ErrOut, "No exception%s ends within %s.\n", where(namespace), words)
		return nil
	}
	slices.SortStableFunc(found, func(a, b ending) int {
		return cmp.Or(a.spec.ExpiresAt.Compare(b.spec.ExpiresAt.Time), strings.Compare(a.object.GetNamespace(), b.object.GetNamespace()),
			strings.Compare(a.object.GetName(), b.object.GetName()))
	})
	return output.PrintTables(o.session.Out, output.TableOptions{WithNamespace: o.all, Columns: o.session.Columns})(endingTable(found, now))
}

func endingTable(found []ending, now time.Time) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"},
		{Name: "Status", Type: "string"},
		{Name: "Ends", Type: "string"},
		{Name: "In", Type: "string"},
		{Name: "Reason", Type: "string"},
	}}
	for _, e := range found {
		t.Rows = append(t.Rows, metav1.TableRow{
			Cells: []any{
				e.object.GetName(), string(e.spec.Status), e.spec.ExpiresAt.UTC().Format(time.RFC3339), view.Short(e.spec.ExpiresAt.Sub(now)),
				termsafe.Fit(termsafe.Line(e.spec.Reason), 60),
			},
			Object: runtime.RawExtension{Object: e.object},
		})
	}
	return t
}
