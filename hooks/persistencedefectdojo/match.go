// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// dojoFinding is what is read of a finding in DefectDojo.
type dojoFinding struct {
	ID               int64   `json:"id"`
	Test             int64   `json:"test"`
	Title            string  `json:"title"`
	Description      string  `json:"description"`
	Severity         string  `json:"severity"`
	Created          string  `json:"created"`
	UniqueID         *string `json:"unique_id_from_tool"`
	Duplicate        bool    `json:"duplicate"`
	DuplicateFinding *int64  `json:"duplicate_finding"`
	FalsePositive    bool    `json:"false_p"`
	RiskAccepted     bool    `json:"risk_accepted"`
	OutOfScope       bool    `json:"out_of_scope"`
	IsMitigated      bool    `json:"is_mitigated"`
	Endpoints        []int64 `json:"endpoints"`

	places []*endpoint
}

func (d *dojoFinding) severity() string {
	switch d.Severity {
	case "Critical", "High":
		return finding.High
	case "Medium":
		return finding.Medium
	case "Low":
		return finding.Low
	}
	return finding.Informational
}

func (d *dojoFinding) location() string {
	if len(d.places) == 0 || d.places[0].Host == "" {
		return "unknown"
	}
	return d.places[0].location()
}

// endpoint is DefectDojo's record of a place.
type endpoint struct {
	Protocol string      `json:"protocol"`
	Host     string      `json:"host"`
	Port     json.Number `json:"port"`
	Path     string      `json:"path"`
	Query    string      `json:"query"`
	Fragment string      `json:"fragment"`
}

// location writes the place as a finding has it.
func (e *endpoint) location() string {
	var out strings.Builder
	if e.Protocol != "" {
		out.WriteString(e.Protocol + ":")
	}
	out.WriteString("//" + e.Host)
	if port := e.Port.String(); port != "" && !strings.HasSuffix(e.Host, ":"+port) {
		out.WriteString(":" + port)
	}
	if e.Path != "" {
		out.WriteString("/" + strings.TrimPrefix(e.Path, "/"))
	}
	if e.Query != "" {
		out.WriteString("?" + strings.TrimPrefix(e.Query, "?"))
	}
	if e.Fragment != "" {
		out.WriteString("#" + strings.TrimPrefix(e.Fragment, "#"))
	}
	return out.String()
}

// spot is a host with a port, which may be 0.
type spot struct {
	host string
	port int
}

func spotOf(location string) (spot, bool) {
	parsed, err := url.Parse(location)
	if err != nil || parsed.Host == "" {
		if parsed, err = url.Parse("//" + location); err != nil || parsed.Host == "" {
			return spot{}, false
		}
	}
	port, err := strconv.Atoi(parsed.Port())
	if err != nil {
		port = map[string]int{"http": 80, "https": 443}[parsed.Scheme] // 0 for others
	}
	return spot{strings.ToLower(strings.Trim(parsed.Hostname(), "[]")), port}, true
}

// known finds DefectDojo's record of a finding.
type known struct {
	all  []*dojoFinding
	byID map[string]*dojoFinding
	// byMark holds a bucket for each title, each spot, and each title at a spot.
	byMark map[mark]*bucket
}

// mark is what records are found by.
type mark struct {
	title string
	spot  spot
}

// bucket is how many records have a mark; the only one is of use.
type bucket struct {
	first *dojoFinding
	count int
}

func newKnown() *known {
	return &known{byID: map[string]*dojoFinding{}, byMark: map[mark]*bucket{}}
}

func (k *known) add(d *dojoFinding) {
	k.all = append(k.all, d)
	if d.UniqueID != nil && *d.UniqueID != "" {
		k.byID[*d.UniqueID] = d
	}
	title := titleKey(d.Title)
	marks := map[mark]bool{{title: title}: true} // a place twice is once
	for _, e := range d.places {
		if at, ok := spotOf(e.location()); ok {
			marks[mark{spot: at}], marks[mark{title, at}] = true, true
		}
	}
	for m := range marks {
		if b := k.byMark[m]; b != nil {
			b.count++
		} else {
			k.byMark[m] = &bucket{d, 1}
		}
	}
}

// only is the one record that has a mark; how many have it is 0, 1 or more.
func (k *known) only(m mark) (d *dojoFinding, count int) {
	b := k.byMark[m]
	if b == nil {
		return nil, 0
	}
	if b.count > 1 {
		return nil, b.count
	}
	return b.first, 1
}

// maxTitle is how much of a title DefectDojo stores.
const maxTitle = 511

// titleKey evens out what DefectDojo does to titles: it writes words with capitals and cuts.
func titleKey(title string) string {
	runes := []rune(strings.ToLower(strings.Join(strings.Fields(title), " ")))
	return string(runes[:min(len(runes), maxTitle)])
}

// find returns the record that is certainly the finding's, or nil: by id, else by title, and place where several have
// the same title; else by place, if it has one finding only.
func (k *known) find(id string, f *finding.Finding) *dojoFinding {
	if d := k.byID[id]; d != nil {
		return d
	}
	at, placed := spotOf(f.Location.Or(""))
	title := titleKey(f.Name.Or(""))
	d, count := k.only(mark{title: title})
	switch {
	case count == 1:
		return d.unlessElsewhere(at, placed)
	case !placed:
		return nil
	case count > 1:
		d, _ = k.only(mark{title, at})
		return d
	case at.port == 0:
		return nil
	}
	d, _ = k.only(mark{spot: at})
	return d
}

// unlessElsewhere drops a record that is only about other hosts.
func (d *dojoFinding) unlessElsewhere(at spot, placed bool) *dojoFinding {
	if !placed || len(d.places) == 0 {
		return d
	}
	for _, e := range d.places {
		if s, ok := spotOf(e.location()); !ok || s.host == at.host {
			return d
		}
	}
	return nil
}
