// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

func TestMain(m *testing.M) { os.Exit(sdktest.Main(m, Hook())) }

// TestMemoryIsBounded writes findings of 30 MB. SCANYARD_TEST_FINDINGS changes their number.
func TestMemoryIsBounded(t *testing.T) {
	count := sdktest.HowMany(t, 100_000)
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
		sdktest.Measure(t, world.URL, []string{"ELASTICSEARCH_ADDRESS=" + world.URL, "ELASTICSEARCH_BATCH_SIZE=" + batch},
			world.URL+"/raw?sig=1", world.URL+"/findings.json?sig=1")
		if received != count {
			t.Errorf("%d findings were received by %s, want %d", received, batch, count)
		}
	}
}

func writeFindings(out io.Writer, count int) {
	text := strings.Repeat("z", 150)
	separator := "["
	for i := range count {
		if _, err := fmt.Fprintf(out, `%s{"id":"%08d","name":"Open Port: 22","description":"%s","category":"Open Port","severity":"INFORMATIONAL","attributes":{"port":22,"state":"open"}}`,
			separator, i, text); err != nil {
			return // the hook has gone, which its exit code shows
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
