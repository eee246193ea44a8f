// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// three is a Scan with one finding each that is bad, harmless, and hardly one.
const three = `[
	{"id":"0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3","name":"Note","severity":"info","category":null},
	{"id":"i-2","fingerprint":"fp","name":"Injection","category":"Web","severity":"high","location":"https://a/b?q=<1>","description":"d","mitigation":"m","references":[{"type":"CVE","value":"CVE-1"}],"attributes":{"tags":"t","line":12},"identified_at":"2030-01-01T00:00:00Z"},
	{"id":"i-3","name":7,"category":"Web","severity":"MEDIUM","location":"image name","osi_layer":"APPLICATION"}]`

func threeReports(t *testing.T, env map[string]string, previous string) map[string]sdktest.Operation {
	t.Helper()
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"] = exampleScan, []byte(three)
	if previous != "" {
		w.Objects["/before.json"] = []byte(previous)
		env["PREVIOUS_FINDINGS_URL"] = w.URLs("/before.json")[0]
	}
	return reports(t, w, env)
}

// TestStored looks at what is put where. The world's store refuses what is not signed.
func TestStored(t *testing.T) {
	got := map[string]string{}
	for name, o := range threeReports(t, nil, "") {
		got[name] = o.ContentType
	}
	want := map[string]string{
		"report.html": "text/html; charset=utf-8", "report.sarif": "application/sarif+json", "report.junit.xml": "application/xml",
		"report.csv": "text/csv; charset=utf-8; header=present", "report.md": "text/markdown; charset=utf-8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("content types (-want +got):\n%s", diff)
	}
	if chosen := threeReports(t, map[string]string{"REPORT_FORMATS": "CSV, sarif,csv"}, ""); len(chosen) != 2 {
		t.Errorf("%d reports, want csv and sarif", len(chosen))
	}
}

// TestAgain holds that a second run stores the same bytes.
func TestAgain(t *testing.T) {
	bodies := func() map[string]string {
		all := map[string]string{}
		for name, o := range threeReports(t, nil, "") {
			all[name] = string(o.Body)
		}
		return all
	}
	if diff := cmp.Diff(bodies(), bodies()); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	cases := map[string]struct {
		env    map[string]string
		faults func(method, path string) int
		want   string
	}{
		"NoPlaces":     {env: map[string]string{"OUTPUT_URLS": ""}, want: "spec.outputs of the hook must list"},
		"OnePlace":     {env: map[string]string{"OUTPUT_URLS": `{"report.html":"http://x/s3cr3t"}`}, want: "no place for report.sarif"},
		"NoJSON":       {env: map[string]string{"OUTPUT_URLS": "s3cr3t"}, want: "OUTPUT_URLS is no JSON object"},
		"Format":       {env: map[string]string{"REPORT_FORMATS": "pdf"}, want: `REPORT_FORMATS has "pdf", want some of html,sarif,junit,csv,markdown`},
		"NoFormat":     {env: map[string]string{"REPORT_FORMATS": ","}, want: "names no format"},
		"Severity":     {env: map[string]string{"REPORT_JUNIT_SEVERITY": "CRITICAL"}, want: "none of HIGH, MEDIUM, LOW, INFORMATIONAL"},
		"TooMany":      {env: map[string]string{"REPORT_MAX_FINDINGS": "1000000"}, want: "want 250000 at most"},
		"StoreRefuses": {faults: putFault(403), want: "URL_EXPIRATION_HOOK"},
		"StoreDead":    {faults: putFault(503), want: "report.html: given up after 6 attempts"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			if c.faults != nil {
				w.Faults = c.faults
			}
			env := map[string]string{"OUTPUT_URLS": outputURLs(t, w)}
			maps.Copy(env, c.env)
			got := w.Run(t, Hook(), env)
			if got.ExitCode != 1 || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "s3cr3t") {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
		})
	}
}

func putFault(status int) func(method, path string) int {
	return func(method, _ string) int {
		if method == http.MethodPut {
			return status
		}
		return 0
	}
}

// TestKilledEverywhere has the reports of 10,000 findings complete after a kill at any upload.
func TestKilledEverywhere(t *testing.T) {
	sdktest.Delivery{
		Hook: Hook(),
		Env: func(address string) map[string]string {
			return map[string]string{"OUTPUT_URLS": fmt.Sprintf(`{"report.csv":"%s/report.csv?sig=1","report.html":"%s/report.html?sig=1"}`, address, address), "REPORT_FORMATS": "csv,html"}
		},
		Prepare: func(w *sdktest.World) { w.Objects["/findings.json"] = sdktest.Findings(10_000) },
		FarEnd: func() (take func(sdktest.Request) sdktest.Reply, check func() error) {
			objects := map[string][]byte{}
			return func(r sdktest.Request) sdktest.Reply {
					if r.Method != http.MethodPut || !strings.HasSuffix(r.URL, "?sig=1") {
						return sdktest.Reply{Status: 403}
					}
					objects[r.URL] = r.Body
					return sdktest.Reply{}
				}, func() error {
					rows, err := csv.NewReader(bytes.NewReader(objects["/report.csv?sig=1"])).ReadAll()
					if err != nil {
						return err
					}
					arrived := sdktest.Tally{}
					for _, row := range rows[1:] {
						arrived[row[10]]++
					}
					if n := bytes.Count(objects["/report.html?sig=1"], []byte(`"finding-`)); n != 10_000 {
						return fmt.Errorf("%d findings in the page", n)
					}
					return arrived.Exactly(10_000)
				}
		},
	}.KillEverywhere(t)
}

func TestCSV(t *testing.T) {
	got := string(threeReports(t, nil, "")["report.csv"].Body)
	want := "severity,name,category,location,description,mitigation,references,identified_at,osi_layer,state,id,attributes\r\n" +
		"INFORMATIONAL,Note,(no category),,,,,,,,0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3,\r\n" +
		"HIGH,Injection,Web,https://a/b?q=<1>,d,m,CVE CVE-1,2030-01-01T00:00:00Z,,,i-2,\"{\"\"tags\"\":\"\"t\"\",\"\"line\"\":12}\"\r\n" +
		"MEDIUM,7,Web,image name,,,,,APPLICATION,,i-3,\r\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCSVIsInert holds that no cell is a formula, whatever a finding says.
func TestCSVIsInert(t *testing.T) {
	cases := map[string]struct{ cell, want string }{
		"Plain":      {"a=b", "a=b"},
		"Empty":      {"", ""},
		"Number":     {"-1", "'-1"},
		"Formula":    {"=1+1", "'=1+1"},
		"Plus":       {"+1", "'+1"},
		"At":         {"@SUM(A1)", "'@SUM(A1)"},
		"Tab":        {"\t=1", "'\t=1"},
		"LineBreak":  {"\r\n=1", "'\r\n=1"},
		"AfterSpace": {"  =1", "'  =1"},
		"AfterMark":  {"\ufeff=1", "'\ufeff=1"},
		"Wide":       {"＝1", "'＝1"},
		"Null":       {"a\x00b", "a\ufffdb"},
	}
	for name, c := range cases {
		if got := inert(c.cell); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	w := sdktest.New(t)
	w.Objects["/findings.json"] = hostileFindings(t)
	rows, err := csv.NewReader(bytes.NewReader(reports(t, w, nil)["report.csv"].Body)).ReadAll()
	if err != nil || len(rows) != len(hostileTexts)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) {
				t.Errorf("cell %q", cell)
			}
		}
	}
}

func TestJUnit(t *testing.T) {
	type testCase struct {
		Name    string `xml:"name,attr"`
		Class   string `xml:"classname,attr"`
		Failure *struct {
			Message string `xml:"message,attr"`
			Type    string `xml:"type,attr"`
			Text    string `xml:",chardata"`
		} `xml:"failure"`
		Out string `xml:"system-out"`
	}
	type suites struct {
		Failures int `xml:"failures,attr"`
		Suite    struct {
			Name      string     `xml:"name,attr"`
			Tests     int        `xml:"tests,attr"`
			Failures  int        `xml:"failures,attr"`
			Timestamp string     `xml:"timestamp,attr"`
			Cases     []testCase `xml:"testcase"`
		} `xml:"testsuite"`
	}
	read := func(body []byte) (s suites) {
		if err := xml.Unmarshal(body, &s); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return s
	}
	s := read(threeReports(t, nil, "")["report.junit.xml"].Body)
	got := []any{s.Failures, s.Suite.Name, s.Suite.Tests, s.Suite.Failures, s.Suite.Timestamp, len(s.Suite.Cases), s.Suite.Cases[0].Failure == nil, s.Suite.Cases[1].Name, s.Suite.Cases[1].Class, s.Suite.Cases[1].Failure.Message, s.Suite.Cases[1].Failure.Text}
	want := []any{2, "nightly-1893499200", 3, 2, "2030-01-01T11:58:12", 3, true, "Injection (https://a/b?q=<1>)", "Web", "High: Injection", "Location: https://a/b?q=<1>\nd\nMitigation: m\nCVE CVE-1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := read(threeReports(t, map[string]string{"REPORT_JUNIT_SEVERITY": "high"}, "")["report.junit.xml"].Body); s.Suite.Failures != 1 || s.Suite.Cases[2].Out != "Location: image name" {
		t.Errorf("from HIGH on: %+v", s)
	}
	w := sdktest.New(t)
	if s := read(reports(t, w, nil)["report.junit.xml"].Body); s.Suite.Tests != 1 || s.Suite.Failures != 0 || len(s.Suite.Cases) != 1 {
		t.Errorf("without findings: %+v", s)
	}
	w.Objects["/findings.json"] = hostileFindings(t)
	if s := read(reports(t, w, nil)["report.junit.xml"].Body); len(s.Suite.Cases) != len(hostileTexts) || s.Suite.Cases[0].Class != hostileTexts[0] {
		t.Errorf("hostile: %+v", s)
	}
}

// TestSARIF validates against the schema that OASIS publishes, and looks at a log whole.
func TestSARIF(t *testing.T) {
	schema := sarifValidator(t)
	const rule = `"properties":{"security-severity":"%s","tags":["security"]},"shortDescription":{"text":"%s"}`
	want := `{"$schema":"` + sarifSchema + `","version":"2.1.0","runs":[{"columnKind":"utf16CodeUnits","automationDetails":{"id":"team/nightly-1893499200"},` +
		`"tool":{"driver":{"name":"zap-automation-framework","informationUri":"https://github.com/scanyard/scanyard","rules":[` +
		`{"id":"Web","defaultConfiguration":{"level":"error"},` + fmt.Sprintf(rule, "8.0", "Web") + `},{"id":"(no category)","defaultConfiguration":{"level":"note"},` + fmt.Sprintf(rule, "0.0", "(no category)") + `}]}},"results":[` +
		`{"ruleId":"(no category)","ruleIndex":1,"level":"note","message":{"text":"Note"},"guid":"0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3","partialFingerprints":{"scanyard/v1":"0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3"},"baselineState":"unchanged","properties":{"severity":"INFORMATIONAL","security-severity":"0.0"}},` +
		`{"ruleId":"Web","ruleIndex":0,"level":"error","message":{"text":"Injection\n\nd"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"https://a/b?q=%3C1%3E"},"region":{"startLine":12}}}],"partialFingerprints":{"scanyard/v1":"fp"},"baselineState":"new","properties":{"severity":"HIGH","security-severity":"8.0","mitigation":"m","attributes":{"tags":"t","line":12},"references":[{"type":"CVE","value":"CVE-1"}]}},` +
		`{"ruleId":"Web","ruleIndex":0,"level":"warning","message":{"text":"7"},"locations":[{"logicalLocations":[{"fullyQualifiedName":"image name"}]}],"partialFingerprints":{"scanyard/v1":"i-3"},"baselineState":"new","properties":{"severity":"MEDIUM","security-severity":"5.5"}}]}]}`
	got := threeReports(t, map[string]string{}, `[{"id":"old","name":"Note","severity":"info","category":null}]`)["report.sarif"].Body
	if diff := cmp.Diff(sdktest.JSON(t, []byte(want)), sdktest.JSON(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, findings := range map[string][]byte{"Three": []byte(three), "None": []byte("[]"), "Hostile": hostileFindings(t), "Varied": variedFindings(500)} {
		w := sdktest.New(t)
		w.Objects["/findings.json"] = findings
		if err := schema.Validate(sdktest.JSON(t, reports(t, w, nil)["report.sarif"].Body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The validator must be able to say no.
	if err := schema.Validate(sdktest.JSON(t, []byte(`{"version":"2.1.0","runs":[{"tool":{"driver":{}},"results":[]}]}`))); err == nil {
		t.Error("the schema takes a driver without a name")
	}
}

func sarifValidator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(sarifSchema, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(sarifSchema)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestMarkdown(t *testing.T) {
	got := string(threeReports(t, map[string]string{}, `[{"id":"old","name":"Note","severity":"info","category":null},{"id":"x","name":"Gone","severity":"LOW"}]`)["report.md"].Body)
	want := "# nightly&#45;1893499200\n\nScan nightly&#45;1893499200 of type zap&#45;automation&#45;framework in namespace team, finished 2030-01-01T11:58:12Z: 3 findings.\n\n" +
		"Since the previous run: 2 new, 1 fixed.\n\n" +
		"| Severity | Findings |\n| --- | ---: |\n| High | 1 |\n| Medium | 1 |\n| Low | 0 |\n| Informational | 1 |\n\n" +
		"| Category | High | Medium | Low | Informational |\n| --- | ---: | ---: | ---: | ---: |\n| Web | 1 | 1 | 0 | 0 |\n| &#40;no category&#41; | 0 | 0 | 0 | 1 |\n\n" +
		"| Location | High | Medium | Low | Informational |\n| --- | ---: | ---: | ---: | ---: |\n| https&#58;//a/b?q&#61;&lt;1&gt; | 1 | 0 | 0 | 0 |\n| image name | 0 | 1 | 0 | 0 |\n\n" +
		"| Severity | Name | Category | Location | State |\n| --- | --- | --- | --- | --- |\n" +
		"| High | Injection | Web | https&#58;//a/b?q&#61;&lt;1&gt; | new |\n| Medium | 7 | Web | image name | new |\n| Informational | Note | &#40;no category&#41; |  | known |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w := sdktest.New(t)
	w.Objects["/findings.json"] = hostileFindings(t)
	hostile := string(reports(t, w, nil)["report.md"].Body)
	if regexp.MustCompile("[<>`*\\[]").MatchString(hostile) {
		t.Errorf("not plain: %s", hostile)
	}
	for line := range strings.Lines(hostile) {
		if strings.HasPrefix(line, "| High | ") && strings.Count(line, "|") != 5 && strings.Count(line, "|") != 3 {
			t.Errorf("broken row: %s", line)
		}
	}
	w.Objects["/findings.json"] = variedFindings(1000)
	if many := string(reports(t, w, nil)["report.md"].Body); !strings.Contains(many, "The first 100 of 1000 findings by severity.") || strings.Count(many, "\n| High | ")+strings.Count(many, "\n| Medium | ")+strings.Count(many, "\n| Low | ") > 103 {
		t.Errorf("%s", many)
	}
}

// shown is what the script reads.
type shown struct {
	pageData

	Findings [][]json.RawMessage `json:"findings"`
}

var dataElement = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

func readPage(t *testing.T, html []byte) (p shown) {
	t.Helper()
	found := dataElement.FindAllSubmatch(html, -1)
	if len(found) != 1 {
		t.Fatalf("%d data elements", len(found))
	}
	if err := json.Unmarshal(found[0][1], &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPageHolds reads the page as a browser would, without one.
func TestPageHolds(t *testing.T) {
	html := threeReports(t, nil, "")["report.html"].Body
	p := readPage(t, html)
	want := []any{"nightly-1893499200", 3, []int{1, 1, 0, 1}, 3, 2, 2}
	got := []any{p.Scan.Title, p.Total, p.Severities, len(p.Findings), len(p.Categories), len(p.Locations)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := bytes.Count(html, []byte("{{")); n != 0 {
		t.Errorf("%d marks are left", n)
	}
	for _, forbidden := range []string{" onclick=", " onload=", " style=", "src=", "href=", "@import", "url(", "innerHTML", "document.write", "eval("} {
		if bytes.Contains(html, []byte(forbidden)) {
			t.Errorf("the page has %s", forbidden)
		}
	}
}

// TestPageData holds that what a finding says can neither end its element nor mean anything there.
func TestPageData(t *testing.T) {
	w := sdktest.New(t)
	w.Objects["/findings.json"] = hostileFindings(t)
	html := reports(t, w, nil)["report.html"].Body
	p := readPage(t, html)
	for i, f := range p.Findings {
		var name string
		if err := json.Unmarshal(f[1], &name); err != nil || name != hostileTexts[i] {
			t.Errorf("%q became %q, %v", hostileTexts[i], name, err)
		}
	}
	data := dataElement.FindSubmatch(html)[1]
	for _, c := range []string{"<", ">", "&", "\u2028", "\u2029", "\x00"} {
		if bytes.Contains(data, []byte(c)) {
			t.Errorf("the data has %q", c)
		}
	}
	if n := bytes.Count(html, []byte("<script")); n != 2 {
		t.Errorf("%d scripts", n)
	}
}

// TestPageIsBounded gives room to the worst first, and none to texts without end.
func TestPageIsBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	var findings []string
	for i, severity := range []string{"LOW", "HIGH", "LOW", "MEDIUM", "INFORMATIONAL", "HIGH"} {
		findings = append(findings, fmt.Sprintf(`{"id":"%d","name":"n","category":"%s","severity":"%s","description":"%s","attributes":{"a":"%s"}}`, i, long, severity, long, long))
	}
	w := sdktest.New(t)
	w.Objects["/findings.json"] = []byte("[" + strings.Join(findings, ",") + "]")
	html := reports(t, w, map[string]string{"REPORT_MAX_FINDINGS": "4"})["report.html"].Body
	p := readPage(t, html)
	var ids []string
	for _, f := range p.Findings {
		ids = append(ids, string(f[10]))
	}
	if diff := cmp.Diff([]string{`"0"`, `"1"`, `"3"`, `"5"`}, ids); diff != "" {
		t.Errorf("findings in the page (-want +got):\n%s", diff)
	}
	if p.Total != 6 || string(p.Findings[0][7]) != "100008" || len(html) > 100_000 {
		t.Errorf("%d findings, attributes %.100s, %d bytes", p.Total, p.Findings[0][7], len(html))
	}
}

// TestQuota fills a page by bytes.
func TestQuota(t *testing.T) {
	r := &report{handler: &handler{maxFindings: 10}}
	r.stats.severities = [severities]size{{2, 1000}, {20, maxPageBytes}, {5, 50}, {1, 1}}
	r.setQuota()
	if diff := cmp.Diff([severities]size{{2, 1000}, {8, maxPageBytes - 1000}, {0, 0}, {0, 0}}, r.quota, cmp.AllowUnexported(size{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	q := size{3, 10}
	if got := []bool{q.room(6), q.room(6), q.room(1)}; !cmp.Equal(got, []bool{true, false, false}) {
		t.Errorf("room %v: what comes later must not jump the queue", got)
	}
}

func TestEscapeForScript(t *testing.T) {
	in := "a<b>&\u2028\u2029\u2027\u202a€é"
	got := string(escapeForScript([]byte("<"+in), 1))
	if want := "<a\\u003cb\\u003e\\u0026\\u2028\\u2029\u2027\u202a€é"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestGroupsAreBounded counts beyond the bound under one name.
func TestGroupsAreBounded(t *testing.T) {
	g := groups{}
	for i := range maxGroups + 10 {
		g.add(fmt.Sprint("place ", i), high)
	}
	top := g.top(2)
	if len(g) != maxGroups+1 || top[0].Name != otherGroups || top[0].total != 10 || len(top) != 3 || top[2].Name != "" || top[2].total != maxGroups-1 {
		t.Errorf("%d groups, top %+v", len(g), top)
	}
}

// TestBrokenWriter ends each format with the error of what it writes to.
func TestBrokenWriter(t *testing.T) {
	broken := errors.New("full")
	probe := sdk.Hook{Name: "probe", New: func(env sdk.Env) (sdk.Handler, error) {
		h, err := newHandler(env)
		if err != nil {
			return nil, err
		}
		return sdk.HandlerFunc(func(ctx context.Context, s *sdk.Session) error {
			comparison, err := s.Compare(ctx)
			if err != nil {
				return err
			}
			r := &report{handler: h.(*handler), session: s, comparison: comparison}
			if err := errors.Join(r.readScan(), r.survey(ctx)); err != nil {
				return err
			}
			for _, f := range formats {
				for _, room := range []int{0, 10, 1000} {
					if err := f.write(ctx, r, &failing{room, broken}); !errors.Is(err, broken) {
						return fmt.Errorf("%s with room for %d bytes: %w", f.name, room, err)
					}
				}
			}
			return nil
		}), nil
	}}
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"] = exampleScan, variedFindings(300)
	if got := w.Run(t, probe, nil); got.ExitCode != 0 {
		t.Error(got.Stderr)
	}
}

type failing struct {
	room int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, f.err
	}
	return len(p), nil
}

var _ io.Writer = (*failing)(nil)
