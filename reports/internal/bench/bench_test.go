// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/query"
	"github.com/scanyard/scanyard/reports/internal/answer"
	"github.com/scanyard/scanyard/reports/internal/command"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/details"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

var (
	reportCount = flag.Int("reports", 1_000, "reports that are written")
	resultCount = flag.Int("results", 1_000, "results in each report")
	databases   = flag.String("databases", "sqlite,postgresql", "databases to measure, of sqlite, postgresql, mysql")
	into        = flag.String("into", "", "TestFill: the database that it fills, a file for -databases sqlite, a data source name for postgresql")
)

func TestMain(m *testing.M) {
	flag.Parse()
	dbtest.Main(m)
}

const (
	namespaces = 50
	policies   = 20_000
	days       = 30
	// goal is the CPU time that each question may take, in milliseconds. A run that misses it by more than a seventh fails.
	goal      = 100
	tolerance = 1.15
	// startGoal is the CPU time that a server may take until it is ready, in milliseconds.
	startGoal = 1000
)

// everywhere is who may ask about all namespaces.
var everywhere = answer.Scope{Cluster: true}

// questions are those of the contract, with the table that must answer. policy is one that some hundred results have.
func questions(policy string) []question {
	return []question{
		{"high or critical, by namespace", "daily", reportsv1.FindingQuerySpec{Filter: "severity >= 'high'", GroupBy: []string{"namespace"}}},
		{"cvss 8 or more, first 100 by score", "results", reportsv1.FindingQuerySpec{Filter: "cvss >= 8.0", Sort: []reportsv1.SortKey{{Field: "cvss", Order: "desc"}}}},
		{"cvss 8 or more, by namespace", "results", reportsv1.FindingQuerySpec{Filter: "cvss >= 8.0", GroupBy: []string{"namespace"}}},
		{"who has one CVE", "results", reportsv1.FindingQuerySpec{Filter: "policy == '" + policy + "'", Limit: 1000}},
		{"trend of 30 days", "daily", reportsv1.FindingQuerySpec{Trend: &reportsv1.TrendQuery{Days: days}}},
		{"top 20 policies", "counts", reportsv1.FindingQuerySpec{GroupBy: []string{"policy"}, Limit: 20}},
		{"high or critical in a namespace, first 100", "results", reportsv1.FindingQuerySpec{Filter: "namespace == 'team-7' && severity >= 'high'"}},
	}
}

// overview are questions of the console's first page. Their answers are kept for a while, so that they have no goal of their own.
var overview = []question{
	{"new in 7 days, by severity", "results", reportsv1.FindingQuerySpec{Filter: "result in ['fail', 'warn', 'error']", Since: &metav1.Duration{Duration: 7 * 24 * time.Hour}, GroupBy: []string{"severity"}}},
	{"open, by category", "results", reportsv1.FindingQuerySpec{Filter: "result in ['fail', 'warn', 'error']", GroupBy: []string{"category"}, Limit: 12}},
	{"high or critical, by target", "results", reportsv1.FindingQuerySpec{Filter: "severity >= 'high' && result in ['fail', 'warn', 'error']", GroupBy: []string{"resource"}, Limit: 11}},
}

type question struct {
	name, plan string
	spec       reportsv1.FindingQuerySpec
}

// yard is a filled database.
type yard struct {
	store    *mvcc.Store
	answerer *answer.Answerer
	clock    *testingclock.FakeClock
	common   string // a policy that some hundred results have
	writing  spent
	bytes    int64
	raw      atomic.Int64 // bytes of the results, as JSON
	close    func() error // may be called again
}

// spent is CPU time of this process and of the server of the database.
type spent struct{ own, server time.Duration }

func (u spent) sum() time.Duration { return u.own + u.server }

func used(tb testing.TB, driver sqldb.Driver) spent {
	tb.Helper()
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		tb.Fatal(err)
	}
	server, err := dbtest.CPU(driver)
	if err != nil {
		tb.Fatal(err)
	}
	return spent{time.Duration(self.Utime.Nano() + self.Stime.Nano()), server}
}

func since(tb testing.TB, driver sqldb.Driver, begun spent) spent {
	tb.Helper()
	now := used(tb, driver)
	return spent{now.own - begun.own, now.server - begun.server}
}

// course is what is written, and when.
type course struct {
	begin time.Time
	days  int
	// followed has the life of each finding noted: a report is all of what its target has. Of each fourth target a later run is written,
	// in which a fifth of the findings is gone.
	followed bool
}

// fill writes the reports, over some days, by four clients.
func fill(tb testing.TB, config sqldb.Config, reports, results int) *yard {
	tb.Helper()
	return fillOver(tb, config, course{begin: time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC), days: days}, reports, results)
}

func fillOver(tb testing.TB, config sqldb.Config, over course, reports, results int) *yard {
	tb.Helper()
	y := &yard{clock: testingclock.NewFakeClock(over.begin)}
	var err error
	if y.store, err = mvcc.Open(tb.Context(), config, mvcc.Options{Clock: y.clock, CompactEvery: -1, Unindex: rows.Drop}); err != nil {
		tb.Fatal(err)
	}
	y.close = sync.OnceValue(func() error { return y.store.Close(context.Background()) })
	tb.Cleanup(func() {
		if err := y.close(); err != nil {
			tb.Error(err)
		}
	})
	y.answerer = &answer.Answerer{Database: y.store, Driver: config.Driver, Details: details.Read(y.store), Kinds: []answer.Kind{{Number: 1, Name: "PolicyReport", Word: "reports"}}}
	begun := used(tb, config.Driver)
	for day := range over.days {
		y.clock.SetTime(over.begin.Add(time.Duration(day) * 24 * time.Hour))
		var clients sync.WaitGroup
		for client := range 4 {
			clients.Go(func() {
				for i := day*reports/over.days + client; i < (day+1)*reports/over.days; i += 4 {
					if err := y.write(tb.Context(), over, i, results); err != nil {
						tb.Error(err)
						return
					}
				}
			})
		}
		clients.Wait()
		if day&(day+1) == 0 { // as autovacuum would: what was planned for empty tables is slow for full ones
			y.settle(tb, config)
		}
	}
	y.writing = since(tb, config.Driver, begun)
	y.settle(tb, config)
	y.measure(tb, config)
	return y
}

// write writes one report, and a later run of some targets.
func (y *yard) write(ctx context.Context, over course, i, results int) error {
	if !over.followed {
		return y.writeRun(ctx, i, results, "")
	}
	const laterEvery, gone = 4, 5
	if err := y.writeRun(ctx, i, results, "1"); err != nil {
		return err
	}
	if earlier := i - 4*laterEvery; i%laterEvery == 0 && earlier >= 0 {
		return y.writeRun(ctx, earlier, results-results/gone, "2")
	}
	return nil
}

// writeRun writes one report: results of policies with a long tail, each of which has one severity and score. With a run the report is all
// of what its target has.
func (y *yard) writeRun(ctx context.Context, i, results int, run string) error {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	tail := rand.NewZipf(random, 1.1, 20, policies-1)
	namespace, name := fmt.Sprintf("team-%d", i%namespaces), fmt.Sprintf("report-%d", i)
	set := &rows.Set{Namespace: namespace}
	if run != "" {
		set.Target, set.Run, set.Parts = name, run, 1
	}
	var payload bytes.Buffer
	payload.WriteByte('[')
	for n := range results {
		policy := int(tail.Uint64())
		row := rows.Row{
			Source: []string{"trivy", "kyverno"}[policy%2], Policy: cve(policy), Rule: fmt.Sprintf("package-%d", policy%3000), Category: fmt.Sprintf("category-%d", policy%20),
			Severity: rows.Severity(1 + policy*7%5), Result: rows.Result(1 + random.IntN(10)/7), ResourceKind: "Pod", ResourceNamespace: namespace,
			ResourceName: fmt.Sprintf("pod-%d-%d", i, n/20),
		}
		if policy%3 > 0 {
			score := float64(policy*13%101) / 10
			row.Score = &score
		}
		set.Rows = append(set.Rows, row)
		if n > 0 {
			payload.WriteByte(',')
		}
		fmt.Fprintf(&payload, `{"category":%q,"message":"%s in %s of %s: update to %d.%d.%d","policy":%q,"properties":{"cvss":"%d"},"result":"fail","rule":%q}`,
			row.Category, row.Policy, row.Rule, row.ResourceName, policy%9, policy%17, n%31, row.Policy, policy*13%101/10, row.Rule)
	}
	payload.WriteByte(']')
	y.raw.Add(int64(payload.Len()))
	state := &mvcc.State{
		Head: []byte(`{"metadata":{"name":"` + name + `"}}`), Payload: payload.Bytes(), Size: int64(payload.Len()), Kind: 1, Namespace: namespace, Name: name, Index: set.Indexer(),
	}
	key := "/reports/" + namespace + "/" + name
	for {
		change := mvcc.Change{Key: key, To: state}
		if run == "2" {
			before, _, err := y.store.Get(ctx, key)
			if err != nil {
				return err
			}
			change.From = before.Revision
		}
		_, err := y.store.Write(ctx, change)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func cve(policy int) string { return fmt.Sprintf("CVE-2024-%05d", policy) }

// settle does what PostgreSQL does by itself after a while; the servers of tests have autovacuum off.
func (y *yard) settle(tb testing.TB, config sqldb.Config) {
	tb.Helper()
	if config.Driver != sqldb.PostgreSQL {
		return
	}
	dsn := string(config.DSN)
	if config.Schema != "" {
		dsn += " search_path=" + config.Schema
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(tb.Context(), `VACUUM ANALYZE`); err != nil {
		tb.Fatal(err)
	}
}

// measure looks for a policy that some hundred results have, and how large the database is.
func (y *yard) measure(tb testing.TB, config sqldb.Config) {
	tb.Helper()
	err := y.store.Query(tb.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(tb.Context(), `SELECT n.s FROM counts c JOIN names n ON n.id = c.policy WHERE c.ns = 0 AND c.n <= 500 ORDER BY c.n DESC, n.s LIMIT 1`).Scan(&y.common)
	})
	if err != nil {
		tb.Fatal(err)
	}
	if config.Driver == sqldb.SQLite {
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(string(config.DSN) + suffix); err == nil {
				y.bytes += info.Size()
			}
		}
	}
}

func (y *yard) ask(tb testing.TB, q *question) *reportsv1.FindingQueryStatus {
	tb.Helper()
	status, err := y.answerer.Answer(tb.Context(), &answer.Input{
		Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: q.spec}, Scope: everywhere, Now: y.clock.Now(),
	})
	if err != nil {
		tb.Fatalf("%s: %v", q.name, err)
	}
	if status.Plan != q.plan {
		tb.Errorf("%s: answered by %s, must be %s", q.name, status.Plan, q.plan)
	}
	return status
}

// BenchmarkQuestions prints the CPU time of each question, and first what it took to write what is asked.
func BenchmarkQuestions(b *testing.B) {
	for driver := range strings.SplitSeq(*databases, ",") {
		driver := sqldb.Driver(driver)
		b.Run(string(driver), func(b *testing.B) {
			if !slices.Contains(dbtest.Drivers, driver) {
				b.Fatalf("%s: must be of %v", driver, dbtest.Drivers)
			}
			config := dbtest.New(b, driver)
			y := fill(b, config, *reportCount, *resultCount)
			perResult := float64(*reportCount**resultCount) / 1000
			b.Run("write, for each 1,000 results", func(b *testing.B) {
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(y.writing.own.Microseconds())/1000/perResult, "own-CPU-ms")
				b.ReportMetric(float64(y.writing.server.Microseconds())/1000/perResult, "database-CPU-ms")
				b.ReportMetric(float64(y.writing.sum().Milliseconds())/1000, "CPU-s-in-all")
				b.ReportMetric(usage.OfT(b, os.Getpid()).PeakMiB(), "peak-MiB")
				b.ReportMetric(float64(y.bytes)/(1<<20), "file-MiB")
				b.ReportMetric(float64(y.raw.Load())/(1<<20), "JSON-MiB")
			})
			goals := len(questions(y.common))
			for i, q := range append(questions(y.common), overview...) {
				b.Run(q.name, func(b *testing.B) {
					y.ask(b, &q) // warm
					begun := used(b, driver)
					for b.Loop() {
						y.ask(b, &q)
					}
					each := since(b, driver, begun).sum() / time.Duration(b.N)
					b.ReportMetric(float64(each.Microseconds())/1000, "CPU-ms")
					if i < goals && each > time.Duration(goal*tolerance)*time.Millisecond {
						b.Errorf("%s took %s of CPU time, goal %d ms", q.name, each, goal)
					}
				})
			}
			if driver == sqldb.SQLite {
				b.Run("start of a server on it", func(b *testing.B) { startOn(b, y, config) })
			}
		})
	}
}

// startOn prints the CPU time until a server on the database is ready, which is not to depend on what the database holds.
func startOn(b *testing.B, y *yard, config sqldb.Config) {
	b.Helper()
	if err := y.close(); err != nil {
		b.Fatal(err)
	}
	begun := used(b, config.Driver)
	for b.Loop() {
		out, in := io.Pipe()
		serve := command.New(in, func(string) string { return "" })
		serve.SetArgs([]string{"--standalone", "--http", "--sqlite", string(config.DSN)})
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() {
			err := serve.ExecuteContext(ctx)
			ended <- errors.Join(err, in.CloseWithError(err))
		}()
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			b.Fatal(err)
		}
		stop()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	each := since(b, config.Driver, begun).sum() / time.Duration(b.N)
	b.ReportMetric(float64(each.Microseconds())/1000, "CPU-ms")
	if each > time.Duration(startGoal*tolerance)*time.Millisecond {
		b.Errorf("a start took %s of CPU time, goal %d ms", each, startGoal)
	}
}

// TestFill fills a database for a server that others look at, over the 90 days up to now. It does nothing unless it is told where.
func TestFill(t *testing.T) {
	if *into == "" {
		t.Skip("-into names no database")
	}
	const kept = 90
	config := sqldb.Config{Driver: sqldb.Driver(*databases), DSN: sqldb.Secret(*into)}
	over := course{begin: time.Now().AddDate(0, 0, 1-kept), days: kept, followed: true}
	y := fillOver(t, config, over, *reportCount, *resultCount)
	t.Logf("%d reports of %d results: %s of CPU time", *reportCount, *resultCount, y.writing.sum())
}

// The benchmark asks what it says, and gets what was written: checked on few results, without a clock.
func TestQuestions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		y := fill(t, config, 30, 20)
		asked := append(questions(y.common), overview...)
		for i := range asked {
			status := y.ask(t, &asked[i])
			if len(status.Rows)+len(status.Groups) == 0 {
				t.Errorf("%s: nothing is found", asked[i].name)
			}
			for _, row := range status.Rows {
				if query.Rank(row.Severity) == 0 || !strings.HasPrefix(row.Message, row.Policy) {
					t.Errorf("%s: %+v", asked[i].name, row)
				}
			}
		}
	})
}

// endless are statements that end with their context only.
var endless = map[sqldb.Driver]string{
	sqldb.SQLite:     `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n`,
	sqldb.PostgreSQL: `SELECT COUNT(*) FROM (SELECT pg_sleep(3600)) AS t`,
	sqldb.MySQL:      `SELECT SLEEP(3600)`,
}

// slow is a database that never comes to the end of a question: another statement goes before it, in the same snapshot.
type slow struct {
	answer.Database
	driver sqldb.Driver
	asked  chan struct{} // gets one for each question
}

// Query implements answer.Database.
func (s slow) Query(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return s.Database.Query(ctx, func(tx *sqldb.Tx) error {
		s.asked <- struct{}{}
		var n int64
		if err := tx.QueryRow(ctx, endless[s.driver]).Scan(&n); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Row 37 of the fault list: a question that no index serves is refused, or ends after its time, and says by which term.
// Whoever writes and reads meanwhile goes on. How fast a machine is does not matter: the answer that must be late never comes.
func TestUnindexedQuestions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		const filter, meanwhile = "cvss > 1 && report.startsWith('nothing')", 20
		reports, results := dbtest.Size(30, 1_000), dbtest.Size(20, 1_000)
		y := fill(t, config, reports, results)
		ask := func(ctx context.Context, a answer.Answerer, filter string) error {
			_, err := a.Answer(ctx, &answer.Input{
				Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: reportsv1.FindingQuerySpec{Filter: filter}}, Scope: everywhere, Now: y.clock.Now(),
			})
			return err
		}
		searching := *y.answerer
		searching.MaxSearched = int64(reports*results) - 1
		if err := ask(t.Context(), searching, "rule.contains('age-1')"); err == nil || !strings.Contains(err.Error(), "needs policy, severity, cvss, namespace or since beside it") {
			t.Errorf("a search of all rows: %v", err)
		}
		if err := ask(t.Context(), *y.answerer, filter); err != nil {
			if timeout, ok := errors.AsType[*answer.TimeoutError](err); !ok || !slices.Equal(timeout.Unindexed, []string{"report.startsWith('nothing')"}) {
				t.Errorf("as fast as this machine is: %v", err)
			}
		}
		late := *y.answerer
		asked := make(chan struct{}, 1)
		late.Database, late.Timeout = slow{late.Database, config.Driver, asked}, 100*time.Millisecond
		timeout, ok := errors.AsType[*answer.TimeoutError](ask(t.Context(), late, filter))
		if !ok || !slices.Equal(timeout.Unindexed, []string{"report.startsWith('nothing')"}) {
			t.Errorf("a question that takes too long: %+v", timeout)
		}
		<-asked

		late.Timeout = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answered := make(chan error, 1)
		go func() { answered <- ask(ctx, late, filter) }()
		<-asked
		for i := range meanwhile {
			i += reports
			if err := y.write(t.Context(), course{}, i, 1); err != nil {
				t.Fatal(err)
			}
			if value, _, err := y.store.Get(t.Context(), fmt.Sprintf("/reports/team-%d/report-%d", i%namespaces, i)); err != nil || value == nil {
				t.Fatal(value, err)
			}
		}
		select {
		case err := <-answered:
			t.Errorf("the question has ended by itself: %v", err)
		default:
		}
		cancel()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("the question of somebody who is gone: %v", err)
		}
	})
}
