// SPDX-License-Identifier: Apache-2.0

package scans

import "github.com/scanyard/scanyard/console/internal/web"

// Panel is the list that a request asks for in short.
func Panel(q *web.Request) (*web.Panel, error) {
	all, _, err := q.Viewer.Scans(q.Context(), q.Scope)
	if err != nil {
		return nil, err
	}
	l, err := listOf(q, all)
	if err != nil {
		return nil, err
	}
	p := &web.Panel{Total: web.Count(l.Total, "scan")}
	for i := range l.Lines[:min(len(l.Lines), web.PanelRows)] {
		s := &l.Lines[i]
		p.Rows = append(p.Rows, web.PanelRow{
			Class: s.Class, Word: s.State, Name: s.Name, Link: web.Link("/scans/" + s.Namespace + "/" + s.Name), Note: "in " + s.Namespace, When: s.Created,
		})
	}
	return p, nil
}
