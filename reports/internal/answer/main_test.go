// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/query"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// now is in the middle of the last day that tables have.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const today = 20779 // days since 1970

var testKinds = []Kind{
	{Number: 1, Name: "PolicyReport", Word: query.Reports},
	{Number: 2, Name: "ClusterPolicyReport", Word: query.Reports},
	{Number: 3, Name: "VulnerabilityReport", Word: query.VulnerabilityReports},
}

// database is a database as the Answerer takes it.
type database struct{ *sqldb.DB }

func (d database) Query(ctx context.Context, fn func(*sqldb.Tx) error) error { return d.Read(ctx, fn) }

// filler writes tables.
type filler struct {
	t     testing.TB
	db    *sqldb.DB
	names map[string]int64
}

func open(t testing.TB, config sqldb.Config) *filler {
	t.Helper()
	db, err := sqldb.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &filler{t: t, db: db, names: map[string]int64{}}
}

func (f *filler) answerer() *Answerer {
	return &Answerer{Database: database{f.db}, Driver: f.db.Driver(), Kinds: testKinds, Image: imageKind}
}

func (f *filler) write(fn func(exec func(statement string, args ...any))) {
	f.t.Helper()
	err := f.db.Write(f.t.Context(), func(tx *sqldb.Tx, _ int64) error {
		fn(func(statement string, args ...any) {
			if _, err := tx.Exec(f.t.Context(), statement, args...); err != nil {
				f.t.Fatal(statement, err)
			}
		})
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// insert writes rows of one table, some at a time.
func (f *filler) insert(table string, columns int, values []any) {
	f.t.Helper()
	f.write(func(exec func(string, ...any)) {
		for part := range slices.Chunk(values, columns*500) {
			groups := make([]sqlText, len(part)/columns)
			for i := range groups {
				groups[i] = piece("(" + marks(columns) + ")")
			}
			exec("INSERT INTO "+table+" VALUES "+separated(", ", groups).text, part...)
		}
	})
}

// nameAll gives numbers to texts, in an order that says nothing.
func (f *filler) nameAll(random *rand.Rand, texts []string) {
	f.t.Helper()
	texts = slices.Compact(slices.Sorted(slices.Values(texts)))
	random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	var values []any
	for i, text := range texts {
		sum := sha256.Sum256([]byte(text))
		f.names[text] = int64(i + 1)
		values = append(values, i+1, hex.EncodeToString(sum[:]), text)
	}
	f.insert("names (id, sha, s)", 3, values)
}

// sample is a result and where it is.
type sample struct {
	row    reportsv1.FindingRow
	object int64
}

var words = map[query.Field][]string{
	query.Namespace:    {"", "team-a", "team-b", "team-c"},
	query.Source:       {"", "scanyard/nmap", "scanyard/trivy"},
	query.Policy:       {"", "CVE-2024-1", "CVE-2024-10", "cve-2024-1", "100%_sure", "it's", `back\slash`, "~", "Ünï"},
	query.Rule:         {"", "openssl", "Open Port", "100xysure"},
	query.Category:     {"", "Network", "os-pkgs"},
	query.ResourceKind: {"", "Pod", "Service"},
	query.ResourceName: {"", "web", "db", "sha256:1"},
	query.Report:       {"report-0", "report-1", "report-2"},
	query.Exception:    {"", "FindingException/a", "ClusterFindingException/a"},

	query.PackageType:    {"", "npm", "deb"},
	query.PackageVersion: {"", "1.2.0", "1.10.0", "2.0.0-rc.1", "1:2.3-4"},
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// samples are random results of nine reports.
func samples(random *rand.Rand, n int) (all []sample) {
	index := map[int64]int32{}
	for range n {
		namespace := pick(random, words[query.Namespace])
		place := slices.Index(words[query.Namespace], namespace)
		report := random.IntN(3)
		kind := testKinds[0]
		switch {
		case namespace == "":
			kind = testKinds[1]
		case report == 2:
			kind = testKinds[2]
		}
		s := sample{object: int64(1 + place*3 + report)}
		i := index[s.object]
		index[s.object]++
		text := func(field query.Field) string { return pick(random, words[field]) }
		s.row = reportsv1.FindingRow{
			Namespace: namespace, Report: words[query.Report][report], Kind: kind.Name, Index: &i,
			Source: text(query.Source), Policy: text(query.Policy), Rule: text(query.Rule), Category: text(query.Category),
			Severity: query.SeverityOfRank(random.IntN(severities)), Result: query.ResultOfCode(random.IntN(results)),
			Suppressed: random.IntN(4) == 0, Exception: text(query.Exception), FirstSeen: &metav1.Time{Time: moments(random)},
		}
		if installed := (reportsv1.FindingPackage{Type: text(query.PackageType), Version: text(query.PackageVersion)}); installed != (reportsv1.FindingPackage{}) {
			s.row.Package = &installed
		}
		s.row.Fixable = pick(random, []*bool{nil, new(false), new(true)})
		s.row.OpenFor = &metav1.Duration{Duration: now.Sub(s.row.FirstSeen.Time)}
		if random.IntN(3) > 0 {
			s.row.CVSS = new(min(10, float64(random.IntN(11))+pick(random, []float64{0, 0.1, 0.3, 0.5})))
		}
		if random.IntN(3) > 0 {
			s.row.Timestamp = &metav1.Time{Time: moments(random)}
		}
		if kind, name := text(query.ResourceKind), text(query.ResourceName); kind != "" || name != "" {
			s.row.Resource = &reportsv1.ResourceRef{Kind: kind, Namespace: text(query.Namespace), Name: name}
		}
		all = append(all, s)
	}
	return all
}

// moments are some, so that some are equal.
func moments(random *rand.Rand) time.Time {
	return now.Add(-time.Duration(random.IntN(6)) * 11 * time.Hour)
}

func (f *filler) objects() {
	f.t.Helper()
	var values []any
	for place, namespace := range words[query.Namespace] {
		for report, name := range words[query.Report] {
			kind, digest := int64(1), any(nil)
			switch {
			case namespace == "":
				kind = 2
			case report == 2:
				kind = 3
			}
			id := int64(1 + place*3 + report)
			values = append(values, id, fmt.Sprintf("/reports/%s/%s", namespace, name), strconv.FormatInt(id, 10), kind, namespace, name, id, 0, []byte("{}"), 2, digest)
		}
	}
	f.insert("objects (id, \"key\", uid, kind, ns, name, rv, created, head, size, digest)", 11, values)
}

// fill writes the samples and their rollups, of today and, with other numbers, of the day before.
func (f *filler) fill(random *rand.Rand, all []sample) {
	f.t.Helper()
	var texts []string
	for _, some := range words {
		texts = append(texts, some...)
	}
	f.nameAll(random, texts)
	f.objects()
	counts, daily := map[[4]int64]int64{}, map[[5]int64]int64{}
	var values []any
	for _, s := range all {
		resource := reportsv1.ResourceRef{}
		if s.row.Resource != nil {
			resource = *s.row.Resource
		}
		var score, ts, exception, pkgType, pkgVersion, fixable any
		named := func(text string) any {
			if text == "" {
				return nil
			}
			return f.names[text]
		}
		if s.row.Package != nil {
			pkgType, pkgVersion = named(s.row.Package.Type), named(s.row.Package.Version)
		}
		if s.row.Fixable != nil {
			fixable = slices.Index([]bool{false, true}, *s.row.Fixable)
		}
		if s.row.Exception != "" {
			exception = f.names[s.row.Exception]
		}
		if s.row.CVSS != nil {
			score = *s.row.CVSS
		}
		if s.row.Timestamp != nil {
			ts = s.row.Timestamp.Unix()
		}
		ns, source, policy := f.names[s.row.Namespace], f.names[s.row.Source], f.names[s.row.Policy]
		severity, result, suppressed := int64(query.Rank(s.row.Severity)), int64(query.Code(s.row.Result)), int64(0)
		if s.row.Suppressed {
			suppressed = 1
		}
		values = append(values, s.object, *s.row.Index, ns, source, policy, f.names[s.row.Rule], f.names[s.row.Category], severity, result, score, ts,
			s.row.FirstSeen.Unix(), f.names[resource.Kind], f.names[resource.Namespace], f.names[resource.Name], "", exception, suppressed,
			pkgType, pkgVersion, fixable)
		counts[[4]int64{ns, policy, result, suppressed}]++
		counts[[4]int64{0, policy, result, suppressed}]++
		daily[[5]int64{ns, source, severity, result, suppressed}]++
	}
	f.insert("results (object, i, ns, source, policy, rule, category, severity, result, score, ts, first_seen, res_kind, res_ns, res_name, fingerprint, exception, suppressed, pkg_type, pkg_version, fixable)", 21, values)
	values = nil
	for key, n := range counts {
		values = append(values, key[0], key[1], key[2], key[3], n)
	}
	f.insert("counts (ns, policy, result, suppressed, n)", 5, values)
	values = nil
	for key, n := range daily {
		for day, n := range map[int64]int64{today: n, today - 1: n + 1} {
			values = append(values, day, key[0], key[1], key[2], key[3], key[4], n, 0, 0)
		}
	}
	f.insert("daily (day, ns, source, severity, result, suppressed, n, added, fixed)", 9, values)
}
