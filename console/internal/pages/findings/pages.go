// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"embed"
	"html/template"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/console/internal/web"
)

//go:embed list.html finding.html
var files embed.FS

type pages struct {
	listTemplate, oneTemplate *template.Template
}

// Register adds the pages of findings.
func Register(a *web.App) error {
	p := &pages{}
	if err := a.Templates(files, map[string]**template.Template{"list.html": &p.listTemplate, "finding.html": &p.oneTemplate}); err != nil {
		return err
	}
	a.Page("GET /findings", p.list)
	a.Page("GET /findings/reported", p.reported)
	a.Page("GET /findings/{key}", p.stored)
	a.Stream("GET /findings/export", sendFile)
	return nil
}

func sortNodes(nodes []node) {
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.Name, b.Name) })
}
