// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func labelled(key, value string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) { s.Labels = map[string]string{key: value} }
}

func TestTargetOf(t *testing.T) {
	parameters := func(p ...string) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) { s.Spec.Parameters = p }
	}
	clone := func(repo string) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) {
			s.Spec.InitContainers = []corev1.Container{{Name: "clone", Image: "git", Command: []string{"git", "clone", repo}}}
		}
	}
	target := func(value string) func(*executionv1.Scan) { return labelled(executionv1.LabelTarget, value) }
	cases := map[string]struct {
		reason string
		a, b   []func(*executionv1.Scan)
		same   bool
	}{
		"Equal":           {"names, labels and what the pods need do not matter", nil, []func(*executionv1.Scan){labelled("team", "red"), testobjects.Suspended, func(s *executionv1.Scan) { s.Name, s.Spec.NodeSelector = "t", map[string]string{"a": "b"} }}, true},
		"Parameters":      {"other arguments, other results", nil, []func(*executionv1.Scan){parameters("-p", "80", "example.com")}, false},
		"ScanType":        {"findings of two scanners have nothing in common", nil, []func(*executionv1.Scan){func(s *executionv1.Scan) { s.Spec.ScanType = "ssh-audit" }}, false},
		"Mode":            {"the families are never mixed", nil, []func(*executionv1.Scan){testobjects.ClusterWide}, false},
		"DefaultMode":     {"absent means namespaceLocal", nil, []func(*executionv1.Scan){func(s *executionv1.Scan) { m := executionv1.NamespaceLocal; s.Spec.ResourceMode = &m }}, true},
		"Repository":      {"the target may be in an init container", []func(*executionv1.Scan){clone("a")}, []func(*executionv1.Scan){clone("b")}, false},
		"Env":             {"or in a variable", nil, []func(*executionv1.Scan){func(s *executionv1.Scan) { s.Spec.Env = []corev1.EnvVar{{Name: "TARGET", Value: "x"}} }}, false},
		"Label":           {"the user knows better", []func(*executionv1.Scan){target("shop")}, []func(*executionv1.Scan){target("shop"), parameters("other"), clone("b")}, true},
		"OtherLabel":      {"equal parameters or not", []func(*executionv1.Scan){target("shop")}, []func(*executionv1.Scan){target("blog")}, false},
		"LabelOrNone":     {"a label is another identity than none", []func(*executionv1.Scan){target("")}, nil, false},
		"LabelOfTwoTypes": {"a target has results of each scanner", []func(*executionv1.Scan){target("shop")}, []func(*executionv1.Scan){target("shop"), func(s *executionv1.Scan) { s.Spec.ScanType = "zap" }}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := testobjects.Scan("s", tc.a...), testobjects.Scan("s", tc.b...)
			if same := TargetOf(a) == TargetOf(b); same != tc.same {
				t.Errorf("%s: the same is %t", tc.reason, same)
			}
			// The cache keeps little of a Scan that is Done, and its target.
			done := life.Decide(&life.Observation{Now: testobjects.Epoch, Scan: testobjects.Scan("s", append(tc.a, testobjects.WithState(executionv1.ScanStateDone))...)}).Status
			whole := testobjects.Scan("s", tc.a...)
			whole.Status = *done
			want := TargetOf(whole)
			small, err := stripScan(whole.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			stripped, ok := small.(*executionv1.Scan)
			if !ok || stripped.Spec.Parameters != nil || TargetOf(stripped) != want || want != TargetOf(a) {
				t.Errorf("%s: target %q, %q in the cache", tc.reason, want, TargetOf(stripped))
			}
		})
	}
}

// aged returns a Scan that was created so many hours after the epoch.
func aged(uid string, hours int, state executionv1.ScanState, changes ...func(*executionv1.Scan)) *executionv1.Scan {
	s := testobjects.Scan(uid, append([]func(*executionv1.Scan){testobjects.WithState(state)}, changes...)...)
	s.UID = types.UID(uid)
	s.CreationTimestamp = metav1.Time{Time: testobjects.Epoch.Add(time.Duration(hours) * time.Hour)}
	return s
}

func TestPreviousRuns(t *testing.T) {
	const done, errored = executionv1.ScanStateDone, executionv1.ScanStateErrored
	otherNamespace := func(s *executionv1.Scan) { s.Namespace = "team-b" }
	cases := map[string]struct {
		reason string
		seen   []*executionv1.Scan
		want   string
	}{
		"None":            {"the first of its target", nil, ""},
		"Last":            {"the newest of those before", []*executionv1.Scan{aged("a", 1, done), aged("c", 3, done), aged("b", 2, done)}, "c"},
		"Itself":          {"a Scan whose hooks run again is not its own predecessor", []*executionv1.Scan{aged("now", 10, done)}, ""},
		"Later":           {"one that was started later is none before", []*executionv1.Scan{aged("a", 1, done), aged("z", 11, done)}, "a"},
		"SameTime":        {"neither of two of one second is before the other", []*executionv1.Scan{aged("a", 10, done)}, ""},
		"Errored":         {"it is not whole", []*executionv1.Scan{aged("a", 1, errored)}, ""},
		"OtherNamespace":  {"another team's", []*executionv1.Scan{aged("a", 1, done, otherNamespace)}, ""},
		"OtherTarget":     {"it says nothing about this one", []*executionv1.Scan{aged("a", 1, done, func(s *executionv1.Scan) { s.Spec.Parameters = []string{"x"} })}, ""},
		"BecomesDone":     {"it is seen more than once", []*executionv1.Scan{aged("a", 1, executionv1.ScanStateParsing), aged("a", 1, done), aged("a", 1, done)}, "a"},
		"RunsAgain":       {"its findings may be overwritten any moment", []*executionv1.Scan{aged("a", 1, done), aged("b", 2, done), aged("b", 2, executionv1.ScanStateParsing)}, "a"},
		"IsDeleted":       {"what it has stored is about to go", []*executionv1.Scan{aged("a", 1, done), aged("a", 1, done, testobjects.Deleted)}, ""},
		"ChangesItsLabel": {"it is another target's now", []*executionv1.Scan{aged("a", 1, done), aged("a", 1, done, labelled(executionv1.LabelTarget, "x"))}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newPreviousRuns()
			for _, s := range tc.seen {
				l.see(s)
			}
			got, found, err := l.before(t.Context(), aged("now", 10, executionv1.ScanStateHookProcessing))
			if err != nil || string(got.UID) != tc.want || found != (tc.want != "") {
				t.Errorf("%s: %q (%v), want %q", tc.reason, got.UID, err, tc.want)
			}
			for _, s := range tc.seen {
				l.forget(s.UID)
			}
			if len(l.runs)+len(l.targets) > 0 {
				t.Errorf("it keeps what is gone: %v %v", l.runs, l.targets)
			}
		})
	}
}

// BenchmarkPreviousRuns asks for the Scan before, where all of a hundred thousand have one target.
func BenchmarkPreviousRuns(b *testing.B) {
	l := newPreviousRuns()
	for i := range 100_000 {
		l.see(aged(strconv.Itoa(i), i, executionv1.ScanStateDone))
	}
	s := aged("now", 50_000, executionv1.ScanStateHookProcessing)
	for b.Loop() {
		if _, found, err := l.before(b.Context(), s); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}

func TestTargetIsShort(t *testing.T) {
	s := testobjects.Scan("s")
	s.Spec.Parameters = []string{strings.Repeat("x", 1<<20)}
	if n := len(TargetOf(s)); n != targetDigits {
		t.Errorf("it has %d characters", n)
	}
}
