// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// ended returns a Scan as the API server has it: Done, created in the minute that is given, with findings of category Open Port.
func ended(namespace, name, target string, minute int, high, low int64) *executionv1.Scan {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
	s := &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), CreationTimestamp: at},
		Spec:       executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{target}},
		Status: executionv1.ScanStatus{
			State: executionv1.ScanStateDone, FinishedAt: &at,
			Conditions: []metav1.Condition{{Type: executionv1.ConditionReady, Status: metav1.ConditionTrue, Reason: executionv1.ReasonCompleted}},
		},
	}
	found := &s.Status.Findings
	found.Count, found.FindingCategories = new(high+low), map[string]int64{}
	if high > 0 {
		found.FindingSeverities.High = &high
	}
	if low > 0 {
		found.FindingSeverities.Low = &low
	}
	if high+low > 0 {
		found.FindingCategories["Open Port"] = high + low
	}
	return s
}

// collected returns what the collector says of Scans that the cache has in its own form.
func collected(t *testing.T, want string, scans ...*executionv1.Scan) error {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := executionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var kept []client.Object
	for _, s := range scans {
		small, err := stripScan(s.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, small.(*executionv1.Scan))
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(kept...).Build()
	c := NewFindingCollector(reader, NewMetrics(prometheus.NewRegistry()))
	return testutil.CollectAndCompare(c, strings.NewReader(want), "scanyard_findings", "scanyard_findings_by_category")
}

const findingsHelp = `# HELP scanyard_findings Findings that no exception covers, of the last Scan of each target, by severity.
# TYPE scanyard_findings gauge
`

const categoriesHelp = `# HELP scanyard_findings_by_category Findings of the last Scan of each target, those that exceptions cover included, by category.
# TYPE scanyard_findings_by_category gauge
`

func TestFindingsOfTheLastScanOfEachTargetCount(t *testing.T) {
	excepted := ended("b", "excepted", "other.example", 1, 3, 0)
	excepted.Status.Findings.Open = &executionv1.FindingSeverities{High: ptr.To[int64](1)}
	running := ended("a", "running", "host.example", 9, 7, 7)
	running.Status.State, running.Status.FinishedAt = executionv1.ScanStateScanning, nil
	failed := ended("a", "failed", "host.example", 8, 7, 7)
	failed.Status.State = executionv1.ScanStateErrored
	want := findingsHelp + `scanyard_findings{namespace="a",scan_type="nmap",severity="high"} 3
scanyard_findings{namespace="a",scan_type="nmap",severity="informational"} 0
scanyard_findings{namespace="a",scan_type="nmap",severity="low"} 2
scanyard_findings{namespace="a",scan_type="nmap",severity="medium"} 0
scanyard_findings{namespace="b",scan_type="nmap",severity="high"} 1
scanyard_findings{namespace="b",scan_type="nmap",severity="informational"} 0
scanyard_findings{namespace="b",scan_type="nmap",severity="low"} 0
scanyard_findings{namespace="b",scan_type="nmap",severity="medium"} 0
` + categoriesHelp + `scanyard_findings_by_category{category="Open Port",namespace="a"} 5
scanyard_findings_by_category{category="Open Port",namespace="b"} 3
`
	if err := collected(t, want,
		ended("a", "first", "host.example", 1, 5, 5), ended("a", "last", "host.example", 2, 1, 2),
		ended("a", "second-target", "www.example", 1, 2, 0), excepted, running, failed,
	); err != nil {
		t.Error(err)
	}
}

func TestMetricsOfTargetWithoutFindings(t *testing.T) {
	want := findingsHelp + `scanyard_findings{namespace="a",scan_type="nmap",severity="high"} 0
scanyard_findings{namespace="a",scan_type="nmap",severity="informational"} 0
scanyard_findings{namespace="a",scan_type="nmap",severity="low"} 0
scanyard_findings{namespace="a",scan_type="nmap",severity="medium"} 0
`
	if err := collected(t, want, ended("a", "before", "host.example", 1, 4, 0), ended("a", "mended", "host.example", 2, 0, 0)); err != nil {
		t.Error(err)
	}
}

// Whoever writes a Scan can write its annotations.
func TestCountsOfOthersAreNotRead(t *testing.T) {
	mended := ended("a", "s", "host.example", 1, 1, 0)
	mended.Status.FinishedAt = nil // it is kept whole until the operator has mended it
	mended.Annotations = map[string]string{annotationFindings: "no JSON"}
	settled := ended("a", "t", "www.example", 1, 1, 0)
	settled.Annotations = map[string]string{annotationFindings: `{"o":{"high":1000}}`}
	want := findingsHelp + `scanyard_findings{namespace="a",scan_type="nmap",severity="high"} 2
scanyard_findings{namespace="a",scan_type="nmap",severity="informational"} 0
scanyard_findings{namespace="a",scan_type="nmap",severity="low"} 0
scanyard_findings{namespace="a",scan_type="nmap",severity="medium"} 0
` + categoriesHelp + `scanyard_findings_by_category{category="Open Port",namespace="a"} 2
`
	if err := collected(t, want, mended, settled); err != nil {
		t.Error(err)
	}
}

func TestLabelsOfFindingsAreBounded(t *testing.T) {
	many := ended("a", "many", "host.example", 1, 0, 0)
	for i := range int64(1000) {
		many.Status.Findings.FindingCategories[fmt.Sprintf("category %d", i)] = i + 1
	}
	many.Status.Findings.Count = ptr.To[int64](500500)
	kept := largest(many.Status.Findings.FindingCategories, manyCategories)
	if len(kept) != manyCategories+1 || kept["category 999"] != 1000 || kept["category 0"] != 0 {
		t.Errorf("%d categories: %v", len(kept), kept)
	}
	sum := int64(0)
	for _, n := range kept {
		sum += n
	}
	if sum != 500500 {
		t.Errorf("%d findings are counted, want 500500", sum)
	}
	if text := countsOf(many); len(text) > 1<<10 {
		t.Errorf("the cache keeps %d bytes of it", len(text))
	}
}
