// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/scancolor"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/scanview"
)

const perPage = 50

// line is a Scan in the list.
type line struct {
	Namespace, Name, Type, State, Class, Says, Place, Target string
	Counts                                                   []web.Tally
	Counted                                                  bool
	Created                                                  time.Time
	Took                                                     time.Duration
}

func lineOf(s *executionv1.Scan, now time.Time) line {
	_, counted := scanview.Total(s.Status.Findings)
	return line{
		Namespace: s.Namespace, Name: s.Name, Type: s.Spec.ScanType, State: scanview.State(s), Class: scancolor.Of(s), Says: says(s),
		Place: scanview.Place(s), Target: scanview.Target(s), Counts: web.Tallies(s.Status.Findings), Counted: counted,
		Created: s.CreationTimestamp.Time, Took: scanview.Lifetime(s, now),
	}
}

// says is a sentence about a Scan that needs one.
func says(s *executionv1.Scan) string {
	if class := scancolor.Of(s); class == "good" || class == "run" {
		return ""
	}
	return sentence(s)
}

// sentence is the most important sentence about a Scan. What reached nothing has found nothing, whatever else is said of it.
func sentence(s *executionv1.Scan) string {
	return cmp.Or(scanview.Unreached(s), scanview.Says(s))
}

// list is what the page shows.
type list struct {
	Lines                    []line
	Total, Shown             int
	Text, State, Type        string
	States, Types            []string
	Next, Base, Live         string
	First, Filtered          bool
	Waiting, Running, Failed int
}

// ofState says whether a Scan belongs to a choice of the filter.
func ofState(s *executionv1.Scan, state string) bool {
	switch state {
	case "":
		return true
	case "running":
		return !s.Settled() && s.Status.State != executionv1.ScanStateNew
	case "waiting":
		return s.Status.State == executionv1.ScanStateNew
	}
	return strings.EqualFold(string(s.Status.State), state)
}

func listOf(q *web.Request, all []*executionv1.Scan) (*list, error) {
	v := q.URL.Query()
	l := &list{
		Text: strings.TrimSpace(v.Get("text")), State: v.Get("state"), Type: v.Get("type"), States: []string{"running", "waiting", "done", "errored"},
		First: v.Get("after") == "", Base: q.With("", ""),
	}
	l.Filtered = l.Text != "" || l.State != "" || l.Type != ""
	text := strings.ToLower(l.Text)
	var kept []*executionv1.Scan
	for _, s := range all {
		switch {
		case s.Settled() && s.Status.State == executionv1.ScanStateErrored:
			l.Failed++
		case s.Settled():
		case s.Status.State == executionv1.ScanStateNew:
			l.Waiting++
		default:
			l.Running++
		}
		if !slices.Contains(l.Types, s.Spec.ScanType) {
			l.Types = append(l.Types, s.Spec.ScanType)
		}
		if !ofState(s, l.State) || l.Type != "" && s.Spec.ScanType != l.Type {
			continue
		}
		if text != "" && !strings.Contains(strings.ToLower(s.Name+" "+s.Namespace+" "+strings.Join(s.Spec.Parameters, " ")), text) {
			continue
		}
		kept = append(kept, s)
	}
	slices.Sort(l.Types)
	from, err := strconv.Atoi(cmp.Or(v.Get("after"), "0"))
	if err != nil || from < 0 {
		return nil, &web.Problem{Code: http.StatusBadRequest, Title: "There is no such page of the list."}
	}
	from = min(from, len(kept))
	to := min(from+perPage, len(kept))
	for _, s := range kept[from:to] {
		l.Lines = append(l.Lines, lineOf(s, q.Now))
	}
	l.Total, l.Shown = len(kept), to-from
	if to < len(kept) {
		l.Next = with(q, strconv.Itoa(to))
	}
	if q.Scope.All() || q.Scope.Single() != "" {
		values := q.URL.Query()
		l.Live = "/scans/live?" + values.Encode()
	}
	return l, nil
}

func with(q *web.Request, after string) string {
	values := q.URL.Query()
	values.Set("after", after)
	return q.URL.Path + "?" + values.Encode()
}

func (p *pages) list(q *web.Request) (*web.View, error) {
	all, denials, err := q.Viewer.Scans(q.Context(), q.Scope)
	if err != nil {
		return nil, err
	}
	l, err := listOf(q, all)
	if err != nil {
		return nil, err
	}
	var notes []string
	for _, d := range denials {
		notes = append(notes, d.String())
	}
	return &web.View{Title: "Scans", Section: "Scans", Template: p.listTemplate, Data: l, Notes: notes}, nil
}

// together is how long changes are collected before a part is sent anew.
const together = 300 * time.Millisecond

// listLive sends the list anew whenever a Scan of it changes.
func (p *pages) listLive(w http.ResponseWriter, q *web.Request) error {
	all, changes, err := q.Viewer.WatchedScans(q.Context(), q.Scope)
	if err != nil {
		return err
	}
	defer changes.Stop()
	live, done, err := q.Live(w)
	if err != nil {
		return err
	}
	defer done()
	path := *q.URL
	path.Path = "/scans"
	shown := *q.Request
	shown.URL = &path
	q.Request = &shown
	ticker := time.NewTicker(together)
	defer ticker.Stop()
	changed := false
	for {
		select {
		case <-q.Context().Done():
			return nil
		case event, open := <-changes.ResultChan():
			if !open {
				return nil // the browser connects anew
			}
			scan, ok := event.Object.(*executionv1.Scan)
			if !ok {
				return nil
			}
			if event.Type == watch.Bookmark {
				continue
			}
			all, changed = applied(all, event.Type, scan), true
		case <-ticker.C:
			if !changed {
				continue
			}
			changed = false
			if err := p.send(live, q, all); err != nil {
				return nil // the browser is gone
			}
		}
	}
}

// send sends the list as it is now.
func (p *pages) send(live *web.Live, q *web.Request, all []*executionv1.Scan) error {
	q.Now = q.Viewer.Now()
	l, err := listOf(q, all)
	if err != nil {
		return err
	}
	return live.Part(p.listTemplate, "lines", l)
}

// applied is the list with a change in it, the newest first.
func applied(all []*executionv1.Scan, kind watch.EventType, scan *executionv1.Scan) []*executionv1.Scan {
	at := slices.IndexFunc(all, func(s *executionv1.Scan) bool { return s.UID == scan.UID })
	switch {
	case kind == watch.Deleted && at >= 0:
		return slices.Delete(all, at, at+1)
	case kind == watch.Deleted:
		return all
	case at >= 0:
		all[at] = scan
		return all
	}
	all = append(all, scan)
	slices.SortFunc(all, cluster.NewestFirst)
	return all
}
