// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// TestIsCompared: KeepLastRun keeps what hooks of the next run compare with.
func TestIsCompared(t *testing.T) {
	const done = executionv1.ScanStateDone
	released := func(s *executionv1.Scan) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, executionv1.AnnotationReleased, "1")
	}
	named := func(name string, hours int, state executionv1.ScanState, changes ...func(*executionv1.Scan)) *executionv1.Scan {
		s := aged(name, hours, state, changes...)
		s.Name = name
		return s
	}
	scheduled := func(s *executionv1.Scan) {
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "ScheduledScan", Name: "daily", UID: "daily", Controller: new(true),
		}}
	}
	other := func(s *executionv1.Scan) { s.Spec.Parameters = []string{"x"} }
	scheme := runtime.NewScheme()
	if err := executionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		scan   *executionv1.Scan
		// seen are in the cache, live are there.
		seen, live []*executionv1.Scan
		want       bool
	}{
		"Only":            {"the next run compares with it", named("a", 1, done), nil, nil, true},
		"Newest":          {"there are older ones", named("b", 2, done), []*executionv1.Scan{named("a", 1, done)}, []*executionv1.Scan{named("a", 1, done)}, true},
		"Older":           {"the next run compares with b", named("a", 1, done), []*executionv1.Scan{named("b", 2, done)}, []*executionv1.Scan{named("b", 2, done)}, false},
		"LaterIsGone":     {"the cache is behind", named("a", 1, done), []*executionv1.Scan{named("b", 2, done)}, nil, true},
		"LaterIsReleased": {"the cache is behind", named("a", 1, done), []*executionv1.Scan{named("b", 2, done)}, []*executionv1.Scan{named("b", 2, done, released)}, true},
		"LaterRunsAgain":  {"its findings may not come", named("a", 1, done), []*executionv1.Scan{named("b", 2, done)}, []*executionv1.Scan{named("b", 2, executionv1.ScanStateScanning)}, true},
		"SameSecond":      {"neither is later", named("a", 1, done), []*executionv1.Scan{named("b", 1, done)}, []*executionv1.Scan{named("b", 1, done)}, true},
		"OtherTarget":     {"nobody compares the two", named("a", 1, done), []*executionv1.Scan{named("b", 2, done, other)}, []*executionv1.Scan{named("b", 2, done, other)}, true},
		"Errored":         {"nobody compares with a failure", named("a", 1, executionv1.ScanStateErrored), nil, nil, false},
		"OfSchedule":      {"the next run of the schedule compares with its last", named("a", 1, done, scheduled), []*executionv1.Scan{named("b", 2, done)}, []*executionv1.Scan{named("b", 2, done)}, true},
		"OlderOfSchedule": {"the schedule has a later run", named("a", 1, done, scheduled), []*executionv1.Scan{named("b", 2, done, scheduled)}, []*executionv1.Scan{named("b", 2, done, scheduled)}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			of := func(scans []*executionv1.Scan) *fake.ClientBuilder {
				b := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&executionv1.Scan{}, indexSchedule, func(o client.Object) []string {
					if c := executionv1.ScheduleOf(o); c != nil {
						return []string{string(c.UID)}
					}
					return nil
				})
				for _, s := range scans {
					b = b.WithObjects(s.DeepCopy())
				}
				return b
			}
			r := &Reconciler{client: of(append(tc.seen, tc.scan)).Build(), live: of(tc.live).Build(), previousRuns: newPreviousRuns()}
			for _, s := range append(tc.seen, tc.scan) {
				r.previousRuns.see(s)
			}
			if got, err := r.IsCompared(t.Context(), tc.scan); err != nil || got != tc.want {
				t.Errorf("%s: %t, %v", tc.reason, got, err)
			}
		})
	}
}
