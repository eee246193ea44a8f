// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"bufio"
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

// TestMemoryIsBounded notifies five channels of a run that shares half of its findings with the one before.
// SCANYARD_TEST_FINDINGS changes their number.
func TestMemoryIsBounded(t *testing.T) {
	count := sdktest.HowMany(t, 100_000)
	requests := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/findings.json":
			writeFindings(rw, 0, count)
		case "/previous.json":
			writeFindings(rw, -3, count/2)
		case "/slack", "/teams", "/webhook", "/each", "/mattermost":
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the hook broke off
			}
			requests[r.URL.Path]++
			if want := fmt.Sprintf(`{"new": %d, "kept": 1000}`, count-count/2); r.URL.Path == "/webhook" && string(body) != want {
				t.Errorf("webhook got %s, want %s", body, want)
			}
		default:
			fmt.Fprint(rw, scanOK)
		}
	}))
	defer server.Close()
	const channels = `
- {type: slack, template: slack-individual-findings-with-defectdojo, endPoint: SLACK}
- {type: ms-teams, template: msteams-messageCard, endPoint: TEAMS, rules: [{matches: {anyOf: [{attributes: {port: 22}}]}}]}
- {type: mattermost, template: mattermost, endPoint: MATTERMOST, wildcards: true, rules: [{matches: {anyOf: [{name: "Open*"}]}}]}
- {type: webhook, endPoint: WEBHOOK, templateText: '{"new": {{ .count }}, "kept": {{ len .findings }}}', rules: [{matches: {states: [new]}}]}
- {type: webhook, endPoint: EACH, perFinding: true, templateText: '{{ toJson .finding }}', rules: [{matches: {states: [fixed]}}]}
`
	sdktest.Measure(t, server.URL, []string{"PREVIOUS_FINDINGS_URL=" + server.URL + "/previous.json", "NOTIFICATION_CHANNELS=" + channels, "SLACK=" + server.URL + "/slack", "TEAMS=" + server.URL + "/teams", "MATTERMOST=" + server.URL + "/mattermost", "WEBHOOK=" + server.URL + "/webhook", "EACH=" + server.URL + "/each"}, server.URL+"/raw", server.URL+"/findings.json")
	if requests["/slack"] != 1 || requests["/teams"] != 1 || requests["/mattermost"] != 1 || requests["/webhook"] != 1 || requests["/each"] != 3 {
		t.Errorf("requests %v, want one each and three fixed ones", requests)
	}
}

// writeFindings writes findings with the numbers from first to before last. A client that has gone reads no more.
func writeFindings(w io.Writer, first, last int) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	text := strings.Repeat("z", 150)
	separator := "["
	for i := first; i < last; i++ {
		fmt.Fprintf(out, `%s{"id":"%d","name":"Open Port: 22","description":"%s","category":"Open Port","severity":"LOW","fingerprint":"%08x%024x","attributes":{"port":22,"state":"open"}}`,
			separator, i, text, uint32(i)*2654435761, uint32(i)) // spread over all first bytes
		separator = ","
	}
	fmt.Fprint(out, "]")
}
