// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/session"
)

// command are the flags of uninstall.
type command struct {
	Options

	session *session.Session
	results string
	dryRun  bool
	yes     bool
	timeout time.Duration
}

// NewUninstallCommand makes the command uninstall.
func NewUninstallCommand(s *session.Session) *cobra.Command {
	c := &command{session: s}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take an installation away, in the order that leaves nothing hanging",
		Long: `Take the installation of a whole cluster away: what starts scans, the scans, the charts,
what the programs have made for themselves (accounts, certificates, leases), with
--volumes the volumes, and with --crds the kinds.

The order matters: an operator that is gone cannot remove results, and a scan with a
finalizer then stays for ever. The command does what can be done now, names what you
have to type (what Helm has installed Helm removes), and goes on when you call it again.
With --dry-run it only tells.

Results in the bucket are deleted only with --results=delete, kinds and what people
have written of them only with --crds, what the bundled store, the reports, receivers and queues have
on volumes only with --volumes. Namespaces and what people have made always stay; the last
lines name it. It takes the rights of a cluster admin.

Exit codes: 0 the dry run is printed, or all is done that was asked for; 1 something has
to be typed or decided first, or has failed; 3 --timeout has passed, the deletion
continues.`,
		Example: `  # What would be done, in which order, and what stays
  {{program}} uninstall --dry-run

  # Do it; once more after each command that it names
  {{program}} uninstall --results=keep --yes

  # Everything, with the results, the volumes and the kinds
  {{program}} uninstall --results=delete --volumes --crds --yes`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&c.dryRun, "dry-run", false, "tell what would be done, and change nothing")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do it: without this flag nothing is changed")
	flags.StringVar(&c.results, "results", "", "what becomes of results in the bucket: keep or delete")
	flags.BoolVar(&c.CRDs, "crds", false, "remove the kinds, and with them settings, exceptions, scan types and whatever else is written of them")
	flags.BoolVar(&c.Volumes, "volumes", false, "remove the volume claims of the charts, and with them stored results, reports, and records yet to be sent")
	flags.BoolVar(&c.WithoutOperator, "without-operator", false, "where no operator runs: take its finalizers off scans, so that they go; their results stay")
	flags.DurationVar(&c.timeout, "timeout", 10*time.Minute, "how long to wait until the scans are gone")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("results", cobra.FixedCompletions([]string{string(ResultsKeep), string(ResultsDelete)}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (c *command) run(ctx context.Context) error {
	switch c.Results = Results(c.results); {
	case c.Results != ResultsUnsaid && c.Results != ResultsKeep && c.Results != ResultsDelete:
		return fmt.Errorf("--results %q must be keep or delete", c.results)
	case c.dryRun == c.yes:
		return errors.New("say --dry-run to see what would be done, or --yes to do it")
	}
	cluster, err := c.session.Client()
	if err != nil {
		return err
	}
	a := &actor{client: cluster, session: c.session, options: c.Options, timeout: c.timeout}
	for {
		inventory, err := Read(ctx, cluster, c.session.Now())
		if err != nil {
			return c.session.Explain(err)
		}
		steps := Plan(inventory, c.Options)
		next := ready(steps)
		if c.dryRun || next == nil {
			c.print(steps)
			return c.end(steps)
		}
		fmt.Fprintf(c.session.Out, "%s\n", next.Title)
		for _, line := range next.Says {
			fmt.Fprintf(c.session.Out, "   %s\n", line)
		}
		if err := a.do(ctx, next.Key, inventory); err != nil {
			return c.session.Explain(err)
		}
	}
}

// ready is the step that can be done now.
func ready(steps []Step) *Step {
	for i := range steps {
		if steps[i].State == Ready {
			return &steps[i]
		}
	}
	return nil
}

// end is the error for what is left to the user.
func (c *command) end(steps []Step) error {
	if c.dryRun {
		return nil
	}
	for i := range steps {
		switch steps[i].State {
		case ByHand:
			return errors.New("type the commands of the step that is \"by hand\", then call this again")
		case Undecided:
			return errors.New("nothing further is done until you have decided: see the step that is \"to decide\"")
		case Done, Ready, Later, Stays:
		}
	}
	return nil
}

var paints = map[State]session.Paint{
	Done: session.Good, Ready: session.Note, ByHand: session.Warn, Undecided: session.Warn, Later: session.Quiet, Stays: session.Quiet,
}

func (c *command) print(steps []Step) {
	s := c.session
	for n, step := range steps {
		fmt.Fprintf(s.Out, "%d. %s: %s\n", n+1, step.Title, s.Paint(paints[step.State], string(step.State)))
		for _, line := range step.Says {
			fmt.Fprintf(s.Out, "   %s\n", line)
		}
		for _, line := range step.Type {
			fmt.Fprintf(s.Out, "   $ %s\n", line)
		}
	}
}
