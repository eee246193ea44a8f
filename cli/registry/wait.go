// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/follow"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
)

// waiting is whether and how a command waits for the end of a job.
type waiting struct {
	session *session.Session
	wait    bool
	timeout time.Duration
	failOn  string
	quiet   bool
}

func (w *waiting) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&w.wait, "wait", "w", false, "show the progress until the job ends")
	f.DurationVar(&w.timeout, "timeout", 0, "with --wait: exit with code 3 after this long, such as 10m; the job goes on (0: wait for ever)")
	f.StringVar(
		&w.failOn, "fail-on", "",
		"with --wait: exit with code 2 when images have vulnerabilities of this `severity` or above: critical, high, medium, low, unknown",
	)
	f.BoolVarP(&w.quiet, "quiet", "q", false, "with --wait: print only the end")
}

// check validates the flags. Who says when to fail wants to wait.
func (w *waiting) check() (err error) {
	if w.timeout < 0 {
		return errors.New("--timeout must not be negative")
	}
	if w.failOn != "" {
		if w.failOn, err = parseSeverity("fail-on", w.failOn); err != nil {
			return err
		}
	}
	w.wait = w.wait || w.failOn != "" || w.timeout > 0
	return nil
}

// unknown is the status of a condition that is not decided.
const unknown = metav1.ConditionUnknown

// statusOf is what both kinds of jobs have.
func statusOf(job client.Object) *registryv1alpha1.JobStatus {
	switch job := job.(type) {
	case *registryv1alpha1.DiscoveryJob:
		return &job.Status.JobStatus
	case *registryv1alpha1.ScanJob:
		return &job.Status.JobStatus
	}
	return &registryv1alpha1.JobStatus{}
}

func specOf(job client.Object) *registryv1alpha1.JobSpec {
	switch job := job.(type) {
	case *registryv1alpha1.DiscoveryJob:
		return &job.Spec.JobSpec
	case *registryv1alpha1.ScanJob:
		return &job.Spec.JobSpec
	}
	return &registryv1alpha1.JobSpec{}
}

// ended is the condition Completed of a job; its status is Unknown until the end.
func ended(job client.Object) metav1.Condition {
	if c := meta.FindStatusCondition(statusOf(job).Conditions, registryv1alpha1.ConditionCompleted); c != nil {
		return *c
	}
	return metav1.Condition{Status: unknown}
}

var errTimeout = errors.New("the time of --timeout is over")

// run waits until a job has ended and prints how, and returns the error with its exit code.
func (w *waiting) run(ctx context.Context, c client.WithWatch, job client.Object) error {
	final, err := w.until(ctx, c, job, "it goes on. To end it: "+w.session.Suggest("registry", "cancel", kindOf(job)+"/"+job.GetName()))
	if err != nil {
		return err
	}
	return w.result(ctx, final)
}

// until waits until a job has ended. next tells who does not wait so long what to do.
func (w *waiting) until(ctx context.Context, c client.WithWatch, job client.Object, next string) (client.Object, error) {
	parent := ctx
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.timeout, errTimeout)
		defer cancel()
	}
	final, err := w.follow(ctx, c, job)
	switch {
	case err == nil:
		return final, nil
	case parent.Err() != nil:
		return nil, session.Exit(session.CodeInterrupted, fmt.Errorf("interrupted while waiting for %s; %s", job.GetName(), next))
	case errors.Is(context.Cause(ctx), errTimeout):
		return nil, session.Exit(session.CodeTimeout, fmt.Errorf("%s has not ended after %s; %s", job.GetName(), w.timeout, next))
	}
	return nil, w.session.Explain(err)
}

func (w *waiting) follow(ctx context.Context, c client.WithWatch, job client.Object) (client.Object, error) {
	out := w.session.Out
	if w.quiet {
		out = io.Discard
	}
	show := &shown{session: w.session, out: out, live: session.IsTerminal(out), began: w.session.Now()}
	var list client.ObjectList = &registryv1alpha1.DiscoveryJobList{}
	if kindOf(job) == kindScan {
		list = &registryv1alpha1.ScanJobList{}
	}
	feed := follow.Of[client.Object](c, list, client.InNamespace(job.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", job.GetName())})
	feed.Away = show.away
	var final client.Object
	gone := fmt.Errorf("%s/%s was deleted before its end", kindOf(job), job.GetName())
	err := feed.Run(ctx, func(now client.Object, there bool) (bool, error) {
		if now.GetUID() != job.GetUID() {
			return false, nil // another job of that name
		}
		if !there {
			return true, gone
		}
		final = now
		show.update(now)
		return ended(now).Status != unknown, nil
	}, func(all []client.Object) (bool, error) {
		for _, one := range all {
			if one.GetUID() == job.GetUID() {
				return false, nil
			}
		}
		return true, gone
	})
	return final, err
}

// result prints how a job has ended.
func (w *waiting) result(ctx context.Context, job client.Object) error {
	s, status, end := w.session, statusOf(job), ended(job)
	took := ""
	if status.StartTime != nil && status.CompletionTime != nil {
		took = " after " + view.Short(status.CompletionTime.Sub(status.StartTime.Time))
	}
	fmt.Fprintf(s.Out, "%s/%s: %s%s%s\n", kindOf(job), job.GetName(), end.Reason, took, suffix(": ", strings.Join(progressOf(job), ", ")))
	for _, warning := range status.Warnings {
		fmt.Fprintf(s.Out, "warning: %s, %d times%s\n", warning.Code, warning.Count, suffix(": ", termsafe.Line(strings.Join(warning.Examples, ", "))))
	}
	for _, e := range status.Errors {
		fmt.Fprintf(s.Out, "failed: %s\n", termsafe.Line(e.Item+": "+e.Reason+suffix(": ", e.Message)))
	}
	if more := status.ErrorsTotal - int64(len(status.Errors)); more > 0 {
		fmt.Fprintf(s.Out, "failed: %d more; see %s\n", more, s.Suggest("registry", "images", specOf(job).Registry, "--failed"))
	}
	if end.Status == metav1.ConditionFalse {
		return session.Exit(session.CodeErrored, fmt.Errorf("%s is %s%s", job.GetName(), end.Reason, suffix(": ", termsafe.Line(end.Message))))
	}
	if w.failOn == "" {
		return nil
	}
	return w.threshold(ctx, job)
}

// threshold is the error of --fail-on: what the images have that the job was about.
func (w *waiting) threshold(ctx context.Context, job client.Object) error {
	r, err := newReader(w.session)
	if err != nil {
		return err
	}
	only := map[string]bool{}
	if scan, is := job.(*registryv1alpha1.ScanJob); is {
		for _, name := range scan.Spec.Images {
			only[name] = true
		}
	}
	found, bad := make([]int64, len(severities)), int64(0)
	selected := fields.Set{"spec.registry.name": specOf(job).Registry, "status.presence": string(reportsv1.ImagePresent)}
	err = r.eachImage(ctx, job.GetNamespace(), selected, func(image *reportsv1.Image) error {
		if len(only) > 0 && !only[image.Name] {
			return nil
		}
		all := counts(image.Status.Vulnerabilities)
		if atLeast(all, w.failOn) > 0 {
			bad++
		}
		for i, n := range all {
			found[i] += n
		}
		return nil
	})
	if err != nil {
		return explainReports(w.session, err)
	}
	return threshold(plural(bad, "image of "+specOf(job).Registry, "images of "+specOf(job).Registry), found, w.failOn)
}

// progressOf says in a few words how far a job is.
func progressOf(job client.Object) (parts []string) {
	say := func(n int64, one, many string) {
		if n > 0 {
			parts = append(parts, plural(n, one, many))
		}
	}
	switch job := job.(type) {
	case *registryv1alpha1.DiscoveryJob:
		status := &job.Status
		if r := status.Repositories; r != nil && r.Total > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s", r.Done+r.Failed, plural(r.Total, "repository", "repositories")))
		}
		if t := status.Tags; t != nil && t.Listed > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s taken", t.Selected, plural(t.Listed, "tag", "tags")))
		}
		if i := status.Images; i != nil && i.Found > 0 {
			parts = append(parts, fmt.Sprintf("%s (%d new)", plural(i.Found, "image", "images"), i.New))
		}
		if d := status.SBOMs; d != nil && d.Wanted > 0 {
			parts = append(parts, fmt.Sprintf("SBOMs %d of %d", d.Made+d.Reused+d.Failed, d.Wanted))
		}
		if d := status.Reports; d != nil && d.Wanted > 0 {
			parts = append(parts, fmt.Sprintf("reports %d of %d", d.Made+d.Reused+d.Failed, d.Wanted))
		}
	case *registryv1alpha1.ScanJob:
		if i := job.Status.Images; i != nil {
			done := i.Changed + i.Unchanged + i.Failed + i.Quarantined
			parts = append(parts, fmt.Sprintf("%d of %s rescanned, %d changed, %d unaffected", done, plural(i.Wanted, "image", "images"), i.Changed, i.Unaffected))
		}
	}
	say(statusOf(job).ErrorsTotal, "failure", "failures")
	return parts
}

// lineOf says how far a job is, and what it waits for.
func lineOf(job client.Object, now time.Time) string {
	status := statusOf(job)
	state := status.State
	if state == "" {
		state = "Waiting"
	}
	line := strings.Join(append([]string{state}, progressOf(job)...), ", ")
	c := meta.FindStatusCondition(status.Conditions, registryv1alpha1.ConditionProgressing)
	if c != nil && c.Status == metav1.ConditionFalse && c.Message != "" {
		line += " (" + c.Message + ")"
	}
	return termsafe.Line(line) + suffix(", about ", left(status, now))
}

// left guesses from what is done how long the rest takes.
func left(status *registryv1alpha1.JobStatus, now time.Time) string {
	p := status.Progress
	if p == nil || status.StartTime == nil || status.CompletionTime != nil || p.Done+p.Failed == 0 || p.Total <= p.Done+p.Failed {
		return ""
	}
	took := now.Sub(status.StartTime.Time)
	return view.Short(time.Duration(float64(took)*float64(p.Total)/float64(p.Done+p.Failed))-took) + " left"
}

// shown prints a line for each change, and on a terminal one line that is redrawn.
type shown struct {
	session *session.Session
	out     io.Writer
	live    bool
	began   time.Time
	said    string
}

func (l *shown) update(job client.Object) {
	now := l.session.Now()
	line := lineOf(job, now)
	if line == l.said {
		return
	}
	l.said = line
	if l.live {
		if width := l.session.Width(); width > 0 {
			line = termsafe.Fit(line, width-1)
		}
		end := ""
		if ended(job).Status != unknown {
			end = "\n"
		}
		fmt.Fprint(l.out, l.session.Control("\r\x1b[K")+line+end)
		return
	}
	fmt.Fprintf(l.out, "%5s  %s\n", view.Short(now.Sub(l.began)), line)
}

// away tells that the API server is away, and that it is back.
func (l *shown) away(err error) {
	text := "The API server is back."
	if err != nil {
		text = fmt.Sprintf("The API server is away, trying again: %v", l.session.Explain(err))
	}
	if l.live {
		text = l.session.Control("\r\x1b[K") + text
	}
	fmt.Fprintln(l.out, text)
}
