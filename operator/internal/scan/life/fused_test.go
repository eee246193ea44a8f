// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestViews: the rows see of a Job that runs both phases a Job for each phase that it has begun.
func TestViews(t *testing.T) {
	now := testobjects.Epoch.Add(time.Hour)
	started, ended := now.Add(-time.Minute), now.Add(-time.Second)
	type view struct {
		role    string
		outcome Outcome
		started time.Time
	}
	scanning, parsing := executionv1.ScanStateScanning, executionv1.ScanStateParsing
	since := testobjects.Epoch.Add(30 * time.Minute)
	for name, c := range map[string]struct {
		state executionv1.ScanState
		job   Job
		want  []view
	}{
		"Separate":        {scanning, Job{}, []view{{"scanner", Running, started}}},
		"Scans":           {scanning, Job{Fused: true}, []view{{"scanner", Running, started}}},
		"JustEnded":       {scanning, Job{Fused: true, ScannerEnded: now.Add(-time.Millisecond)}, []view{{"scanner", Running, started}}},
		"Parses":          {scanning, Job{Fused: true, ScannerEnded: ended}, []view{{"scanner", Complete, started}, {"parser", Running, ended}}},
		"PodNotInCache":   {parsing, Job{Fused: true}, []view{{"scanner", Complete, started}, {"parser", Running, since}}},
		"Failed":          {parsing, Job{Fused: true, Outcome: Failed}, []view{{"scanner", Failed, started}}},
		"Reported":        {scanning, Job{Fused: true, Outcome: Complete, Report: Report{State: ReportReceived}}, []view{{"scanner", Complete, started}, {"parser", Complete, started}}},
		"ReportIsAwaited": {scanning, Job{Fused: true, Outcome: Complete, Report: Report{State: ReportAwaited}}, []view{{"scanner", Complete, started}, {"parser", Complete, started}}},
		"ToldNothing":     {parsing, Job{Fused: true, Outcome: Complete, Report: Report{State: ReportInvalid}}, []view{{"scanner", Complete, started}}},
		"PodGone":         {parsing, Job{Fused: true, Outcome: Complete, Report: Report{State: ReportGone}}, []view{{"scanner", Complete, started}}},
	} {
		t.Run(name, func(t *testing.T) {
			scan := testobjects.Scan("s", testobjects.WithState(c.state))
			scan.Status.Conditions = []metav1.Condition{{Type: executionv1.ConditionParsed, Status: metav1.ConditionUnknown, LastTransitionTime: metav1.Time{Time: since}}}
			c.job.Role, c.job.Started = ScannerRole, started
			var got []view
			for _, j := range Views(c.job, scan, now) {
				got = append(got, view{j.Role.JobType, j.Outcome, j.Started})
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(view{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuickParserIsNotShown: the scanner has just ended, so the Scan stays as it is and is looked at again soon.
func TestQuickParserIsNotShown(t *testing.T) {
	justEnded := func(j *Job) { j.Fused, j.ScannerEnded = true, testobjects.Epoch.Add(2*time.Minute-QuickParser/4) }
	d := Decide(observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), withJob(ScannerRole, Running, justEnded)))
	if d.Step != "ScannerRuns" || d.RequeueAfter != QuickParser-QuickParser/4 {
		t.Errorf("step %s, again in %s", d.Step, d.RequeueAfter)
	}
}

// fusedPod has a scanner and a parser that are in these states.
func fusedPod(scanner, parser corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: metav1.Time{Time: testobjects.Epoch},
			Labels:            map[string]string{executionv1.LabelReports: "true", executionv1.LabelPhase: executionv1.PhaseScanner},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure,
			Containers:    []corev1.Container{{Name: "nmap"}, {Name: executionv1.ContainerParser, Image: "parser"}, {Name: executionv1.ContainerLurker}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "nmap", State: scanner},
			{Name: executionv1.ContainerParser, State: parser},
			{Name: executionv1.ContainerLurker, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
}

// TestActivePart: what keeps the parser from starting is no trouble of the scanner, and has its time when the scanner has ended.
func TestActivePart(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pulling := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	end := testobjects.Epoch.Add(time.Hour)
	exit := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Time{Time: end}}}
	}
	for name, c := range map[string]struct {
		scanner, parser corev1.ContainerState
		ended, pending  time.Time
		trouble         string
	}{
		"BothRun":               {running, running, time.Time{}, time.Time{}, ""},
		"ParserIsPulled":        {running, pulling, time.Time{}, time.Time{}, ""},
		"ScannerIsPulled":       {pulling, running, time.Time{}, testobjects.Epoch, executionv1.ReasonImagePull},
		"ScannerFails":          {exit(1), running, time.Time{}, time.Time{}, executionv1.ReasonContainerFailing},
		"ScannerEnded":          {exit(0), running, end, time.Time{}, ""},
		"ScannerEndedNoParser":  {exit(0), pulling, end, end, executionv1.ReasonImagePull},
		"ScannerEndedBadParser": {exit(0), exit(137), end, time.Time{}, executionv1.ReasonContainerFailing},
	} {
		t.Run(name, func(t *testing.T) {
			p := fusedPod(c.scanner, c.parser)
			before := p.DeepCopy()
			part, trouble := ActivePart(p), ""
			if t := PodTrouble(part); t != nil {
				trouble = t.Reason
			}
			if !ScannerEnded(p).Equal(c.ended) || !PendingSince(part).Equal(c.pending) || trouble != c.trouble {
				t.Errorf("ended %s, pending since %s, trouble %q", ScannerEnded(p), PendingSince(part), trouble)
			}
			if diff := cmp.Diff(before, p); diff != "" {
				t.Errorf("the pod was changed:\n%s", diff)
			}
		})
	}
}

// TestLurkerThatFails: a scanner that has left no result has not handed over, and what the lurker says of it is the scanner's failure,
// also where the Scan had gone on before the lurker failed.
func TestLurkerThatFails(t *testing.T) {
	p := fusedPod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: testobjects.Epoch}}},
		corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	p.Status.ContainerStatuses[2].LastTerminationState = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "the scanner wrote no result"},
	}
	trouble := PodTrouble(ActivePart(p))
	if !ScannerEnded(p).IsZero() || trouble == nil || !strings.Contains(trouble.Message, "wrote no result") {
		t.Errorf("ended at %s, trouble %+v", ScannerEnded(p), trouble)
	}
	scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing))
	scan.Status.Conditions = []metav1.Condition{
		{Type: executionv1.ConditionScanned, Status: metav1.ConditionTrue, Reason: executionv1.ReasonCompleted},
		{Type: executionv1.ConditionParsed, Status: metav1.ConditionUnknown, Reason: trouble.Reason, Message: trouble.Message},
	}
	wantError(executionv1.ReasonScannerFailed, "wrote no result")(t, Decide(observationOf(scan, withJob(ScannerRole, Failed, fused))))
}

// TestContainersOfOthersMayBeCalledParser: without the operator's labels such a pod has one phase.
func TestContainersOfOthersMayBeCalledParser(t *testing.T) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: testobjects.Epoch}}}
	for _, label := range []string{executionv1.LabelReports, executionv1.LabelPhase} {
		p := fusedPod(ended, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}})
		delete(p.Labels, label)
		if !ScannerEnded(p).IsZero() || ActivePart(p) != p || PodTrouble(ActivePart(p)) == nil {
			t.Errorf("without the label %s the pod counts as one of both phases", label)
		}
	}
}

// TestOnlyScannersAreFused: the annotation means nothing on other Jobs.
func TestOnlyScannersAreFused(t *testing.T) {
	for kind, want := range map[string]bool{executionv1.JobTypeScanner: true, executionv1.JobTypeParser: false} {
		b := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{executionv1.LabelJobType: kind},
			Annotations: map[string]string{executionv1.AnnotationPhases: string(executionv1.PhasesFused)},
		}}
		if got := NewJob(b).Fused; got != want {
			t.Errorf("%s: fused %t", kind, got)
		}
	}
}
