// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/podlogs"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/scanview"
)

// NewDescribeCommand makes the command describe.
func NewDescribeCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "describe SCAN...",
		Aliases: []string{"show"},
		Short:   "Show all about a scan, and what to do next",
		Long: `Show the state of a scan: its phases with their times and Jobs, its hooks, the findings by
severity and category, conditions that say more than the phases, Events of the scan and
of its Jobs, and what to do next.`,
		Example:           `  {{program}} describe nmap`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.Scans(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := s.Connect()
			if err != nil {
				return err
			}
			first := true
			return each(args, func(name string) error {
				scan, err := s.Scan(cmd.Context(), c, namespace, name)
				if err != nil {
					return err
				}
				facts, err := gather(cmd.Context(), c, scan)
				if err != nil {
					return s.Explain(err)
				}
				facts.Now = s.Now()
				if !first {
					fmt.Fprintln(s.Out)
				}
				first = false
				return printDescription(s, s.Out, view.Describe(facts))
			})
		},
	}
}

// gather reads the objects of a description. Jobs and Events that the user may not read are left out,
// and the description says so.
func gather(ctx context.Context, c client.Client, scan *executionv1.Scan) (view.Facts, error) {
	f := view.Facts{Scan: scan}
	var err error
	if f.Jobs, err = podlogs.Jobs(ctx, c, scan); apierrors.IsForbidden(err) {
		f.Withheld = append(f.Withheld, "Jobs: you may not list them; the role \"view\" allows it")
	} else if err != nil {
		return f, err
	}
	if f.Events, err = events(ctx, c, scan, f.Jobs); apierrors.IsForbidden(err) {
		f.Withheld = append(f.Withheld, "Events: you may not list them; the role \"view\" allows it")
	} else if err != nil {
		return f, err
	}
	return f, nil
}

// events are the warnings about a Scan and its Jobs.
func events(ctx context.Context, c client.Client, scan *executionv1.Scan, jobs []batchv1.Job) ([]corev1.Event, error) {
	var all []corev1.Event
	objects := []client.Object{scan}
	for i := range jobs {
		objects = append(objects, &jobs[i])
	}
	for _, o := range objects {
		var list corev1.EventList
		if err := c.List(ctx, &list, client.InNamespace(scan.Namespace), client.MatchingFields{"involvedObject.uid": string(o.GetUID())}); err != nil {
			return nil, fmt.Errorf("list Events: %w", err)
		}
		for i := range list.Items {
			if o == client.Object(scan) || list.Items[i].Type == corev1.EventTypeWarning {
				all = append(all, list.Items[i])
			}
		}
	}
	return all, nil
}

var phasePaint = map[scanview.Progress]session.Paint{
	scanview.Waiting: session.Warn, scanview.Running: session.Note, scanview.Done: session.Good, scanview.Failed: session.Bad,
	scanview.Pending: session.Quiet, scanview.Skipped: session.Quiet,
}

// printDescription prints a description in sections, empty ones left out.
func printDescription(s *session.Session, out io.Writer, d view.Description) error {
	p := &printer{session: s, out: out}
	p.section("", func(w *output.Wrapped) {
		for _, f := range d.Fields {
			w.Row(output.Cell{Text: f.Name + ":"}, output.Cell{Text: f.Value, Paint: paintOf(f)})
		}
	})
	p.section("Phases", func(w *output.Wrapped) {
		for _, ph := range d.Phases {
			w.Row(
				output.Cell{Text: "  " + ph.Name}, output.Cell{Text: fmt.Sprintf("%-7s", ph.Progress), Paint: phasePaint[ph.Progress]},
				output.Cell{Text: took(s, ph)}, output.Cell{Text: dash(ph.Job) + tries(ph)}, output.Cell{Text: termsafe.Line(ph.Message)},
			)
		}
	})
	p.details(d)
	p.section("Next", func(w *output.Wrapped) {
		for _, a := range d.Next {
			if len(a.Command) == 0 {
				w.Texts("  " + a.Text)
				continue
			}
			w.Row(output.Cell{Text: "  " + s.Suggest(a.Command...), Paint: session.Note}, output.Cell{Text: a.Text})
		}
	})
	if len(d.Withheld) > 0 {
		p.section("Not shown", func(w *output.Wrapped) {
			for _, what := range d.Withheld {
				w.Texts("  " + what)
			}
		})
	}
	return p.err
}

// details are the sections that only some Scans have.
func (p *printer) details(d view.Description) {
	if len(d.Categories) > 0 {
		p.section("Findings by category", func(w *output.Wrapped) {
			for _, c := range d.Categories {
				w.Texts("  "+c.Value, c.Name)
			}
		})
	}
	if len(d.Conditions) > 0 {
		p.section("Conditions", func(w *output.Wrapped) {
			for _, c := range d.Conditions {
				w.Texts("  "+c.Type+"="+string(c.Status), c.Reason, termsafe.Line(c.Message))
			}
		})
	}
	if len(d.Events) > 0 {
		p.section("Events", func(w *output.Wrapped) {
			for _, e := range d.Events {
				w.Texts("  "+e.Age, e.Type, e.Reason, e.Message)
			}
		})
	}
}

type printer struct {
	session *session.Session
	out     io.Writer
	err     error
}

// section prints rows below a title.
func (p *printer) section(title string, rows func(*output.Wrapped)) {
	if title != "" {
		fmt.Fprintf(p.out, "\n%s\n", p.session.Paint(session.Heading, title+":"))
	}
	w := output.NewWrapped(p.session, p.out)
	rows(w)
	p.err = errors.Join(p.err, w.Flush())
}

// paintOf is the color of a field's value.
func paintOf(f view.Field) session.Paint {
	switch {
	case f.Name != "State":
		return ""
	case strings.HasPrefix(f.Value, string(executionv1.ScanStateDone)):
		return session.Good
	case strings.HasPrefix(f.Value, string(executionv1.ScanStateErrored)):
		return session.Bad
	}
	return session.Note
}

func took(s *session.Session, p scanview.Phase) string {
	if p.Began.IsZero() {
		return "-"
	}
	return view.Short(p.Duration(s.Now()))
}

func tries(p scanview.Phase) string {
	if p.Attempts > 1 {
		return fmt.Sprintf(" (attempt %d)", p.Attempts)
	}
	return ""
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
