// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/report/reporttest"
)

// three is a Scan with one finding each that is bad, harmless, and hardly one.
const three = `[
	{"id":"0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3","name":"Note","severity":"info","category":null},
	{"id":"i-2","fingerprint":"fp","name":"Injection","category":"Web","severity":"high","location":"https://a/b?q=<1>","description":"d","mitigation":"m","references":[{"type":"CVE","value":"CVE-1"}],"attributes":{"tags":"t","line":12},"identified_at":"2030-01-01T00:00:00Z"},
	{"id":"i-3","name":7,"category":"Web","severity":"MEDIUM","location":"image name","osi_layer":"APPLICATION"}]`

// exampleScan is what the API server gives.
const exampleScan = `{"metadata":{"name":"nightly-1893499200","namespace":"team","uid":"u","creationTimestamp":"2030-01-01T11:00:00Z"},` +
	`"spec":{"scanType":"zap-automation-framework","parameters":["-autorun","/home/automation.yaml"]},"status":{"finishedAt":"2030-01-01T11:58:12Z"}}`

// inputOf are findings, and those of a previous run if there is one, as arrays.
func inputOf(t *testing.T, findings, previous string) Input {
	t.Helper()
	scan, err := ScanOf([]byte(exampleScan))
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Findings: source(findings), Scan: scan, FailOn: AtLeast(Low), Siblings: Formats()}
	if previous != "" {
		var known compare.Set
		if err := source(previous)(t.Context(), known.AddFinding); err != nil {
			t.Fatal(err)
		}
		in.Comparison = &known
	}
	return in
}

func source(findings string) Source {
	return Stream(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(findings)), nil })
}

// reports makes all reports, by the names they have in the store.
func reports(t *testing.T, in Input) map[string][]byte {
	t.Helper()
	r, err := New(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, f := range Formats() {
		var out bytes.Buffer
		if err := r.Write(t.Context(), &out, f); err != nil {
			t.Fatal(err)
		}
		all[f.Object] = out.Bytes()
	}
	return all
}

func value(t *testing.T, document []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(document, &v); err != nil {
		t.Fatalf("%v in %s", err, document)
	}
	return v
}

func TestCSV(t *testing.T) {
	got := string(reports(t, inputOf(t, three, ""))["report.csv"])
	want := `"severity","name","category","location","description","mitigation","references","identified_at","osi_layer","state","id","attributes","exception"` + "\r\n" +
		`"INFORMATIONAL","Note","(no category)","","","","","","","","0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3","",""` + "\r\n" +
		`"HIGH","Injection","Web","https://a/b?q=<1>","d","m","CVE CVE-1","2030-01-01T00:00:00Z","","","i-2","{""tags"":""t"",""line"":12}",""` + "\r\n" +
		`"MEDIUM","7","Web","image name","","","","","APPLICATION","","i-3","",""` + "\r\n"
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
		"Tab":        {"\t=1", "'\t'=1"},
		"LineBreak":  {"\r\n=1", "'\r\n'=1"},
		"AfterSpace": {"  =1", "'  =1"},
		"AfterMark":  {"\ufeff=1", "'\ufeff=1"},
		"Wide":       {"＝1", "'＝1"},
		"Null":       {"a\x00b", "a\ufffdb"},
		"Semicolon":  {"a;=cmd|' /C calc'!A0", "a;'=cmd|' /C calc'!A0"},
		"SpaceAfter": {"a; \u00a0-1;b", "a;' \u00a0-1;b"},
		"Pipe":       {"a|+1", "a|'+1"},
		"InnerTab":   {"a\t@x", "a\t'@x"},
		"InnerLine":  {"a\n=x\rb", "a\n'=x\rb"},
		"Last":       {"a;=", "a;'="},
		"NoFormula":  {"a;b\tc=d", "a;b\tc=d"},
		"Ideograph":  {"\u3000=1", "'\u3000=1"},
		"EnQuad":     {"\u2000\u2009=1", "'\u2000\u2009=1"},
		"Narrow":     {"\u202f=1", "'\u202f=1"},
		"Ogham":      {"\u1680=1", "'\u1680=1"},
		"Mongolian":  {"\u180e=1", "'\u180e=1"},
		"ZeroWidth":  {"\u200b\u2060=1", "'\u200b\u2060=1"},
		"SoftHyphen": {"\u00ad=1", "'\u00ad=1"},
		"NextLine":   {"\u0085=1", "'\u0085=1"},
		"LineSep":    {"\u2028=1", "'\u2028=1"},
		"Filler":     {"\u3164=1", "'\u3164=1"},
		"Direction":  {"\u202e=1", "'\u202e=1"},
		"Escape":     {"\x1b=1", "'\x1b=1"},
	}
	for name, c := range cases {
		if got := Inert(c.cell); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	hostileInput := inputOf(t, string(reporttest.HostileFindings(t)), "")
	rows, err := csv.NewReader(bytes.NewReader(reports(t, hostileInput)["report.csv"])).ReadAll()
	if err != nil || len(rows) != len(reporttest.HostileTexts)+1 {
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

// TestCSVInOtherLocales reads it as a spreadsheet does that separates by semicolons or tabs, and does not know where
// quotes end: nothing begins a formula.
func TestCSVInOtherLocales(t *testing.T) {
	finding := `[{"name":"a;=cmd|' /C calc'!A0","category":"\u3000=1+1","location":"x\t=2","description":"\"\n=3;+4","severity":"HIGH","attributes":{"k":"v;=5"}}]`
	text := string(reports(t, inputOf(t, finding, ""))["report.csv"])
	for cell := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";\t\r\n", r) }) {
		if begins := strings.TrimLeftFunc(strings.TrimLeft(cell, `"`), unseen); begins != "" && strings.ContainsRune("=+-@", rune(begins[0])) {
			t.Errorf("%q begins a formula in %s", cell, text)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][4] != "\"\n'=3;'+4" {
		t.Errorf("%v, %q", err, rows)
	}
}

// TestSARIFLinksNowhereElse: a viewer makes links of artifacts, so they are of http or https, or relative.
func TestSARIFLinksNowhereElse(t *testing.T) {
	for location, want := range map[string]string{
		"https://a/b": "https://a/b", "http://a:8080/b?c=d": "http://a:8080/b?c=d", "HTTPS://a/b": "https://a/b", "src/main.go": "src/main.go", "/etc/passwd": "/etc/passwd", "a/b:c": "a/b:c",
		"javascript:alert(1)": "", "JaVaScRiPt:alert(1)": "", "\u0001javascript:alert(1)": "", "data:text/html,x": "", "vbscript:x": "", "file:///etc/passwd": "",
		"tcp://1.2.3.4:80": "", "//evil.example/x": "", `\\\\evil.example\\x`: "", "https:evil": "", "https://user:pass@a/b": "", "C:/x": "", "vscode://x": "", "10.0.0.1:22": "",
	} {
		finding, err := json.Marshal([]any{map[string]any{"name": "n", "category": "c", "location": location, "severity": "HIGH"}})
		if err != nil {
			t.Fatal(err)
		}
		var log struct {
			Runs []struct {
				Results []struct {
					Locations []struct {
						PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
						LogicalLocations []struct{ FullyQualifiedName string }
					}
				}
			}
		}
		if err := json.Unmarshal(reports(t, inputOf(t, string(finding), ""))["report.sarif"], &log); err != nil {
			t.Fatal(err)
		}
		place := log.Runs[0].Results[0].Locations[0]
		if got := place.PhysicalLocation.ArtifactLocation.URI; got != want || (got == "") != (len(place.LogicalLocations) == 1) {
			t.Errorf("%q is at %q, want %q", location, got, want)
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
	s := read(reports(t, inputOf(t, three, ""))["report.junit.xml"])
	got := []any{s.Failures, s.Suite.Name, s.Suite.Tests, s.Suite.Failures, s.Suite.Timestamp, len(s.Suite.Cases), s.Suite.Cases[0].Failure == nil, s.Suite.Cases[1].Name, s.Suite.Cases[1].Class, s.Suite.Cases[1].Failure.Message, s.Suite.Cases[1].Failure.Text}
	want := []any{2, "nightly-1893499200", 3, 2, "2030-01-01T11:58:12", 3, true, "Injection (https://a/b?q=<1>)", "Web", "High: Injection", "Location: https://a/b?q=<1>\nd\nMitigation: m\nCVE CVE-1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	strict := inputOf(t, three, "")
	strict.FailOn = AtLeast(High)
	if s := read(reports(t, strict)["report.junit.xml"]); s.Suite.Failures != 1 || s.Suite.Cases[2].Out != "Location: image name" {
		t.Errorf("from HIGH on: %+v", s)
	}
	if s := read(reports(t, inputOf(t, "[]", ""))["report.junit.xml"]); s.Suite.Tests != 1 || s.Suite.Failures != 0 || len(s.Suite.Cases) != 1 {
		t.Errorf("without findings: %+v", s)
	}
	hostileInput := inputOf(t, string(reporttest.HostileFindings(t)), "")
	if s := read(reports(t, hostileInput)["report.junit.xml"]); len(s.Suite.Cases) != len(reporttest.HostileTexts) || s.Suite.Cases[0].Class != reporttest.HostileTexts[0] {
		t.Errorf("hostile: %+v", s)
	}
}

// TestSARIF validates against the schema that OASIS publishes, and looks at a log whole.
func TestSARIF(t *testing.T) {
	validate := reporttest.SARIF(t)
	const rule = `"properties":{"security-severity":"%s","tags":["security"]},"shortDescription":{"text":"%s"}`
	want := `{"$schema":"` + SARIFSchema + `","version":"2.1.0","runs":[{"columnKind":"utf16CodeUnits","automationDetails":{"id":"team/nightly-1893499200"},` +
		`"tool":{"driver":{"name":"zap-automation-framework","informationUri":"https://github.com/scanyard/scanyard","rules":[` +
		`{"id":"Web","defaultConfiguration":{"level":"error"},` + fmt.Sprintf(rule, "8.0", "Web") + `},{"id":"(no category)","defaultConfiguration":{"level":"note"},` + fmt.Sprintf(rule, "0.0", "(no category)") + `}]}},"results":[` +
		`{"ruleId":"(no category)","ruleIndex":1,"level":"note","message":{"text":"Note"},"guid":"0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3","partialFingerprints":{"scanyard/v1":"0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3"},"baselineState":"unchanged","properties":{"severity":"INFORMATIONAL","security-severity":"0.0"}},` +
		`{"ruleId":"Web","ruleIndex":0,"level":"error","message":{"text":"Injection\n\nd"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"https://a/b?q=%3C1%3E"},"region":{"startLine":12}}}],"partialFingerprints":{"scanyard/v1":"fp"},"baselineState":"new","properties":{"severity":"HIGH","security-severity":"8.0","mitigation":"m","attributes":{"tags":"t","line":12},"references":[{"type":"CVE","value":"CVE-1"}]}},` +
		`{"ruleId":"Web","ruleIndex":0,"level":"warning","message":{"text":"7"},"locations":[{"logicalLocations":[{"fullyQualifiedName":"image name"}]}],"partialFingerprints":{"scanyard/v1":"i-3"},"baselineState":"new","properties":{"severity":"MEDIUM","security-severity":"5.5"}}]}]}`
	got := reports(t, inputOf(t, three, `[{"id":"old","name":"Note","severity":"info","category":null}]`))["report.sarif"]
	if diff := cmp.Diff(value(t, []byte(want)), value(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, findings := range map[string]string{"Three": three, "None": "[]", "Hostile": string(reporttest.HostileFindings(t)), "Varied": string(reporttest.VariedFindings(500))} {
		if err := validate(reports(t, inputOf(t, findings, ""))["report.sarif"]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The validator must be able to say no.
	if err := validate([]byte(`{"version":"2.1.0","runs":[{"tool":{"driver":{}},"results":[]}]}`)); err == nil {
		t.Error("the schema takes a driver without a name")
	}
}

func TestMarkdown(t *testing.T) {
	got := string(reports(t, inputOf(t, three, `[{"id":"old","name":"Note","severity":"info","category":null},{"id":"x","name":"Gone","severity":"LOW"}]`))["report.md"])
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
	hostileInput := inputOf(t, string(reporttest.HostileFindings(t)), "")
	hostile := string(reports(t, hostileInput)["report.md"])
	if regexp.MustCompile("[<>`*\\[]").MatchString(hostile) {
		t.Errorf("not plain: %s", hostile)
	}
	for line := range strings.Lines(hostile) {
		if strings.HasPrefix(line, "| High | ") && strings.Count(line, "|") != 5 && strings.Count(line, "|") != 3 {
			t.Errorf("broken row: %s", line)
		}
	}
	if many := string(reports(t, inputOf(t, string(reporttest.VariedFindings(1000)), ""))["report.md"]); !strings.Contains(many, "The first 100 of 1000 findings by severity.") || strings.Count(many, "\n| High | ")+strings.Count(many, "\n| Medium | ")+strings.Count(many, "\n| Low | ") > 103 {
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
	html := reports(t, inputOf(t, three, ""))["report.html"]
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
	hostileInput := inputOf(t, string(reporttest.HostileFindings(t)), "")
	html := reports(t, hostileInput)["report.html"]
	p := readPage(t, html)
	for i, f := range p.Findings {
		var name string
		if err := json.Unmarshal(f[1], &name); err != nil || name != reporttest.HostileTexts[i] {
			t.Errorf("%q became %q, %v", reporttest.HostileTexts[i], name, err)
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
	in := inputOf(t, "["+strings.Join(findings, ",")+"]", "")
	in.MaxFindings = 4
	html := reports(t, in)["report.html"]
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
	r := &Report{Input: Input{MaxFindings: 10}}
	r.stats.severities = [Severities]size{{2, 1000}, {20, maxPageBytes}, {5, 50}, {1, 1}}
	r.setQuota()
	if diff := cmp.Diff([Severities]size{{2, 1000}, {8, maxPageBytes - 1000}, {0, 0}, {0, 0}}, r.quota, cmp.AllowUnexported(size{})); diff != "" {
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
		g.add(fmt.Sprint("place ", i), High)
	}
	top := g.top(2)
	if len(g) != maxGroups+1 || top[0].Name != otherGroups || top[0].total != 10 || len(top) != 3 || top[2].Name != "" || top[2].total != maxGroups-1 {
		t.Errorf("%d groups, top %+v", len(g), top)
	}
}

// TestKeep leaves out what is not wanted, also from the sums.
func TestKeep(t *testing.T) {
	in := inputOf(t, three, `[{"id":"old","name":"Note","severity":"info","category":null},{"id":"x","name":"Gone","severity":"LOW"}]`)
	in.Keep = func(e *Entry) bool { return e.State == compare.New && e.Severity == High }
	r, err := New(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got := []int{r.Total(), r.Open(High), r.Open(Medium), r.stats.fixed}; !cmp.Equal(got, []int{1, 1, 0, 1}) {
		t.Errorf("total, high, medium, fixed: %v", got)
	}
	if rows := bytes.Count(reports(t, in)["report.csv"], []byte("\n")); rows != 2 {
		t.Errorf("%d rows, want a header and a finding", rows)
	}
}

// TestBrokenWriter ends each format with the error of what it writes to.
func TestBrokenWriter(t *testing.T) {
	broken := errors.New("full")
	r, err := New(t.Context(), inputOf(t, string(reporttest.VariedFindings(300)), ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Formats() {
		for _, room := range []int{0, 10, 1000} {
			if err := r.Write(t.Context(), &failing{room, broken}, f); !errors.Is(err, broken) {
				t.Errorf("%s with room for %d bytes: %v", f.Name, room, err)
			}
		}
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

// TestBrokenSource says which finding cannot be read.
func TestBrokenSource(t *testing.T) {
	cases := map[string]struct{ findings, want string }{
		"NoArray":   {`{"a":1}`, "read findings: "},
		"Truncated": {`[{"name":"a"},{"na`, "the input ends too early"},
		"NoObject":  {`[{"name":"a"},7]`, "finding 1: read finding: it is not an object"},
	}
	for name, c := range cases {
		in := inputOf(t, c.findings, "")
		if _, err := New(t.Context(), in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	away := errors.New("away")
	in := inputOf(t, "[]", "")
	in.Findings = Stream(func(context.Context) (io.ReadCloser, error) { return nil, away })
	if _, err := New(t.Context(), in); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
}

// TestIDsAreMade gives findings without an id the one that parsers would have given them.
func TestIDsAreMade(t *testing.T) {
	in := inputOf(t, `[{"name":"a"}]`, "")
	var got string
	if err := in.Each(t.Context(), func(e *Entry) error { got = e.ID; return nil }); err != nil {
		t.Fatal(err)
	}
	if want := finding.ID("team", "zap-automation-framework", []byte(`"name":"a"`)); got != want {
		t.Errorf("id %q, want %q", got, want)
	}
}
