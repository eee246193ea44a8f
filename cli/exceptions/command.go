// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/findings/exception"
)

// NewExceptionsCommand is "scanyard exceptions".
func NewExceptionsCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "exceptions",
		Aliases: []string{"exception", "fex"},
		Short:   "Say which findings need not be dealt with, and see which do not",
		Long: `Say which findings need not be dealt with, for how long and why: a risk that is accepted for a
time, a false positive, a vulnerability that cannot be used here, one that is mitigated.

An exception removes no evidence: raw results and findings.json stay as they are. Excepted
findings do not count for --fail-on of the commands findings and diff, and reports mark them.

Teams have FindingExceptions in their namespaces, cluster admins ClusterFindingExceptions
(--cluster-wide) for all of them.`,
		Example: `  # Accept a finding of a Scan for a quarter
  {{program}} exceptions create --from trivy-shop --fingerprint 2f1a… --status Accepted --reason "Fixed in March" --expires 90d

  # What is excepted in a Scan, by which exception
  {{program}} exceptions explain trivy-shop`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newListCommand(s), newDescribeCommand(s), newCreateCommand(s), newExpireCommand(s), newExpiringCommand(s), newExplainCommand(s),
		newImportCommand(s), newExportCommand(s))
	return cmd
}

var (
	local   = settingsv1alpha2.SchemeGroupVersion.WithKind(exception.Kind)
	cluster = settingsv1alpha2.SchemeGroupVersion.WithKind(exception.ClusterKind)
)

// options are what the commands share.
type options struct {
	session *session.Session
	cluster bool
	all     bool
}

func (o *options) bindCluster(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.cluster, "cluster-wide", false, "ClusterFindingExceptions, which cluster admins write")
}

func (o *options) bindAll(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "those of all namespaces")
}

func (o *options) kind() schema.GroupVersionKind {
	if o.cluster {
		return cluster
	}
	return local
}

// names completes with the exceptions that there are.
func (o *options) names() complete.Func {
	ofNamespace := complete.Of(o.session, &settingsv1alpha2.FindingExceptionList{})
	ofCluster := complete.Of(o.session, &settingsv1alpha2.ClusterFindingExceptionList{})
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if o.cluster {
			return ofCluster(cmd, args, toComplete)
		}
		return ofNamespace(cmd, args, toComplete)
	}
}

func newListCommand(s *session.Session) *cobra.Command {
	o := &options{session: s}
	out := output.New(s, "", true)
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List exceptions",
		Long: `List the FindingExceptions of the namespace, or the ClusterFindingExceptions of the cluster: their
status, when they end, and whether they hold now.`,
		Example: `  {{program}} exceptions list
  {{program}} exceptions list --cluster-wide -o wide`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return s.Explain(o.list(cmd.Context(), out))
		},
	}
	o.bindCluster(cmd)
	o.bindAll(cmd)
	out.Bind(cmd)
	return cmd
}

func (o *options) list(ctx context.Context, out *output.Flags) error {
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	if o.all || o.cluster {
		namespace = ""
	}
	table, wide := out.Table()
	if !table {
		list := o.newList()
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		return out.Print(o.session, list)
	}
	tables, err := output.NewTables(o.session, o.kind())
	if err != nil {
		return err
	}
	show, rows := output.PrintTables(o.session.Out, output.TableOptions{Wide: wide, WithNamespace: o.all, Columns: o.session.Columns}), 0
	_, err = tables.List(ctx, namespace, metav1.ListOptions{}, func(t *metav1.Table) error {
		if rows += len(t.Rows); len(t.Rows) == 0 {
			return nil
		}
		return show(t)
	})
	if err == nil && rows == 0 {
		fmt.Fprintf(o.session.ErrOut, "There are no exceptions%s. %s\n", where(namespace), "Make one: "+o.session.Suggest("exceptions", "create", "--help"))
	}
	return err
}

func where(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

func (o *options) newList() client.ObjectList {
	if o.cluster {
		return &settingsv1alpha2.ClusterFindingExceptionList{}
	}
	return &settingsv1alpha2.FindingExceptionList{}
}

// get reads an exception of either kind.
func (o *options) get(ctx context.Context, c client.Client, namespace, name string) (client.Object, *settingsv1alpha2.ExceptionSpec, error) {
	if o.cluster {
		e := &settingsv1alpha2.ClusterFindingException{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, e); err != nil {
			return nil, nil, o.session.Missing(ctx, c, err, exception.ClusterKind, "", name, o.newList())
		}
		return e, &e.Spec.ExceptionSpec, nil
	}
	e := &settingsv1alpha2.FindingException{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, e); err != nil {
		return nil, nil, o.session.Missing(ctx, c, err, exception.Kind, namespace, name, o.newList())
	}
	return e, &e.Spec.ExceptionSpec, nil
}

func newExpireCommand(s *session.Session) *cobra.Command {
	o := &options{session: s}
	cmd := &cobra.Command{
		Use:   "expire NAME...",
		Short: "End exceptions now",
		Long: `End exceptions now: their findings are open again in whatever is made of findings from now on.
The objects stay, so that it can be seen later what was excepted, and why.`,
		Example: `  {{program}} exceptions expire accepted-3f0a9c2b17`,
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: o.names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := s.Connect()
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := o.expire(cmd.Context(), c, namespace, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	o.bindCluster(cmd)
	return cmd
}

func (o *options) expire(ctx context.Context, c client.Client, namespace, name string) error {
	e, spec, err := o.get(ctx, c, namespace, name)
	if err != nil {
		return err
	}
	now := metav1.NewTime(o.session.Now().UTC().Truncate(time.Second))
	if spec.ExpiresAt != nil && !spec.ExpiresAt.After(now.Time) {
		return fmt.Errorf("exception %s has ended at %s already", name, spec.ExpiresAt.UTC().Format(time.RFC3339))
	}
	before, ok := e.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copy %T: it is not an object", e)
	}
	spec.ExpiresAt = &now
	if spec.NotBefore != nil && !spec.NotBefore.Before(&now) {
		spec.NotBefore = nil // one that has not begun ends nevertheless
	}
	if err := c.Patch(ctx, e, client.MergeFrom(before)); err != nil {
		return o.session.Explain(fmt.Errorf("end exception %s: %w", name, err))
	}
	fmt.Fprintf(o.session.Out, "%s/%s ended\n", strings.ToLower(o.kind().Kind), name)
	return nil
}

// longest is as far ahead as an end can be given as a number of days.
const longest = 3660 * session.Day

// endOf reads an end: a period such as 90d or 12h from now on, a date, or a time.
func endOf(text string, now time.Time) (time.Time, error) {
	if period, err := session.ParsePeriod(text, longest); err == nil {
		return now.Add(period).UTC().Truncate(time.Second), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			if !at.After(now) {
				return time.Time{}, fmt.Errorf("%q is over: now is %s", text, now.UTC().Format(time.RFC3339))
			}
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q must be a number of days such as 90d, a date such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z", text)
}
