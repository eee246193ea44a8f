// SPDX-License-Identifier: Apache-2.0

package persistencedependencytrack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// auditor is a tracker that finds vulnerabilities and takes decisions of them.
type auditor struct {
	*tracker

	found     string // findings, as in /api/v1/finding, but for their analysis
	decisions map[string]decision
	puts      int
	denied    bool
}

func (a *auditor) take(r sdktest.Request) sdktest.Reply {
	reply := func(value any) sdktest.Reply {
		text, err := json.Marshal(value)
		if err != nil {
			return sdktest.Reply{Status: http.StatusInternalServerError}
		}
		return sdktest.Reply{Body: string(text), Header: map[string]string{"Content-Type": "application/json"}}
	}
	at, err := url.Parse(r.URL)
	if err != nil {
		return sdktest.Reply{Status: http.StatusBadRequest}
	}
	switch query := at.Query(); {
	case r.Method == http.MethodPost, strings.Contains(at.Path, "/token/"):
		return a.tracker.take(r)
	case a.denied:
		return sdktest.Reply{Status: http.StatusForbidden}
	case at.Path == "/api/v1/project/lookup" && query.Get("name") == "team/app" && query.Get("version") == "1":
		return reply(map[string]string{"uuid": "p-1"})
	case at.Path == "/api/v1/finding/project/p-1" && query.Get("suppressed") == "true":
		return reply(a.list())
	case at.Path == "/api/v1/analysis" && r.Method == http.MethodGet && query.Get("project") == "p-1":
		d := a.decisions[query.Get("component")+" "+query.Get("vulnerability")]
		return reply(d)
	case at.Path == "/api/v1/analysis" && r.Method == http.MethodPut:
		var d decision
		if err := json.Unmarshal(r.Body, &d); err != nil || d.Project != "p-1" {
			return sdktest.Reply{Status: http.StatusBadRequest}
		}
		a.puts++
		a.decisions[d.Component+" "+d.Vulnerability] = d
		return reply(d)
	}
	return sdktest.Reply{Status: http.StatusNotFound}
}

// list are the findings with what was decided of them.
func (a *auditor) list() []map[string]any {
	var all []map[string]any
	if err := json.Unmarshal([]byte(a.found), &all); err != nil {
		panic(err)
	}
	for _, f := range all {
		key := f["component"].(map[string]any)["uuid"].(string) + " " + f["vulnerability"].(map[string]any)["uuid"].(string)
		if d, ok := a.decisions[key]; ok {
			f["analysis"] = map[string]any{"state": d.State, "isSuppressed": d.Suppressed}
		}
	}
	return all
}

const twoFound = `[
	{"component":{"uuid":"c-1","name":"lodash","version":"4.17.20","purl":"pkg:npm/lodash@4.17.20"},
	 "vulnerability":{"uuid":"v-1","vulnId":"GHSA-35jh-r3h4-6jhm","severity":"HIGH","aliases":[{"cveId":"CVE-2021-23337","ghsaId":"GHSA-35jh-r3h4-6jhm"}],"cwes":[{"cweId":94}]}},
	{"component":{"uuid":"c-2","name":"curl","version":"8","purl":"pkg:deb/debian/curl@8"},"vulnerability":{"uuid":"v-2","vulnId":"CVE-2026-1","severity":"LOW"}}]`

// run runs the hook with exceptions, and returns what it says.
func (a *auditor) run(t *testing.T, env map[string]string, list ...exception.Exception) sdktest.Result {
	t.Helper()
	w := sdktest.New(t)
	w.HandOver, w.Scan, w.Objects["/raw"] = true, scanOf("{}"), []byte(sbom)
	text, err := exception.HandOver(list, exception.Scan{Namespace: "ns", Name: "nmap-x"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if text != nil {
		w.Objects[sdktest.ExceptionsPath] = text
	}
	far := w.NewRemote(t, func(_ int, r sdktest.Request) sdktest.Reply { return a.take(r) })
	return w.Run(t, Hook(), envOf(env)(far.URL))
}

func newAuditor() *auditor {
	return &auditor{tracker: &tracker{projects: map[string]string{}, ready: 2}, found: twoFound, decisions: map[string]decision{}}
}

func excepting(status settingsv1alpha2.ExceptionStatus, entry settingsv1alpha2.ExceptionEntry) exception.Exception {
	e := exception.Exception{Namespace: "ns", Name: "known"}
	e.Spec.Status, e.Spec.Reason, e.Spec.Match.AnyOf = status, "until the next release", []settingsv1alpha2.ExceptionEntry{entry}
	return e
}

// TestDecisions: exceptions arrive as decisions, once, are taken back, and leave alone what a person has decided.
func TestDecisions(t *testing.T) {
	a := newAuditor()
	accepted := excepting(settingsv1alpha2.ExceptionAccepted, settingsv1alpha2.ExceptionEntry{References: []string{"CVE-2021-23337"}, Products: []string{"team/app:*"}})
	check := func(when string, got sdktest.Result, puts int, want map[string]decision) {
		t.Helper()
		if got.ExitCode != 0 || a.puts != puts {
			t.Errorf("%s: exit code %d, %d decisions, want %d: %s", when, got.ExitCode, a.puts, puts, got.Stderr)
		}
		if diff := cmp.Diff(want, a.decisions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	one := decision{
		Project: "p-1", Component: "c-1", Vulnerability: "v-1", State: "EXPLOITABLE", Justification: "NOT_SET", Response: "WILL_NOT_FIX",
		Details: "scanyard: FindingException/known: until the next release", Suppressed: true,
	}
	check("without exceptions", a.run(t, nil), 0, map[string]decision{})
	if a.asked != 0 {
		t.Error("without exceptions the hook waits")
	}
	check("with EXCEPTED=send", a.run(t, map[string]string{"EXCEPTED": "send"}, accepted), 0, map[string]decision{})
	check("accepted", a.run(t, nil, accepted), 1, map[string]decision{"c-1 v-1": one})
	if a.asked < 2 {
		t.Error("the hook does not wait for what is found")
	}
	check("again", a.run(t, nil, accepted), 1, map[string]decision{"c-1 v-1": one})
	affected := excepting(settingsv1alpha2.ExceptionNotAffected, settingsv1alpha2.ExceptionEntry{Packages: []string{"pkg:npm/lodash"}})
	affected.Spec.Justification = "vulnerable_code_not_in_execute_path"
	two := one
	two.State, two.Justification, two.Response = "NOT_AFFECTED", "CODE_NOT_REACHABLE", "NOT_SET"
	check("another status", a.run(t, nil, affected), 2, map[string]decision{"c-1 v-1": two})
	none := decision{Project: "p-1", Component: "c-1", Vulnerability: "v-1", State: "NOT_SET", Justification: "NOT_SET", Response: "NOT_SET"}
	check("ended", a.run(t, nil), 3, map[string]decision{"c-1 v-1": none})
	check("ended, again", a.run(t, nil), 3, map[string]decision{"c-1 v-1": none})
	person := decision{Project: "p-1", Component: "c-1", Vulnerability: "v-1", State: "IN_TRIAGE", Details: "Bob looks into it"}
	a.decisions["c-1 v-1"] = person
	check("decided by a person", a.run(t, nil, accepted), 3, map[string]decision{"c-1 v-1": person})

	a.denied = true
	check("without exceptions, denied", a.run(t, nil), 3, map[string]decision{"c-1 v-1": person})
	if got := a.run(t, nil, accepted); got.ExitCode == 0 || !strings.Contains(got.Stderr, "VULNERABILITY_ANALYSIS") {
		t.Errorf("denied: exit code %d, %s", got.ExitCode, got.Stderr)
	}
}

// TestDecisionWords says each status in the words of Dependency-Track.
func TestDecisionWords(t *testing.T) {
	for status, want := range map[settingsv1alpha2.ExceptionStatus]string{
		settingsv1alpha2.ExceptionAccepted:           "EXPLOITABLE WILL_NOT_FIX true",
		settingsv1alpha2.ExceptionFalsePositive:      "FALSE_POSITIVE NOT_SET true",
		settingsv1alpha2.ExceptionNotAffected:        "NOT_AFFECTED NOT_SET true",
		settingsv1alpha2.ExceptionMitigated:          "RESOLVED NOT_SET true",
		settingsv1alpha2.ExceptionUnderInvestigation: "IN_TRIAGE NOT_SET false",
	} {
		d := decisionOf(&exception.Mark{Status: status})
		if got := fmt.Sprint(d.State, " ", d.Response, " ", d.Suppressed); got != want {
			t.Errorf("%s: %s, want %s", status, got, want)
		}
	}
}

// TestCasesOfDecisions runs the cases of exceptions on what Dependency-Track finds. It knows no fingerprints and no attributes of a scanner.
func TestCasesOfDecisions(t *testing.T) {
	now := time.Now().UTC()
	exceptiontest.Each(t, "Dependency-Track", "ns", now, func(t *testing.T, c *exceptiontest.Case) {
		a := newAuditor()
		a.found = `[{"component":{"uuid":"c-1","name":"lodash","version":"4.17.20","purl":"pkg:npm/lodash@4.17.20"},
			"vulnerability":{"uuid":"v-1","vulnId":"CVE-2021-23337","title":"lodash 4.17.20","severity":"HIGH"}}]`
		if c.Finding == exceptiontest.Bare {
			a.found = `[{"component":{"uuid":"c-1","name":"lodash"},"vulnerability":{"uuid":"v-1","vulnId":"X-1","title":"lodash 4.17.20","severity":"HIGH"}}]`
		}
		var list []exception.Exception
		for _, e := range c.List {
			entry := e.Spec.Match.AnyOf[0]
			switch {
			case entry.Fingerprints != nil && c.Finding == exceptiontest.Finding: // the nearest that can be said here
				entry = settingsv1alpha2.ExceptionEntry{References: []string{"CVE-2021-23337"}}
			case strings.Contains(entry.Expression, "port"):
				entry.Expression = `finding.attributes.packageName == "lodash"`
			}
			e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{entry}
			list = append(list, e)
		}
		want := c.Want
		if c.Name == "FingerprintBeforeBroader" {
			want = "FindingException/a" // both are broad here
		}
		if got := a.run(t, nil, list...); got.ExitCode != 0 {
			t.Fatal(got.Stderr)
		}
		d := a.decisions["c-1 v-1"]
		name, _, _ := strings.Cut(strings.TrimPrefix(d.Details, ours), ":")
		if name != want || d.Suppressed != c.Suppressed {
			t.Errorf("decided by %q, suppressed is %t; want %q, %t", name, d.Suppressed, want, c.Suppressed)
		}
	})
}
