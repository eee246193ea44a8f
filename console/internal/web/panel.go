// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/url"
	"time"
)

// Panel is a list in short, for a board.
type Panel struct {
	// Total says how many there are.
	Total  string
	Counts []Tally
	Rows   []PanelRow
}

// PanelRow is one of the list: with a severity, or with a word in its class of colour.
type PanelRow struct {
	Severity, Class, Word, Name, Link, Note string
	When                                    time.Time
}

// PanelRows is how many rows a panel has.
const PanelRows = 5

// At is the request as if the viewer had asked for another page of the console, and had chosen these namespaces.
func (q *Request) At(address *url.URL, chosen []string) (*Request, error) {
	other := *q
	other.Request = q.Clone(q.Context())
	other.URL = address
	var err error
	if named := address.Query()["ns"]; len(named) > 0 {
		if chosen, err = namespacesOf(named); err != nil {
			return nil, err
		}
	}
	other.Scope, err = q.Viewer.ScopeOf(q.Context(), chosen)
	return &other, err
}

// Said is an error as a page shows it in one line.
func Said(err error) string {
	p := problemOf(err)
	if p.Text == "" {
		return p.Title
	}
	return p.Title + " " + p.Text
}
