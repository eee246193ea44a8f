// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

const plainScan = `{"metadata":{"name":"s","namespace":"ns","uid":"u"},"spec":{"scanType":"kube-hunter","parameters":["--remote","a"]}}`

// names is what the rows of a kind are called.
func (d *dojo) names(kind string) (all []string) {
	for _, r := range d.tables[kind].rows {
		name := r["name"]
		if kind == "tests" {
			name = r["title"]
		}
		all = append(all, fmt.Sprint(name))
	}
	return all
}

func runHook(t *testing.T, w *sdktest.World, d *dojo, more map[string]string) (sdktest.Result, []sdktest.Request) {
	t.Helper()
	far := w.NewRemote(t, d.serve)
	got := w.Run(t, Hook(), env(far.URL, more))
	if strings.Contains(got.Stderr, apiKey) {
		t.Errorf("the key is printed: %s", got.Stderr)
	}
	return got, far.Requests()
}

func TestWhereResultsGo(t *testing.T) {
	scan := func(owner, annotations, spec string) string {
		return `{"metadata":{"name":"nmap-1700000000","namespace":"ns","uid":"u"` + owner + `,"annotations":{` + annotations + `}},"spec":` + spec + `,"status":{"rawResultFile":"nmap-results.xml"}}`
	}
	const kubeHunter = `{"scanType":"kube-hunter","parameters":["--remote","a"]}`
	const scheduled = `,"ownerReferences":[{"kind":"ScheduledScan","name":"nightly","controller":true}]`
	const child = `,"ownerReferences":[{"kind":"Scan","name":"nightly-1700000000","controller":true}]`
	const p = `"defectdojo.securecodebox.io/`
	cases := map[string]struct {
		scan   string
		want   []string // product type, product, engagement, test
		file   string
		reason string
	}{
		"Plain":           {scan("", "", kubeHunter), []string{"Research and Development", "nmap-1700000000", "nmap-1700000000", "nmap-1700000000"}, "findings.json", "the Scan's name for all"},
		"Scheduled":       {scan(scheduled, "", kubeHunter), []string{"Research and Development", "nightly", "nightly", "nightly"}, "findings.json", "the same in every run"},
		"Cascaded":        {scan(child, `"cascading.securecodebox.io/chain":"r1,r2"`, kubeHunter), []string{"Research and Development", "nightly", "nightly", "nightly / r1 > r2 --remote a"}, "findings.json", "the product of what started it, and a test of its own"},
		"CascadedByHand":  {scan(strings.ReplaceAll(child, "-1700000000", ""), "", `{"scanType":"kube-hunter"}`), []string{"Research and Development", "nightly", "nightly", "nightly / kube-hunter"}, "findings.json", ""},
		"OtherOwner":      {scan(`,"ownerReferences":[{"kind":"Pipeline","name":"x"}]`, "", kubeHunter), []string{"Research and Development", "nmap-1700000000", "nmap-1700000000", "nmap-1700000000"}, "findings.json", "never an empty name"},
		"Native":          {scan("", "", `{"scanType":"nmap"}`), []string{"Research and Development", "nmap-1700000000", "nmap-1700000000", "nmap-1700000000"}, "nmap-results.xml", "the raw result goes up"},
		"NotQuiteNative":  {scan("", "", `{"scanType":"nmap-privileged"}`), []string{"Research and Development", "nmap-1700000000", "nmap-1700000000", "nmap-1700000000"}, "findings.json", "the name must be exact"},
		"Annotated":       {scan(scheduled, p+`product-type-name":" PT ",`+p+`product-name":"P",`+p+`engagement-name":"E",`+p+`engagement-version":"1.2",`+p+`test-title":"T",`+p+`minimum-severity":"medium"`, kubeHunter), []string{"PT", "P", "E", "T"}, "findings.json", ""},
		"AnnotatedChild":  {scan(child, p+`product-name":"P",`+p+`test-title":"T"`, kubeHunter), []string{"Research and Development", "P", "nightly", "T / kube-hunter --remote a"}, "findings.json", "children inherit annotations; one test for all would close each other's findings"},
		"AnnotatedNative": {scan("", p+`minimum_severity":"High"`, `{"scanType":"trivy-image"}`), []string{"Research and Development", "nmap-1700000000", "nmap-1700000000", "nmap-1700000000"}, "nmap-results.xml", "both spellings are known"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDojo()
			d.parse = func(string, []byte) ([]row, error) { return nil, nil }
			w := sdktest.New(t)
			w.Scan = c.scan
			if got, _ := runHook(t, w, d, nil); got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			test := d.tables["tests"].rows[0]
			engagement := d.find("engagements", "id", test["engagement"])
			product := d.find("products", "id", engagement["product"])
			got := []string{fmt.Sprint(d.find("product_types", "id", product["prod_type"])["name"]), fmt.Sprint(product["name"]), fmt.Sprint(engagement["name"]), fmt.Sprint(test["title"])}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if len(d.imports) != 1 || d.imports[0].file != c.file {
				t.Errorf("file %q, want %q", d.imports[0].file, c.file)
			}
			if c.file != "findings.json" && string(d.imports[0].report) != "RAW" {
				t.Errorf("report %q", d.imports[0].report)
			}
		})
	}
}

// TestCreatedObjects looks at every field of what is made for a Scan with all annotations.
func TestCreatedObjects(t *testing.T) {
	const p = "defectdojo.securecodebox.io/"
	annotations, err := json.Marshal(map[string]string{
		p + "product-type-name": "PT", p + "product-name": "P", p + "product-description": "D", p + "product-tags": "a, b,,",
		p + "engagement-name": "E", p + "engagement-version": "1.2", p + "engagement-deduplicate-on-engagement": "true",
		p + "engagement-tags": "c", p + "test-title": "T", p + "minimum-severity": "low",
	})
	if err != nil {
		t.Fatal(err)
	}
	d := newDojo()
	w := sdktest.New(t)
	w.Scan = `{"metadata":{"name":"s","annotations":` + string(annotations) + `},"spec":{"scanType":"x","parameters":["-a","` + "`" + `b"]}}`
	if got, _ := runHook(t, w, d, nil); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	id := func(kind string) any { return d.tables[kind].rows[len(d.tables[kind].rows)-1]["id"] }
	want := map[string]row{
		"product_types":       {"id": id("product_types"), "name": "PT"},
		"products":            {"id": id("products"), "name": "P", "description": "D", "prod_type": id("product_types"), "tags": []any{"a", "b"}},
		"tool_types":          {"id": id("tool_types"), "name": toolType, "description": toolType},
		"tool_configurations": {"id": id("tool_configurations"), "name": "secureCodeBox", "description": "secureCodeBox", "tool_type": id("tool_types"), "url": toolSource, "configuration_url": toolSource},
		"engagements": {
			"id": id("engagements"), "name": "E", "product": id("products"), "lead": int64(7), "description": "", "tags": []any{"c"}, "version": "1.2", "branch_tag": "1.2",
			"target_start": "2030-01-01", "target_end": "2030-01-01", "status": "In Progress", "engagement_type": "CI/CD",
			"deduplication_on_engagement": true, "orchestration_engine": id("tool_configurations"),
		},
		"tests": {
			"id": id("tests"), "title": "T", "description": "#### Automated scan\n\n* **Scan type:** `x`\n* **Parameters:** `-a 'b`\n", "test_type": int64(11),
			"engagement": id("engagements"), "lead": int64(7), "target_start": "2030-01-01T12:00:00Z", "target_end": "2030-01-01T12:00:00Z",
			"percent_complete": int64(100), "environment": int64(1), "version": "1.2",
		},
	}
	got := map[string]row{}
	for kind := range want {
		got[kind] = d.tables[kind].rows[len(d.tables[kind].rows)-1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	form := map[string]string{
		"test": fmt.Sprint(id("tests")), "scan_type": "Generic Findings Import", "scan_date": "2030-01-01", "lead": "7",
		"close_old_findings": "true", "minimum_severity": "Low", "version": "1.2",
	}
	if diff := cmp.Diff(form, d.imports[0].form); diff != "" {
		t.Errorf("form (-want +got):\n%s", diff)
	}
}

// TestOneTestForAllRuns runs a ScheduledScan three times: findings are known, gone, and back.
func TestOneTestForAllRuns(t *testing.T) {
	d := newDojo()
	for i, findings := range []string{
		`[{"id":"1","name":"a","severity":"LOW"},{"id":"2","name":"b","severity":"HIGH"}]`,
		`[{"id":"3","name":"a","severity":"LOW"}]`,
		`[{"id":"4","name":"a","severity":"LOW"},{"id":"5","name":"b","severity":"HIGH"}]`,
	} {
		w := sdktest.New(t)
		w.Scan = fmt.Sprintf(`{"metadata":{"name":"nightly-170000000%d","uid":"u%d","ownerReferences":[{"kind":"ScheduledScan","name":"nightly"}]},"spec":{"scanType":"x"}}`, i, i)
		w.Objects["/findings.json"] = []byte(findings)
		if got, _ := runHook(t, w, d, nil); got.ExitCode != 0 {
			t.Fatal(got.Stderr)
		}
	}
	if diff := cmp.Diff([]any{[]string{"nightly"}, 3, 2}, []any{d.names("tests"), len(d.imports), len(d.tables["findings"].rows)}); diff != "" {
		t.Errorf("tests, imports, findings (-want +got):\n%s", diff)
	}
}

func TestLowPrivileged(t *testing.T) {
	low := map[string]string{"DEFECTDOJO_LOW_PRIVILEGED_MODE": "true"}
	d := newDojo()
	w := sdktest.New(t)
	w.Scan = plainScan
	if got, _ := runHook(t, w, d, low); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	if n := len(d.tables["tool_types"].rows) + len(d.tables["tool_configurations"].rows); n != 0 {
		t.Errorf("%d tools were made", n)
	}
	w.Scan = strings.Replace(plainScan, `"uid"`, `"annotations":{"defectdojo.securecodebox.io/product-type-name":"PT"},"uid"`, 1)
	got, _ := runHook(t, w, d, low)
	if got.ExitCode == 0 || !strings.Contains(got.Stderr, `product type "PT": there is none of this name, and DEFECTDOJO_LOW_PRIVILEGED_MODE does not make it`) {
		t.Errorf("exit code %d, %s", got.ExitCode, got.Stderr)
	}
}

// TestMadeOnce lets answers to creations get lost in every way.
func TestMadeOnce(t *testing.T) {
	kinds := []string{"product_types", "products", "tool_types", "tool_configurations", "engagements", "tests"}
	faults := map[string]func(done sdktest.Reply) sdktest.Reply{
		"Dropped":    func(sdktest.Reply) sdktest.Reply { return sdktest.Reply{Drop: true} },
		"Half":       func(r sdktest.Reply) sdktest.Reply { r.Half = true; return r },
		"BadGateway": func(sdktest.Reply) sdktest.Reply { return sdktest.Reply{Status: 502} },
		"Hang":       func(sdktest.Reply) sdktest.Reply { return sdktest.Reply{Hang: time.Minute} },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			d := newDojo()
			w := sdktest.New(t)
			w.Scan = strings.Replace(plainScan, `"uid"`, `"annotations":{"defectdojo.securecodebox.io/product-type-name":"PT"},"uid"`, 1)
			seen := map[string]bool{}
			far := w.NewRemote(t, func(n int, r sdktest.Request) sdktest.Reply {
				reply := d.serve(n, r)
				// An import that hangs is left to the next start of the Job.
				if r.Method == http.MethodPost && !seen[r.URL] && (name != "Hang" || !strings.Contains(r.URL, "reimport")) {
					seen[r.URL] = true
					return fault(reply)
				}
				return reply
			})
			if got := w.Run(t, Hook(), env(far.URL, nil)); got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			for _, kind := range kinds {
				if n := len(d.tables[kind].rows); n != 1 && kind != "product_types" || n > 2 {
					t.Errorf("%s: %v", kind, d.names(kind))
				}
			}
			if len(seen) < len(kinds) {
				t.Errorf("faults at %d addresses: %v", len(seen), slices.Sorted(maps.Keys(seen)))
			}
		})
	}
}

// TestMadeByTwo makes engagement and test twice, as two hooks at the same moment do: the older ones are taken.
func TestMadeByTwo(t *testing.T) {
	d := newDojo()
	w := sdktest.New(t)
	w.Scan = plainScan
	far := w.NewRemote(t, func(n int, r sdktest.Request) sdktest.Reply {
		if r.Method == http.MethodPost && !strings.Contains(r.URL, "reimport") {
			d.serve(n, r) // the other one was faster
		}
		return d.serve(n, r)
	})
	if got := w.Run(t, Hook(), env(far.URL, nil)); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	engagements, tests := d.tables["engagements"].rows, d.tables["tests"].rows
	if len(d.tables["products"].rows) != 1 || len(engagements) != 2 || len(tests) != 2 {
		t.Fatalf("%d products, %d engagements, %d tests", len(d.tables["products"].rows), len(engagements), len(tests))
	}
	if tests[0]["engagement"] != engagements[0]["id"] || d.imports[0].form["test"] != fmt.Sprint(tests[0]["id"]) {
		t.Errorf("not the oldest: %v", d.imports[0].form)
	}
}

// TestManyPages finds what is on the third page only, and refuses to read on for ever.
func TestManyPages(t *testing.T) {
	d := newDojo()
	for i := range 250 {
		d.tables["products"].rows = append(d.tables["products"].rows, row{"id": int64(1000 + i), "name": fmt.Sprintf("s-%d", i), "prod_type": int64(1)})
	}
	d.tables["products"].rows = append(d.tables["products"].rows, row{"id": int64(2000), "name": "s", "prod_type": int64(1)})
	w := sdktest.New(t)
	w.Scan = plainScan
	if got, _ := runHook(t, w, d, nil); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	if got := d.tables["engagements"].rows[0]["product"]; got != int64(2000) {
		t.Errorf("product %v", got)
	}
	got, _ := runHook(t, w, d, map[string]string{"DEFECTDOJO_MAX_PAGE_COUNT_FOR_GETS": "2"})
	if got.ExitCode == 0 || !strings.Contains(got.Stderr, "DEFECTDOJO_MAX_PAGE_COUNT_FOR_GETS") {
		t.Errorf("exit code %d, %s", got.ExitCode, got.Stderr)
	}
}

func TestRefused(t *testing.T) {
	cases := map[string]struct {
		env     map[string]string
		scan    string
		prepare func(d *dojo)
		reply   func(r sdktest.Request) *sdktest.Reply
		want    string
	}{
		"NoURL":        {env: map[string]string{"DEFECTDOJO_URL": "dojo"}, want: "DEFECTDOJO_URL is not an http:// or https:// address"},
		"NoKey":        {env: map[string]string{"DEFECTDOJO_APIKEY": ""}, want: "DEFECTDOJO_APIKEY is not set"},
		"Mode":         {env: map[string]string{"DEFECTDOJO_SYNC_MODE": "both"}, want: "want annotate, append or replace"},
		"Wait":         {env: map[string]string{"DEFECTDOJO_REFETCH_WAIT_SECONDS": "121"}, want: "up to 120"},
		"Timeout":      {env: map[string]string{"DEFECTDOJO_IMPORT_TIMEOUT": "1h"}, want: "want 30m0s at most"},
		"Zone":         {env: map[string]string{"TZ": "Moon/Sea"}, want: "TZ is not a time zone"},
		"WrongKey":     {env: map[string]string{"DEFECTDOJO_APIKEY": "other"}, want: "401 Unauthorized"},
		"Severity":     {scan: `{"metadata":{"name":"s","annotations":{"defectdojo.securecodebox.io/minimum-severity":"huge"}}}`, want: "minimum-severity is none of"},
		"NoSuchParser": {scan: `{"metadata":{"name":"s"},"spec":{"scanType":"wpscan"}}`, want: `test type "Wpscan": there is none of this name (this DefectDojo has no such parser)`},
		"OtherType":    {prepare: func(d *dojo) { d.tables["products"].rows = []row{{"id": int64(3), "name": "s", "prod_type": int64(2)}} }, want: "in another product type"},
		"NoDojo":       {reply: func(sdktest.Request) *sdktest.Reply { return &sdktest.Reply{Status: 404} }, want: "there is no DefectDojo API version 2"},
		"NoJSON":       {reply: func(sdktest.Request) *sdktest.Reply { return &sdktest.Reply{Body: "<html>"} }, want: "not the expected JSON"},
		"OtherTest":    {reply: replyTo("reimport-scan", sdktest.Reply{Status: 201, Body: `{"test_id":5}`}), want: "went into test 5"},
		"TooLarge":     {reply: replyTo("reimport-scan", sdktest.Reply{Status: 413}), want: "raise the limit of the proxy"},
		"ImportRefused": {prepare: func(d *dojo) {
			d.parse = func(string, []byte) ([]row, error) { return nil, errors.New("Report file is too large") }
		}, want: `400 Bad Request: {"detail":"Report file is too large"}`},
		"ImportDead": {reply: replyTo("reimport-scan", sdktest.Reply{Status: 500}), want: "given up after 5 attempts: DefectDojo at"},
		"MakingDead": {reply: replyTo("POST /api/v2/engagements", sdktest.Reply{Status: 503}), want: `engagement "s": create: DefectDojo at`},
		"Forbidden":  {reply: replyTo("POST /api/v2/tool_types", sdktest.Reply{Status: 403}), want: "DEFECTDOJO_LOW_PRIVILEGED_MODE does without"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDojo()
			if c.prepare != nil {
				c.prepare(d)
			}
			w := sdktest.New(t)
			w.Scan = plainScan
			if c.scan != "" {
				w.Scan = c.scan
			}
			far := w.NewRemote(t, func(n int, r sdktest.Request) sdktest.Reply {
				if c.reply != nil {
					if reply := c.reply(r); reply != nil {
						return *reply
					}
				}
				return d.serve(n, r)
			})
			got := w.Run(t, Hook(), env(far.URL, c.env))
			if got.ExitCode == 0 || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, apiKey) {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
		})
	}
}

func replyTo(what string, reply sdktest.Reply) func(sdktest.Request) *sdktest.Reply {
	return func(r sdktest.Request) *sdktest.Reply {
		if strings.Contains(r.Method+" "+r.URL, what) {
			return &reply
		}
		return nil
	}
}

// TestBroughtBack brings DefectDojo's view back in every mode.
func TestBroughtBack(t *testing.T) {
	const findings = `[{"id":"1","name":"Open Port: 22 (ssh)","category":"Open Port","severity":"LOW","location":"tcp://10.0.0.1:22","attributes":{"port":22}},` +
		`{"id":"2","name":"gone","category":"c","severity":"LOW"}]`
	const kept = `{"id":"2","name":"gone","category":"c","severity":"LOW"}`
	view := func(id, test int64, url, more string) string {
		return fmt.Sprintf(`"defectdojo.org/finding-id":%d,"defectdojo.org/finding-url":"%s/finding/%d","defectdojo.org/test-id":%d,"defectdojo.org/test-url":"%s/test/%d",%s`, id, url, id, test, url, test, more)
	}
	for mode, want := range map[string]func(url string, test, port, other int64) string{
		"annotate": func(url string, test, port, _ int64) string {
			return `[{"id":"1","name":"Open Port: 22 (ssh)","category":"Open Port","severity":"LOW","location":"tcp://10.0.0.1:22","attributes":{"port":22,` +
				view(port, test, url, `"duplicate":false,"falsePositive":true,"riskAccepted":false,"outOfScope":false`) + `}},` + kept + `]`
		},
		"append": func(url string, test, port, other int64) string {
			return `[{"id":"1","name":"Open Port: 22 (ssh)","category":"Open Port","severity":"LOW","location":"tcp://10.0.0.1:22","attributes":{"port":22,` +
				view(port, test, url, `"duplicate":false,"falsePositive":true,"riskAccepted":false,"outOfScope":false`) + `}},` + kept + `,ONLY]`
		},
		"replace": func(url string, test, port, other int64) string {
			return `[{"id":"1","name":"Open Port: 22 (ssh)","category":"Open Port","severity":"LOW","location":"tcp://10.0.0.1:22","attributes":{"port":22,` +
				view(port, test, url, `"duplicate":false,"falsePositive":true,"riskAccepted":false,"outOfScope":false`) + `}},ONLY]`
		},
	} {
		t.Run(mode, func(t *testing.T) {
			d := newDojo()
			unused := d.endpoint("", "x", nil)
			ssh := d.endpoint("", "10.0.0.1", 22)
			d.tables["findings"].rows = []row{{"id": int64(50), "test": int64(1), "title": "Original", "description": "o", "severity": "Critical", "created": "2029-01-01T00:00:00Z", "endpoints": []int64{unused}}}
			d.parse = func(string, []byte) ([]row, error) {
				return []row{
					{"title": "Open Port: 22/Tcp", "severity": "Info", "endpoints": []int64{ssh}, "false_p": true},
					{"title": "Only There", "description": "d", "severity": "Medium", "endpoints": []int64{}, "duplicate": true, "duplicate_finding": int64(50)},
				}, nil
			}
			w := sdktest.New(t)
			w.Scan = `{"metadata":{"name":"s","uid":"u"},"spec":{"scanType":"nmap"},"status":{"findings":{"categories":{"Open Port":1,"c":1}}}}`
			w.Objects["/findings.json"] = []byte(findings)
			far := w.NewRemote(t, d.serve)
			got := w.Run(t, Hook(), env(far.URL, map[string]string{"DEFECTDOJO_SYNC_MODE": mode, "DEFECTDOJO_REFETCH_WAIT_SECONDS": "5"}))
			if got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			if !slices.Contains(w.Clock.Pauses(), 5*time.Second) {
				t.Errorf("pauses %v", w.Clock.Pauses())
			}
			rows := d.tables["findings"].rows
			port, other, test := rows[1]["id"].(int64), rows[2]["id"].(int64), d.tables["tests"].rows[0]["id"].(int64)
			only := `{"id":"ID","name":"Only There","description":"d","category":"DefectDojo Imported Finding","severity":"MEDIUM","location":"unknown","parsed_at":"2030-01-01T12:00:00Z","attributes":{` +
				view(other, test, far.URL, `"duplicate":true,"falsePositive":false,"riskAccepted":false,"outOfScope":false`) +
				`,"defectdojo.org/original-finding-id":50,"defectdojo.org/original-finding":{"id":"ID","name":"Original","description":"o","category":"DefectDojo Imported Finding","severity":"HIGH","location":"//x","parsed_at":"2029-01-01T00:00:00Z","attributes":{` +
				view(50, 1, far.URL, `"duplicate":false,"falsePositive":false,"riskAccepted":false,"outOfScope":false`) + `}}}}`
			wanted := sdktest.JSON(t, []byte(strings.ReplaceAll(want(far.URL, test, port, other), "ONLY", only)))
			put := got.Operations[1]
			if diff := cmp.Diff(wanted, withoutNewIDs(sdktest.JSON(t, put.Body))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if mode == "annotate" && !strings.Contains(string(got.Operations[2].Body), `"categories":{"Open Port":1,"c":1}`) {
				t.Errorf("status %s", got.Operations[2].Body)
			}
		})
	}
}

// withoutNewIDs replaces ids that the hook makes, which look like UUIDs.
func withoutNewIDs(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutNewIDs(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = withoutNewIDs(v[key])
		}
		if id, ok := v["id"].(string); ok && len(id) == 36 {
			v["id"] = "ID"
		}
	}
	return v
}

// TestReadOnly imports and asks for nothing back.
func TestReadOnly(t *testing.T) {
	d := newDojo()
	w := sdktest.New(t)
	w.Scan = plainScan
	w.Objects["/findings.json"] = sdktest.Findings(3)
	far := w.NewRemote(t, d.serve)
	got := w.RunArgs(t, Hook(), sdktest.Env(env(far.URL, nil)), w.URLs("/raw", "/findings.json"))
	if got.ExitCode != 0 || len(got.Operations) != 1 || len(d.imports) != 1 {
		t.Fatalf("exit code %d, %d operations, %d imports: %s", got.ExitCode, len(got.Operations), len(d.imports), got.Stderr)
	}
	for _, r := range far.Requests() {
		if strings.Contains(r.URL, "findings/") {
			t.Errorf("asks for findings: %s", r.URL)
		}
	}
}

// TestMoreThanCanBeRead annotates what it gets and says so; it does not drop what it did not see.
func TestMoreThanCanBeRead(t *testing.T) {
	for mode, want := range map[string]int{"annotate": 0, "replace": 1} {
		d := newDojo()
		w := sdktest.New(t)
		w.Scan = plainScan
		w.Objects["/findings.json"] = sdktest.Findings(250)
		got, _ := runHook(t, w, d, map[string]string{"DEFECTDOJO_MAX_PAGE_COUNT_FOR_GETS": "2", "DEFECTDOJO_SYNC_MODE": mode})
		if got.ExitCode != want || !strings.Contains(got.Stderr, "DEFECTDOJO_MAX_PAGE_COUNT_FOR_GETS") {
			t.Errorf("%s: exit code %d, %s", mode, got.ExitCode, got.Stderr)
		}
		if want == 0 && strings.Count(string(got.Operations[1].Body), "defectdojo.org/finding-id") != 200 {
			t.Errorf("%s", got.Operations[1].Body)
		}
	}
}

// TestKilledEverywhere imports 10,000 findings, is killed at each request, and leaves each once in one test.
func TestKilledEverywhere(t *testing.T) {
	const count = 10_000
	sdktest.Delivery{
		Hook: Hook(),
		Env: func(address string) map[string]string {
			return env(address, map[string]string{"DEFECTDOJO_MAX_PAGE_COUNT_FOR_GETS": "3"})
		},
		Prepare: func(w *sdktest.World) {
			w.Scan, w.Objects["/findings.json"] = plainScan, sdktest.Findings(count)
		},
		Remote: func() (take func(sdktest.Request) sdktest.Reply, check func() error) {
			d := newDojo()
			return func(r sdktest.Request) sdktest.Reply { return d.serve(0, r) }, func() error {
				arrived := sdktest.Tally{}
				for _, r := range d.tables["findings"].rows {
					arrived[r["unique_id_from_tool"].(string)]++
					if r["is_mitigated"] == true {
						return fmt.Errorf("%v is closed", r["title"])
					}
				}
				for _, kind := range []string{"products", "engagements", "tests", "tool_types", "tool_configurations"} {
					if n := len(d.tables[kind].rows); n != 1 {
						return fmt.Errorf("%d %s", n, kind)
					}
				}
				return arrived.Exactly(count)
			}
		},
	}.KillEverywhere(t)
}
