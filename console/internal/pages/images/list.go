// SPDX-License-Identifier: Apache-2.0

package images

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

// registryLine is a Registry in the list.
type registryLine struct {
	Link, Name, Namespace, URL, Class, State, Says string
	Scanned, Present, Failed                       int64
	Meter                                          charts.Meter
	Counts                                         []web.Tally
	Last                                           time.Time
}

// repositoryLine is a repository in the list.
type repositoryLine struct {
	Link, Name, Registry, Namespace, State, Class, Says string
	Selected, Listed                                    int64
	When                                                time.Time
}

type list struct {
	web.Part

	Registries                 []registryLine
	Repositories               []repositoryLine
	Images                     []imageLine
	Text, Repository, Registry string
	Absent, NoStore            bool
}

func (p *pages) list(q *web.Request) (*web.View, error) {
	v := q.URL.Query()
	d := &list{Text: strings.TrimSpace(v.Get("text")), Repository: v.Get("repository"), Registry: v.Get("registry")}
	var notes []string
	if d.Repository != "" {
		more, err := d.images(q)
		if err != nil {
			return nil, err
		}
		return &web.View{Title: d.Repository, Section: section, Template: p.listTemplate, Data: d, Notes: more}, nil
	}
	more, err := d.registries(q)
	if errors.Is(err, cluster.ErrAbsent) {
		d.Absent, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	notes = append(notes, more...)
	more, err = d.repositories(q)
	if errors.Is(err, cluster.ErrAbsent) {
		d.NoStore, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	return &web.View{Title: "Images", Section: section, Template: p.listTemplate, Data: d, Notes: append(notes, more...)}, nil
}

func (d *list) registries(q *web.Request) ([]string, error) {
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &registryv1alpha1.RegistryList{}, func(o client.Object) error {
		if r, ok := o.(*registryv1alpha1.Registry); ok {
			d.Registries = append(d.Registries, registryOf(r))
		}
		return nil
	})
	rank := map[string]int{"bad": 0, "wait": 1, "good": 2, "off": 3}
	slices.SortStableFunc(d.Registries, func(a, b registryLine) int {
		return cmp.Or(cmp.Compare(rank[a.Class], rank[b.Class]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return web.Notes("Registries", denials, nil), err
}

func (d *list) repositories(q *web.Request) ([]string, error) {
	var all []repositoryLine
	text := strings.ToLower(d.Text)
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &reportsv1alpha1.RepositoryList{}, func(o client.Object) error {
		r, ok := o.(*reportsv1alpha1.Repository)
		if !ok || r.Spec.Repository == "" || d.Registry != "" && r.Spec.Registry.Name != d.Registry || !strings.Contains(strings.ToLower(r.Spec.Repository), text) {
			return nil // the catalogue of a registry has no name of a repository
		}
		l := repositoryLine{
			Link: web.Link("/images", "repository", r.Spec.Repository, "registry", r.Spec.Registry.Name, "ns", r.Namespace), Name: r.Spec.Repository,
			Registry: r.Spec.Registry.Name, Namespace: r.Namespace, State: r.Status.State, Class: classOf(r.Status.State), When: timeOf(r.Status.DiscoveredAt),
		}
		if l.Class == "bad" {
			l.Says = r.Status.Message
		}
		if t := r.Status.Tags; t != nil {
			l.Selected, l.Listed = t.Selected, t.Listed
		}
		all = append(all, l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b repositoryLine) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Registry, b.Registry), cmp.Compare(a.Name, b.Name))
	})
	if d.Part, err = q.PartOf(len(all)); err != nil {
		return nil, err
	}
	d.Repositories = all[d.From:d.To]
	return web.Notes("Repositories", denials, nil), nil
}

// images are those of a repository, the worst first.
func (d *list) images(q *web.Request) ([]string, error) {
	var all []imageLine
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &reportsv1alpha1.ImageList{}, func(o client.Object) error {
		i, ok := o.(*reportsv1alpha1.Image)
		if !ok || d.Registry != "" && i.Spec.Registry.Name != d.Registry || !strings.Contains(i.Spec.Tag, d.Text) {
			return nil
		}
		all = append(all, lineOf(i))
		return nil
	}, client.MatchingFields{"spec.repository": d.Repository})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b imageLine) int {
		return cmp.Or(cmp.Compare(a.Presence, b.Presence), worst(b.Counts, a.Counts), cmp.Compare(b.Tag, a.Tag), cmp.Compare(a.Platform, b.Platform))
	})
	if d.Part, err = q.PartOf(len(all)); err != nil {
		return nil, err
	}
	d.Images = all[d.From:d.To]
	return web.Notes("Images", denials, nil), nil
}

// worst compares counts by their worst severity first.
func worst(a, b []web.Tally) int {
	for rank := range 4 {
		if c := cmp.Compare(countOf(a, rank), countOf(b, rank)); c != 0 {
			return c
		}
	}
	return 0
}

func countOf(tallies []web.Tally, rank int) int64 {
	for _, t := range tallies {
		if web.SeverityRank(t.Severity) == rank {
			return t.N
		}
	}
	return 0
}
