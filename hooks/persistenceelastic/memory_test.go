// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/hooks/sdk"
)

// asHook makes the test binary be the hook, in a process whose memory can be measured. It holds the API server's address.
const asHook = "SCANYARD_TEST_AS_HOOK"

func TestMain(m *testing.M) {
	if host := os.Getenv(asHook); host != "" {
		code := sdk.Run(context.Background(), Hook(), sdk.Process{
			Args: os.Args[1:], Env: os.LookupEnv, Stderr: os.Stderr,
			Kubernetes: func() (*rest.Config, error) { return &rest.Config{Host: host}, nil },
		})
		// Not what wait tells of a process: that begins with the size of the one that started it.
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Stdout.Write(status)
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// maxMemory is the bound for any number of findings. Half of it is the Go runtime and the program itself.
const maxMemory = 64 << 20

// TestMemoryIsBounded writes findings of 30 MB. SCANYARD_TEST_FINDINGS changes their number.
func TestMemoryIsBounded(t *testing.T) {
	count := 100_000
	if text := os.Getenv("SCANYARD_TEST_FINDINGS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	received := 0
	world := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/findings.json":
			writeFindings(rw, count)
		case r.URL.Path == "/_bulk":
			received += answerBulk(rw, r)
		case r.Method == http.MethodPut:
			fmt.Fprint(rw, "{}")
		default:
			fmt.Fprint(rw, stored)
		}
	}))
	defer world.Close()
	for _, batch := range []string{"50", "5000"} {
		received = 0
		cmd := exec.CommandContext(t.Context(), os.Args[0], world.URL+"/raw?sig=1", world.URL+"/findings.json?sig=1")
		cmd.Env = append(os.Environ(), asHook+"="+world.URL, "SCAN_NAME=s", "NAMESPACE=ns", "ELASTICSEARCH_ADDRESS="+world.URL, "ELASTICSEARCH_BATCH_SIZE="+batch)
		cmd.Stderr = os.Stderr
		status, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var peak int
		for line := range strings.Lines(string(status)) {
			if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				if _, err := fmt.Sscanf(text, "%d kB", &peak); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%d findings by %s, peak RSS %d MiB, CPU %s", count, batch, peak>>10, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if peak == 0 || peak > maxMemory>>10 || received != count {
			t.Errorf("peak RSS %d MiB with %d findings, want at most %d with %d", peak>>10, received, maxMemory>>20, count)
		}
	}
}

func writeFindings(out io.Writer, count int) {
	text := strings.Repeat("z", 150)
	separator := "["
	for i := range count {
		if _, err := fmt.Fprintf(out, `%s{"id":"%08d","name":"Open Port: 22","description":"%s","category":"Open Port","severity":"INFORMATIONAL","attributes":{"port":22,"state":"open"}}`,
			separator, i, text); err != nil {
			return // the hook has gone, which its exit code tells
		}
		separator = ","
	}
	fmt.Fprint(out, "]")
}

// answerBulk says that everything was written, in as many words as a cluster does.
func answerBulk(rw http.ResponseWriter, r *http.Request) int {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0
	}
	count := 0
	fmt.Fprint(rw, `{"took":30,"errors":false,"items":[`)
	for line := range bytes.Lines(body) {
		var action map[string]struct {
			ID string `json:"_id"`
		}
		if !bytes.HasPrefix(line, []byte(`{"index":`)) || json.Unmarshal(line, &action) != nil {
			continue
		}
		if count > 0 {
			fmt.Fprint(rw, ",")
		}
		fmt.Fprintf(rw, `{"index":{"_index":"scb_2035-06-30","_id":%q,"_version":1,"result":"created","_shards":{"total":2,"successful":1,"failed":0},"_seq_no":%d,"_primary_term":1,"status":201}}`, action["index"].ID, count)
		count++
	}
	fmt.Fprint(rw, `]}`)
	return count
}
