// SPDX-License-Identifier: Apache-2.0

package images

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

// vulnerability is one of an image.
type vulnerability struct {
	Severity, ID, Link, URL, Package, Installed, Fixed, Title, Suppressed, Score string
	Exploited                                                                    bool
	FirstSeen                                                                    time.Time
}

type one struct {
	imageLine

	Repository, Registry, Host, Base, FullDigest string
	Facts                                        []fact
	Tab                                          string
	Vulnerabilities                              []vulnerability
	Packages                                     []cluster.Package
	PackagesTotal                                int
	Part                                         web.Part
	Next, First                                  string
	Filter                                       cluster.VulnerabilityFilter
	Text                                         string
	Missing                                      string
	Names                                        []string
	Filtered                                     bool
	Others                                       []imageLine
}

func readImage(q *web.Request, name string) (*reportsv1alpha1.Image, error) {
	i := &reportsv1alpha1.Image{}
	if err := q.Viewer.Get(q.Context(), client.ObjectKey{Namespace: q.PathValue("namespace"), Name: name}, i); err != nil {
		return nil, fmt.Errorf("read Image: %w", err)
	}
	return i, nil
}

// titleOf is what people call an image.
func titleOf(i *reportsv1alpha1.Image) string {
	if i.Spec.Tag != "" {
		return i.Spec.Repository + ":" + i.Spec.Tag
	}
	return i.Spec.Repository + "@" + short(i.Spec.Digest)
}

func (p *pages) one(q *web.Request) (*web.View, error) {
	i, err := readImage(q, q.PathValue("name"))
	if err != nil {
		return nil, err
	}
	v := q.URL.Query()
	d := &one{
		imageLine: lineOf(i), Repository: i.Spec.Repository, Registry: i.Spec.Registry.Name, Host: i.Spec.Registry.Host, FullDigest: i.Spec.Digest,
		Tab: cmp.Or(v.Get("show"), "vulnerabilities"), Text: strings.TrimSpace(v.Get("text")),
	}
	d.Base = d.Link
	d.facts(i)
	fill := d.vulnerabilities
	if d.Tab == "packages" {
		fill = d.packages
	}
	err = fill(q)
	if errors.Is(err, cluster.ErrAbsent) {
		d.Missing, err = "Nothing is known of it yet: it is "+cmp.Or(i.Status.State, "new")+".", nil
	}
	if err != nil {
		return nil, err
	}
	notes := d.others(q, i)
	return &web.View{Title: titleOf(i), Section: section, Template: p.oneTemplate, Data: d, Notes: notes}, nil
}

func (d *one) facts(i *reportsv1alpha1.Image) {
	add := func(name, value string) {
		if value != "" {
			d.Facts = append(d.Facts, fact{name, value})
		}
	}
	add("Registry", i.Spec.Registry.Host)
	add("Digest", i.Spec.Digest)
	add("Platform", i.Spec.Platform)
	add("Flags", strings.Join(i.Spec.Flags, ", "))
	if i.Spec.Created != nil {
		add("Built", i.Spec.Created.UTC().Format(time.RFC3339))
	}
	if i.Spec.CompressedBytes > 0 {
		size := fmt.Sprintf("%.1f MiB", float64(i.Spec.CompressedBytes)/(1<<20))
		if n := len(i.Spec.Layers); n > 0 {
			size += " in " + web.Count(n, "layer")
		}
		add("Size", size)
	}
	if c := i.Spec.Config; c != nil {
		add("Runs as", cmp.Or(c.User, "root"))
	}
	if s := i.Status.SBOM; s != nil {
		add("Packages", web.Thousands(s.Packages))
		if s.Engine != nil {
			add("SBOM by", s.Engine.Name+" "+s.Engine.Version)
		}
	}
	if db := i.Status.Database; db != nil {
		add("Vulnerability data", db.Name+" "+short(db.Version))
	}
	add("Presence", string(i.Status.Presence))
}

func (d *one) vulnerabilities(q *web.Request) error {
	v := q.URL.Query()
	d.Filter = cluster.VulnerabilityFilter{
		Severity: strings.ToUpper(v.Get("severity")), Package: strings.TrimSpace(v.Get("package")), Vulnerability: strings.TrimSpace(v.Get("vulnerability")),
		Fixable: v.Get("fixable") == "true", Limit: web.PerPage, Continue: v.Get("after"),
	}
	d.Names = []string{"CRITICAL", "HIGH", "MEDIUM", "LOW", "UNKNOWN"}
	d.Filtered = d.Filter.Severity+d.Filter.Package+d.Filter.Vulnerability != "" || d.Filter.Fixable
	page, err := q.Viewer.Vulnerabilities(q.Context(), d.Namespace, d.Name, d.Filter)
	if err != nil {
		return err
	}
	for i := range page.Findings {
		d.Vulnerabilities = append(d.Vulnerabilities, vulnerabilityOf(&page.Findings[i]))
	}
	if page.Continue != "" {
		d.Next = q.With("after", page.Continue)
	}
	if d.Filter.Continue != "" {
		d.First = q.With("", "")
	}
	return nil
}

func vulnerabilityOf(f *reportsv1alpha1.VulnerabilityFinding) vulnerability {
	out := vulnerability{
		Severity: strings.ToLower(f.Severity), ID: f.VulnerabilityID, Link: web.Link("/images/who", "vulnerability", f.VulnerabilityID), URL: f.PrimaryURL,
		Package: f.Package.Name, Installed: f.Package.Version, Fixed: strings.Join(f.FixedVersions, ", "), Title: f.Title,
		Exploited: f.KEV != nil, FirstSeen: timeOf(f.FirstSeenAt),
	}
	if f.Score != nil {
		out.Score = strconv.FormatFloat(*f.Score, 'f', 1, 64)
	}
	if f.Suppressed != nil {
		out.Suppressed = cmp.Or(f.Suppressed.Reason, f.Suppressed.Name)
	}
	return out
}

// packages are those of the SBOM whose name, version or package URL has the text.
func (d *one) packages(q *web.Request) error {
	text := strings.ToLower(d.Text)
	var all []cluster.Package
	err := q.Viewer.Packages(q.Context(), d.Namespace, d.Name, func(p cluster.Package) error {
		d.PackagesTotal++
		if strings.Contains(strings.ToLower(p.Name+"\n"+p.Version+"\n"+p.PURL), text) {
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b cluster.Package) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	if d.Part, err = q.PartOf(len(all)); err != nil {
		return err
	}
	d.Packages, d.Next, d.First = all[d.Part.From:d.Part.To], d.Part.Next, d.Part.First
	return nil
}

// others are the images of the same repository and platform, to compare with.
func (d *one) others(q *web.Request, i *reportsv1alpha1.Image) []string {
	denials, err := q.Viewer.Each(q.Context(), cluster.Scope{Names: []string{i.Namespace}}, &reportsv1alpha1.ImageList{}, func(o client.Object) error {
		other, ok := o.(*reportsv1alpha1.Image)
		if ok && other.Name != i.Name && other.Spec.Registry.UID == i.Spec.Registry.UID && other.Spec.Platform == i.Spec.Platform {
			d.Others = append(d.Others, lineOf(other))
		}
		return nil
	}, client.MatchingFields{"spec.repository": i.Spec.Repository})
	slices.SortStableFunc(d.Others, func(a, b imageLine) int { return cmp.Compare(b.Tag, a.Tag) })
	return web.Notes("Other tags", denials, err)
}
