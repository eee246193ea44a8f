// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"embed"
	"html/template"

	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/web"
)

//go:embed list.html scan.html log.html new.html changes.html
var files embed.FS

type pages struct {
	listTemplate, oneTemplate, logTemplate, newTemplate, changesTemplate *template.Template
}

// Register adds the pages of Scans.
func Register(a *web.App) error {
	p := &pages{}
	if err := a.Templates(files, map[string]**template.Template{
		"list.html": &p.listTemplate, "scan.html": &p.oneTemplate, "log.html": &p.logTemplate, "new.html": &p.newTemplate,
		"changes.html": &p.changesTemplate,
	}); err != nil {
		return err
	}
	const scan = "/scans/{namespace}/{name}"
	a.Page("GET /scans", p.list)
	a.Stream("GET /scans/live", p.listLive)
	a.Page("GET /scans/new", p.form)
	a.Action("POST /scans", p.start)
	a.Page("GET "+scan, p.one)
	a.Stream("GET "+scan+"/live", p.oneLive)
	a.Page("GET "+scan+"/changes", p.changes)
	a.Page("GET "+scan+"/log", p.logPage)
	a.Stream("GET "+scan+"/log/live", p.logLive)
	a.Stream("GET "+scan+"/log/text", p.logText)
	a.Action("POST "+scan+"/cancel", p.cancel)
	a.Action("POST "+scan+"/suspend", p.suspend)
	a.Action("POST "+scan+"/retry", p.retry)
	a.Action("POST "+scan+"/delete", p.remove)
	a.Action("POST "+scan+"/again", p.again)
	return nil
}

// newScan is what the form for a Scan shows.
type newScan struct {
	CSRF, Namespace string
	Types           []string
}

func (p *pages) form(q *web.Request) (*web.View, error) {
	data := newScan{CSRF: q.Session.CSRF, Namespace: q.Scope.Single()}
	if data.Namespace == "" {
		data.Namespace = q.Viewer.Namespace
	}
	types := map[string]bool{}
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &executionv1.ScanTypeList{}, func(o client.Object) error {
		if !types[o.GetName()] {
			types[o.GetName()] = true
			data.Types = append(data.Types, o.GetName())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var notes []string
	for _, d := range denials {
		notes = append(notes, d.String())
	}
	return &web.View{Title: "Start a scan", Section: "Scans", Template: p.newTemplate, Data: data, Notes: notes}, nil
}
