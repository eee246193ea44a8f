// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/follow"
	"github.com/scanyard/scanyard/cli/podlogs"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/findings/scanview"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	session    *session.Session
	follow     bool
	container  string
	timestamps bool
	noPrefix   bool
	tail       int64
	reading    results.Options
}

// NewLogsCommand makes the command logs.
func NewLogsCommand(s *session.Session) *cobra.Command {
	l := &logsOptions{session: s}
	cmd := &cobra.Command{
		Use:   "logs SCAN [PHASE]",
		Short: "Print what scanner, parser and hooks write",
		Long: `Print the logs of all containers of a scan, phase by phase, each line with its phase
and, where a pod has several, its container. PHASE is scanner, parser, hooks or
hook/NAME; without one it is all of them.

With --follow it prints lines as they come until the scan ends. It takes up pods that
are tried again and containers that are restarted, and goes on where it was when the
connection breaks. Logs of hooks that run in a namespace of their own are read there.

When the pods are gone, the end of the scanner's log (64 KiB) is read from object storage,
where the lurker has kept it.`,
		Example: `  # Everything
  {{program}} logs nmap

  # What the scanner writes, as it comes
  {{program}} logs nmap scanner --follow

  # The end of one hook's log, without prefixes
  {{program}} logs nmap hook/notify --tail 20 --no-prefix`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: l.completion,
		RunE: func(cmd *cobra.Command, args []string) error {
			phase := ""
			if len(args) == 2 {
				phase = args[1]
			}
			return l.run(cmd.Context(), args[0], phase)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&l.follow, "follow", "f", false, "print lines as they come, until the scan ends")
	flags.StringVarP(&l.container, "container", "c", "", "only the container of this name, such as lurker")
	flags.BoolVar(&l.timestamps, "timestamps", false, "begin each line with its time")
	flags.BoolVar(&l.noPrefix, "no-prefix", false, "do not begin lines with their phase")
	flags.Int64Var(&l.tail, "tail", -1, "only so many lines from the end of each log (-1: all)")
	l.reading.BindFlags(flags)
	return cmd
}

func (l *logsOptions) completion(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return []string{scanview.PhaseScanner, scanview.PhaseParser, scanview.PhaseHooks}, cobra.ShellCompDirectiveNoFileComp
	}
	return complete.First(complete.Scans(l.session))(cmd, args, toComplete)
}

func (l *logsOptions) run(ctx context.Context, name, phase string) error {
	phase, err := podlogs.ParsePhase(phase)
	if err != nil {
		return err
	}
	c, namespace, err := l.session.Connect()
	if err != nil {
		return err
	}
	scan, err := l.session.Scan(ctx, c, namespace, name)
	if err != nil {
		return err
	}
	r := &podlogs.Reader{
		Client: c, Scan: scan, Select: podlogs.Selection{Phase: phase, Container: l.container}, Session: l.session,
		Prefix: !l.noPrefix, Timestamps: l.timestamps, Tail: l.tail,
	}
	if r.Pods, err = l.session.Clientset(); err != nil {
		return err
	}
	if l.follow && !scan.Settled() {
		return l.until(ctx, c, scan, r)
	}
	n, err := r.All(ctx)
	if err == nil && n == 0 {
		err = l.stored(ctx, c, scan, r)
	}
	return l.session.Explain(err)
}

// stored prints what is left of the scanner's log when its pods are gone.
func (l *logsOptions) stored(ctx context.Context, c client.WithWatch, scan *executionv1.Scan, r *podlogs.Reader) error {
	why := absent(scan)
	if scan.Settled() && l.container == "" && (r.Select.Phase == "" || r.Select.Phase == scanview.PhaseScanner) {
		reader, err := results.New(l.session, c, l.reading)
		if err != nil {
			return err
		}
		body, _, err := reader.Open(ctx, scan, results.Log)
		if err == nil {
			fmt.Fprintln(l.session.ErrOut, "The pods are gone; this is the end of the scanner's log as stored:")
			return errors.Join(r.PrintStored(body), body.Close())
		}
		why += "; " + err.Error()
	}
	fmt.Fprintf(l.session.ErrOut, "There are no logs (any more): %s.\n", why)
	if scan.Status.ErrorDescription != "" {
		fmt.Fprintln(l.session.ErrOut, "What the Scan says:", scan.Status.ErrorDescription)
	}
	return nil
}

// absent says why a Scan has no logs.
func absent(scan *executionv1.Scan) string {
	if scan.Settled() {
		return "the pods of this scan were removed"
	}
	return "nothing of what was asked for has started"
}

// until follows the logs until the Scan has ended.
func (l *logsOptions) until(ctx context.Context, c client.WithWatch, scan *executionv1.Scan, r *podlogs.Reader) error {
	r.Away = func(err error) {
		if err != nil {
			fmt.Fprintln(l.session.ErrOut, "The API server is away, trying again:", l.session.Explain(err))
		}
	}
	feed := follow.Of[*executionv1.Scan](c, &executionv1.ScanList{}, client.InNamespace(scan.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", scan.Name)})
	ended, watched := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		watched <- feed.Run(ctx, func(now *executionv1.Scan, there bool) (bool, error) {
			return now.UID == scan.UID && (!there || now.Settled()), nil
		}, func(all []*executionv1.Scan) (bool, error) { return !hasUID(all, scan.UID), nil })
	}()
	err := r.Follow(ctx, ended)
	if ctx.Err() != nil {
		return session.Exit(
			session.CodeInterrupted,
			fmt.Errorf("interrupted; the scan continues. To continue reading: %s", l.session.Suggest("logs", scan.Name, "--follow")),
		)
	}
	if err == nil {
		err = <-watched
	}
	return l.session.Explain(err)
}
