// SPDX-License-Identifier: Apache-2.0

package exception_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/apis/outcome"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
)

// TestHandOver: what holds is decided when it is handed over, and matches as it did there.
func TestHandOver(t *testing.T) {
	past, soon := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now.Add(time.Minute))
	ended := withEntries(t, "team", "ended", `{"names":["*lodash*"]}`)
	ended.Spec.ExpiresAt = &past
	ending := withEntries(t, "team", "ending", `{"names":["x"]}`, `{"attributes":{"port":443}}`)
	ending.Spec.ExpiresAt = &soon
	broken := withEntries(t, "team", "broken", `{"expression":"finding.nam == 'a'"}`)
	others := withEntries(t, "other", "others", `{"names":["*lodash*"]}`)
	cluster := withEntries(t, "", "cluster", `{"references":["CVE-2021-23337"]}`)
	cluster.Scope.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "test"}}
	scan := exception.Scan{Namespace: "team", NamespaceLabels: map[string]string{"env": "test"}}
	f := object(t, dependency)
	for name, c := range map[string]struct {
		list []exception.Exception
		want string
	}{
		"NamespaceFirst": {[]exception.Exception{cluster, ended, ending, broken, others}, "ending"},
		"Cluster":        {[]exception.Exception{cluster, ended, broken, others}, "cluster"},
		"None":           {[]exception.Exception{ended, broken, others}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := exception.HandOver(c.list, scan, now)
			if err != nil || (text == nil) != (c.want == "") {
				t.Fatalf("handed over %s, %v", text, err)
			}
			if text == nil {
				return
			}
			taken, err := exception.TakeOver(text)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := exception.Compile(c.list, now).For(scan).Match(f)
			got, taking := taken.Match(f)
			if diff := cmp.Diff(want, got); diff != "" || !ok || !taking || got.Name != c.want {
				t.Errorf("the pod says %+v (%t), the command line %+v (%t)", got, taking, want, ok)
			}
		})
	}
	for _, text := range []string{"", "{", `{"a":1}`, `[1]`} {
		if _, err := exception.TakeOver([]byte(text)); err == nil {
			t.Errorf("%q is taken over", text)
		}
	}
}

func TestTally(t *testing.T) {
	doubt := withEntries(t, "", "doubt", `{"names":["b"]}`)
	doubt.Spec.Status = settingsv1alpha2.ExceptionUnderInvestigation
	list := []exception.Exception{withEntries(t, "team", "gone", `{"names":["a*"]}`), doubt}
	tally := exception.NewTally(exception.Compile(list, now).For(exception.Scan{Namespace: "team"}))
	for _, f := range []string{
		`{"name":"a1","severity":"HIGH"}`, `{"name":"a2","severity":"LOW"}`, `{"name":"b","severity":"high"}`, `{"name":"c","severity":"MEDIUM"}`,
		`{"name":"d","severity":"INFORMATIONAL"}`, `{"name":"e","severity":"odd"}`,
	} {
		if err := tally.Add([]byte(f)); err != nil {
			t.Error(err)
		}
	}
	if err := tally.Add([]byte(`[]`)); err == nil {
		t.Error("a list is counted")
	}
	got := &outcome.Findings{Stored: outcome.StoredBytes(nil), Count: 6}
	tally.Report(got)
	want := &outcome.Findings{
		Stored: outcome.StoredBytes(nil), Count: 6, Excepted: 2, Open: &outcome.Severities{High: 1, Medium: 1, Informational: 1},
		Exceptions: []outcome.ExceptionCount{{Name: "gone", Count: 2}, {Name: "doubt", Cluster: true, Count: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTallyFits: however many exceptions there are, an outcome tells of those with the most findings, and fits into last words.
func TestTallyFits(t *testing.T) {
	var list []exception.Exception
	for i := range 300 {
		list = append(list, withEntries(t, "team", fmt.Sprintf("%03d%s", i, strings.Repeat("n", i%200)), fmt.Sprintf(`{"names":["n%03d"]}`, i)))
	}
	tally := exception.NewTally(exception.Compile(list, now).For(exception.Scan{Namespace: "team"}))
	count := 0
	for i := range 300 {
		for range 1 + i/100 {
			count++
			if err := tally.Add(fmt.Appendf(nil, `{"name":"n%03d","severity":"LOW"}`, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := &outcome.Outcome{Findings: &outcome.Findings{Stored: outcome.StoredBytes(nil), Count: int64(count)}}
	tally.Report(o.Findings)
	text, err := o.Encode()
	if err != nil || len(o.Findings.Exceptions) < 5 || o.Findings.Exceptions[0].Count != 3 || o.Findings.Excepted != int64(count) {
		t.Errorf("%d exceptions in %d bytes, %v", len(o.Findings.Exceptions), len(text), err)
	}
}

func TestTallyOfNoExceptions(t *testing.T) {
	tally, f := exception.NewTally(nil), &outcome.Findings{}
	if err := tally.Add([]byte("whatever")); err != nil {
		t.Error(err)
	}
	if tally.Report(f); f.Open != nil {
		t.Error("open findings are counted")
	}
}
