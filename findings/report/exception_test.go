// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/report/reporttest"
)

// exceptedInput is three, of which the injection is accepted and the note is looked into.
func exceptedInput(t *testing.T) Input {
	t.Helper()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	end := metav1.NewTime(now.Add(48 * time.Hour))
	excepted := func(name string, status settingsv1alpha2.ExceptionStatus, entry settingsv1alpha2.ExceptionEntry) exception.Exception {
		return exception.Exception{Namespace: "team", Name: name, Spec: settingsv1alpha2.ExceptionSpec{
			Status: status, Reason: "a <reason> of some length", ExpiresAt: &end, Match: settingsv1alpha2.ExceptionMatch{AnyOf: []settingsv1alpha2.ExceptionEntry{entry}},
		}}
	}
	in := inputOf(t, three, "")
	in.Exceptions = exception.Compile([]exception.Exception{
		excepted("risk", settingsv1alpha2.ExceptionAccepted, settingsv1alpha2.ExceptionEntry{Fingerprints: []string{"fp"}}),
		excepted("look", settingsv1alpha2.ExceptionUnderInvestigation, settingsv1alpha2.ExceptionEntry{Names: []string{"Note"}}),
	}, now).For(exception.Scan{Namespace: "team"})
	return in
}

func TestExceptedFindings(t *testing.T) {
	r, err := New(t.Context(), exceptedInput(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{3, 1, 0, 1, 0, 1}, []int{r.Total(), r.Excepted(), r.Open(High), r.Open(Medium), r.Open(Low), r.Open(Informational)}); diff != "" {
		t.Errorf("total, excepted and open by severity (-want +got):\n%s", diff)
	}
	all := reports(t, exceptedInput(t))
	const accepted = "Accepted until 2030-01-03 by FindingException risk: a <reason> of some length"
	for file, texts := range map[string][]string{
		"report.csv": {`"` + accepted + `"`, `"UnderInvestigation until 2030-01-03 by FindingException look: a <reason> of some length"`},
		"report.junit.xml": {
			`tests="3" failures="1" errors="0" skipped="1"`, `<skipped message="Accepted until 2030-01-03 by FindingException risk: a &lt;reason&gt; of some length"></skipped>`,
		},
		"report.md":   {"1 of them are excepted.", "\n| High | 0 |\n", "## Excepted findings\n", "Injection"},
		"report.html": {`"excepted":1`, `risk: a \u003creason\u003e of some length",true]`, `",false]`},
	} {
		for _, text := range texts {
			if !strings.Contains(string(all[file]), text) {
				t.Errorf("%s has no %s:\n%.3000s", file, text, all[file])
			}
		}
	}
	if md := string(all["report.md"]); strings.Count(md, "Injection") != 1 {
		t.Errorf("the excepted finding is among the open ones as well:\n%s", md)
	}
	log := all["report.sarif"]
	if err := reporttest.SARIF(t)(log); err != nil {
		t.Error(err)
	}
	want := `"suppressions":[{"kind":"external","status":"accepted","justification":"Accepted until 2030-01-03 by FindingException risk: a `
	if n := strings.Count(string(log), "suppressions"); n != 1 || !strings.Contains(string(log), want) {
		t.Errorf("%d suppressions in %s", n, log)
	}
}
