// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func cached(t *testing.T, s *executionv1.Scan) *executionv1.Scan {
	t.Helper()
	small, err := stripScan(s.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	out, ok := small.(*executionv1.Scan)
	if !ok {
		t.Fatalf("got %T", small)
	}
	return out
}

// TestCacheKeepsSmallScansWhole: an ordinary Scan costs no read.
func TestCacheKeepsSmallScansWhole(t *testing.T) {
	s := testobjects.Scan("s", func(s *executionv1.Scan) {
		s.Labels = map[string]string{"team": "a"}
		s.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 1024)}
		s.Spec.Parameters = []string{"-p", strings.Repeat("1,", 512)}
		s.Spec.InitContainers = []corev1.Container{{Name: "clone", Image: "git", Args: []string{"clone", "https://example.com"}}}
	})
	if diff := cmp.Diff(s, cached(t, s)); diff != "" {
		t.Errorf("(-whole +cached):\n%s", diff)
	}
}

// TestCacheTrimsLargeScans: whatever a Scan's author may make large, the cache keeps little of it,
// and the part that shows its state.
func TestCacheTrimsLargeScans(t *testing.T) {
	const much = 200 << 10
	long := strings.Repeat("x", much)
	many := func(prefix string) map[string]string {
		m := map[string]string{"scanyard.io/target": "t"}
		for i := range 4000 {
			m[fmt.Sprintf("%s%d", prefix, i)] = "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
		}
		return m
	}
	for name, edit := range map[string]func(*executionv1.Scan){
		"Parameters": func(s *executionv1.Scan) { s.Spec.Parameters = []string{long} },
		"Env":        func(s *executionv1.Scan) { s.Spec.Env = []corev1.EnvVar{{Name: "A", Value: long}} },
		"InitContainers": func(s *executionv1.Scan) {
			s.Spec.InitContainers = []corev1.Container{{Name: "a", Args: []string{long}}}
		},
		"Volumes":      func(s *executionv1.Scan) { s.Spec.Volumes = []corev1.Volume{{Name: long}} },
		"VolumeMounts": func(s *executionv1.Scan) { s.Spec.VolumeMounts = []corev1.VolumeMount{{Name: long}} },
		"NodeSelector": func(s *executionv1.Scan) { s.Spec.NodeSelector = map[string]string{"a": long} },
		"Tolerations":  func(s *executionv1.Scan) { s.Spec.Tolerations = []corev1.Toleration{{Key: long}} },
		"Affinity": func(s *executionv1.Scan) {
			s.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: long}}}},
			}}}
		},
		"HookSelector": func(s *executionv1.Scan) {
			s.Spec.HookSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": long}}
		},
		"Cascades": func(s *executionv1.Scan) {
			s.Spec.Cascades = &executionv1.CascadeSpec{ScopeLimiter: &executionv1.ScopeLimiter{AnyOf: []executionv1.ScopeLimiterRequirement{{Values: []string{long}}}}}
		},
		"Labels":      func(s *executionv1.Scan) { s.Labels = many("l") },
		"Annotations": func(s *executionv1.Scan) { s.Annotations = map[string]string{"a": long} },
		"OwnDomain":   func(s *executionv1.Scan) { s.Annotations = many("a.scanyard.io/") },
		"Finalizers": func(s *executionv1.Scan) {
			for i := range 4000 {
				s.Finalizers = append(s.Finalizers, fmt.Sprintf("example.com/%060d", i))
			}
		},
		"Owners": func(s *executionv1.Scan) {
			for i := range 2000 {
				s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Name: fmt.Sprintf("%060d", i)})
			}
			s.OwnerReferences[1000].Controller = new(true)
		},
		"Conditions": func(s *executionv1.Scan) { s.Status.Conditions = []metav1.Condition{{Type: "X", Message: long}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := testobjects.Scan("s", testobjects.Suspended, edit)
			small := cached(t, s)
			left := bytesOf(small)
			for _, c := range small.Status.Conditions {
				left += len(c.Message)
			}
			if left > 16<<10 {
				t.Errorf("%d bytes are left", left)
			}
			if name != "Conditions" && !isTrimmed(small) {
				t.Error("it does not say that something is missing")
			}
			if small.UID != s.UID || small.Spec.ScanType != s.Spec.ScanType || !*small.Spec.Suspend {
				t.Errorf("the part that shows its state is gone: %+v", small)
			}
			if name == "Owners" && metav1.GetControllerOf(small) == nil {
				t.Error("it does not know its controller any more")
			}
			if name == "Labels" && small.Labels["scanyard.io/target"] != "t" {
				t.Error("a label of ours is gone")
			}
		})
	}
}

// TestSettledScanInTheCache: what the cache leaves out of a Scan that has ended is not written again.
func TestSettledScanInTheCache(t *testing.T) {
	scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone))
	scan.Status = *life.Decide(&life.Observation{Now: testobjects.Epoch, Scan: scan}).Status
	stripped := cached(t, scan)
	if len(stripped.Spec.Parameters) > 0 {
		t.Errorf("the cache keeps %+v of a Scan that has ended", stripped)
	}
	if again := life.Decide(&life.Observation{Now: testobjects.Epoch, Scan: stripped}); again.Status != nil || again.Step != "Settled" {
		t.Errorf("step %s would write over what the cache does not keep", again.Step)
	}
}

// TestStripKeepsWhatIsRead holds the small forms in the cache against the whole ones.
func TestStripKeepsWhatIsRead(t *testing.T) {
	now := metav1.NewTime(testobjects.Epoch)
	whole := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "j", Namespace: "ns", UID: "u", CreationTimestamp: now, Labels: map[string]string{executionv1.LabelJobType: "scanner", "x": "y"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(testobjects.Scan("s"), executionv1.SchemeGroupVersion.WithKind("Scan"))},
		},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n"}}},
	}
	with := func(kind batchv1.JobConditionType, reason string) *batchv1.Job {
		j := whole.DeepCopy()
		j.Status = batchv1.JobStatus{StartTime: &now, Conditions: []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "m", LastTransitionTime: now}}}
		if kind == batchv1.JobComplete {
			j.Spec.Suspend = nil
		}
		return j
	}
	for name, j := range map[string]*batchv1.Job{"Running": whole, "Complete": with(batchv1.JobComplete, ""), "Failed": with(batchv1.JobFailed, "BackoffLimitExceeded")} {
		t.Run(name, func(t *testing.T) {
			small, err := stripJob(j.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			stripped, ok := small.(*batchv1.Job)
			if !ok {
				t.Fatalf("got %T", small)
			}
			if diff := cmp.Diff(life.NewJob(j), life.NewJob(stripped), cmp.AllowUnexported(life.Report{}, life.Job{}, life.Role{})); diff != "" || life.ScanUID(j) != life.ScanUID(stripped) {
				t.Errorf("what is read differs (-whole +small):\n%s", diff)
			}
			if stripped.Spec.Template.Spec.NodeName != "" || stripped.Labels["x"] != "" {
				t.Error("a field that is never read is kept")
			}
		})
	}
}
