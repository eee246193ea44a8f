// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
)

const (
	// codeForeign ends a move because another reports server has the group.
	codeForeign = 5
	// codeDifferent ends a move because reports cannot be moved, or are not as they were.
	codeDifferent = 6
)

// options are what a user may choose.
type options struct {
	session  *session.Session
	groups   []string
	dryRun   bool
	keepCRDs bool
	noFreeze bool
	back     bool
	timeout  time.Duration
}

// NewCommand makes the command migrate.
func NewCommand(s *session.Session, examples string) *cobra.Command {
	o := &options{session: s}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move reports from custom resources to the reports API server",
		Long: `Move PolicyReports and Reports from custom resources, which are in etcd, to the reports API server.
A cluster administrator runs it once, with the server installed. Reports keep their uids.

  check    the server is ready, no other server has the group; the plan is printed
  copy     the reports are copied, and their changes followed
  freeze   writes to the group are refused, 20 seconds at most, and the rest is copied
  switch   the server answers for the group, and watches on etcd end
  compare  every report is compared with what was copied
  clean    the CRDs are deleted, unless --keep-crds is given

It may be interrupted at any time: writes are let through again, and another call continues.
The ConfigMap reports-migration beside the server says how far it is.

With --back the reports go from the server to the CRDs, which must be installed. They get new
uids and times of creation. A report goes to the group that it was written in first.

Exit codes: 0 all is moved; 1 something failed; 3 the timeout passed; 5 another server has a
group; 6 reports cannot be moved or are not as they were: the CRDs are kept then.`,
		Example: examples,
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.groups, "groups", groupNames(), "the API groups to move")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check, print the plan, and change nothing")
	flags.BoolVar(&o.keepCRDs, "keep-crds", false, "do not delete the CRDs; no version of them is served any more")
	flags.BoolVar(&o.noFreeze, "no-freeze", false, "do not refuse writes at the switch; those of the last second may be lost")
	flags.BoolVar(&o.back, "back", false, "move the reports of the server back to the custom resources")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long the move may take; another call continues")
	cmd.MarkFlagsMutuallyExclusive("back", "keep-crds")
	cmd.MarkFlagsMutuallyExclusive("back", "no-freeze")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	wanted, err := groupsOf(o.groups)
	if err != nil {
		return err
	}
	config, err := o.session.Config()
	if err != nil {
		return err
	}
	c, err := connect(config, o.session.Now)
	if err != nil {
		return o.session.Explain(err)
	}
	bounded, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err = o.moveAll(bounded, c, wanted)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return session.Exit(session.CodeInterrupted, fmt.Errorf("interrupted (%w). What is done stays done; run it again to continue", err))
	case bounded.Err() != nil:
		return session.Exit(session.CodeTimeout, fmt.Errorf("--timeout %s has passed (%w). What is done stays done; run it again to continue", o.timeout, err))
	}
	return o.session.Explain(err)
}

func (o *options) moveAll(ctx context.Context, c *cluster, wanted []group) error {
	server, err := c.findServer(ctx)
	if err != nil {
		return err
	}
	if o.back {
		return o.backAll(ctx, c, wanted, server)
	}
	seen, err := o.check(ctx, c, wanted, server)
	if err != nil || o.dryRun {
		return err
	}
	for i, g := range seen {
		m := &move{cluster: c, options: o, progress: &progress{session: o.session}, server: server, seen: g, group: &wanted[i]}
		if err := m.run(ctx); err != nil {
			m.progress.erase()
			return err
		}
	}
	if o.noFreeze {
		fmt.Fprintln(o.session.ErrOut, "warning: writes were not refused at the switch; those of the last second may be lost")
	}
	_, err = fmt.Fprintf(o.session.Out, "The reports API server %s has all reports of %s.\n", server, strings.Join(o.groups, " and "))
	return err
}

// check looks at everything, prints the plan, and refuses what cannot be done.
func (o *options) check(ctx context.Context, c *cluster, wanted []group, server *reportsServer) ([]*groupSeen, error) {
	var all []*groupSeen
	for _, g := range wanted {
		seen, err := c.look(ctx, g, server)
		if err != nil {
			return nil, err
		}
		what := next(seen, o.keepCRDs)
		if err := refusal(seen, what, o.session.Program); err != nil {
			if what == stepForeign {
				return nil, session.Exit(codeForeign, err)
			}
			return nil, err
		}
		for i := range seen.sources {
			if what != stepCopy {
				break
			}
			if err := c.measure(ctx, &g, &seen.sources[i]); err != nil {
				return nil, err
			}
		}
		all = append(all, seen)
	}
	both, err := o.inBoth(ctx, c, all)
	if err != nil {
		return nil, err
	}
	if err := o.printPlan(all, server, both); err != nil {
		return nil, err
	}
	return all, enoughSpace(all, server)
}

// inBoth finds reports that both groups have, which cannot both be moved: at the server they are one.
func (o *options) inBoth(ctx context.Context, c *cluster, all []*groupSeen) ([]place, error) {
	if len(all) < len(groups) {
		return nil, nil
	}
	there := map[string]map[place]present{}
	for _, g := range all {
		places := map[place]present{}
		there[g.group.name] = places
		for i := range g.sources {
			if next(g, o.keepCRDs) != stepCopy {
				break
			}
			if _, err := c.present(ctx, &g.group, &g.sources[i], places); err != nil {
				return nil, err
			}
		}
	}
	return twice(there[groups[0].name], there[groups[1].name]), nil
}

// enoughSpace refuses a move that the database has no room for.
func enoughSpace(all []*groupSeen, server *reportsServer) error {
	_, bytes := totals(all)
	if server.freeBytes == nil || *server.freeBytes >= 2*bytes {
		return nil
	}
	return fmt.Errorf("the database of the reports API server has %s left, and twice the size of the reports is needed, %s: give it a larger volume",
		results.Bytes(*server.freeBytes), results.Bytes(2*bytes))
}

func totals(all []*groupSeen) (objects, bytes int64) {
	for _, g := range all {
		for _, s := range g.sources {
			objects += s.objects
			bytes += s.bytes
		}
	}
	return objects, bytes
}

// intentions say what a step means for a CRD.
var intentions = map[step]string{
	stepCopy: "copy and switch", stepSettle: "end watches, compare", stepCompare: "compare", stepClean: "delete the CRD", stepNothing: "nothing, is moved",
}

func (o *options) printPlan(all []*groupSeen, server *reportsServer, both []place) error {
	s := o.session
	fmt.Fprintf(s.Out, "Server: %s\n", server)
	table := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "CRD\tREPORTS\tSIZE\tNEXT")
	for _, g := range all {
		for _, from := range g.sources {
			what := next(g, o.keepCRDs)
			count, size := "", ""
			if what == stepCopy {
				count, size = strconv.FormatInt(from.objects, 10), "about "+results.Bytes(from.bytes)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", g.group.crd(from.resource), count, size, intentions[what])
		}
		if len(g.sources) == 0 {
			fmt.Fprintf(table, "none of %s\t\t\tnothing\n", g.group.name)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if server.freeBytes != nil {
		fmt.Fprintf(s.Out, "Free space: %s\n", results.Bytes(*server.freeBytes))
	} else if objects, bytes := totals(all); objects > 0 {
		fmt.Fprintf(s.Out, "Free space: not known to the server; about %s are needed\n", results.Bytes(2*bytes))
	}
	for i, at := range both {
		if i == shownProblems {
			fmt.Fprintf(s.Out, "  and %d more\n", len(both)-i)
			break
		}
		fmt.Fprintf(s.Out, "Both groups have %s: at the server they are one. Delete one of them, or it cannot be moved.\n", at)
	}
	return nil
}
