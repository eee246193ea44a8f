// SPDX-License-Identifier: Apache-2.0

package findings_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/clitest"
)

// howMany findings there are. SCANYARD_TEST_FINDINGS changes their number.
func howMany(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SCANYARD_TEST_FINDINGS")
	if text == "" {
		return 100_000
	}
	count, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SCANYARD_TEST_FINDINGS: %v", err)
	}
	return count
}

// writeMany writes findings of all severities with as many names and locations. shift makes others of them.
func writeMany(w io.Writer, count, shift int) error {
	out := bufio.NewWriter(w)
	severities := []string{"INFORMATIONAL", "LOW", "MEDIUM", "HIGH"}
	text := strings.Repeat("z", 150)
	separator := "["
	for i := range count {
		n := i + shift
		fmt.Fprintf(out, `%s{"id":"%08d","fingerprint":"%032x","name":"Open Port: %d","description":"%s","category":"Open Port","severity":"%s","location":"tcp://10.%d.%d.%d:22","attributes":{"port":22,"state":"open"}}`,
			separator, n, n, n, text, severities[n%4], n>>16&255, n>>8&255, n&255)
		separator = ",\n"
	}
	fmt.Fprint(out, "]")
	return out.Flush()
}

// TestMemoryIsBounded prints many findings in every format, in 64 MiB more than the same command needs for none.
func TestMemoryIsBounded(t *testing.T) {
	count := howMany(t)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		shift := 0
		if r.URL.Path == "/after" {
			shift = count / 10
		}
		if r.URL.Path == "/none" {
			fmt.Fprint(rw, "[]")
			return
		}
		if err := writeMany(rw, count, shift); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	w := clitest.New(t, cluster)
	for _, name := range []string{"before", "after", "none"} {
		w.Scan(name, nil, nil, func(s *executionv1.Scan) { s.Status.FindingDownloadLink = server.URL + "/" + name })
	}
	const room = 64
	cases := map[string]struct {
		args []string
		// lines that there must be at least.
		lines int
	}{
		"Table":    {[]string{"findings", "after"}, 101},
		"All":      {[]string{"findings", "after", "--limit", "0"}, count + 1},
		"Wide":     {[]string{"findings", "after", "-o", "wide", "--limit", "1000"}, 1001},
		"JSON":     {[]string{"findings", "after", "-o", "json"}, count},
		"Lines":    {[]string{"findings", "after", "-o", "jsonl"}, count},
		"CSV":      {[]string{"findings", "after", "-o", "csv"}, count},
		"SARIF":    {[]string{"findings", "after", "-o", "sarif"}, count},
		"JUnit":    {[]string{"findings", "after", "-o", "junit"}, count},
		"Markdown": {[]string{"findings", "after", "-o", "markdown"}, 100},
		"HTML":     {[]string{"findings", "after", "-o", "html"}, min(count, 50_000)},
		"New":      {[]string{"findings", "after", "--against", "before", "--new", "-o", "jsonl"}, count / 10},
		"Diff":     {[]string{"diff", "before", "after", "-o", "json"}, count / 5},
		"DiffAll":  {[]string{"diff", "before", "after", "--all", "--limit", "0"}, count},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			none := append([]string{}, c.args...)
			for i := range none {
				if none[i] == "after" || none[i] == "before" {
					none[i] = "none"
				}
			}
			if name == "New" {
				none = []string{"findings", "none", "-o", "jsonl"}
			}
			base, _ := w.Process(t, nil, none...)
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			mib, took := w.Process(t, out, c.args...)
			lines, err := countLines(out)
			if err != nil || lines < c.lines {
				t.Errorf("%d lines, %v, want %d", lines, err, c.lines)
			}
			t.Logf("%d findings: %.0f MiB, %.0f more than for none, %.1f s of CPU time", count, mib, mib-base, took.Seconds())
			if mib-base > room {
				t.Errorf("%.0f MiB more than for none, want at most %d", mib-base, room)
			}
		})
	}
}

func countLines(file *os.File) (lines int, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(file, 1<<20)
	for {
		_, err := in.ReadSlice('\n')
		switch {
		case err == nil:
			lines++
		case errors.Is(err, io.EOF):
			return lines, file.Close()
		case !errors.Is(err, bufio.ErrBufferFull):
			return lines, err
		}
	}
}
