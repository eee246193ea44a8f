// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// ReportsToken is the bearer token of an admin at the reports API of [StartReports].
const ReportsToken = "admin-token"

// Reports is a server of the reports API.
type Reports struct {
	URL string
	// Database is the file of its SQLite database.
	Database string
	// Stop ends the server in order; a second call does nothing.
	Stop func()
}

// StartReports runs the program of the reports API until the test ends, with a database of its own and without TLS. The program lies beside
// the local cluster's.
func StartReports(t testing.TB) Reports {
	t.Helper()
	binary, err := findBinary()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(binary), "reports-apiserver")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("these tests need the program of the reports API: run \"make build\", or set LOCALCLUSTER_BIN: %v", err)
	}
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte(ReportsToken+",admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reports := Reports{Database: filepath.Join(dir, "reports.db")}
	server := exec.Command(program, "--standalone", "--http", "--token-file", tokens, "--sqlite", reports.Database)
	var log bytes.Buffer
	server.Stderr = &log
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	reports.Stop = sync.OnceFunc(func() {
		_ = server.Process.Signal(syscall.SIGTERM) // the server may have ended
		_ = server.Wait()                          // a test that needed the server has failed by now
	})
	t.Cleanup(func() {
		reports.Stop()
		if t.Failed() && strings.Contains(log.String(), "panic") {
			t.Log(log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	var ready struct{ URL string }
	if err != nil || json.Unmarshal([]byte(line), &ready) != nil {
		t.Fatalf("the reports API did not start: %v %s\n%s", err, line, log.String())
	}
	reports.URL = ready.URL
	return reports
}
