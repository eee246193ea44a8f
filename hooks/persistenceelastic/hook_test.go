// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

const (
	uid        = "09988cdf-1fc7-4f85-95ee-1b1d65dbc7cc"
	scanText   = `{"metadata":{"uid":"` + uid + `","name":"nmap-x","namespace":"ns","labels":{"app":"x"}},"spec":{"scanType":"nmap","parameters":["-Pn"]},"status":{"conditions":[%s]}}`
	storedText = `{"type":"Parsed","status":"True","reason":"x","message":"","lastTransitionTime":"2035-06-30T23:59:58Z"}`
)

var stored = fmt.Sprintf(scanText, storedText)

// run runs the hook against a cluster.
func runHook(t *testing.T, w *sdktest.World, c *cluster, env map[string]string) sdktest.Result {
	t.Helper()
	far := w.NewRemote(t, func(_ int, r sdktest.Request) sdktest.Reply { return c.take(r) })
	all := map[string]string{"ELASTICSEARCH_ADDRESS": far.URL}
	maps.Copy(all, env)
	return w.Run(t, Hook(), all)
}

func TestDocuments(t *testing.T) {
	w := sdktest.New(t)
	w.Scan = stored
	w.Objects["/findings.json"] = []byte(`[ {"id":"a b","name":"x\ny", "type": "mine", "n": 1.50},
		{"name":"no id"} ]`)
	c := newCluster()
	if got := runHook(t, w, c, map[string]string{"ELASTICSEARCH_INDEX_APPEND_NAMESPACE": "true"}); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	got := c.indices["scb_ns_2035-06-30"]
	if got == nil || len(c.indices) != 1 {
		t.Fatalf("indices %v", slices.Collect(maps.Keys(c.indices)))
	}
	const at = "2035-06-30T23:59:58.000Z"
	about := map[string]any{
		"@timestamp": at, "type": "finding", "scan_id": uid, "scan_name": "nmap-x", "scan_type": "nmap",
		"scan_labels": map[string]any{"app": "x"},
	}
	first, second := map[string]any{"id": "a b", "name": "x\ny", "n": 1.5}, map[string]any{"name": "no id"}
	maps.Copy(first, about)
	maps.Copy(second, about)
	want := map[string]map[string]any{
		uid: {
			"@timestamp": at, "type": "scan", "id": uid, "name": "nmap-x", "scan_type": "nmap",
			"parameters": []any{"-Pn"}, "labels": map[string]any{"app": "x"},
		},
		uid + "_a b": first,
	}
	for id := range got.documents {
		if _, there := want[id]; !there && strings.HasPrefix(id, uid+"_") {
			want[id] = second // its id is made of its content
		}
	}
	if diff := cmp.Diff(want, got.documents); diff != "" || len(want) != 3 {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

// TestAgainTheNextDay starts the hook twice, on two sides of midnight.
func TestAgainTheNextDay(t *testing.T) {
	cases := map[string]struct {
		scan   string
		want   []string
		reason string
	}{
		"Stored":    {stored, []string{"scb_2035-06-30"}, "the condition says when the findings were stored"},
		"Unknown":   {fmt.Sprintf(scanText, ""), []string{"scb_2035-07-01", "scb_2035-07-02"}, "another operator sets no conditions"},
		"NotStored": {fmt.Sprintf(scanText, strings.Replace(storedText, "True", "False", 1)), []string{"scb_2035-07-01", "scb_2035-07-02"}, "it is about another time"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			far := newCluster()
			for day := 1; day <= 2; day++ {
				w := sdktest.New(t)
				w.Scan, w.Objects["/findings.json"] = c.scan, sdktest.Findings(3)
				w.Clock.Set(time.Date(2035, 7, day, 1, 0, 0, 0, time.UTC))
				if got := runHook(t, w, far, nil); got.ExitCode != 0 {
					t.Fatal(got.Stderr)
				}
			}
			if diff := cmp.Diff(c.want, slices.Sorted(maps.Keys(far.indices))); diff != "" {
				t.Errorf("%s: indices (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:p4ssw0rd"))
	apiKey := "ApiKey " + base64.StdEncoding.EncodeToString([]byte("the-id:s3cr3t"))
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("s3cr3t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		env  map[string]string
		want string
	}{
		"None":          {nil, ""},
		"Basic":         {map[string]string{"USERNAME": "me", "PASSWORD": "p4ssw0rd"}, basic},
		"HalfABasic":    {map[string]string{"USERNAME": "me"}, ""},
		"Key":           {map[string]string{"APIKEY_ID": "the-id", "APIKEY": "s3cr3t"}, apiKey},
		"KeyFromFile":   {map[string]string{"APIKEY_ID": "the-id", "APIKEY_FILE": file}, apiKey},
		"KeyFirst":      {map[string]string{"APIKEY_ID": "the-id", "APIKEY": "s3cr3t", "USERNAME": "me", "PASSWORD": "p4ssw0rd"}, apiKey},
		"KeySwapped":    {map[string]string{"APIKEY_ID": "s3cr3t", "APIKEY_SWAPPED": "the-id"}, apiKey},
		"KeyAndSwapped": {map[string]string{"APIKEY_ID": "the-id", "APIKEY": "s3cr3t", "APIKEY_SWAPPED": "old"}, apiKey},
		"KeyEncoded":    {map[string]string{"APIKEY": strings.TrimPrefix(apiKey, "ApiKey ")}, apiKey},
		"HalfAKey":      {map[string]string{"APIKEY_ID": "the-id", "USERNAME": "me", "PASSWORD": "p4ssw0rd"}, basic},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/findings.json"] = stored, sdktest.Findings(1)
			env := map[string]string{}
			for key, value := range c.env {
				env["ELASTICSEARCH_"+key] = value
			}
			far := newCluster()
			far.authorization = c.want
			if got := runHook(t, w, far, env); got.ExitCode != 0 {
				t.Errorf("refused with what should be taken: %s", got.Stderr)
			}
			far = newCluster()
			far.authorization = "other"
			got := runHook(t, w, far, env)
			if got.ExitCode != exitcode.Refused || !strings.Contains(got.Stderr, "create index scb_2035-06-30: Elasticsearch at ") || !strings.Contains(got.Stderr, "answers 401 Unauthorized") {
				t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
			}
			for _, secret := range []string{"s3cr3t", "p4ssw0rd"} {
				if strings.Contains(got.Stderr, secret) {
					t.Errorf("stderr shows %s: %s", secret, got.Stderr)
				}
			}
		})
	}
}

func TestSettings(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		want string
	}{
		"AddressNotHTTP": {map[string]string{"ADDRESS": "s3cr3t"}, "ELASTICSEARCH_ADDRESS is not an http:// or https:// address"},
		"Suffix":         {map[string]string{"INDEX_SUFFIX": "DD"}, "ELASTICSEARCH_INDEX_SUFFIX has the token DD"},
		"SuffixQuote":    {map[string]string{"INDEX_SUFFIX": "yyyy'Q"}, `ELASTICSEARCH_INDEX_SUFFIX "'Q" has a quote that does not end`},
		"Refresh":        {map[string]string{"REFRESH": "yes"}, `ELASTICSEARCH_REFRESH is "yes"`},
		"Batch":          {map[string]string{"BATCH_SIZE": "5001"}, "ELASTICSEARCH_BATCH_SIZE is 5001, want 5000 at most"},
		"BatchText":      {map[string]string{"BATCH_SIZE": "x"}, `ELASTICSEARCH_BATCH_SIZE is "x"`},
		"Mappings":       {map[string]string{"MAPPINGS": "solr"}, `ELASTICSEARCH_MAPPINGS is "solr"`},
		"BodyAndMapping": {map[string]string{"MAPPINGS": "opensearch", "INDEX_BODY": "{}"}, "one is enough"},
		"Body":           {map[string]string{"INDEX_BODY": "[]"}, "ELASTICSEARCH_INDEX_BODY is not a JSON object"},
		"KeyFile":        {map[string]string{"APIKEY_FILE": "/does/not/exist"}, "read ELASTICSEARCH_APIKEY_FILE"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"ELASTICSEARCH_ADDRESS": "http://example.com"}
			for key, value := range c.env {
				env["ELASTICSEARCH_"+key] = value
			}
			got := sdktest.New(t).Run(t, Hook(), env)
			if got.ExitCode != exitcode.Configuration || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "s3cr3t") {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
		})
	}
	if got := sdktest.New(t).Run(t, Hook(), nil); !strings.Contains(got.Stderr, "ELASTICSEARCH_ADDRESS is not set") {
		t.Errorf("stderr %q", got.Stderr)
	}
}

func TestLayout(t *testing.T) {
	at := time.Date(2021, 1, 3, 14, 5, 9, 78e6, time.FixedZone("", 3600)) // a Sunday: of the last ISO week of 2020
	cases := map[string]string{
		"yyyy-MM-dd":     "2021-01-03",
		"yyyy.MM.dd":     "2021.01.03",
		"y-M-d":          "2021-1-3",
		"yy":             "21",
		"yyyyyy":         "002021",
		"yyyy-'Q'q":      "2021-Q1",
		"kkkk-'w'WW":     "2020-w53",
		"kk-W":           "20-53",
		"yyyy-ooo":       "2021-003",
		"yyyy-MM-dd-HH":  "2021-01-03-13",
		"h-hh-a":         "1-01-PM",
		"m-mm-s-ss":      "5-05-9-09",
		"S-SSS-u-uu-uuu": "78-078-078-07-0",
		"E-ccc-EEEE-c":   "7-Sun-Sunday-7",
		"LLL-MMMM-LLLLL": "Jan-January-J",
		"X-x":            "1609679109-1609679109078",
		"ZZ z":           "+00:00 UTC",
		"'it''s'":        "its",
		"''":             "'",
		"bb-é":           "bb-é",
		"qq":             "01",
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			l, err := parseLayout(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := l.format(at); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestMappings sends what guessed types cannot take.
func TestMappings(t *testing.T) {
	const findings = `[{"id":"1","attributes":{"port":80}},{"id":"2","attributes":{"port":"any"}},{"id":"3","attributes":{"port":{"n":1}}}]`
	cases := map[string]struct {
		env      map[string]string
		exitCode int
		want     int
		says     string
	}{
		"Guessed":       {nil, 1, 2, "refuses 2 of 3 findings, such as finding 2: status 400 document_parsing_exception: failed to parse field [attributes.port] of type [long] finding 3: status 400"},
		"Elasticsearch": {map[string]string{"ELASTICSEARCH_MAPPINGS": "elasticsearch"}, 0, 4, ""},
		"OpenSearch":    {map[string]string{"ELASTICSEARCH_MAPPINGS": "opensearch"}, 0, 4, ""},
		"OfYourOwn":     {map[string]string{"ELASTICSEARCH_INDEX_BODY": `{"mappings":{"properties":{"attributes":{"type":"flattened"}}}}`}, 0, 4, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/findings.json"] = stored, []byte(findings)
			far := newCluster()
			got := runHook(t, w, far, c.env)
			documents, err := far.all()
			if err != nil || got.ExitCode != c.exitCode || len(documents) != c.want || !strings.Contains(got.Stderr, c.says) {
				t.Errorf("exit code %d with %d documents, %v, stderr %q, want %d, %d, %q", got.ExitCode, len(documents), err, got.Stderr, c.exitCode, c.want, c.says)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	reply := func(status int, text string) sdktest.Reply {
		return sdktest.Reply{Status: status, Body: text, Header: map[string]string{"Content-Type": "application/json"}}
	}
	cases := map[string]struct {
		create, scan, bulk sdktest.Reply
		want               string // empty: it goes well
	}{
		"Fine":         {bulk: reply(200, `{"items":[{"index":{"_id":"`+uid+`_finding-0","status":201}}]}`)},
		"IndexThere":   {create: reply(400, `{"error":{"type":"resource_already_exists_exception","reason":"x"}}`), bulk: reply(200, `{"items":[{"index":{"_id":"`+uid+`_finding-0","status":200}}]}`)},
		"AliasThere":   {create: reply(400, `{"error":{"type":"invalid_index_name_exception","reason":"Invalid index name [a], already exists as alias"}}`), bulk: reply(200, `{"items":[{"index":{"_id":"`+uid+`_finding-0","status":200}}]}`)},
		"IndexName":    {create: reply(400, `{"error":{"type":"invalid_index_name_exception","reason":"must be lowercase"}}`), want: "answers 400: invalid_index_name_exception: must be lowercase"},
		"IndexNoJSON":  {create: reply(400, `nonsense`), want: "the response is not the expected JSON"},
		"IndexDenied":  {create: reply(403, `{"error":{"type":"security_exception","reason":"action [indices:admin/create] is unauthorized"}}`), want: "create index scb_2035-06-30: Elasticsearch at 127.0.0.1"},
		"ScanRefused":  {scan: reply(400, `{"error":"no"}`), want: "write Scan: Elasticsearch at 127.0.0.1"},
		"BulkTooLarge": {bulk: reply(413, ``), want: "write findings: Elasticsearch at 127.0.0.1"},
		"BulkFewer":    {bulk: reply(200, `{"items":[]}`), want: "it speaks of 0 findings, not of the 1 that were sent"},
		"BulkOthers":   {bulk: reply(200, `{"items":[{"index":{"_id":"x","status":201}}]}`), want: "it speaks of other findings"},
		"BulkCreated":  {bulk: reply(200, `{"items":[{"create":{"_id":"x","status":201}}]}`), want: "it speaks of other findings"},
		"BulkNoJSON":   {bulk: reply(200, `<html>`), want: "the response is not the expected JSON"},
		"ItemText":     {bulk: reply(200, `{"items":[{"index":{"_id":"`+uid+`_finding-0","status":400,"error":"broken"}}]}`), want: "finding finding-0: status 400 : broken"},
		"ItemCause":    {bulk: reply(200, `{"items":[{"index":{"_id":"`+uid+`_finding-0","status":400,"error":{"type":"t","reason":"r","caused_by":{"type":"u","reason":"s"}}}}]}`), want: "status 400 t: r: s"},
		"ItemSilent":   {bulk: reply(200, `{"items":[{"index":{"_id":"`+uid+`_finding-0","status":404}}]}`), want: "finding finding-0: status 404"},
		"ItemBusy":     {bulk: reply(200, `{"items":[{"index":{"_id":"`+uid+`_finding-0","status":503}}]}`), want: "given up after 6 attempts: Elasticsearch at 127.0.0.1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/findings.json"] = stored, sdktest.Findings(1)
			far := w.NewRemote(t, func(_ int, r sdktest.Request) sdktest.Reply {
				switch {
				case r.Method == http.MethodPost:
					return c.bulk
				case strings.Contains(r.URL, "/_doc/"):
					return c.scan
				}
				return c.create
			})
			got := w.Run(t, Hook(), map[string]string{"ELASTICSEARCH_ADDRESS": far.URL})
			if failed := got.ExitCode != 0; failed != (c.want != "") || !strings.Contains(got.Stderr, c.want) {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
		})
	}
}

// TestLongID holds that an id that no remote service takes is replaced by one that is made of it.
func TestLongID(t *testing.T) {
	long := strings.Repeat("x", 600)
	findings, err := json.Marshal([]map[string]string{{"id": long + "1"}, {"id": long + "2"}})
	if err != nil {
		t.Fatal(err)
	}
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"] = stored, findings
	far := newCluster()
	if got := runHook(t, w, far, nil); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	documents, err := far.all()
	if err != nil || len(documents) != 3 {
		t.Errorf("%d documents, want 3 (%v)", len(documents), err)
	}
}
