// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// Rows 19 and 20 of the fault list: of 50 bodies of 3 MiB at once, as many are in work as 64 MiB hold. The others are refused
// before they are read, and the server's memory stays within 400 MiB. A body that is larger is refused by its length.
func TestManyLargeBodies(t *testing.T) {
	const (
		bodies, size = 50, 3 << 20
		fit          = (64 << 20) / size
		mostKiB      = 400 << 10
		collection   = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/team-a/policyreports"
	)
	t.Setenv("GOMEMLIMIT", chartMemory(t))
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	if code, said := server.do("admin-token", http.MethodPost, collection, strings.Repeat(" ", size+1)); code != http.StatusRequestEntityTooLarge || !strings.Contains(said, strconv.Itoa(size)) {
		t.Errorf("one byte more: %d %s", code, said)
	}

	answers := make(chan int, bodies)
	release := make(chan struct{})
	for i := range bodies {
		go func() { answers <- server.post(t, collection, largeReport(fmt.Sprintf("report-%d", i), size), release) }()
	}
	count := map[int]int{}
	for range bodies - fit { // these are answered while nobody has sent all of a body
		count[<-answers]++
	}
	if count[http.StatusTooManyRequests] != bodies-fit {
		t.Errorf("answers before a body was sent: %v, want %d times %d", count, bodies-fit, http.StatusTooManyRequests)
	}
	close(release)
	clear(count)
	for range fit {
		count[<-answers]++
	}
	// A machine that does much else may need longer than a request may take.
	if count[http.StatusCreated]+count[http.StatusGatewayTimeout] != fit || count[http.StatusCreated] == 0 {
		t.Errorf("answers of those that were read: %v, want %d times %d", count, fit, http.StatusCreated)
	}
	if most := server.used().Peak >> 10; most > mostKiB {
		t.Errorf("the server's memory was up to %d MiB, want %d at most", most>>10, mostKiB>>10)
	} else {
		t.Logf("the server's memory was up to %d MiB", most>>10)
	}
	if code, said := server.do("admin-token", http.MethodGet, collection+"?limit=1", ""); code != http.StatusOK {
		t.Errorf("afterwards: %d %s", code, said[:min(len(said), 300)])
	}
}

// Results are written by 8 clients within the memory that the server may have. At full size there are 200,000 of them, behind which
// the server's memory of recent changes and SQLite's cache are full.
func TestMemoryOfWriters(t *testing.T) {
	const (
		clients, results = 8, 334
		mostKiB          = 400 << 10
		collection       = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/team-a/policyreports"
	)
	reports := dbtest.Size(40, 600)
	t.Setenv("GOMEMLIMIT", chartMemory(t))
	server := start(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"))
	idle := server.used().Resident >> 10
	whole := make(chan struct{})
	close(whole)
	var writers sync.WaitGroup
	for client := range clients {
		writers.Go(func() {
			for i := client; i < reports && !t.Failed(); i += clients {
				if code := server.post(t, collection, reportOf(fmt.Sprintf("report-%d", i), results), whole); code != http.StatusCreated {
					t.Errorf("report %d: %d", i, code)
				}
			}
		})
	}
	writers.Wait()
	most := server.used().Peak >> 10
	t.Logf("%d results: %d MiB when idle, up to %d MiB", reports*results, idle>>10, most>>10)
	if most > mostKiB {
		t.Errorf("the server's memory was up to %d MiB, want %d at most", most>>10, mostKiB>>10)
	}
}

// reportOf is a report of so many results, of 300 bytes each.
func reportOf(name string, results int) string {
	var text strings.Builder
	fmt.Fprintf(&text, `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":%q},"results":[`, name)
	for i := range results {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"policy":"CVE-2026-%d","rule":"package-%d","result":"fail","severity":"high","properties":{"cvss":"7.%d"},"resources":[{"kind":"Pod","name":"%s-%d"}],"message":"%0150d"}`,
			i*7%5000, i%300, i%10, name, i/20, i)
	}
	return text.String() + "]}"
}

// largeReport is a report of so many bytes.
func largeReport(name string, size int) string {
	var text strings.Builder
	fmt.Fprintf(&text, `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":%q},"results":[`, name)
	for i := 0; text.Len() < size-2000; i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"policy":"CVE-2026-%d","result":"fail","severity":"high","resources":[{"kind":"Pod","name":"%s-%d"}],"message":"%01000d"}`, i%500, name, i, i)
	}
	text.WriteString("]}")
	return text.String() + strings.Repeat(" ", size-text.Len())
}

// post sends the beginning of a body, and the rest when it may. It returns the answer's code, which may come before that.
func (p *process) post(t *testing.T, path, body string, release <-chan struct{}) int {
	reader, writer := io.Pipe()
	go func() {
		_, err := io.WriteString(writer, body[:1000])
		if err == nil {
			<-release
			_, err = io.WriteString(writer, body[1000:])
		}
		writer.CloseWithError(err) // a server that refuses the body does not read it
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, reader)
	if err != nil {
		t.Error(err)
		return 0
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Authorization", "Bearer admin-token")
	req.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Error(err)
	}
	return answer.StatusCode
}

// used is what the server has used so far.
func (p *process) used() usage.Figures {
	p.t.Helper()
	return usage.OfT(p.t, p.cmd.Process.Pid)
}

// chartMemory is the GOMEMLIMIT that the chart gives the server by default.
func chartMemory(t *testing.T) string {
	t.Helper()
	rendered, err := os.ReadFile("../../../charts/internal/golden/reports.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`name: GOMEMLIMIT\n +value: (\S+)`).FindSubmatch(rendered)
	if found == nil {
		t.Fatal("the chart sets no GOMEMLIMIT")
	}
	return string(found[1])
}
