// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/cascades"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/follow"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/findings/scanview"
)

// each calls do for every argument, and continues after an error.
func each(args []string, do func(string) error) error {
	var errs []error
	for _, a := range args {
		errs = append(errs, do(a))
	}
	return errors.Join(errs...)
}

// NewSuspendCommand makes the command suspend.
func NewSuspendCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "suspend NAME...",
		Short: "Hold scans and schedules",
		Long: `Hold scans: nothing further of them is started, while Jobs that run go on. No deadline
ends a scan meanwhile. Or hold schedules: no run starts, while scans that run go on.

NAME is a scan, or a ScheduledScan where there is no scan of that name; scan/NAME and
scheduledscan/NAME say which.`,
		Example: `  {{program}} suspend nmap
  {{program}} suspend scheduledscan/nightly`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.Suspendable(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(args, func(name string) error { return setSuspend(cmd.Context(), s, name, true) })
		},
	}
}

// NewResumeCommand makes the command resume.
func NewResumeCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME...",
		Short: "Let suspended scans and schedules go on",
		Long: `Let suspended scans go on where they stood, or suspended schedules start their runs;
one that came due meanwhile starts at once.

NAME is a scan, or a ScheduledScan where there is no scan of that name; scan/NAME and
scheduledscan/NAME say which.`,
		Example: `  {{program}} resume nmap
  {{program}} resume scheduledscan/nightly`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.Suspendable(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			return each(args, func(name string) error { return setSuspend(cmd.Context(), s, name, false) })
		},
	}
}

func setSuspend(ctx context.Context, s *session.Session, arg string, suspend bool) error {
	c, namespace, err := s.Connect()
	if err != nil {
		return err
	}
	o, err := findSuspendable(ctx, s, c, namespace, arg)
	if err != nil {
		return err
	}
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", o)
	}
	word, what := "resumed", "scan"
	if suspend {
		word = "suspended"
	}
	switch o := o.(type) {
	case *executionv1.Scan:
		if o.Settled() {
			return fmt.Errorf("scan %s is %s: there is nothing left of it to be %s", o.Name, o.Status.State, word)
		}
		o.Spec.Suspend = &suspend
	case *executionv1.ScheduledScan:
		what = "scheduledscan"
		o.Spec.Suspend = &suspend
	}
	if err := c.Patch(ctx, o, client.MergeFrom(before)); err != nil {
		return s.Explain(fmt.Errorf("change %s %s: %w", what, o.GetName(), err))
	}
	fmt.Fprintf(s.Out, "%s/%s %s\n", what, o.GetName(), word)
	return nil
}

// findSuspendable finds the object of an argument: a Scan, or else a ScheduledScan.
func findSuspendable(ctx context.Context, s *session.Session, c client.Client, namespace, arg string) (client.Object, error) {
	word, name, named := strings.Cut(arg, "/")
	if !named {
		word, name = "", arg
	}
	k, _ := parseKind([]string{word})
	switch {
	case named && k.local.Kind == "ScheduledScan":
		o := &executionv1.ScheduledScan{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			return nil, s.Missing(ctx, c, err, "ScheduledScan", namespace, name, &executionv1.ScheduledScanList{})
		}
		return o, nil
	case named && !strings.HasPrefix(word, "scan"):
		return nil, fmt.Errorf("%q: say scan/NAME or scheduledscan/NAME", arg)
	}
	scan, err := s.Scan(ctx, c, namespace, name)
	if err == nil || named || !apierrors.IsNotFound(err) {
		return scan, err
	}
	schedule := &executionv1.ScheduledScan{}
	if getErr := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, schedule); getErr == nil {
		return schedule, nil
	}
	return nil, err
}

// NewCancelCommand makes the command cancel.
func NewCancelCommand(s *session.Session) *cobra.Command {
	var chain bool
	cmd := &cobra.Command{
		Use:   "cancel SCAN...",
		Short: "End running scans",
		Long: `End running scans: their Jobs are deleted and they become Errored, with a condition
that says who has ended them. What they have stored so far stays. No hook runs for them.

With --chain the scans that cascading rules have started from them end as well, and theirs; a scan
may have ended itself then. The command tree shows the chain.`,
		Example: `  {{program}} cancel nmap

  # With all that it has started
  {{program}} cancel nmap --chain`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.Scans(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := s.Connect()
			if err != nil {
				return err
			}
			end := cancel
			if chain {
				end = cancelChain
			}
			return each(args, func(name string) error { return end(cmd.Context(), s, c, namespace, name) })
		},
	}
	cmd.Flags().BoolVar(&chain, "chain", false, "end all scans as well that cascading rules have started from them")
	return cmd
}

// cancelChain cancels what runs of a Scan and of all below it, from the top: a Scan that is cancelled starts no more.
func cancelChain(ctx context.Context, s *session.Session, c client.Client, namespace, name string) error {
	if _, err := s.Scan(ctx, c, namespace, name); err != nil {
		return err
	}
	cancelled := map[types.UID]bool{}
	for { // a hook may have started one while its Scan was being cancelled
		var list executionv1.ScanList
		if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return s.Explain(fmt.Errorf("list the scans of namespace %s: %w", namespace, err))
		}
		before := len(cancelled)
		top := cascades.Find(cascades.Forest(list.Items), name)
		if top != nil {
			err := cascades.Walk([]*cascades.Node{top}, func(n *cascades.Node, _ string, _ bool) error {
				if n.Scan.Settled() || n.Scan.Cancelled() || cancelled[n.Scan.UID] {
					return nil
				}
				cancelled[n.Scan.UID] = true
				return patchCancel(ctx, s, c, n.Scan)
			})
			if err != nil {
				return err
			}
		}
		if len(cancelled) > before {
			continue
		}
		if before == 0 {
			return fmt.Errorf("nothing runs of scan %s and of what it has started", name)
		}
		return nil
	}
}

func cancel(ctx context.Context, s *session.Session, c client.Client, namespace, name string) error {
	scan, err := s.Scan(ctx, c, namespace, name)
	if err != nil {
		return err
	}
	if scan.Settled() {
		return fmt.Errorf("scan %s is %s already", name, scan.Status.State)
	}
	return patchCancel(ctx, s, c, scan)
}

func patchCancel(ctx context.Context, s *session.Session, c client.Client, scan *executionv1.Scan) error {
	before := scan.DeepCopy()
	scan.Spec.Cancel = new(true)
	if err := c.Patch(ctx, scan, client.MergeFrom(before), client.FieldOwner(fieldOwner)); err != nil {
		return s.Explain(fmt.Errorf("cancel scan %s: %w", scan.Name, err))
	}
	if scan.Spec.Cancel == nil { // a CRD without the field drops it
		return fmt.Errorf("the CRDs of this cluster are older than this program and cannot cancel: delete the scan instead: %s", s.Suggest("delete", scan.Name))
	}
	fmt.Fprintf(s.Out, "scan/%s cancelled\n", scan.Name)
	return nil
}

// fieldOwner names this program in managedFields, and in the condition of a cancelled Scan.
const fieldOwner = "scanyard-cli"

// NewDeleteCommand makes the command delete.
func NewDeleteCommand(s *session.Session) *cobra.Command {
	d := &deleteOptions{session: s}
	cmd := &cobra.Command{
		Use:   "delete SCAN...",
		Short: "Delete scans with their results",
		Long: `Delete scans: what runs of them ends, and what they have stored is removed, unless
--keep-results is given. Scans that a scan has started by cascading go with it.

It waits until they are gone, which Ctrl-C ends without harm: the deletion goes on.`,
		Example: `  {{program}} delete nmap
  {{program}} delete -l team=blue
  {{program}} delete nmap --keep-results`,
		ValidArgsFunction: complete.Scans(s),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&d.selector, "selector", "l", "", "delete the scans with these labels")
	flags.BoolVar(&d.keep, "keep-results", false, "leave raw result and findings in object storage")
	flags.BoolVar(&d.wait, "wait", true, "wait until they are gone")
	flags.BoolVar(&d.ignore, "ignore-not-found", false, "a scan that does not exist is not an error")
	return cmd
}

// deleteOptions are the flags of delete.
type deleteOptions struct {
	session            *session.Session
	selector           string
	keep, wait, ignore bool
}

func (d *deleteOptions) run(ctx context.Context, names []string) error {
	if (len(names) == 0) == (d.selector == "") {
		return errors.New("give the names of scans, or --selector")
	}
	c, namespace, err := d.session.Connect()
	if err != nil {
		return err
	}
	if d.selector != "" {
		var list executionv1.ScanList
		if err := c.List(ctx, &list, &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{LabelSelector: d.selector}}); err != nil {
			return d.session.Explain(fmt.Errorf("list scans: %w", err))
		}
		if names = session.Names(&list); len(names) == 0 {
			fmt.Fprintf(d.session.ErrOut, "There are no scans in namespace %s with labels %s.\n", namespace, d.selector)
			return nil
		}
	}
	var gone []*executionv1.Scan
	err = each(names, func(name string) error {
		scan, err := d.session.Scan(ctx, c, namespace, name)
		if d.ignore && apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = d.delete(ctx, c, scan)
		}
		if err == nil {
			gone = append(gone, scan)
		}
		return err
	})
	if !d.wait {
		return err
	}
	for _, scan := range gone {
		if waitErr := d.untilGone(ctx, c, scan); waitErr != nil {
			return errors.Join(err, waitErr)
		}
	}
	return err
}

func (d *deleteOptions) delete(ctx context.Context, c client.Client, scan *executionv1.Scan) error {
	if d.keep {
		before := scan.DeepCopy()
		metav1.SetMetaDataAnnotation(&scan.ObjectMeta, executionv1.AnnotationOnDelete, executionv1.OnDeleteRetain)
		if err := c.Patch(ctx, scan, client.MergeFrom(before)); err != nil {
			return d.session.Explain(fmt.Errorf("mark scan %s to keep its results: %w", scan.Name, err))
		}
	}
	// Only the object that was read, and not another one that has its name by now.
	err := c.Delete(ctx, scan, client.Preconditions{UID: &scan.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return d.session.Explain(fmt.Errorf("delete scan %s: %w", scan.Name, err))
	}
	fmt.Fprintf(d.session.Out, "scan/%s deleted\n", scan.Name)
	return nil
}

func (d *deleteOptions) untilGone(ctx context.Context, c client.WithWatch, scan *executionv1.Scan) error {
	feed := follow.Of[*executionv1.Scan](c, &executionv1.ScanList{}, client.InNamespace(scan.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", scan.Name)})
	err := feed.Run(ctx, func(now *executionv1.Scan, there bool) (bool, error) {
		return !there && now.UID == scan.UID, nil
	}, func(all []*executionv1.Scan) (bool, error) { return !hasUID(all, scan.UID), nil })
	if ctx.Err() != nil {
		return session.Exit(session.CodeInterrupted, errors.New("interrupted; the deletion continues"))
	}
	return d.session.Explain(err)
}

// NewRetryCommand makes the command retry.
func NewRetryCommand(s *session.Session) *cobra.Command {
	r := &retryOptions{waitOptions: waitOptions{session: s}}
	cmd := &cobra.Command{
		Use:   "retry SCAN [PHASE]",
		Short: "Run a phase of an ended scan again",
		Long: `Run a phase of an ended scan again, and those that follow it:

  scanner    the whole scan, from its beginning
  parser     the parser over the raw result that is stored, then the hooks
  hooks      the hooks that failed or were cancelled
  hook/NAME  one hook

Without PHASE it is the one at which the scan ended Errored.`,
		Example: `  # The reason of the failure is mended: go on where it failed
  {{program}} retry nmap --wait

  # Parse the stored raw result with a newer parser
  {{program}} retry nmap parser`,
		Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{scanview.PhaseScanner, scanview.PhaseParser, scanview.PhaseHooks}, cobra.ShellCompDirectiveNoFileComp
			}
			return complete.First(complete.Scans(s))(cmd, args, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVarP(&r.wait, "wait", "w", false, "wait for the end of what runs again")
	r.bind(cmd)
	return cmd
}
