// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// asProgram has the test binary be the program, so that tests can run it as a process of its own.
const asProgram = "REPORTS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		dbtest.Main(m)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := New(os.Stdout, os.Getenv).ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(ExitCode(err))
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// run runs the program and returns what it printed, and its exit code.
func run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := program(t, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// process is a server in a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
	log bytes.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("admin-token,admin,system:masters\ntenant-token,tenant,,team-a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: program(t, append([]string{"--standalone", "--http", "--token-file", tokens}, args...)...)}
	p.cmd.Stderr = &p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %v\n%s", err, p.log.String())
	}
	var ready struct{ URL string }
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		t.Fatal(err)
	}
	p.url = ready.URL
	return p
}

// stop ends the server in order. It may be called again.
func (p *process) stop() {
	p.t.Helper()
	p.end(syscall.SIGTERM)
}

// end ends the server by a signal.
func (p *process) end(how os.Signal) {
	p.t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	if err := p.cmd.Process.Signal(how); err != nil {
		p.t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil && how != syscall.SIGKILL {
		p.t.Errorf("the server ended with %v\n%s", err, p.log.String())
	}
}

// do sends a request and returns the code and the answer.
func (p *process) do(token, method, path, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

const (
	reportsPath = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/%s/policyreports"
	queriesPath = "/apis/reports.scanyard.io/v1alpha1/namespaces/%s/findingqueries"
	allPath     = "/apis/reports.scanyard.io/v1alpha1/clusterfindingqueries"
	importsPath = "/apis/reports.scanyard.io/v1alpha1/reportimports"
)

func (p *process) create(namespace, name string) {
	p.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":%q},"results":[
		{"policy":"CVE-1","severity":"high","result":"fail","message":"update it","properties":{"cvss":"8.1"},"resources":[{"kind":"Pod","namespace":%q,"name":"web"}]},
		{"policy":"in-%s","severity":"low","result":"pass"}]}`, name, namespace, namespace)
	if code, answer := p.do("admin-token", http.MethodPost, fmt.Sprintf(reportsPath, namespace), body); code != http.StatusCreated {
		p.t.Fatal(code, answer)
	}
}

func (p *process) exists(namespace, name string) bool {
	p.t.Helper()
	code, answer := p.do("admin-token", http.MethodGet, fmt.Sprintf(reportsPath, namespace)+"/"+name, "")
	if code != http.StatusOK && code != http.StatusNotFound {
		p.t.Fatal(code, answer)
	}
	return code == http.StatusOK
}

// A backup is made while the server writes; it is restored when the server has stopped; the check finds all right.
func TestBackupWhileServing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	database, backup := filepath.Join(folder, "reports.db"), filepath.Join(folder, "backup.db")
	server := start(t, "--sqlite", database)
	server.create("team-a", "before")
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range 50 {
			server.create("team-b", fmt.Sprintf("report-%d", i))
		}
	}()
	out, exit := run(t, "backup", backup, "--sqlite", database)
	if exit != 0 || !strings.HasPrefix(out, "Backup written to "+backup+": resourceVersion ") {
		t.Fatalf("backup: exit %d: %s", exit, out)
	}
	<-written
	server.create("team-a", "after")
	if out, exit := run(t, "backup", backup, "--sqlite", database); exit != 1 || !strings.Contains(out, "is there already") {
		t.Errorf("backup over another: exit %d: %s", exit, out)
	}
	if out, exit := run(t, "restore", backup, "--sqlite", database); exit != sqldb.ExitInUse || !strings.Contains(out, "in use") {
		t.Errorf("restore under a server: exit %d: %s", exit, out)
	}
	if out, exit := run(t, "fsck", "--sqlite", database); exit != 0 || strings.Count(out, ": right\n") != strings.Count(out, "\n") {
		t.Errorf("fsck beside a server: exit %d: %s", exit, out)
	}
	if out, exit := run(t, "fsck", "--repair", "--sqlite", database); exit != sqldb.ExitInUse {
		t.Errorf("repair under a server: exit %d: %s", exit, out)
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if code, text := server.do("admin-token", http.MethodGet, fmt.Sprintf(reportsPath, "team-a"), ""); code != http.StatusOK || json.Unmarshal([]byte(text), &list) != nil {
		t.Fatal(code, text)
	}
	server.stop()
	out, exit = run(t, "restore", backup, "--sqlite", database)
	if exit != 0 || !strings.Contains(out, "kept as "+database+".before-restore") {
		t.Fatalf("restore: exit %d: %s", exit, out)
	}
	if out, exit := run(t, "fsck", "--repair", "--sqlite", database); exit != 0 {
		t.Errorf("fsck of what was restored: exit %d: %s", exit, out)
	}
	server = start(t, "--sqlite", database)
	if !server.exists("team-a", "before") || server.exists("team-a", "after") {
		t.Error("the server does not serve what the backup held")
	}
	// Who has watched up to the lost time is told to list again, and of nothing else: the watch ends by itself.
	watch := fmt.Sprintf(reportsPath, "team-a") + "?watch=true&resourceVersion=" + list.Metadata.ResourceVersion
	if code, text := server.do("admin-token", http.MethodGet, watch, ""); code != http.StatusOK || strings.Count(text, `"type":`) != 1 ||
		!strings.Contains(text, `"type":"ERROR"`) || !strings.Contains(text, `"code":410`) {
		t.Errorf("a watch from before: %d, %s", code, text)
	}
}

// Backups are made again and again in a directory, as the chart does: the oldest go, what else is there stays, and the last one is restored.
func TestBackupsInADirectory(t *testing.T) {
	t.Parallel()
	folder, backups := t.TempDir(), t.TempDir()
	database := filepath.Join(folder, "reports.db")
	server := start(t, "--sqlite", database)
	server.create("team-a", "before")
	for _, name := range []string{"reports-20250101T000000Z.db", "reports-20250102T000000Z.db", "reports-20250103T000000Z.db.part", "mine.db", "reports-yesterday.db"} {
		if err := os.WriteFile(filepath.Join(backups, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, exit := run(t, "backup", "--sqlite", filepath.Join(folder, "none.db"), "--directory", backups); exit != 1 {
		t.Errorf("a backup of nothing: exit %d: %s", exit, out)
	}
	out, exit := run(t, "backup", "--sqlite", database, "--directory", backups, "--keep", "2")
	if exit != 0 || strings.Count(out, "removed") != 1 || !strings.Contains(out, "Older backup "+filepath.Join(backups, "reports-20250101T000000Z.db")+" removed.") {
		t.Fatalf("backup: exit %d: %s", exit, out)
	}
	file, _, _ := strings.Cut(strings.TrimPrefix(out, "Backup written to "), ":")
	entries, err := os.ReadDir(backups)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"mine.db", "reports-20250102T000000Z.db", filepath.Base(file), "reports-yesterday.db"}, names); diff != "" {
		t.Error(diff)
	}
	server.create("team-a", "after")
	server.stop()
	if out, exit := run(t, "restore", file, "--sqlite", database); exit != 0 {
		t.Fatalf("restore: exit %d: %s", exit, out)
	}
	server = start(t, "--sqlite", database)
	if !server.exists("team-a", "before") || server.exists("team-a", "after") {
		t.Error("the server does not serve what the backup held")
	}
	for args, want := range map[string]string{
		"": "either FILE, --directory or --bucket", "x --directory=y": "either FILE, --directory or --bucket", "x --bucket": "either FILE, --directory or --bucket",
		"--directory=y --bucket": "either FILE, --directory or --bucket", "--directory=y --keep=0": "--keep must be at least 1",
	} {
		if out, exit := run(t, append([]string{"backup", "--sqlite", database}, strings.Fields(args)...)...); exit != 1 || !strings.Contains(out, want) {
			t.Errorf("backup %s: exit %d: %s", args, exit, out)
		}
	}
}

// A schema is made by one program and used by another one.
func TestMigrateOnly(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "reports.db")
	if out, exit := run(t, "--migrate=off", "--standalone", "--http", "--sqlite", database); exit != 1 || !strings.Contains(out, "run with migrations on") {
		t.Errorf("off: exit %d: %s", exit, out)
	}
	if out, exit := run(t, "--migrate=only", "--standalone", "--http", "--sqlite", database); exit != 0 || !strings.HasPrefix(out, "The schema is ") {
		t.Errorf("only: exit %d: %s", exit, out)
	}
	start(t, "--migrate=off", "--sqlite", database).create("team-a", "report")
}

// The server answers questions, takes imports, counts what it does, and bounds namespaces.
func TestVirtualKindsAndBounds(t *testing.T) {
	t.Parallel()
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"), "--namespace-bytes", "2000", "--max-age", "reports=720h")
	server.create("team-a", "report")
	server.create("team-b", "report")
	query := `{"apiVersion":"reports.scanyard.io/v1alpha1","kind":%q,"metadata":{},"spec":{"filter":%q}}`
	ask := func(token, path, kind, filter string) (int, *reportsv1.FindingQuery) {
		code, text := server.do(token, http.MethodPost, path, fmt.Sprintf(query, kind, filter))
		answered := &reportsv1.FindingQuery{}
		if code != http.StatusCreated {
			return code, answered
		}
		if err := json.Unmarshal([]byte(text), answered); err != nil {
			t.Fatal(err, text)
		}
		return code, answered
	}
	code, found := ask("tenant-token", fmt.Sprintf(queriesPath, "team-a"), "FindingQuery", "resource.name == 'web'")
	if code != http.StatusCreated || len(found.Status.Rows) != 1 || found.Status.Rows[0].Namespace != "team-a" || found.Status.Rows[0].Resource.Namespace != "team-a" {
		t.Errorf("a tenant: %d, %+v", code, found.Status)
	}
	if code, _ := ask("tenant-token", fmt.Sprintf(queriesPath, "team-b"), "FindingQuery", "cvss >= 8"); code != http.StatusForbidden {
		t.Errorf("a tenant in another namespace: %d", code)
	}
	if code, _ := ask("tenant-token", allPath, "ClusterFindingQuery", "cvss >= 8"); code != http.StatusForbidden {
		t.Errorf("a tenant everywhere: %d", code)
	}
	if code, found := ask("admin-token", allPath, "ClusterFindingQuery", "cvss >= 8"); code != http.StatusCreated || len(found.Status.Rows) != 2 {
		t.Errorf("an administrator: %d, %+v", code, found.Status)
	}
	if code, text := server.do("admin-token", http.MethodPost, allPath, fmt.Sprintf(query, "ClusterFindingQuery", "severity ~ 1")); code != http.StatusUnprocessableEntity ||
		!strings.Contains(text, `"field":"spec.filter"`) {
		t.Errorf("nonsense: %d, %s", code, text)
	}
	if code, text := server.do("admin-token", http.MethodGet, allPath, ""); code != http.StatusMethodNotAllowed {
		t.Errorf("a list of questions: %d, %s", code, text)
	}
	moved := `{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"ReportImport","metadata":{},"spec":{"objects":[{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport",
		"metadata":{"name":"moved","namespace":"team-c","uid":"0c6ff9c0-0000-4000-8000-000000000001","creationTimestamp":"2026-11-20T08:00:00Z","generation":7}}]}}`
	if code, text := server.do("admin-token", http.MethodPost, importsPath, moved); code != http.StatusCreated || !strings.Contains(text, `"result":"Created"`) {
		t.Errorf("an import: %d, %s", code, text)
	}
	if code, text := server.do("admin-token", http.MethodGet, fmt.Sprintf(reportsPath, "team-c")+"/moved", ""); code != http.StatusOK ||
		!strings.Contains(text, `"uid":"0c6ff9c0-0000-4000-8000-000000000001"`) || !strings.Contains(text, `"generation":7`) {
		t.Errorf("what was imported: %d, %s", code, text)
	}
	large := fmt.Sprintf(`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"large"},"results":[{"policy":"a","message":%q}]}`, strings.Repeat("x", 2000))
	if code, text := server.do("admin-token", http.MethodPost, fmt.Sprintf(reportsPath, "team-a"), large); code != http.StatusForbidden ||
		!strings.Contains(text, "exceeded storage of namespace team-a: used ") || !strings.Contains(text, ", limit 2000") {
		t.Errorf("a full namespace: %d, %s", code, text)
	}
	_, counted := server.do("admin-token", http.MethodGet, "/metrics", "")
	for _, line := range []string{
		`scanyard_reports_objects{kind="reports"} 3`, `scanyard_reports_results 4`, `scanyard_reports_changes_total{type="added"} 3`, `scanyard_reports_db_up 1`,
		`scanyard_reports_query_seconds_count{plan="results"} 2`,
	} {
		if !strings.Contains(counted, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
}

// A running server has all metrics that the specification names; that of the certificate is there in a cluster only.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	server.create("team-a", "report")
	large := fmt.Sprintf(`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"large"},"results":[{"policy":"a","message":%q}]}`, strings.Repeat("long ", 2000))
	if code, text := server.do("admin-token", http.MethodPost, fmt.Sprintf(reportsPath, "team-a"), large); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	query := `{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"ClusterFindingQuery","metadata":{},"spec":{"filter":"cvss > 0"}}`
	if code, text := server.do("admin-token", http.MethodPost, allPath, query); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	_, text := server.do("admin-token", http.MethodGet, "/metrics", "")
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[name] = true
		name, labels, _ := strings.Cut(name, "{")
		label, _, _ := strings.Cut(labels, "=")
		found[name+"{"+label] = true
	}
	for _, name := range []string{
		"objects{kind", "results", `bytes{what="heads"}`, `bytes{what="blobs"}`, `bytes{what="changes"}`, "blob_dedup_ratio", "changes_total{type",
		"resource_version", "compacted_version", "commit_seconds_count", "commit_batch_count", "write_queue", "conflicts_total",
		`rejected_total{reason="inflight"}`, `rejected_total{reason="queue"}`, `rejected_total{reason="bytes"}`, `rejected_total{reason="watches"}`,
		"watchers{kind", "watch_expired_total", "watch_stalled_total", "tail_lag_seconds", "db_up", "db_connections{state", "db_errors_total{class", "query_seconds_count{plan",
		"query_rejected_total", "migration_state", "damaged_payloads",
	} {
		if !found["scanyard_reports_"+name] {
			t.Errorf("/metrics lacks scanyard_reports_%s", name)
		}
	}
}

// Row 38 of the fault list: what a filter says is a text, or a mistake with its position; never SQL.
func TestHostileFilters(t *testing.T) {
	t.Parallel()
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	server.create("team-a", "report")
	ask := func(filter string) (int, string) {
		spec, err := json.Marshal(map[string]string{"filter": filter})
		if err != nil {
			t.Fatal(err)
		}
		return server.do("admin-token", http.MethodPost, allPath, `{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"ClusterFindingQuery","metadata":{},"spec":`+string(spec)+`}`)
	}
	for _, text := range []string{"%", "_", "CVE_1", "CVE%", "'' OR 1=1 --", "; DROP TABLE results", "\"", "\\\\", "日本"} {
		for _, form := range []string{"policy == \"%s\"", "policy.startsWith(\"%s\")", "policy.contains(\"%s\") && cvss > 0", "report == \"%s\""} {
			filter := fmt.Sprintf(form, strings.ReplaceAll(text, "\"", "\\\""))
			if code, answer := ask(filter); code != http.StatusCreated || !strings.Contains(answer, `"total":0`) {
				t.Errorf("%s: %d, %s", filter, code, answer)
			}
		}
	}
	for what, filter := range map[string]string{
		"5 KiB": "policy == '" + strings.Repeat("x", 5<<10) + "'", "1,000 brackets": strings.Repeat("(", 1000) + "cvss > 1" + strings.Repeat(")", 1000),
		"a comment": "cvss > 1 -- 2", "a quote": "policy == 'it's'", "a zero byte": "policy == 'a' \x00",
	} {
		if code, answer := ask(filter); code != http.StatusUnprocessableEntity || !strings.Contains(answer, `"field":"spec.filter"`) {
			t.Errorf("%s: %d, %s", what, code, answer)
		}
	}
	if code, answer := ask("policy == 'CVE-1'"); code != http.StatusCreated || !strings.Contains(answer, `"total":1`) {
		t.Errorf("afterwards: %d, %s", code, answer)
	}
}

// Rows show what only the reports hold, however these are stored.
func TestDetailsOfRows(t *testing.T) {
	t.Parallel()
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	server.create("team-a", "small")
	long := strings.Repeat("long ", 2000)
	for path, body := range map[string]string{
		fmt.Sprintf(reportsPath, "team-a"): fmt.Sprintf(`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"large"},"results":[
			{"policy":"CVE-2","severity":"low","message":%q},{"policy":"CVE-1","severity":"low","message":"second of the large one"}]}`, long),
		"/apis/reports.scanyard.io/v1alpha1/namespaces/team-a/vulnerabilityreports": fmt.Sprintf(`{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"VulnerabilityReport",
			"metadata":{"name":"image"},"spec":{"image":"web","digest":"sha256:00","findings":[{"vulnerabilityID":"CVE-3","package":{"name":"a"},"description":%q},
			{"vulnerabilityID":"CVE-1","severity":"MEDIUM","package":{"name":"b"},"title":"an overflow","target":"usr/lib/b","layer":{"digest":"sha256:11"}}]}}`, long),
	} {
		if code, answer := server.do("admin-token", http.MethodPost, path, body); code != http.StatusCreated {
			t.Fatal(code, answer)
		}
	}
	code, text := server.do("admin-token", http.MethodPost, fmt.Sprintf(queriesPath, "team-a"),
		`{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"FindingQuery","metadata":{},"spec":{"filter":"policy == 'CVE-1'"}}`)
	var query reportsv1.FindingQuery
	if err := json.Unmarshal([]byte(text), &query); err != nil || code != http.StatusCreated {
		t.Fatal(code, text, err)
	}
	var told []string
	for _, row := range query.Status.Rows {
		layer := ""
		if row.Layer != nil {
			layer = row.Layer.Digest
		}
		told = append(told, strings.Join([]string{row.Report, row.Message, row.Target, row.Image, layer}, "|"))
	}
	if diff := cmp.Diff([]string{"small|update it|||", "image|an overflow|usr/lib/b|web|sha256:11", "large|second of the large one|||"}, told); diff != "" {
		t.Error(diff)
	}
}

func TestFlagsOfKeep(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--max-age=pods=1h":           "--max-age pods=1h: there is no such kind",
		"--max-age=reports=yesterday": "--max-age reports=yesterday: must be a positive duration, such as 720h",
		"--daily-keep=0s":             "--daily-keep and --first-seen-keep must be positive",
		"--namespace-bytes=-1":        "--namespace-bytes must be positive, or 0",
	} {
		if out, exit := run(t, "--standalone", "--http", "--sqlite", filepath.Join(t.TempDir(), "reports.db"), args); exit != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d: %s", args, exit, out)
		}
	}
}
