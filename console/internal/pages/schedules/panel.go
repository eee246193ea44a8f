// SPDX-License-Identifier: Apache-2.0

package schedules

import "github.com/scanyard/scanyard/console/internal/web"

// Panel is the list that a request asks for in short.
func Panel(q *web.Request) (*web.Panel, error) {
	l, _, err := listOf(q)
	if err != nil {
		return nil, err
	}
	p := &web.Panel{Total: web.Count(l.Total, "schedule")}
	for i := range l.Lines[:min(len(l.Lines), web.PanelRows)] {
		s := &l.Lines[i]
		p.Rows = append(p.Rows, web.PanelRow{Class: s.Class, Word: s.State, Name: s.Name, Link: s.Link, Note: "in " + s.Namespace, When: s.Last})
	}
	return p, nil
}
