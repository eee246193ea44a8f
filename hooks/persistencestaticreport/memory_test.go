// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/hooks/sdk"
)

// asHook makes the test binary be the hook, in a process whose memory can be measured. Its value is the API server.
const asHook = "SCANYARD_TEST_AS_HOOK"

func TestMain(m *testing.M) {
	if api := os.Getenv(asHook); api != "" {
		code := sdk.Run(context.Background(), Hook(), sdk.Process{
			Args: os.Args[1:], Env: os.LookupEnv, Stderr: os.Stderr,
			Kubernetes: func() (*rest.Config, error) { return &rest.Config{Host: api}, nil },
		})
		// The kernel's own figure for a process that has ended counts what its parent had before the start, too.
		if status, err := os.ReadFile("/proc/self/status"); err == nil {
			fmt.Printf("%s\n", peakLine.Find(status))
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

var peakLine = regexp.MustCompile(`VmHWM:\s*([0-9]+) kB`)

// peakOf is how many MiB a process says it had at most.
func peakOf(t *testing.T, output []byte) int {
	t.Helper()
	found := peakLine.FindSubmatch(output)
	if found == nil {
		t.Fatalf("no peak in %s", output)
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

// TestMemoryIsBounded writes all reports of many findings, with as many locations. SCANYARD_TEST_FINDINGS changes their
// number.
func TestMemoryIsBounded(t *testing.T) {
	count := 100_000
	if text := os.Getenv("SCANYARD_TEST_FINDINGS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	lines := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			n, size, err := countLines(r.Body)
			if err != nil || size != r.ContentLength {
				http.Error(rw, fmt.Sprintf("%d bytes, announced %d, %v", size, r.ContentLength, err), http.StatusBadRequest)
				return
			}
			lines[r.URL.Path] = n
		case strings.HasSuffix(r.URL.Path, "/findings.json"):
			writeMany(rw, count)
		default:
			fmt.Fprint(rw, `{"kind":"Scan","metadata":{"name":"s","namespace":"ns"},"spec":{"scanType":"nmap"}}`)
		}
	}))
	defer server.Close()
	urls := fmt.Sprintf(`{"report.html":"%[1]s/html","report.sarif":"%[1]s/sarif","report.junit.xml":"%[1]s/junit","report.csv":"%[1]s/csv","report.md":"%[1]s/md"}`, server.URL)
	cmd := exec.CommandContext(t.Context(), os.Args[0], server.URL+"/raw", server.URL+"/findings.json")
	cmd.Env = append(os.Environ(), asHook+"="+server.URL, "SCAN_NAME=s", "NAMESPACE=ns", "OUTPUT_URLS="+urls)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	peak := peakOf(t, output)
	t.Logf("%d findings, peak RSS %d MiB, CPU %s", count, peak, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if peak > 64 {
		t.Errorf("peak RSS %d MiB, want at most 64", peak)
	}
	inPage := min(count, defaultMaxFindings)
	if lines["/csv"] != count+1 || lines["/sarif"] != count+1 || lines["/junit"] != count+5 || lines["/html"] < inPage {
		t.Errorf("lines %v for %d findings", lines, count)
	}
}

func countLines(r io.Reader) (lines int, size int64, err error) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte("\n"))
		size += int64(n)
		if err == io.EOF {
			return lines, size, nil
		}
		if err != nil {
			return lines, size, err
		}
	}
}

func writeMany(w io.Writer, count int) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	text := strings.Repeat("z", 150)
	for i := range count {
		separator := ","
		if i == 0 {
			separator = "["
		}
		fmt.Fprintf(out, `%s{"id":"%08d","name":"Open Port: 22","description":"%s","category":"Open Port","severity":"INFORMATIONAL","location":"tcp://10.%d.%d.%d:22","attributes":{"port":22,"state":"open"}}`,
			separator, i, text, i>>16, i>>8&255, i&255)
	}
	fmt.Fprint(out, "]")
}
