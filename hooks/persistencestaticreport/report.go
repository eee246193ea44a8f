// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/sdk"
)

const (
	// maxPageBytes bounds the findings in the page.
	maxPageBytes = 48 << 20
	// maxGroups bounds what is counted by name.
	maxGroups = 20_000
	// maxGroupName is how long such a name may be.
	maxGroupName = 300
	// otherGroups counts what is beyond.
	otherGroups = "(others)"
	// topGroups are shown in charts.
	topGroups = 12
)

// report is what all formats are made from.
type report struct {
	*handler

	session    *sdk.Session
	comparison *sdk.Comparison

	scan  scanInfo
	stats stats
	// quota is how many findings, and bytes of them, of each severity are in the page.
	quota [severities]size
	// worst are the findings in Markdown, at most maxMarkdown of each severity.
	worst [severities][]*entry
}

// size is a number of findings and of bytes.
type size struct{ count, bytes int }

// scanInfo is what reports say of the Scan.
type scanInfo struct {
	Title      string   `json:"title"`
	Name       string   `json:"name"`
	Namespace  string   `json:"namespace"`
	Type       string   `json:"type"`
	Parameters []string `json:"parameters"`
	Started    string   `json:"started"`
	Finished   string   `json:"finished"`
}

// stats count all findings, in the page or not.
type stats struct {
	total      int
	severities [severities]size
	categories groups
	locations  groups
	// newOnes and fixed mean something if there is a previous run.
	newOnes, fixed int
}

// groups count by name and severity, up to a number of names.
type groups map[string]*[severities]int

func (g groups) add(name string, s severity) {
	name = cut(name, maxGroupName)
	counts := g[name]
	if counts == nil {
		if len(g) >= maxGroups {
			name = otherGroups
		}
		if counts = g[name]; counts == nil {
			counts = &[severities]int{}
			g[name] = counts
		}
	}
	counts[s]++
}

// group is a name with its counts.
type group struct {
	Name   string          `json:"name"`
	Counts [severities]int `json:"counts"`
	total  int
}

// top are the largest groups, and the sum of the others as a last one without a name.
func (g groups) top(most int) []group {
	all := make([]group, 0, len(g))
	for name, counts := range g {
		all = append(all, group{name, *counts, sum(counts)})
	}
	slices.SortFunc(all, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.Name, b.Name))
	})
	if len(all) <= most {
		return all
	}
	rest := group{}
	for _, other := range all[most:] {
		rest.total += other.total
		for s, n := range other.Counts {
			rest.Counts[s] += n
		}
	}
	return append(all[:most], rest)
}

func sum(counts *[severities]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func (r *report) readScan() error {
	var more struct {
		Metadata struct {
			CreationTimestamp string `json:"creationTimestamp"`
		} `json:"metadata"`
		Status struct {
			FinishedAt string `json:"finishedAt"`
		} `json:"status"`
	}
	scan := r.session.Scan()
	if err := json.Unmarshal(scan.Raw, &more); err != nil {
		return fmt.Errorf("read Scan: %w", err)
	}
	r.scan = scanInfo{
		Title: cmp.Or(r.title, scan.Metadata.Name), Name: scan.Metadata.Name, Namespace: scan.Metadata.Namespace,
		Type: scan.Spec.ScanType, Parameters: append([]string{}, scan.Spec.Parameters...),
		Started: instant(more.Metadata.CreationTimestamp), Finished: instant(more.Status.FinishedAt),
	}
	return nil
}

// instant is a time in one form, or nothing.
func instant(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// each calls a function with every finding.
func (r *report) each(ctx context.Context, do func(*entry) error) error {
	in := newEntries()
	return r.session.EachFinding(ctx, func(element []byte) error {
		e, err := in.read(element)
		if err != nil {
			return err
		}
		if e.id == "" {
			if e.id, err = r.session.FindingID(element); err != nil {
				return err
			}
		}
		if r.comparison.HasPrevious() {
			if e.state, err = r.comparison.State(element); err != nil {
				return err
			}
		}
		return do(e)
	})
}

// survey counts, and decides what will be in the page.
func (r *report) survey(ctx context.Context) error {
	r.stats.categories, r.stats.locations = groups{}, groups{}
	var line []byte
	err := r.each(ctx, func(e *entry) error {
		r.stats.total++
		var err error
		if line, err = appendPageEntry(line[:0], e); err != nil {
			return err
		}
		r.stats.severities[e.severity].count++
		r.stats.severities[e.severity].bytes += len(line)
		r.stats.categories.add(e.category, e.severity)
		if e.location != "" {
			r.stats.locations.add(e.location, e.severity)
		}
		if e.state == compare.New {
			r.stats.newOnes++
		}
		if worst := &r.worst[e.severity]; len(*worst) < maxMarkdown {
			*worst = append(*worst, e.brief())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.comparison.HasPrevious() {
		r.stats.fixed = r.comparison.FixedCount()
	}
	r.setQuota()
	return nil
}

// setQuota gives room in the page to the worst first.
func (r *report) setQuota() {
	left := size{r.maxFindings, maxPageBytes}
	for s, all := range r.stats.severities {
		r.quota[s] = size{min(all.count, left.count), min(all.bytes, left.bytes)}
		left.count -= r.quota[s].count
		left.bytes -= r.quota[s].bytes
	}
}

// room takes room for a finding in the page, if there is some left.
func (q *size) room(bytes int) bool {
	if q.count < 1 || q.bytes < bytes {
		q.count = 0 // what comes later must not jump the queue
		return false
	}
	q.count--
	q.bytes -= bytes
	return true
}
