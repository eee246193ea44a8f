// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

func TestMain(m *testing.M) { os.Exit(sdktest.Main(m, Hook())) }

// TestMemoryIsBounded writes all reports of many findings, with as many locations. SCANYARD_TEST_FINDINGS changes their
// number.
func TestMemoryIsBounded(t *testing.T) {
	count := sdktest.HowMany(t, 100_000)
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
	sdktest.Measure(t, server.URL, []string{"OUTPUT_URLS=" + urls}, server.URL+"/raw", server.URL+"/findings.json")
	inPage := min(count, report.DefaultMaxFindings)
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
