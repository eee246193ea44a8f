// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/follow"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// NewTriggerCommand makes the command trigger.
func NewTriggerCommand(s *session.Session) *cobra.Command {
	t := &triggerOptions{waitOptions: waitOptions{session: s}}
	cmd := &cobra.Command{
		Use:   "trigger SCHEDULEDSCAN",
		Short: "Start a run of a schedule now",
		Long: `Ask for a run of a ScheduledScan now, whatever its schedule. Its concurrencyPolicy, its
windows and suspend still hold: the run starts as soon as they let it. The next planned
run counts from this one.

With --wait it waits for the scan of that run, and evaluates it as the command wait does.`,
		Example: `  # Have a run
  {{program}} trigger nightly

  # Have one, and wait for its end
  {{program}} trigger nightly --wait --timeout 30m`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.First(complete.ScheduledScans(s)),
		RunE:              func(cmd *cobra.Command, args []string) error { return t.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVarP(&t.wait, "wait", "w", false, "wait for the scan of the run to end")
	t.bind(cmd)
	return cmd
}

// triggerOptions are the flags of trigger.
type triggerOptions struct {
	waitOptions
	wait bool
}

func (t *triggerOptions) run(ctx context.Context, name string) error {
	if err := t.check(); err != nil {
		return err
	}
	s := t.session
	c, namespace, err := s.Connect()
	if err != nil {
		return err
	}
	schedule := &executionv1.ScheduledScan{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, schedule); err != nil {
		return s.Missing(ctx, c, err, "ScheduledScan", namespace, name, &executionv1.ScheduledScanList{})
	}
	before, err := runsOf(ctx, c, schedule)
	if err != nil {
		return s.Explain(err)
	}
	if err := ask(ctx, c, schedule); err != nil {
		return s.Explain(fmt.Errorf("ask for a run of %s: %w", name, err))
	}
	fmt.Fprintf(t.out(), "scheduledscan/%s triggered\n", name)
	if schedule.Suspended() {
		fmt.Fprintf(s.ErrOut, "It is suspended: the run starts after it is resumed. To resume it: %s\n", s.Suggest("resume", "scheduledscan/"+name))
		return nil
	}
	if !t.wait && !t.isSet() {
		return nil
	}
	scan, err := t.newRun(ctx, c, schedule, before)
	if err != nil {
		return err
	}
	_, err = t.waitOptions.run(ctx, c, scan)
	return err
}

// longAgo is a time before any run that a schedule may have missed. How long ago does not matter to the
// operator; a schedule of a leap day needs eight years.
var longAgo = metav1.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// ask sets status.lastScheduleTime back, which is how the contract requests a run.
func ask(ctx context.Context, c client.Client, schedule *executionv1.ScheduledScan) error {
	before := schedule.DeepCopy()
	schedule.Status.LastScheduleTime = longAgo.DeepCopy()
	return c.Status().Patch(ctx, schedule, client.MergeFrom(before))
}

func runsOf(ctx context.Context, c client.Client, schedule *executionv1.ScheduledScan) (map[string]bool, error) {
	var list executionv1.ScanList
	if err := c.List(ctx, &list, client.InNamespace(schedule.Namespace)); err != nil {
		return nil, fmt.Errorf("list scans: %w", err)
	}
	out := map[string]bool{}
	for i := range list.Items {
		out[string(list.Items[i].UID)] = true
	}
	return out, nil
}

// newRun waits for the Scan of the requested run.
func (t *triggerOptions) newRun(
	ctx context.Context, c client.WithWatch, schedule *executionv1.ScheduledScan, before map[string]bool,
) (*executionv1.Scan, error) {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.timeout > 0 {
		wait, cancel = context.WithTimeout(ctx, t.timeout)
		defer cancel()
	}
	go t.printReason(wait, c, schedule)
	var found *executionv1.Scan
	err := follow.Of[*executionv1.Scan](
		c, &executionv1.ScanList{}, client.InNamespace(schedule.Namespace),
	).Run(wait, func(s *executionv1.Scan, there bool) (bool, error) {
		owner := executionv1.ScheduleOf(s)
		if there && !before[string(s.UID)] && owner != nil && owner.UID == schedule.UID {
			found = s
		}
		return found != nil, nil
	}, nil)
	switch {
	case ctx.Err() != nil:
		return nil, session.Exit(session.CodeInterrupted, fmt.Errorf("interrupted; the run starts as soon as it may. To see it: %s", t.session.Suggest("get")))
	case wait.Err() != nil:
		return nil, session.Exit(
			session.CodeTimeout,
			fmt.Errorf(
				"the run has not started after %s; it starts as soon as it may. To see why not: %s",
				t.timeout, t.session.Suggest("get", "schedules", schedule.Name, "-o", "wide"),
			),
		)
	}
	return found, err
}

// printReason prints the operator's reason that keeps the run from starting.
func (t *triggerOptions) printReason(ctx context.Context, c client.WithWatch, schedule *executionv1.ScheduledScan) {
	said := ""
	feed := follow.Of[*executionv1.ScheduledScan](
		c, &executionv1.ScheduledScanList{}, client.InNamespace(schedule.Namespace), client.MatchingFields{"metadata.name": schedule.Name},
	)
	// An error shows up where the Scans are watched, too.
	_ = feed.Run(ctx, func(now *executionv1.ScheduledScan, there bool) (bool, error) {
		ready := meta.FindStatusCondition(now.Status.Conditions, executionv1.ConditionReady)
		if there && ready != nil && ready.Status != metav1.ConditionTrue && ready.Message != said {
			said = ready.Message
			fmt.Fprintf(t.session.ErrOut, "the run waits: %s\n", termsafe.Line(said))
		}
		return false, nil
	}, nil)
}
