// SPDX-License-Identifier: Apache-2.0

// Package search has the page behind the one box at the top: scans, findings, identifiers, images, packages, schedules, exceptions
// and namespaces that a text leads to, a few of each, with the way to all of them.
package search

import (
	"embed"
	"errors"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/scancolor"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/scanview"
)

//go:embed search.html
var files embed.FS

type page struct{ template *template.Template }

// Register adds the page.
func Register(a *web.App) error {
	p := &page{}
	if err := a.Templates(files, map[string]**template.Template{"search.html": &p.template}); err != nil {
		return err
	}
	a.Page("GET /search", p.show)
	return nil
}

// shown is how many hits of a kind the page has.
const shown = 6

// hit is what a text leads to.
type hit struct{ Name, Link, Class, Severity, Note string }

// group are the hits of a kind.
type group struct {
	Title, All string
	Hits       []hit
	Total      int64
}

// add counts a hit, and keeps the first ones.
func (g *group) add(h hit) {
	if g.Total++; len(g.Hits) < shown {
		g.Hits = append(g.Hits, h)
	}
}

type data struct {
	Text   string
	Groups []group
	// Identifier is the text, where it names a vulnerability or a weakness.
	Identifier, Findings, Images string
}

// identifier is the form of names of vulnerabilities and weaknesses.
var identifier = regexp.MustCompile(`^(?i:CVE-\d{4}-\d{4,}|CWE-\d+|GHSA(-[0-9a-z]{4}){3})$`)

func (p *page) show(q *web.Request) (*web.View, error) {
	d := &data{Text: strings.TrimSpace(q.URL.Query().Get("q"))}
	view := &web.View{Title: "Search", Template: p.template, Data: d}
	if d.Text == "" {
		return view, nil
	}
	if identifier.MatchString(d.Text) {
		d.Identifier = strings.ToUpper(d.Text)
		d.Findings, d.Images = web.Link("/findings", "policy", d.Identifier), web.Link("/images/who", "vulnerability", d.Identifier)
	}
	for _, find := range []func(*web.Request, string) (group, []string, error){scans, findings, packages, repositories, schedules, exceptions, namespaces} {
		g, notes, err := find(q, d.Text)
		if errors.Is(err, cluster.ErrAbsent) {
			continue // what is not installed has nothing to find
		}
		if err != nil {
			return nil, err
		}
		view.Notes = append(view.Notes, notes...)
		if g.Total > 0 {
			d.Groups = append(d.Groups, g)
		}
	}
	return view, nil
}

func has(text string, in ...string) bool {
	return strings.Contains(strings.ToLower(strings.Join(in, "\n")), strings.ToLower(text))
}

func scans(q *web.Request, text string) (group, []string, error) {
	g := group{Title: "Scans", All: web.Link("/scans", "text", text)}
	all, denials, err := q.Viewer.Scans(q.Context(), q.Scope)
	for _, s := range all {
		if has(text, s.Name, s.Namespace, s.Spec.ScanType, strings.Join(s.Spec.Parameters, " "), s.Labels[executionv1.LabelTarget]) {
			g.add(hit{
				Name: s.Name, Link: "/scans/" + s.Namespace + "/" + s.Name, Class: scancolor.Of(s),
				Note: scanview.State(s) + " in " + s.Namespace + ", " + web.Ago(s.CreationTimestamp.Time, q.Now),
			})
		}
	}
	return g, web.Notes("Scans", denials, nil), err
}

// quoted is a text as the grammar of questions has it.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text) + "'"
}

func findings(q *web.Request, text string) (group, []string, error) {
	g := group{Title: "Findings", All: web.Link("/findings", "q", text)}
	answer, err := q.Viewer.Ask(q.Context(), q.Scope, reportsv1alpha1.FindingQuerySpec{
		Filter: "rule.contains(" + quoted(text) + ") || policy.contains(" + quoted(text) + ") || resource.name.contains(" + quoted(text) + ")",
		Where:  []reportsv1alpha1.Term{web.OpenFindings}, Limit: shown,
	})
	if errors.Is(err, cluster.ErrAbsent) {
		g.add(hit{Name: "Look through the newest runs", Link: g.All, Note: "the reports API is not installed, so each of them is read"})
		return g, nil, nil
	}
	if err != nil {
		return g, nil, err
	}
	for i := range answer.Rows {
		r := &answer.Rows[i]
		h := hit{Name: r.Rule, Severity: r.Severity, Note: "in " + r.Namespace}
		if h.Name == "" {
			h.Name = r.Policy
		}
		if r.Resource != nil && r.Resource.Name != "" {
			h.Note = "on " + r.Resource.Name + " " + h.Note
		}
		switch {
		case r.Image != "":
			h.Link = "/images/" + r.Namespace + "/" + r.Image
		case r.Index != nil:
			h.Link = web.Link("/findings/reported", "ns", r.Namespace, "report", r.Report, "index", strconv.Itoa(int(*r.Index)))
		}
		g.add(h)
	}
	if answer.Total != nil {
		g.Total = *answer.Total
	} else if answer.TotalAtLeast != nil {
		g.Total = *answer.TotalAtLeast
	}
	return g, nil, nil
}

// packages are those that have vulnerabilities.
func packages(q *web.Request, text string) (group, []string, error) {
	g := group{Title: "Packages with vulnerabilities"}
	answer, err := q.Viewer.Ask(q.Context(), q.Scope, reportsv1alpha1.FindingQuerySpec{
		Kinds: []string{"vulnerabilityreports"}, Filter: "rule.contains(" + quoted(text) + ")", GroupBy: []string{"rule"}, Limit: shown,
	})
	if err != nil {
		return g, nil, err
	}
	for _, group := range answer.Groups {
		if name := group.Key["rule"]; name != "" {
			g.add(hit{Name: name, Link: web.Link("/findings", "q", name), Note: web.Count(group.Count, "finding")})
		}
	}
	return g, nil, nil
}

func repositories(q *web.Request, text string) (group, []string, error) {
	g := group{Title: "Repositories of images", All: web.Link("/images", "text", text)}
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &reportsv1alpha1.RepositoryList{}, func(o client.Object) error {
		if r, ok := o.(*reportsv1alpha1.Repository); ok && r.Spec.Repository != "" && has(text, r.Spec.Repository) {
			g.add(hit{
				Name: r.Spec.Repository, Link: web.Link("/images", "repository", r.Spec.Repository, "registry", r.Spec.Registry.Name, "ns", r.Namespace),
				Note: "of " + r.Spec.Registry.Name + " in " + r.Namespace,
			})
		}
		return nil
	})
	return g, web.Notes("Repositories", denials, nil), err
}

func schedules(q *web.Request, text string) (group, []string, error) {
	g := group{Title: "Schedules", All: web.Link("/schedules", "text", text)}
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &executionv1.ScheduledScanList{}, func(o client.Object) error {
		if has(text, o.GetName()) {
			g.add(hit{Name: o.GetName(), Link: "/schedules/" + o.GetNamespace() + "/" + o.GetName(), Note: "in " + o.GetNamespace()})
		}
		return nil
	})
	return g, web.Notes("Schedules", denials, nil), err
}

func exceptions(q *web.Request, text string) (group, []string, error) {
	g := group{Title: "Exceptions", All: web.Link("/exceptions", "text", text)}
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &settingsv1alpha2.FindingExceptionList{}, func(o client.Object) error {
		if e, ok := o.(*settingsv1alpha2.FindingException); ok && has(text, e.Name, e.Spec.Reason) {
			g.add(hit{Name: e.Name, Link: "/exceptions/" + e.Namespace + "/" + e.Name, Note: string(e.Spec.Status) + " in " + e.Namespace})
		}
		return nil
	})
	return g, web.Notes("Exceptions", denials, nil), err
}

func namespaces(q *web.Request, text string) (group, []string, error) {
	g := group{Title: "Namespaces"}
	names, err := q.Viewer.NamespaceNames(q.Context())
	for _, name := range names {
		if has(text, name) && q.Scope.Has(name) {
			g.add(hit{Name: name, Link: "/teams/" + name})
		}
	}
	return g, nil, err
}
