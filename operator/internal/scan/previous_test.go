// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func TestLastBefore(t *testing.T) {
	run := func(uid string, hours int, changes ...func(*executionv1.Scan)) executionv1.Scan {
		s := testobjects.Scan(uid, append([]func(*executionv1.Scan){testobjects.WithState(executionv1.ScanStateDone)}, changes...)...)
		s.UID = types.UID(uid)
		s.CreationTimestamp = metav1.Time{Time: testobjects.Epoch.Add(time.Duration(hours) * time.Hour)}
		return *s
	}
	scan := run("now", 10, testobjects.WithState(executionv1.ScanStateHookProcessing))
	cases := map[string]struct {
		reason string
		runs   []executionv1.Scan
		want   string
	}{
		"None":     {"the first run has nothing to compare with", []executionv1.Scan{scan}, ""},
		"Last":     {"the newest of the older ones", []executionv1.Scan{run("a", 1), run("c", 3), run("b", 2), scan}, "c"},
		"Later":    {"a run that was started later is none before", []executionv1.Scan{run("a", 1), run("z", 11), scan}, "a"},
		"Errored":  {"a run that failed says nothing", []executionv1.Scan{run("a", 1), run("b", 2, testobjects.WithState(executionv1.ScanStateErrored)), scan}, "a"},
		"Deleted":  {"what is stored of it is about to go", []executionv1.Scan{run("a", 1), run("b", 2, testobjects.Deleted), scan}, "a"},
		"Unended":  {"a run that has not ended has no findings yet", []executionv1.Scan{run("b", 2, testobjects.WithState(executionv1.ScanStateParsing)), scan}, ""},
		"SameTime": {"neither of two runs of one second is before the other", []executionv1.Scan{run("a", 10), scan}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if last := lastBefore(&scan, tc.runs); last != nil {
				got = string(last.UID)
			}
			if got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
