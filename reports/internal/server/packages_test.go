// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	answers "github.com/scanyard/scanyard/reports/internal/answer"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/details"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Findings of images are found by their images, packages and fixes, whether they were streamed or stand in their report, and whether
// they were stored before rows had packages or since. Rows show what stands in documents.
func TestQueriesOfImages(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		d := serve(t, config, nil)
		sum := d.sbomed(t, "team-a", imageOf("api", "prod/api", "1", "sha256:aa"), spdxOf("pkg:deb/zlib@1.0", "pkg:npm/lodash@2.0"), false)
		layered := strings.Replace(findings, `"severity":"LOW"`, `"severity":"LOW","title":"second","layer":{"index":3}`, 1)
		d.put(t, findingsPath("team-a", "api"), "", provenanceOf(sum, "sha256:db1", "2026-11-01T00:00:00Z"), []byte(layered), nil).is(200)
		d.create(t, vulnerabilityReports, "team-a", inlineOf("web", `{"vulnerabilityID":"CVE-3","severity":"HIGH","package":{"name":"lodash","version":"10.0.0","type":"npm"},"fixedVersions":["11"]}`))
		asked := &answers.Answerer{
			Database: d.store, Driver: config.Driver, Details: details.Read(d.store), Image: kinds.ImageNumber,
			Kinds: []answers.Kind{{Number: kinds.VulnerabilityReportNumber, Name: "VulnerabilityReport", Word: "vulnerabilityreports"}},
		}
		ask := func(spec reportsv1.FindingQuerySpec) (ids []string, rows []reportsv1.FindingRow) {
			t.Helper()
			input := &answers.Input{Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: spec}, Scope: answers.Scope{Namespace: "team-a"}, Now: time.Now()}
			status, err := asked.Answer(t.Context(), input)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range status.Rows {
				ids = append(ids, row.Policy)
			}
			slices.Sort(ids)
			return ids, status.Rows
		}
		check := func(when string) {
			t.Helper()
			for name, c := range map[string]struct {
				spec reportsv1.FindingQuerySpec
				want []string
			}{
				"Present":    {reportsv1.FindingQuerySpec{Images: &reportsv1.ImagesQuery{Presence: reportsv1.ImagePresent}}, []string{"CVE-1", "CVE-2"}},
				"Repository": {reportsv1.FindingQuerySpec{Images: &reportsv1.ImagesQuery{Repository: "web"}}, []string{"CVE-3"}},
				"Fixable":    {reportsv1.FindingQuerySpec{Fixable: new(true)}, []string{"CVE-1", "CVE-3"}},
				"Type":       {reportsv1.FindingQuerySpec{Package: &reportsv1.PackageQuery{Type: "npm"}}, []string{"CVE-2", "CVE-3"}},
				"Range":      {reportsv1.FindingQuerySpec{Package: &reportsv1.PackageQuery{Name: "lodash", VersionRange: "< 9"}}, []string{"CVE-2"}},
			} {
				if got, _ := ask(c.spec); !cmp.Equal(c.want, got) {
					t.Errorf("%s, %s: %v, want %v", when, name, got, c.want)
				}
			}
		}
		check("as it is written")
		err := d.store.Maintain(t.Context(), "make rows old", func(tx *sqldb.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE results SET pkg_type = NULL, pkg_version = NULL, fixable = NULL`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := ask(reportsv1.FindingQuerySpec{Filter: "has(package.type)"}); got != nil {
			t.Errorf("rows without packages: %v", got)
		}
		if err := d.store.CompactOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
		check("as it is filled in")
		_, rows := ask(reportsv1.FindingQuerySpec{Vulnerability: "CVE-2"})
		if len(rows) != 1 || rows[0].Image != "api" || rows[0].Message != "second" || rows[0].Target != "app/package-lock.json" || rows[0].Layer == nil ||
			*rows[0].Layer.Index != 3 || *rows[0].Package != (reportsv1.FindingPackage{Type: "npm", Version: "2.0"}) || *rows[0].Fixable || rows[0].FirstSeen == nil {
			t.Errorf("a row of a document: %+v", rows)
		}
	})
}
