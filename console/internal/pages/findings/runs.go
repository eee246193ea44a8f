// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/scanview"
)

const (
	// shownRuns is how many runs of its scan the page of a finding looks into, the newest first.
	shownRuns = 12
	// runsPatience is how long they may take together: what is not read by then is shown as not read.
	runsPatience = 2 * time.Second
)

// run is a run of the scan that has found the finding.
type run struct {
	Name, Link, Class, Word string
	When                    time.Time
	Here                    bool
}

// runs are the newest runs of a scan, with whether each has a finding.
type runs struct {
	List []run
	// Strip shows them from the oldest to the newest.
	Strip charts.Strip
	// First and Last are when the finding was seen in them.
	First, Last time.Time
	// Before says that the oldest of them has it already.
	Before bool
}

// runsOf looks for a finding in the newest runs of its scan.
func runsOf(q *web.Request, scan *executionv1.Scan, same compare.Mark) (runs, error) {
	all, _, err := q.Viewer.Scans(q.Context(), cluster.Scope{Names: []string{scan.Namespace}})
	if err != nil {
		return runs{}, err
	}
	all = slices.DeleteFunc(all, func(s *executionv1.Scan) bool {
		return s.Status.FindingDownloadLink == "" || scanview.Series(s) != scanview.Series(scan)
	})
	all = all[:min(len(all), shownRuns)]
	ctx, cancel := context.WithTimeout(q.Context(), runsPatience)
	defer cancel()
	words := make([]string, len(all))
	var reading sync.WaitGroup
	for i, s := range all {
		reading.Go(func() { words[i] = wordOf(ctx, q, s, scan, same) })
	}
	reading.Wait()
	out := runs{Strip: charts.Strip{Title: "The runs of this scan, the newest at the right"}}
	for i, s := range all {
		out.add(s, words[i], s.UID == scan.UID)
	}
	for _, r := range slices.Backward(out.List) {
		out.Strip.Add("f"+r.Class, r.Name+": "+r.Word)
	}
	return out, nil
}

// The words for a run.
const (
	wordFound    = "found"
	wordNotFound = "not found"
	wordNotRead  = "cannot be read"
)

var runClasses = map[string]string{wordFound: "bad", wordNotFound: "good", wordNotRead: "off"}

func wordOf(ctx context.Context, q *web.Request, s, scan *executionv1.Scan, same compare.Mark) string {
	if s.UID == scan.UID {
		return wordFound
	}
	input, err := q.Viewer.FindingsBeside(s, scan)
	if err != nil {
		return wordNotRead
	}
	err = input.Each(ctx, func(e *report.Entry) error {
		mark, err := compare.MarkOf(e.Element)
		if err == nil && mark == same {
			err = errEnough
		}
		return err
	})
	switch {
	case errors.Is(err, errEnough):
		return wordFound
	case err != nil:
		return wordNotRead
	}
	return wordNotFound
}

// add adds a run that is older than those before it.
func (r *runs) add(s *executionv1.Scan, word string, here bool) {
	when := s.CreationTimestamp.Time
	r.List = append(r.List, run{s.Name, "/scans/" + escape(s.Namespace) + "/" + escape(s.Name), runClasses[word], word, when, here})
	r.Before = word == wordFound
	if word != wordFound {
		return
	}
	r.First = when
	if r.Last.IsZero() {
		r.Last = when
	}
}
