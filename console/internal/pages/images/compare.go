// SPDX-License-Identifier: Apache-2.0

package images

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

// changed is a package that two images have in different versions; a version is empty where an image does not have it.
type changed struct{ Name, Type, Before, After string }

type comparison struct {
	Before, After              imageLine
	BeforeTitle, AfterTitle    string
	Gone, Come                 []vulnerability
	Packages                   []changed
	MorePackages, MoreGone     int
	MoreCome                   int
	Same                       int
	Repository, Base, Registry string
}

const (
	// maxCompared is how many vulnerabilities of an image are compared.
	maxCompared = 20_000
	// comparedPage is how many of them one request asks for.
	comparedPage = 1000
	// shownChanges is how many changes of a kind are shown.
	shownChanges = 200
)

func (p *pages) compare(q *web.Request) (*web.View, error) {
	after, err := readImage(q, q.PathValue("name"))
	if err != nil {
		return nil, err
	}
	before, err := readImage(q, q.URL.Query().Get("with"))
	if err != nil {
		return nil, err
	}
	d := &comparison{
		Before: lineOf(before), After: lineOf(after), BeforeTitle: titleOf(before), AfterTitle: titleOf(after), Repository: after.Spec.Repository,
		Registry: after.Spec.Registry.Name,
	}
	d.Base = d.After.Link
	was, notes, err := vulnerabilitiesOf(q, before)
	if err != nil {
		return nil, err
	}
	is, more, err := vulnerabilitiesOf(q, after)
	if err != nil {
		return nil, err
	}
	notes = append(notes, more...)
	for key, v := range was {
		if _, ok := is[key]; ok {
			d.Same++
		} else {
			d.Gone = append(d.Gone, v)
		}
	}
	for key, v := range is {
		if _, ok := was[key]; !ok {
			d.Come = append(d.Come, v)
		}
	}
	more, err = d.packages(q, before, after)
	if err != nil {
		return nil, err
	}
	d.cut()
	return &web.View{Title: d.BeforeTitle + " and " + d.AfterTitle, Section: section, Template: p.compareTemplate, Data: d, Notes: append(notes, more...)}, nil
}

func (d *comparison) cut() {
	for _, list := range []struct {
		all  *[]vulnerability
		more *int
	}{{&d.Gone, &d.MoreGone}, {&d.Come, &d.MoreCome}} {
		slices.SortFunc(*list.all, func(a, b vulnerability) int {
			return cmp.Or(cmp.Compare(web.SeverityRank(a.Severity), web.SeverityRank(b.Severity)), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Package, b.Package))
		})
		*list.more = max(0, len(*list.all)-shownChanges)
		*list.all = (*list.all)[:min(len(*list.all), shownChanges)]
	}
	slices.SortFunc(d.Packages, func(a, b changed) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.After, b.After)) })
	d.MorePackages = max(0, len(d.Packages)-shownChanges)
	d.Packages = d.Packages[:min(len(d.Packages), shownChanges)]
}

// vulnerabilitiesOf are those of an image, by identifier and package.
func vulnerabilitiesOf(q *web.Request, i *reportsv1alpha1.Image) (map[string]vulnerability, []string, error) {
	out := map[string]vulnerability{}
	filter := cluster.VulnerabilityFilter{Limit: comparedPage}
	for {
		page, err := q.Viewer.Vulnerabilities(q.Context(), i.Namespace, i.Name, filter)
		if errors.Is(err, cluster.ErrAbsent) {
			return out, []string{titleOf(i) + " has no report yet."}, nil
		}
		if err != nil {
			return nil, nil, err
		}
		for n := range page.Findings {
			f := &page.Findings[n]
			out[f.VulnerabilityID+"\n"+f.Package.Name] = vulnerabilityOf(f)
		}
		if filter.Continue = page.Continue; filter.Continue == "" {
			return out, nil, nil
		}
		if len(out) >= maxCompared {
			return out, []string{titleOf(i) + " has more vulnerabilities than are compared here."}, nil
		}
	}
}

// packages compares the SBOMs of two images.
func (d *comparison) packages(q *web.Request, before, after *reportsv1alpha1.Image) (notes []string, err error) {
	versions := map[[2]string]*[2][]string{} // by type and name: the versions before and after
	for at, i := range []*reportsv1alpha1.Image{before, after} {
		err := q.Viewer.Packages(q.Context(), i.Namespace, i.Name, func(p cluster.Package) error {
			key := [2]string{p.Type, p.Name}
			if versions[key] == nil {
				versions[key] = &[2][]string{}
			}
			if !slices.Contains(versions[key][at], p.Version) {
				versions[key][at] = append(versions[key][at], p.Version)
			}
			return nil
		})
		if errors.Is(err, cluster.ErrAbsent) {
			return []string{titleOf(i) + " has no SBOM yet: packages are not compared."}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	for key, v := range versions {
		slices.Sort(v[0])
		slices.Sort(v[1])
		if !slices.Equal(v[0], v[1]) {
			d.Packages = append(d.Packages, changed{key[1], key[0], strings.Join(v[0], ", "), strings.Join(v[1], ", ")})
		}
	}
	return nil, nil
}

// holder is an image that has a vulnerability.
type holder struct {
	Link, Namespace, Image, Package, Severity, Message string
	FirstSeen                                          time.Time
}

type who struct {
	Vulnerability string
	Holders       []holder
	Total         string
	Next, First   string
	Absent        bool
	Findings      string
}

// who has a vulnerability.
func (p *pages) who(q *web.Request) (*web.View, error) {
	d := &who{Vulnerability: strings.ToUpper(strings.TrimSpace(q.URL.Query().Get("vulnerability")))}
	view := &web.View{Title: "Who has a vulnerability", Section: section, Template: p.whoTemplate, Data: d}
	if d.Vulnerability == "" {
		return view, nil
	}
	view.Title = "Who has " + d.Vulnerability
	d.Findings = web.Link("/findings", "policy", d.Vulnerability)
	answer, err := q.Viewer.Ask(q.Context(), q.Scope, reportsv1alpha1.FindingQuerySpec{
		Kinds: []string{"vulnerabilityreports"}, Where: []reportsv1alpha1.Term{{Field: "policy", Op: "==", Value: d.Vulnerability}},
		IncludeSuppressed: true, Limit: web.PerPage, Continue: q.URL.Query().Get("after"),
	})
	if errors.Is(err, cluster.ErrAbsent) {
		d.Absent = true
		return view, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range answer.Rows {
		holder, err := holderOf(q, &answer.Rows[i])
		if err != nil {
			return nil, err
		}
		d.Holders = append(d.Holders, holder)
	}
	if d.Total = web.Count(len(d.Holders), "image"); answer.Total != nil {
		d.Total = web.Count(*answer.Total, "image")
	}
	if answer.Continue != "" {
		d.Next = q.With("after", answer.Continue)
	}
	if q.URL.Query().Get("after") != "" {
		d.First = q.With("", "")
	}
	return view, nil
}

// holderOf is the image of a row, by the name that people call it where it can be read.
func holderOf(q *web.Request, r *reportsv1alpha1.FindingRow) (holder, error) {
	h := holder{Namespace: r.Namespace, Image: cmp.Or(r.Image, r.Report), Package: r.Rule, Severity: r.Severity, Message: r.Message}
	h.FirstSeen = timeOf(r.FirstSeen)
	h.Link = "/images/" + r.Namespace + "/" + h.Image
	i := &reportsv1alpha1.Image{}
	err := q.Viewer.Get(q.Context(), client.ObjectKey{Namespace: r.Namespace, Name: h.Image}, i)
	switch {
	case err == nil:
		h.Image = titleOf(i)
	case q.Context().Err() != nil:
		return h, err
	}
	return h, nil // an image that cannot be read is shown by its name
}
