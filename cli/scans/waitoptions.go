// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/exceptions"
	"github.com/scanyard/scanyard/cli/follow"
	"github.com/scanyard/scanyard/cli/podlogs"
	"github.com/scanyard/scanyard/cli/progress"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/scanview"
)

// waitOptions are whether and how a command waits for the end of a Scan.
type waitOptions struct {
	session *session.Session
	follow  bool
	timeout time.Duration
	failOn  string
	// least is failOn, read.
	least report.Threshold
	// allowUnreached lets failOn pass a Scan whose scanner reached nothing.
	allowUnreached bool
	quiet          bool
	// noExceptions makes failOn count all findings.
	noExceptions bool
	// reading says how the findings are downloaded that an exception may suppress.
	reading results.Options
	// toStderr keeps stdout free for the object that is printed at the end.
	toStderr bool
	// from reports whether the status is of the new run; the status of an earlier run is not shown. Nil: there is no earlier run.
	from func(*executionv1.Scan) (bool, error)
}

// bind adds the flags that all waiting commands share.
func (a *waitOptions) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&a.follow, "follow", "f", false, "print the logs of every phase as they come, and wait for the end; progress goes to stderr")
	flags.DurationVar(&a.timeout, "timeout", 0, "with --wait: exit with code 3 after this long, such as 10m; the scan continues (0: wait for ever)")
	flags.StringVar(
		&a.failOn, "fail-on", "",
		"with --wait: exit with code 2 when there are findings of this severity or above: "+strings.Join(report.Thresholds(), ", "),
	)
	flags.BoolVar(
		&a.allowUnreached, "allow-unreached", false,
		"let --fail-on pass a scan that has reached nothing, such as one of a host that does not respond, instead of exit code 4",
	)
	flags.BoolVar(&a.noExceptions, "no-exceptions", false, "with --fail-on: count findings that an exception suppresses, too")
	a.reading.BindFlags(flags)
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "with --wait: print only the end")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(report.Thresholds(), cobra.ShellCompDirectiveNoFileComp))
}

// check validates the flags.
func (a *waitOptions) check() error {
	if a.failOn != "" {
		var err error
		if a.least, err = report.ParseThreshold(a.failOn); err != nil {
			return fmt.Errorf("--fail-on: %w", err)
		}
	}
	if a.timeout < 0 {
		return errors.New("--timeout must not be negative")
	}
	return nil
}

// isSet reports whether the user has set a flag about waiting.
func (a *waitOptions) isSet() bool { return a.follow || a.failOn != "" || a.timeout > 0 }

// out is the stream of progress.
func (a *waitOptions) out() io.Writer {
	if a.toStderr || a.follow {
		return a.session.ErrOut
	}
	return a.session.Out
}

var errTimeout = errors.New("the time of --timeout is over")

// run waits until the Scan has ended, prints its result, and returns the Scan as it was then,
// with the error that gives the exit code.
func (a *waitOptions) run(ctx context.Context, c client.WithWatch, scan *executionv1.Scan) (*executionv1.Scan, error) {
	parent := ctx
	if a.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.timeout, errTimeout)
		defer cancel()
	}
	final, err := a.watch(ctx, c, scan)
	switch {
	case err == nil:
		return final, a.result(parent, c, final)
	case parent.Err() != nil:
		return nil, session.Exit(session.CodeInterrupted, fmt.Errorf("interrupted; the scan continues. %s", a.followUp(scan)))
	case errors.Is(context.Cause(ctx), errTimeout):
		return nil, session.Exit(session.CodeTimeout, fmt.Errorf("scan %s has not ended after %s; it continues. %s", scan.Name, a.timeout, a.followUp(scan)))
	}
	return nil, err
}

// followUp names the commands that wait for the Scan again or end it.
func (a *waitOptions) followUp(scan *executionv1.Scan) string {
	return fmt.Sprintf("To wait for it again: %s. To end it: %s", a.session.Suggest("wait", scan.Name), a.session.Suggest("cancel", scan.Name))
}

// watch shows the Scan until it has ended.
func (a *waitOptions) watch(ctx context.Context, c client.WithWatch, scan *executionv1.Scan) (*executionv1.Scan, error) {
	out := a.out()
	if a.quiet {
		out = io.Discard
	}
	reporter := progress.New(a.session, out, session.IsTerminal(out) && !a.follow)
	show, hide := context.WithCancel(ctx)
	drawn := make(chan struct{})
	go func() { defer close(drawn); reporter.Run(show) }()
	defer func() { hide(); <-drawn }()

	ended, logs := make(chan struct{}), make(chan error, 1)
	if a.follow {
		reader := &podlogs.Reader{Client: c, Scan: scan, Session: a.session, Prefix: true, Tail: -1}
		var err error
		if reader.Pods, err = a.session.Clientset(); err != nil {
			return nil, err
		}
		go func() { logs <- reader.Follow(ctx, ended) }()
	} else {
		logs <- nil
	}
	final, err := a.untilSettled(ctx, c, scan, reporter)
	close(ended)
	return final, errors.Join(err, <-logs)
}

func (a *waitOptions) untilSettled(ctx context.Context, c client.WithWatch, scan *executionv1.Scan, reporter *progress.Reporter) (*executionv1.Scan, error) {
	feed := follow.Of[*executionv1.Scan](c, &executionv1.ScanList{}, client.InNamespace(scan.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", scan.Name)})
	feed.Away = reporter.Away
	var final *executionv1.Scan
	gone := fmt.Errorf("scan %s was deleted before its end", scan.Name)
	err := feed.Run(ctx, func(now *executionv1.Scan, there bool) (bool, error) {
		if now.UID != scan.UID {
			return false, nil // another Scan of that name
		}
		if !there {
			return true, gone
		}
		if a.from != nil {
			if taken, err := a.from(now); !taken || err != nil {
				return err != nil, err
			}
		}
		reporter.Update(now)
		final = now
		return now.Settled(), nil
	}, func(all []*executionv1.Scan) (bool, error) {
		if !hasUID(all, scan.UID) {
			return true, gone
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return final, nil
}

func hasUID(all []*executionv1.Scan, uid types.UID) bool {
	for _, s := range all {
		if s.UID == uid {
			return true
		}
	}
	return false
}

// result prints the result of a Scan, and returns the error with its exit code.
func (a *waitOptions) result(ctx context.Context, c client.WithWatch, scan *executionv1.Scan) error {
	s := a.session
	if scan.Status.State == executionv1.ScanStateErrored {
		err := fmt.Errorf("scan %s is Errored: %s\nMore: %s", scan.Name, termsafe.Line(scanview.Says(scan)), s.Suggest("describe", scan.Name))
		return session.Exit(session.CodeErrored, err)
	}
	took := ""
	if d := scanview.Lifetime(scan, s.Now()); d > 0 {
		took = " after " + view.Short(d)
	}
	fmt.Fprintf(a.out(), "scan %s is Done%s: %s\n", scan.Name, took, view.Outcome(scan))
	if scan.Status.Findings.Count != nil && *scan.Status.Findings.Count > 0 {
		fmt.Fprintf(a.out(), "See them: %s\n", s.Paint(session.Note, s.Suggest("findings", scan.Name)))
	}
	if a.failOn == "" {
		return nil
	}
	if err := a.threshold(ctx, c, scan); err != nil {
		return err
	}
	if unreached := view.Unreached(scan); unreached != "" && !a.allowUnreached {
		return session.Exit(session.CodeUnreached, fmt.Errorf("scan %s: %s (--fail-on; --allow-unreached lets it pass)", scan.Name, unreached))
	}
	return nil
}

// threshold returns the error of --fail-on for the findings that no exception suppresses.
func (a *waitOptions) threshold(ctx context.Context, c client.WithWatch, scan *executionv1.Scan) error {
	if scan.Status.Findings.Count == nil || *scan.Status.Findings.Count == 0 ||
		!a.least.IsCritical() && view.AtOrAbove(scan.Status.Findings, a.least.Least().String()) == 0 {
		return nil
	}
	n, err := exceptions.Count(ctx, a.session, c, a.reading, scan, a.least, a.noExceptions)
	if err != nil {
		return fmt.Errorf("read the findings that count for --fail-on %s: %w", a.least, err)
	}
	words := ""
	if n.Excepted > 0 {
		words = fmt.Sprintf("%s excepted", view.Plural(n.Excepted, "finding"))
	}
	if n.Failing > 0 {
		if words != "" {
			words = "; " + words
		}
		return session.Exit(session.CodeThreshold, fmt.Errorf(
			"scan %s has %s of severity %s or above (--fail-on)%s", scan.Name, view.Plural(n.Failing, "finding"), strings.ToUpper(a.least.String()), words))
	}
	if words != "" {
		fmt.Fprintf(a.session.ErrOut, "%s; see %s\n", words, a.session.Suggest("findings", scan.Name, "--show-excepted"))
	}
	return nil
}
