// SPDX-License-Identifier: Apache-2.0

package exceptions

import "github.com/scanyard/scanyard/console/internal/web"

// Panel is the list that a request asks for in short.
func Panel(q *web.Request) (*web.Panel, error) {
	l, _, err := listOf(q)
	if err != nil {
		return nil, err
	}
	p := &web.Panel{Total: web.Count(l.Total, "exception")}
	for i := range l.Lines[:min(len(l.Lines), web.PanelRows)] {
		e := &l.Lines[i]
		p.Rows = append(p.Rows, web.PanelRow{Class: e.State.Class, Word: e.State.Word, Name: e.Name, Link: e.Link, Note: e.Reason, When: e.Ends})
	}
	return p, nil
}
