// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/scanview"
)

// shownChanges is how many findings of a kind the page of changes shows; the worst stay.
const shownChanges = 200

// change is a finding that has come or gone.
type change struct{ Severity, Name, Location, Category, Link, Excepted string }

// changes are what differs between two runs of a scan.
type changes struct {
	Base, Name, Namespace string
	With                  string
	Runs                  []runBefore
	Come, Gone            []change
	ComeTotal, GoneTotal  int
	Known                 int
}

type runBefore struct {
	Name    string
	Created time.Time
	On      bool
}

// before are the earlier runs of the same scan that have findings, the newest first.
func before(q *web.Request, scan *executionv1.Scan) ([]*executionv1.Scan, []cluster.Denial, error) {
	all, denials, err := q.Viewer.Scans(q.Context(), cluster.Scope{Names: []string{scan.Namespace}})
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(s *executionv1.Scan) bool {
		return s.UID == scan.UID || s.Status.FindingDownloadLink == "" || scanview.Series(s) != scanview.Series(scan) ||
			!s.CreationTimestamp.Before(&scan.CreationTimestamp)
	})
	return all, denials, nil
}

func (p *pages) changes(q *web.Request) (*web.View, error) {
	scan, err := p.scan(q)
	if err != nil {
		return nil, err
	}
	runs, denials, err := before(q, scan)
	if err != nil {
		return nil, err
	}
	d := &changes{Base: "/scans/" + scan.Namespace + "/" + scan.Name, Name: scan.Name, Namespace: scan.Namespace, With: q.URL.Query().Get("with")}
	view := &web.View{Title: "What has changed", Section: "Scans", Template: p.changesTemplate, Data: d, Notes: web.Notes("Scans", denials, nil)}
	if len(runs) == 0 {
		return view, nil
	}
	with := runs[0]
	for _, run := range runs {
		if run.Name == d.With {
			with = run
		}
	}
	d.With = with.Name
	for _, run := range runs {
		d.Runs = append(d.Runs, runBefore{run.Name, run.CreationTimestamp.Time, run.Name == d.With})
	}
	if err := d.compare(q, with, scan); err != nil {
		return nil, err
	}
	return view, nil
}

// compare reads the run before, this run, and the run before again for what is gone: only marks are remembered.
func (d *changes) compare(q *web.Request, was, is *executionv1.Scan) error {
	set := &compare.Set{}
	err := eachFinding(q.Context(), q, was, func(e *report.Entry) error { return set.AddFinding(e.Element) })
	if err != nil {
		return err
	}
	err = eachFinding(q.Context(), q, is, func(e *report.Entry) error {
		state, err := set.State(e.Element)
		if err != nil {
			return err
		}
		if state == compare.Known {
			d.Known++
			return nil
		}
		d.ComeTotal++
		d.Come = keepWorst(d.Come, changeOf(is, e))
		return nil
	})
	if err != nil {
		return err
	}
	return eachFinding(q.Context(), q, was, func(e *report.Entry) error {
		mark, err := compare.MarkOf(e.Element)
		if err != nil {
			return err
		}
		if set.IsFixed(mark) {
			d.GoneTotal++
			d.Gone = keepWorst(d.Gone, changeOf(was, e))
		}
		return nil
	})
}

func eachFinding(ctx context.Context, q *web.Request, scan *executionv1.Scan, do func(*report.Entry) error) error {
	input, err := q.Viewer.Findings(ctx, scan)
	if err == nil {
		err = input.Each(ctx, do)
	}
	if err != nil && ctx.Err() == nil {
		return &web.Problem{
			Code: http.StatusNotFound, Title: "The findings of " + scan.Name + " cannot be read.", Text: err.Error(),
			Remedy: "Its page can have links renewed.",
		}
	}
	return err
}

func changeOf(scan *executionv1.Scan, e *report.Entry) change {
	c := change{
		Severity: strings.ToLower(e.Severity.String()), Name: e.Name, Location: e.Location, Category: e.Category,
		Link: web.Link("/findings/"+url.PathEscape(cmp.Or(e.Fingerprint, e.ID)), "ns", scan.Namespace, "scan", scan.Name),
	}
	if e.Excepted() {
		c.Excepted = string(e.Exception.Status)
	}
	return c
}

// keepWorst adds a finding to a list that keeps the worst ones.
func keepWorst(list []change, c change) []change {
	at, _ := slices.BinarySearchFunc(list, c, func(a, b change) int {
		return cmp.Or(cmp.Compare(web.SeverityRank(a.Severity), web.SeverityRank(b.Severity)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Location, b.Location))
	})
	if at >= shownChanges {
		return list
	}
	list = slices.Insert(list, at, c)
	return list[:min(len(list), shownChanges)]
}

// pod is a pod of one of the Scan's Jobs.
type pod struct {
	Name, Job, Phase, Class, Node, Says string
	Restarts                            int32
	Created                             time.Time
}

var podClasses = map[corev1.PodPhase]string{
	corev1.PodPending: "wait", corev1.PodRunning: "run", corev1.PodSucceeded: "good", corev1.PodFailed: "bad", corev1.PodUnknown: "off",
}

// pods are those of the Scan's Jobs, as far as the viewer may read them.
func pods(q *web.Request, namespace string, jobs []batchv1.Job) ([]pod, error) {
	var out []pod
	for i := range jobs {
		list := &corev1.PodList{}
		err := q.Viewer.List(q.Context(), list, client.InNamespace(namespace), client.MatchingLabels{batchv1.JobNameLabel: jobs[i].Name})
		if apierrors.IsForbidden(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for n := range list.Items {
			out = append(out, podOf(&list.Items[n], jobs[i].Name))
		}
	}
	slices.SortStableFunc(out, func(a, b pod) int { return a.Created.Compare(b.Created) })
	return out, nil
}

func podOf(p *corev1.Pod, job string) pod {
	out := pod{
		Name: p.Name, Job: job, Phase: string(p.Status.Phase), Class: podClasses[p.Status.Phase], Node: p.Spec.NodeName, Says: p.Status.Message,
		Created: p.CreationTimestamp.Time,
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		out.Restarts += c.RestartCount
		switch {
		case out.Says != "":
		case c.State.Waiting != nil && c.State.Waiting.Message != "":
			out.Says = c.State.Waiting.Reason + ": " + c.State.Waiting.Message
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			out.Says = fmt.Sprintf("%s ended with exit code %d (%s)", c.Name, c.State.Terminated.ExitCode, c.State.Terminated.Reason)
		}
	}
	return out
}
