// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/findings/report/reporttest"
)

// TestReached: every format that has a place for it says that a Scan has reached nothing, or may not have.
func TestReached(t *testing.T) {
	const hostile = `<b>0</b> of 1 \"hosts\" [a](b)`
	validate := reporttest.SARIF(t)
	for name, tt := range map[string]struct {
		status, findings string
		allowed          bool
		says             map[string]string // by object, in the words of the format
		silent           []string
		tests, errors    int
	}{
		"False": {
			status: "False", findings: `[]`, tests: 1, errors: 1,
			says: map[string]string{
				"report.md":        `**Nothing was reached&#58; &lt;b&gt;0&lt;/b&gt; of 1 "hosts" &#91;a&#93;&#40;b&#41;&#46;**`[:40],
				"report.html":      `<p class="note">Nothing was reached: &lt;b&gt;0&lt;/b&gt; of 1`,
				"report.sarif":     `"invocations":[{"executionSuccessful":false,"toolExecutionNotifications":[{"level":"error","message":{"text":"Nothing was reached: `,
				"report.junit.xml": `<testcase name="targets were reached" classname="zap-automation-framework" time="0"><error message="Nothing was reached: &lt;b&gt;0`,
			},
		},
		"FalseAllowed": {
			status: "False", findings: three, allowed: true, tests: 4, errors: 0,
			says: map[string]string{"report.junit.xml": `<system-out>Nothing was reached: `, "report.sarif": `"executionSuccessful":false`},
		},
		"FalseWithFindings": {status: "False", findings: three, tests: 4, errors: 1, says: map[string]string{"report.junit.xml": `<error message=`}},
		"Unknown": {
			status: "Unknown", findings: `[]`, tests: 1,
			says: map[string]string{
				"report.md": "Whether anything was reached is not known", "report.html": `<p class="note">Whether anything was reached is not known`,
				"report.sarif": `"executionSuccessful":true,"toolExecutionNotifications":[{"level":"note"`, "report.junit.xml": `<testcase name="no findings"`,
			},
		},
		"True": {status: "True", findings: `[]`, tests: 1, silent: []string{"reached is", "was reached", "invocations"}},
		"None": {findings: `[]`, tests: 1, silent: []string{"reached", "invocations"}},
	} {
		t.Run(name, func(t *testing.T) {
			condition := ""
			if tt.status != "" {
				condition = fmt.Sprintf(`,"conditions":[{"type":"Ready","status":"True"},{"type":"TargetReached","status":%q,"message":"%s"}]}}`, tt.status, hostile)
			}
			in := inputOf(t, tt.findings, "")
			scan, err := ScanOf([]byte(strings.TrimSuffix(exampleScan, "}}") + orWord(condition, "}}")))
			if err != nil {
				t.Fatal(err)
			}
			in.Scan, in.AllowUnreached = scan, tt.allowed
			all := reports(t, in)
			for object, want := range tt.says {
				if !strings.Contains(string(all[object]), want) {
					t.Errorf("%s: want %q in %.3000s", object, want, all[object])
				}
			}
			for object, text := range all {
				for _, word := range tt.silent {
					if object != "report.html" && strings.Contains(string(text), word) {
						t.Errorf("%s has %q: %s", object, word, text)
					}
				}
			}
			if strings.Contains(string(all["report.html"]), "<b>0") {
				t.Error("markup in the page")
			}
			if err := validate(all["report.sarif"]); err != nil {
				t.Error(err)
			}
			var suites struct {
				Tests  int `xml:"tests,attr"`
				Errors int `xml:"errors,attr"`
				Suite  struct {
					Cases []struct {
						Error *struct{} `xml:"error"`
					} `xml:"testcase"`
				} `xml:"testsuite"`
			}
			if err := xml.Unmarshal(all["report.junit.xml"], &suites); err != nil {
				t.Fatal(err)
			}
			errs := 0
			for _, c := range suites.Suite.Cases {
				if c.Error != nil {
					errs++
				}
			}
			if suites.Tests != tt.tests || suites.Errors != tt.errors || len(suites.Suite.Cases) != tt.tests || errs != tt.errors {
				t.Errorf("want %d tests and %d errors: %s", tt.tests, tt.errors, all["report.junit.xml"])
			}
		})
	}
}
