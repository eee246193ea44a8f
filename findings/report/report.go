// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/exception"
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

// Source calls a function with every finding as it is in findings.json, the same findings in the same order in each call. The
// bytes are valid during the call.
type Source func(ctx context.Context, do func(element []byte) error) error

// Comparison says which findings are new. *compare.Set is one.
type Comparison interface {
	// State returns whether a finding is new or known. It may be called more than once.
	State(element []byte) (compare.State, error)
	// FixedCount is how many findings are gone, after State was called for all present ones.
	FixedCount() int
}

// Scan is what reports say of the Scan.
type Scan struct {
	Title      string   `json:"title"`
	Name       string   `json:"name"`
	Namespace  string   `json:"namespace"`
	Type       string   `json:"type"`
	Parameters []string `json:"parameters"`
	// Started and Finished are times as RFC 3339 has them, in UTC, or empty.
	Started  string `json:"started"`
	Finished string `json:"finished"`
	// Reached says whether the scanner reached its targets; nil if unknown.
	Reached *Reached `json:"reached,omitempty"`
}

// Reached is the condition TargetReached of a Scan.
type Reached struct {
	// Status is True, False or Unknown.
	Status string `json:"status"`
	// Message says it for people.
	Message string `json:"message"`
}

// unreached says that the scanner reached nothing; empty if it did, or if it is unknown.
func (s *Scan) unreached() string {
	if s.Reached == nil || s.Reached.Status != "False" {
		return ""
	}
	return withReason("Nothing was reached", s.Reached.Message)
}

// reachDoubt says that it is not known whether the scanner reached anything.
func (s *Scan) reachDoubt() string {
	if s.Reached == nil || s.Reached.Status != "Unknown" {
		return ""
	}
	return withReason("Whether anything was reached is not known", s.Reached.Message)
}

func withReason(what, reason string) string {
	if reason != "" {
		what += ": " + text.Cut(reason, maxGroupName)
	}
	return what
}

// Input is what a report is made from.
type Input struct {
	// Findings are read by New, and once by each format but Markdown.
	Findings Source
	// Scan has them.
	Scan Scan
	// Comparison is nil where there is nothing to compare with.
	Comparison Comparison
	// Exceptions are the exceptions that apply to the Scan; nil for none.
	Exceptions *exception.Selection
	// Keep leaves findings out, if it is not nil. It is called after State, ID and Exception are set.
	Keep func(*Entry) bool
	// MaxFindings is how many findings the page holds, DefaultMaxFindings if it is 0.
	MaxFindings int
	// FailOn says which findings JUnit calls failures.
	FailOn Threshold
	// AllowUnreached says that a Scan which has reached nothing is not an error for JUnit.
	AllowUnreached bool
	// Siblings are formats that are stored beside the page, which says so.
	Siblings []Format
}

// Bounds of Input.MaxFindings.
const (
	DefaultMaxFindings = 50_000
	// MostFindings is beyond what browsers show with comfort.
	MostFindings = 250_000
)

// Report is what all formats are made from.
type Report struct {
	Input

	stats stats
	// quota is how many findings, and bytes of them, of each severity are in the page.
	quota [Severities]size
	// worst are the findings in Markdown, at most maxMarkdown of each severity; excepted are some of those that are.
	worst    [Severities][]*Entry
	excepted []*Entry
}

// New reads the findings once, to count them.
func New(ctx context.Context, in Input) (*Report, error) {
	r := &Report{Input: in}
	r.MaxFindings = cmp.Or(r.MaxFindings, DefaultMaxFindings)
	r.Scan.Title = cmp.Or(r.Scan.Title, r.Scan.Name)
	r.Scan.Parameters = append([]string{}, r.Scan.Parameters...) // a list also where there are none
	if err := r.survey(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// conditionReached is the operator's condition about what was reached.
const conditionReached = "TargetReached"

// ScanOf reads what reports say of a Scan from the object as the API server gives it.
func ScanOf(object []byte) (Scan, error) {
	var o struct {
		Metadata struct {
			Name              string `json:"name"`
			Namespace         string `json:"namespace"`
			CreationTimestamp string `json:"creationTimestamp"`
		} `json:"metadata"`
		Spec struct {
			ScanType   string   `json:"scanType"`
			Parameters []string `json:"parameters"`
		} `json:"spec"`
		Status struct {
			FinishedAt string `json:"finishedAt"`
			Conditions []struct {
				Type string `json:"type"`
				Reached
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return Scan{}, fmt.Errorf("read Scan: %w", err)
	}
	var reached *Reached
	for _, c := range o.Status.Conditions {
		if c.Type == conditionReached {
			reached = &c.Reached
		}
	}
	return Scan{
		Name: o.Metadata.Name, Namespace: o.Metadata.Namespace, Type: o.Spec.ScanType, Parameters: o.Spec.Parameters,
		Started: instant(o.Metadata.CreationTimestamp), Finished: instant(o.Status.FinishedAt),
		Reached: reached,
	}, nil
}

// size is a number of findings and of bytes.
type size struct{ count, bytes int }

// stats count all findings, in the page or not.
type stats struct {
	total      int
	severities [Severities]size
	// excepted are those that count no longer. They are in the sums above as well.
	excepted   [Severities]int
	categories groups
	locations  groups
	// failing are the open ones that reach Input.FailOn.
	failing int
	// newOnes and fixed mean something if there is a previous run.
	newOnes, fixed int
}

// groups count by name and severity, up to a number of names.
type groups map[string]*[Severities]int

func (g groups) add(name string, s Severity) {
	name = text.Cut(name, maxGroupName)
	counts := g[name]
	if counts == nil {
		if len(g) >= maxGroups {
			name = otherGroups
		}
		if counts = g[name]; counts == nil {
			counts = &[Severities]int{}
			g[name] = counts
		}
	}
	counts[s]++
}

// group is a name with its counts.
type group struct {
	Name   string          `json:"name"`
	Counts [Severities]int `json:"counts"`
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

func sum(counts *[Severities]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// instant is a time in one form, or nothing.
func instant(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// Total is how many findings are in the report.
func (r *Report) Total() int { return r.stats.total }

// Open is how many of them have a severity and are not excepted.
func (r *Report) Open(s Severity) int { return r.stats.severities[s].count - r.stats.excepted[s] }

// Failing is how many of them reach Input.FailOn and are not excepted.
func (r *Report) Failing() int { return r.stats.failing }

// Excepted is how many of them are excepted.
func (r *Report) Excepted() int { return sum(&r.stats.excepted) }

// Each calls a function with every finding that is kept.
func (in *Input) Each(ctx context.Context, do func(*Entry) error) error {
	decode := newEntries()
	return in.Findings(ctx, func(element []byte) error {
		e, object, err := decode.read(element)
		if err != nil {
			return err
		}
		if e.ID == "" {
			content, err := compare.Content(element)
			if err != nil {
				return err
			}
			e.ID = finding.ID(in.Scan.Namespace, in.Scan.Type, content)
		}
		if in.Comparison != nil {
			if e.State, err = in.Comparison.State(element); err != nil {
				return err
			}
		}
		if in.Exceptions != nil {
			if mark, ok := in.Exceptions.Match(object); ok {
				e.Exception = &mark
			}
		}
		if in.Keep != nil && !in.Keep(e) {
			return nil
		}
		return do(e)
	})
}

// survey counts, and decides what will be in the page.
func (r *Report) survey(ctx context.Context) error {
	r.stats.categories, r.stats.locations = groups{}, groups{}
	var line []byte
	err := r.Each(ctx, func(e *Entry) error {
		r.stats.total++
		var err error
		if line, err = appendPageEntry(line[:0], e); err != nil {
			return err
		}
		r.stats.severities[e.Severity].count++
		r.stats.severities[e.Severity].bytes += len(line)
		r.stats.categories.add(e.Category, e.Severity)
		if e.Location != "" {
			r.stats.locations.add(e.Location, e.Severity)
		}
		if e.State == compare.New {
			r.stats.newOnes++
		}
		if !e.Excepted() && r.FailOn.Reached(e) {
			r.stats.failing++
		}
		if e.Excepted() {
			r.stats.excepted[e.Severity]++
			if len(r.excepted) < maxMarkdown {
				r.excepted = append(r.excepted, e.brief())
			}
		} else if worst := &r.worst[e.Severity]; len(*worst) < maxMarkdown {
			*worst = append(*worst, e.brief())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.Comparison != nil {
		r.stats.fixed = r.Comparison.FixedCount()
	}
	r.setQuota()
	return nil
}

// setQuota gives room in the page to the worst first.
func (r *Report) setQuota() {
	left := size{r.MaxFindings, maxPageBytes}
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
