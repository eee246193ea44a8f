// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/scancolor"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/scanview"
)

// phase is a line of the timeline.
type phase struct {
	scanview.Phase

	// Class is the class of colour.
	Class, Word string
	Meter       charts.Meter
	Took        time.Duration
	Log         string
}

// one is what the page of a Scan shows.
type one struct {
	line

	Parameters       []string
	Phases           []phase
	Conditions       []metav1.Condition
	Facts            []fact
	Says             string
	Total            int64
	Settled          bool
	Suspended        bool
	Live, Base       string
	Raw, Found       string
	Categories       []category
	Allowed          map[string]bool
	Denied           string
	CSRF             string
	Parent, Schedule string
	// Cascade are the Scans that have started this one, this one, and those that their findings have started; nil where it stands alone.
	Cascade []node
	Pods    []pod
	// Follows says whether its findings can be read by its links.
	Follows bool
}

type fact struct{ Name, Value, Link string }

type category struct {
	Name, Link string
	N          int64
}

func (p *pages) scan(q *web.Request) (*executionv1.Scan, error) {
	scan := &executionv1.Scan{}
	if err := q.Viewer.Get(q.Context(), client.ObjectKey{Namespace: q.PathValue("namespace"), Name: q.PathValue("name")}, scan); err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	return scan, nil
}

// jobs are those of a Scan, as far as the viewer may read them.
func jobs(q *web.Request, s *executionv1.Scan) ([]batchv1.Job, error) {
	list := &batchv1.JobList{}
	err := q.Viewer.List(q.Context(), list, client.InNamespace(s.Namespace), client.MatchingLabels{executionv1.LabelScanUID: string(s.UID)})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list Jobs: %w", err)
	}
	return list.Items, nil
}

// reach is where a Scan takes its ScanType and hooks from.
var reach = map[executionv1.ResourceMode]string{executionv1.NamespaceLocal: "of the namespace", executionv1.ClusterWide: "of the cluster"}

func oneOf(s *executionv1.Scan, jobs []batchv1.Job, now time.Time) *one {
	o := &one{
		line: lineOf(s, now), Parameters: s.Spec.Parameters, Conditions: s.Status.Conditions, Settled: s.Settled(), Says: sentence(s),
		Suspended: s.Spec.Suspend != nil && *s.Spec.Suspend, Base: "/scans/" + s.Namespace + "/" + s.Name,
		Raw: s.Status.RawResultDownloadLink, Found: s.Status.FindingDownloadLink,
	}
	o.Total, o.Counted = scanview.Total(s.Status.Findings)
	o.Live = o.Base + "/live"
	phases := scanview.Detailed(s, jobs)
	first, last := s.CreationTimestamp.Time, s.CreationTimestamp.Time
	for _, ph := range phases {
		if ph.Ended.After(last) {
			last = ph.Ended
		}
	}
	if !s.Settled() {
		last = now
	}
	for _, ph := range phases {
		log := ""
		if ph.Job != "" {
			log = web.Link(o.Base+"/log", "job", ph.Job)
		}
		class, word := scancolor.OfPhase(ph)
		o.Phases = append(o.Phases, phase{ph, class, word, charts.Span("f"+class, ph.Began, ph.Ended, first, last), ph.Duration(now), log})
	}
	for name, n := range s.Status.Findings.FindingCategories {
		o.Categories = append(o.Categories, category{name, "", n})
	}
	slices.SortFunc(o.Categories, func(a, b category) int {
		if a.N != b.N {
			return int(b.N - a.N)
		}
		return strings.Compare(a.Name, b.Name)
	})
	if owner := executionv1.ScheduleOf(s); owner != nil {
		o.Schedule = owner.Name
	}
	o.Parent = s.Annotations[annotationParent]
	for _, f := range []fact{
		{"Type", s.Spec.ScanType, ""},
		{"Types and hooks", reach[s.Mode()], ""},
		{"Parameters", strings.Join(s.Spec.Parameters, " "), ""},
		{"Target", s.Labels[executionv1.LabelTarget], ""},
		{"Schedule", o.Schedule, "/schedules/" + s.Namespace + "/" + o.Schedule},
		{"Started by a finding of", o.Parent, "/scans/" + s.Namespace + "/" + url.PathEscape(o.Parent)},
		{"Created", s.CreationTimestamp.UTC().Format(time.RFC3339), ""},
		{"Queue", scanview.Place(s), ""},
	} {
		if f.Value != "" {
			o.Facts = append(o.Facts, f)
		}
	}
	return o
}

// annotationParent names the Scan whose finding has started this one.
const annotationParent = "cascading.securecodebox.io/parent-scan"

func (p *pages) one(q *web.Request) (*web.View, error) {
	scan, err := p.scan(q)
	if err != nil {
		return nil, err
	}
	list, err := jobs(q, scan)
	if err != nil {
		return nil, err
	}
	o := oneOf(scan, list, q.Now)
	o.CSRF, o.Allowed = q.Session.CSRF, map[string]bool{}
	var denied []string
	for _, verb := range []string{"patch", "delete", "create"} {
		if o.Allowed[verb], err = q.MayChange(verb, "scans", scan.Namespace); err != nil {
			return nil, err
		}
		if !o.Allowed[verb] {
			denied = append(denied, verb)
		}
	}
	if len(denied) > 0 {
		o.Denied = "You may not " + strings.Join(denied, ", ") + " scans.execution.securecodebox.io in " + scan.Namespace + "."
	}
	if o.Pods, err = pods(q, scan.Namespace, list); err != nil {
		return nil, err
	}
	// Who may not list Scans sees this one alone.
	all, _, err := q.Viewer.Scans(q.Context(), cluster.Scope{Names: []string{scan.Namespace}})
	if err != nil {
		return nil, err
	}
	o.Cascade, o.Follows = cascade(all, scan, q.Now), q.Viewer.FollowsLinks()
	return &web.View{Title: scan.Name, Section: "Scans", Template: p.oneTemplate, Data: o}, nil
}

// oneLive sends what moves on the page of a Scan.
func (p *pages) oneLive(w http.ResponseWriter, q *web.Request) error {
	scan, err := p.scan(q)
	if err != nil {
		return err
	}
	changes, err := q.Viewer.Watch(q.Context(), &executionv1.ScanList{}, client.InNamespace(scan.Namespace), client.MatchingFields{"metadata.name": scan.Name})
	if err != nil {
		return fmt.Errorf("watch Scan: %w", err)
	}
	defer changes.Stop()
	live, done, err := q.Live(w)
	if err != nil {
		return err
	}
	defer done()
	ticker := time.NewTicker(time.Second) // running phases get longer
	defer ticker.Stop()
	var list []batchv1.Job
	for ticks := 0; ; ticks++ {
		if ticks%jobsEvery == 0 {
			if list, err = jobs(q, scan); err != nil {
				return nil // the browser connects anew
			}
		}
		o := oneOf(scan, list, q.Viewer.Now())
		o.Follows = q.Viewer.FollowsLinks()
		if live.Part(p.oneTemplate, "moving", o) != nil {
			return nil // the browser is gone
		}
		if scan.Settled() {
			return live.Send("end", "")
		}
		next, open := awaited(q, changes, ticker)
		if !open {
			return nil
		}
		if next != nil {
			scan, ticks = next, -1 // what has changed may be its Jobs
		}
	}
}

// jobsEvery is how many seconds pass before the Jobs of a Scan are listed again that says nothing.
const jobsEvery = 5

// awaited waits for a change, or for a second to pass. False is the end.
func awaited(q *web.Request, changes watch.Interface, ticker *time.Ticker) (*executionv1.Scan, bool) {
	select {
	case <-q.Context().Done():
		return nil, false
	case <-ticker.C:
		return nil, true
	case event, open := <-changes.ResultChan():
		scan, ok := event.Object.(*executionv1.Scan)
		return scan, open && ok && event.Type != watch.Deleted
	}
}

// logTail is how many lines of a log are shown at first.
const logTail = 500

// logPage shows the log of a Job's newest pod.
func (p *pages) logPage(q *web.Request) (*web.View, error) {
	scan, err := p.scan(q)
	if err != nil {
		return nil, err
	}
	job := q.URL.Query().Get("job")
	return &web.View{Title: "Log of " + job, Section: "Scans", Template: p.logTemplate, Data: map[string]string{
		"Job": job, "Base": "/scans/" + scan.Namespace + "/" + scan.Name, "Name": scan.Name,
		"Live": web.Link("/scans/"+scan.Namespace+"/"+scan.Name+"/log/live", "job", job),
		"File": web.Link("/scans/"+scan.Namespace+"/"+scan.Name+"/log/text", "job", job),
	}}, nil
}

// container is the container of a Job's newest pod that has something to say.
func container(q *web.Request, scan *executionv1.Scan) (pod *corev1.Pod, name string, err error) {
	list := &corev1.PodList{}
	err = q.Viewer.List(q.Context(), list, client.InNamespace(scan.Namespace), client.MatchingLabels{batchv1.JobNameLabel: q.URL.Query().Get("job")})
	if err != nil {
		return nil, "", fmt.Errorf("list pods: %w", err)
	}
	for i := range list.Items {
		if pod == nil || pod.CreationTimestamp.Before(&list.Items[i].CreationTimestamp) {
			pod = &list.Items[i]
		}
	}
	if pod == nil || len(pod.Spec.Containers) == 0 {
		const text = "Pods of a Job are removed with it. The end of a scanner's log is kept with the results."
		return nil, "", &web.Problem{Code: http.StatusNotFound, Title: "The pod is gone.", Text: text}
	}
	return pod, pod.Spec.Containers[0].Name, nil
}

// openLog begins to read the log of a Job's newest pod.
func (p *pages) openLog(q *web.Request, options corev1.PodLogOptions) (io.ReadCloser, error) {
	scan, err := p.scan(q)
	if err != nil {
		return nil, err
	}
	pod, name, err := container(q, scan)
	if err != nil {
		return nil, err
	}
	options.Container = name
	log, err := q.Viewer.Logs.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).Stream(q.Context())
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return log, nil
}

func (p *pages) logLive(w http.ResponseWriter, q *web.Request) error {
	log, err := p.openLog(q, corev1.PodLogOptions{Follow: true, TailLines: new(int64(logTail))})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only read from
	live, done, err := q.Live(w)
	if err != nil {
		return err
	}
	defer done()
	if eachLine(log, func(line string) error { return live.Send("line", line) }) != nil {
		return nil // the browser is gone
	}
	return live.Send("end", "")
}

func (p *pages) logText(w http.ResponseWriter, q *web.Request) error {
	log, err := p.openLog(q, corev1.PodLogOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only read from
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = eachLine(log, func(line string) error { // fails only where the browser is gone
		_, err := io.WriteString(w, line+"\n")
		return err
	})
	return nil
}

// maxLine is the longest line of a log that is read, in bytes.
const maxLine = 1 << 20

// eachLine hands on the lines of a log without what controls a terminal. Where the log cannot be read to its end, the last
// line says so. Its errors are those of each.
func eachLine(log io.Reader, each func(line string) error) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := each(plain(lines.Text())); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return each("The log cannot be read further: " + err.Error())
	}
	return nil
}

// plain is a line of a log without what controls a terminal.
func plain(line string) string {
	var out strings.Builder
	skip := false
	for _, r := range line {
		switch {
		case skip:
			skip = r < '@' || r > '~' || r == '['
		case r == 0x1b:
			skip = true
		case r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f):
			out.WriteRune(r)
		}
	}
	return out.String()
}
