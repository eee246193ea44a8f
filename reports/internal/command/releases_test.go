// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// What a release has written is never written again: the next release gets a folder of its own.
var writeRelease = flag.String("write-release", "", "version of a release whose databases are written to testdata/releases")

const releases = "testdata/releases"

// written is what a program was told of its database: its objects by the path of their list.
type written map[string][]any

// Acceptance run 8: a database that an earlier release has written opens in this one, which has all of it.
func TestDatabasesOfReleases(t *testing.T) {
	if *writeRelease != "" {
		for _, driver := range dbtest.Drivers {
			writeDatabase(t, *writeRelease, driver)
		}
		return
	}
	versions, err := os.ReadDir(releases)
	if err != nil || len(versions) == 0 {
		t.Fatalf("there is no database of a release: %v", err)
	}
	for _, version := range versions {
		for _, driver := range dbtest.Drivers {
			t.Run(version.Name()+"/"+string(driver), func(t *testing.T) {
				t.Parallel()
				openDatabase(t, version.Name(), driver)
			})
		}
	}
}

func openDatabase(t *testing.T, version string, driver sqldb.Driver) {
	config := dbtest.New(t, driver)
	dump := unzip(t, dumpOf(version, driver))
	switch driver {
	case sqldb.SQLite:
		if err := os.WriteFile(string(config.DSN), dump, 0o600); err != nil {
			t.Fatal(err)
		}
	case sqldb.PostgreSQL:
		statements(t, "pgx", string(config.DSN), strings.ReplaceAll(string(dump), schemaOf(version), config.Schema))
	case sqldb.MySQL:
		statements(t, "mysql", string(config.DSN)+"?multiStatements=true", string(dump))
	}
	var want written
	if err := json.Unmarshal(unzip(t, objectsOf(version, driver)), &want); err != nil {
		t.Fatal(err)
	}
	servers := startReplicas(t, config, 1)
	server := servers.live[0]
	if diff := cmp.Diff(want, lists(t, server, slices.Collect(maps.Keys(want)))); diff != "" {
		t.Errorf("what was written and what is there (-want +got):\n%s", diff)
	}
	code, said := server.do("admin-token", http.MethodPost, allPath, `{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"ClusterFindingQuery","spec":{"filter":"colour == 'red'"}}`)
	if code != http.StatusUnprocessableEntity {
		t.Errorf("a field that is none: %d %s", code, said)
	}
	code, said = server.do("admin-token", http.MethodPost, allPath, `{"apiVersion":"reports.scanyard.io/v1alpha1","kind":"ClusterFindingQuery","spec":{"filter":"cvss >= 8"}}`)
	if code != http.StatusCreated || !strings.Contains(said, `"total":2`) {
		t.Errorf("a question: %d %s", code, said)
	}
	// What a later schema is asked by is there for objects of before, too.
	for _, kind := range []string{"images", "sboms", "vulnerabilityreports"} {
		path := "/apis/reports.scanyard.io/v1alpha1/" + kind
		if found := lists(t, server, []string{path + "?fieldSelector=spec.digest%3Dsha256:00"}); len(want[path]) == 0 || len(slices.Collect(maps.Values(found))[0]) != len(want[path]) {
			t.Errorf("%s by their digest: %v", kind, found)
		}
	}
	server.create("team-a", "written-now")
	server.stop()
	if out, exit := run(t, append([]string{"fsck"}, servers.args...)...); exit != 0 {
		t.Errorf("fsck: exit %d: %s", exit, out)
	}
}

func dumpOf(version string, driver sqldb.Driver) string {
	return filepath.Join(releases, version, string(driver)+".gz")
}

func objectsOf(version string, driver sqldb.Driver) string {
	return filepath.Join(releases, version, string(driver)+".json.gz")
}

func schemaOf(version string) string { return "release_" + strings.ReplaceAll(version, ".", "_") }

// statements runs a script of statements.
func statements(t *testing.T, driver, dsn, script string) {
	t.Helper()
	if driver == "pgx" {
		dsn += " default_query_exec_mode=simple_protocol"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

func lists(t *testing.T, server *process, paths []string) written {
	t.Helper()
	found := written{}
	for _, path := range paths {
		code, said := server.do("admin-token", http.MethodGet, path, "")
		var list struct{ Items []any }
		if code != http.StatusOK || json.Unmarshal([]byte(said), &list) != nil {
			t.Fatal(path, code, said)
		}
		found[path] = list.Items
	}
	return found
}

// writeDatabase has the program write what each kind can have, and keeps its database.
func writeDatabase(t *testing.T, version string, driver sqldb.Driver) {
	t.Helper()
	config := dbtest.New(t, driver)
	if driver == sqldb.PostgreSQL {
		config.Schema = schemaOf(version)
	}
	server := startReplicas(t, config, 1).live[0]
	const (
		wgpolicy = "/apis/wgpolicyk8s.io/v1alpha2/"
		open     = "/apis/openreports.io/v1alpha1/"
		own      = "/apis/reports.scanyard.io/v1alpha1/"
	)
	large := strings.Repeat("a long text ", 1000)
	for _, namespace := range []string{"team-a", "team-b"} {
		server.create(namespace, "report")
		server.create(namespace, "deleted")
		server.must(http.MethodDelete, fmt.Sprintf(reportsPath, namespace)+"/deleted", "")
		for kind, body := range map[string]string{
			"sboms":                fmt.Sprintf(`{"kind":"SBOM","metadata":{"name":"web"},"spec":{"image":"web","digest":"sha256:00","sbom":{"spdxVersion":%q}}}`, large),
			"vulnerabilityreports": `{"kind":"VulnerabilityReport","metadata":{"name":"web"},"spec":{"image":"web","digest":"sha256:00","findings":[{"vulnerabilityID":"CVE-3","package":{"name":"zlib"},"severity":"HIGH"}]}}`,
			"images":               `{"kind":"Image","metadata":{"name":"web"},"spec":{"registry":{"name":"reg","host":"ghcr.io"},"repository":"prod/web","tag":"v1","digest":"sha256:00"}}`,
		} {
			server.must(http.MethodPost, own+"namespaces/"+namespace+"/"+kind, `{"apiVersion":"reports.scanyard.io/v1alpha1",`+body[1:])
		}
	}
	server.must(http.MethodPost, open+"namespaces/team-a/reports", `{"apiVersion":"openreports.io/v1alpha1","kind":"Report","source":"mine","configuration":{"limits":{"maxResults":7}},
		"metadata":{"name":"open","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["example.com/keep"]},"results":[{"policy":"p","description":"","result":"warn"}]}`)
	server.must(http.MethodDelete, open+"namespaces/team-a/reports/open", "") // waits for its finalizer
	server.must(http.MethodPost, wgpolicy+"clusterpolicyreports", `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"ClusterPolicyReport","metadata":{"name":"all"},"summary":{"pass":1}}`)
	objects := lists(t, server, []string{
		wgpolicy + "policyreports", wgpolicy + "clusterpolicyreports", open + "reports", own + "sboms", own + "vulnerabilityreports", own + "images",
	})
	server.stop()
	if err := os.MkdirAll(filepath.Join(releases, version), 0o755); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	zip(t, objectsOf(version, driver), encoded)
	zip(t, dumpOf(version, driver), dumped(t, config))
}

// must sends a request that has to succeed.
func (p *process) must(method, path, body string) {
	p.t.Helper()
	if code, said := p.do("admin-token", method, path, body); code >= http.StatusBadRequest {
		p.t.Fatal(method, path, code, said)
	}
}

// dumped is the database as a file of SQLite, or as statements that make it again.
func dumped(t *testing.T, config sqldb.Config) []byte {
	t.Helper()
	switch config.Driver {
	case sqldb.SQLite:
		content, err := os.ReadFile(string(config.DSN))
		if err != nil {
			t.Fatal(err)
		}
		return content
	case sqldb.PostgreSQL:
		out, err := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--no-owner", "--schema="+config.Schema, "--dbname="+strings.Replace(string(config.DSN), "database=", "dbname=", 1)).Output()
		if err != nil {
			t.Fatal(err)
		}
		// Lines that begin with a backslash are for psql.
		return bytes.Join(slices.DeleteFunc(bytes.Split(out, []byte("\n")), func(line []byte) bool { return bytes.HasPrefix(line, []byte(`\`)) }), []byte("\n"))
	case sqldb.MySQL:
	}
	return mariaDBStatements(t, string(config.DSN))
}

// mariaDBStatements does what mariadb-dump does, which not every machine has.
func mariaDBStatements(t *testing.T, dsn string) []byte {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	texts := func(query string) (all [][]sql.RawBytes) {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			row, places := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
			for i := range row {
				places[i] = &row[i]
			}
			if err := rows.Scan(places...); err != nil {
				t.Fatal(err)
			}
			for i := range row {
				row[i] = slices.Clone(row[i])
			}
			all = append(all, row)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	var script strings.Builder
	script.WriteString("SET FOREIGN_KEY_CHECKS = 0;\n")
	for _, table := range texts("SHOW TABLES") {
		name := "`" + string(table[0]) + "`"
		fmt.Fprintf(&script, "%s;\n", texts("SHOW CREATE TABLE " + name)[0][1])
		for _, row := range texts("SELECT * FROM " + name) {
			values := make([]string, 0, len(row))
			for _, value := range row {
				if value == nil {
					values = append(values, "NULL")
					continue
				}
				values = append(values, "'"+quoted(value)+"'")
			}
			fmt.Fprintf(&script, "INSERT INTO %s VALUES (%s);\n", name, strings.Join(values, ", "))
		}
	}
	return []byte(script.String())
}

// quoted escapes a text or bytes for a string of MariaDB.
func quoted(value []byte) string {
	return strings.NewReplacer("\\", "\\\\", "'", "\\'", "\x00", "\\0").Replace(string(value))
}

func zip(t *testing.T, path string, content []byte) {
	t.Helper()
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
