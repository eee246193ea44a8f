// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Numbers of kinds in the tables of these tests.
const (
	reportKind = 3 // as in testKinds
	imageKind  = 4
)

// inImage is a finding of an image.
type inImage struct {
	report, rule, pkgType, pkgVersion string
	fixable                           any
}

// Findings of images are asked for by their images, by versions in the order of the package's type, and by whether they can be fixed.
func TestOfImages(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		f := open(t, config)
		f.imagesAndFindings()
		type spec = reportsv1.FindingQuerySpec
		pkg := func(name, pkgType, versions string) spec {
			return spec{Package: &reportsv1.PackageQuery{Name: name, Type: pkgType, VersionRange: versions}}
		}
		cases := map[string]struct {
			reason string
			spec   spec
			scope  Scope
			want   []string
		}{
			"Any":        {"an image whatever", spec{Images: &reportsv1.ImagesQuery{}}, everywhere, []string{"api-1/0", "api-1/1", "api-2/0", "api-2/1", "web/0", "web/1", "web/2"}},
			"Registry":   {"", spec{Images: &reportsv1.ImagesQuery{Registry: "stage"}}, everywhere, []string{"web/0", "web/1", "web/2"}},
			"Tag":        {"", spec{Images: &reportsv1.ImagesQuery{Repository: "shop/api", Tag: "1"}}, everywhere, []string{"api-1/0", "api-1/1"}},
			"Platform":   {"", spec{Images: &reportsv1.ImagesQuery{Platform: "linux/arm64"}}, everywhere, []string{"web/0", "web/1", "web/2"}},
			"Present":    {"the Image tells", spec{Images: &reportsv1.ImagesQuery{Presence: reportsv1.ImagePresent}}, everywhere, []string{"api-2/0", "api-2/1", "web/0", "web/1", "web/2"}},
			"Superseded": {"", spec{Images: &reportsv1.ImagesQuery{Presence: reportsv1.ImageSuperseded}}, everywhere, []string{"api-1/0", "api-1/1"}},
			"Nowhere":    {"", spec{Images: &reportsv1.ImagesQuery{Registry: "%"}}, everywhere, nil},
			"Namespace":  {"the scope bounds it", spec{Images: &reportsv1.ImagesQuery{Repository: "shop/api"}}, Scope{Namespace: "team-b"}, nil},
			"Fixable":    {"", spec{Fixable: new(true)}, everywhere, []string{"api-1/0", "api-2/0", "web/2"}},
			"NotFixable": {"what is not known is neither", spec{Fixable: new(false)}, everywhere, []string{"api-1/1", "web/0"}},
			"Type":       {"", pkg("", "deb", ""), everywhere, []string{"api-1/1", "web/1"}},
			"Below":      {"1.9 comes before 1.10", pkg("lodash", "", "<1.10.0"), everywhere, []string{"api-1/0"}},
			"Between":    {"", pkg("lodash", "npm", ">=1.9.0|<=1.10.0"), everywhere, []string{"api-1/0", "api-2/0"}},
			"Types":      {"a name is of two types, each with its order", pkg("zlib", "", "<2"), everywhere, []string{"api-1/1", "web/0"}},
			"None":       {"", pkg("lodash", "", ">9"), everywhere, nil},
			"InScope":    {"", pkg("zlib", "", "<2"), Scope{Namespace: "team-b"}, []string{"web/0"}},
			"Unknown":    {"nobody has it", pkg("left-pad", "", "<2"), everywhere, nil},
			"Together":   {"", spec{Fixable: new(true), Images: &reportsv1.ImagesQuery{Tag: "2"}, Package: &reportsv1.PackageQuery{Name: "lodash", VersionRange: "<2"}}, everywhere, []string{"api-2/0"}},
		}
		for name, c := range cases {
			input := &Input{Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: c.spec}, Scope: c.scope, Now: now}
			input.Spec.Limit = 2 // several pages
			a := f.pages(input)
			var got []string
			for _, row := range a.Rows {
				got = append(got, fmt.Sprintf("%s/%d", row.Report, *row.Index))
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" || int(*a.Total) != len(c.want) {
				t.Errorf("%s: %s, %d in all (-want +got):\n%s", name, c.reason, *a.Total, diff)
			}
		}
		// zlib is a package of deb and one of npm, whose versions have no epoch; lodash is one of npm alone.
		odd := reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: pkg("zlib", "", "<1:2-3")}
		_, err := f.answerer().Answer(t.Context(), &Input{Spec: odd, Scope: everywhere, Now: now})
		if err != nil {
			t.Errorf("a range that one of two types compares: %v", err)
		}
		odd.Package = pkg("lodash", "", "<1:2-3").Package
		_, err = f.answerer().Answer(t.Context(), &Input{Spec: odd, Scope: everywhere, Now: now})
		var invalid *InvalidError
		if want := `spec.package.versionRange: Invalid value: "<1:2-3": range "vers:npm/<1:2-3"`; !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a range that no installed type compares: %v, want %s", err, want)
		}
		grouped := reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: spec{Images: &reportsv1.ImagesQuery{Repository: "shop/api"}, GroupBy: []string{"rule"}}}
		got, err := f.answerer().Answer(t.Context(), &Input{Spec: grouped, Scope: everywhere, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"lodash 2", "openssl 1", "zlib 1"}, printed(got.Groups, "rule")); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}
	})
}

// imagesAndFindings are three images of two namespaces, what their reports hold, and a policy report with a result that is like one of them.
func (f *filler) imagesAndFindings() {
	f.t.Helper()
	f.nameAll(rand.New(rand.NewPCG(11, 12)), []string{
		"", "team-a", "team-b", "CVE-1", "lodash", "zlib", "openssl", "npm", "deb", "1.9.0", "1.10.0", "1:0-1", "1.5", "9.0",
	})
	images := []struct{ namespace, name, registry, repository, tag, platform, presence string }{
		{"team-a", "api-1", "prod", "shop/api", "1", "linux/amd64", "Superseded"},
		{"team-a", "api-2", "prod", "shop/api", "2", "linux/amd64", "Present"},
		{"team-b", "web", "stage", "shop/web", "2", "linux/arm64", "Present"},
	}
	var objects, subjects []any
	ids := map[string]int64{}
	for i, image := range images {
		for _, kind := range []int64{reportKind, imageKind} {
			id := int64(10*(i+1)) + kind
			objects = append(objects, id, fmt.Sprintf("/%d/%s", kind, image.name), strconv.FormatInt(id, 10), kind, image.namespace, image.name, id, 0, []byte("{}"), 2)
			presence := ""
			if kind == imageKind {
				presence = image.presence
			} else {
				ids[image.name] = id
			}
			subjects = append(subjects, id, kind, image.namespace, image.name, image.name, "", image.registry, "", image.repository, image.tag, "", "", image.platform, 0, "",
				presence, "", 0, 0, 0, 0, 0, "", "", "", "", 0, 0, 0)
		}
	}
	objects = append(objects, 1, "/reports/policies", "1", 1, "team-a", "policies", 1, 0, []byte("{}"), 2)
	ids["policies"] = 1
	f.insert("objects (id, \"key\", uid, kind, ns, name, rv, created, head, size)", 10, objects)
	f.insert(`subjects (object, kind, ns, name, image, registry_uid, registry, host, repository, tag, digest, index_digest, platform, bytes, state,
		presence, job_uid, not_before, attempt, lost, critical, high, adapter, engine, engine_version, database_version, shareable, content, seq)`, 29, subjects)
	var results []any
	places := map[string]int{}
	for _, r := range []inImage{
		{"api-1", "lodash", "npm", "1.9.0", 1},
		{"api-1", "zlib", "deb", "1.5", 0},
		{"api-2", "lodash", "npm", "1.10.0", 1},
		{"api-2", "openssl", "", "", nil}, // written before rows had packages
		{"web", "zlib", "npm", "1.9.0", 0},
		{"web", "zlib", "deb", "1:0-1", nil},
		{"web", "openssl", "npm", "9.0", 1},
		{"policies", "lodash", "npm", "1.9.0", 1},
	} {
		namespace := "team-a"
		if r.report == "web" {
			namespace = "team-b"
		}
		var pkgType, pkgVersion any
		if r.pkgType != "" {
			pkgType, pkgVersion = f.names[r.pkgType], f.names[r.pkgVersion]
		}
		none := f.names[""]
		results = append(results, ids[r.report], places[r.report], f.names[namespace], none, f.names["CVE-1"], f.names[r.rule], none, 4, 2, now.Unix(), none, none, none, "", 0,
			pkgType, pkgVersion, r.fixable)
		places[r.report]++
	}
	f.insert(`results (object, i, ns, source, policy, rule, category, severity, result, first_seen, res_kind, res_ns, res_name, fingerprint, suppressed,
		pkg_type, pkg_version, fixable)`, 18, results)
}
