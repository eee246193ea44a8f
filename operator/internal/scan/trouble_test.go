// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/gen"
)

func waitingPod(reason, message string) *corev1.Pod {
	return &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "nmap", Image: "registry/nmap:1"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "nmap", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}},
	}
}

func TestPodTrouble(t *testing.T) {
	unschedulable := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available",
	}}}}
	crashing := waitingPod("CrashLoopBackOff", "back-off 10s")
	crashing.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", Message: "bad flag"}
	ended := waitingPod("", "")
	ended.Spec.RestartPolicy = corev1.RestartPolicyNever
	ended.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	again := waitingPod("", "")
	again.Status.ContainerStatuses[0] = corev1.ContainerStatus{
		Name: "nmap", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7, Reason: "Error"}},
	}
	removed := again.DeepCopy()
	removed.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	removed.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "context canceled"}}
	init := waitingPod("PodInitializing", "")
	init.Spec.InitContainers = []corev1.Container{{Name: "clone", Image: "registry/git:1"}}
	init.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "clone", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
	cases := map[string]struct {
		why    string
		pod    *corev1.Pod
		reason string
		says   string
	}{
		"Fine":           {"a pod that starts is in no trouble", waitingPod("ContainerCreating", ""), "", ""},
		"PullError":      {"the image is named", waitingPod("ErrImagePull", "rpc error"), executionv1.ReasonImagePull, "registry/nmap:1"},
		"PullBackOff":    {"the message is the same as for the error, so that it does not flap", waitingPod("ImagePullBackOff", "Back-off"), executionv1.ReasonImagePull, "registry/nmap:1"},
		"MissingSecret":  {"kubelet's message says what is missing", waitingPod("CreateContainerConfigError", `secret "x" not found`), executionv1.ReasonContainerConfig, `secret "x" not found`},
		"Unschedulable":  {"the scheduler's message", unschedulable, executionv1.ReasonUnschedulable, "0/3 nodes"},
		"Crashing":       {"exit code and last words", crashing, executionv1.ReasonContainerFailing, "exited with code 2: bad flag"},
		"RunsAgain":      {"how it failed before is kept: the next failure may be the last", again, executionv1.ReasonContainerFailing, "exited with code 7"},
		"Removed":        {"how it ends when its pod is removed is not why it failed", removed, executionv1.ReasonContainerFailing, "exited with code 7"},
		"NeverRestarted": {"a pod that is not restarted ends; its Job tells", ended, "", ""},
		"InitContainer":  {"init containers are looked at as well", init, executionv1.ReasonImagePull, "registry/git:1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := podTrouble(tc.pod)
			switch {
			case tc.reason == "" && got != nil:
				t.Errorf("%s: %v", tc.why, *got)
			case tc.reason != "" && (got == nil || got.reason != tc.reason || !strings.Contains(got.message, tc.says)):
				t.Errorf("%s: %v, want %s with %q", tc.why, got, tc.reason, tc.says)
			}
		})
	}
}

func TestPullTroubleDoesNotFlap(t *testing.T) {
	a, b := podTrouble(waitingPod("ErrImagePull", "one")), podTrouble(waitingPod("ImagePullBackOff", "two"))
	if *a != *b {
		t.Errorf("%v and %v: the status would be written on every try", *a, *b)
	}
}

func TestCreateTrouble(t *testing.T) {
	event := func(message string, at int64) corev1.Event {
		return corev1.Event{Reason: "FailedCreate", Message: message, LastTimestamp: metav1.NewTime(time.Unix(at, 0))}
	}
	cases := map[string]struct {
		events []corev1.Event
		reason string
		says   string
		not    string
	}{
		"None":        {nil, "", "", ""},
		"OtherEvents": {[]corev1.Event{{Reason: "SuccessfulCreate", Message: "Created pod"}}, "", "", ""},
		"Quota":       {[]corev1.Event{event(`Error creating: pods "scan-a-x7" is forbidden: exceeded quota: pods`, 1)}, executionv1.ReasonQuotaExceeded, "exceeded quota", ""},
		"PodSecurity": {[]corev1.Event{event(`Error creating: pods "scan-a-x7" is forbidden: violates PodSecurity "restricted:latest"`, 1)}, executionv1.ReasonPodRejected, "violates PodSecurity", "x7"},
		"NewestWins":  {[]corev1.Event{event("new", 9), event("old", 1)}, executionv1.ReasonPodRejected, "new", "old"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := createTrouble(tc.events)
			if tc.reason == "" {
				if got != nil {
					t.Errorf("got %v", *got)
				}
				return
			}
			if got == nil || got.reason != tc.reason || !strings.Contains(got.message, tc.says) || tc.not != "" && strings.Contains(got.message, tc.not) {
				t.Errorf("got %v, want %s with %q and without %q", got, tc.reason, tc.says, tc.not)
			}
		})
	}
}

// TestDefect47NoCredentialsInMessages: what pods and servers say is quoted without the
// queries of URLs.
func TestDefect47NoCredentialsInMessages(t *testing.T) {
	const said = "GET https://s3.example/b/scan-1/raw.xml?X-Amz-Signature=abc&X-Amz-Security-Token=def failed\x1b[31m\n\nagain"
	got := clean(said)
	if strings.Contains(got, "abc") || strings.Contains(got, "def") || strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("clean = %q", got)
	}
	if !strings.Contains(got, "https://s3.example/b/scan-1/raw.xml failed") {
		t.Errorf("clean = %q lost what helps", got)
	}
	if long := clean(strings.Repeat("é", 4000)); len(long) > maxQuoted+10 {
		t.Errorf("%d bytes are quoted", len(long))
	}
}

func TestPodsFailure(t *testing.T) {
	failedPod := func(at int64, message string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(at, 0))},
			Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
				{Name: "nmap", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", Message: message}}},
				{Name: "lurker", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0}}},
			}},
		}
	}
	got := podsFailure([]corev1.Pod{failedPod(2, "newer"), failedPod(1, "older"), {Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}})
	if want := `container "nmap" exited with code 137 (OOMKilled): newer`; got != want {
		t.Errorf("podsFailure = %q, want %q", got, want)
	}
	if got := podsFailure(nil); got != "" {
		t.Errorf("podsFailure of no pods = %q", got)
	}
}

func TestClassify(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	forbidden := func(text string) error { return apierrors.NewForbidden(jobs, "j", textError(text)) }
	cases := map[string]struct {
		why    string
		err    error
		reason string
		final  bool
	}{
		"Invalid":     {"asking again cannot help", apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "j", nil), executionv1.ReasonJobRejected, true},
		"Quota":       {"there may be room later", forbidden("exceeded quota: count/jobs.batch"), executionv1.ReasonQuotaExceeded, false},
		"Webhook":     {"a policy says no", forbidden(`admission webhook "p" denied the request: no`), executionv1.ReasonJobRejected, true},
		"NoRights":    {"the operator's own rights are not the user's fault", forbidden("User cannot create resource"), "", false},
		"Timeout":     {"the API is tried again", apierrors.NewServerTimeout(jobs, "create", 1), "", false},
		"Unavailable": {"the API is tried again", apierrors.NewServiceUnavailable("x"), "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := classify(tc.err)
			if ok != (tc.reason != "") || got.reason != tc.reason || got.final != tc.final {
				t.Errorf("%s: %+v, %t", tc.why, got, ok)
			}
		})
	}
}

func TestQuotaIsWaitedForAndEnds(t *testing.T) {
	quota := rejection{trouble{executionv1.ReasonQuotaExceeded, "exceeded quota"}, false}
	o := observation(gen.Scan("s"))
	first := decide(o)
	d := decideRejected(o, &first, first.launch[0], quota)
	if d.status.State != executionv1.ScanStateNew || d.requeueAfter != quotaRetry {
		t.Errorf("state %q, again in %s", d.status.State, d.requeueAfter)
	}
	o.scan = gen.Scan("s", waitingSince(executionv1.ReasonQuotaExceeded, 2*time.Hour))
	d = decideRejected(o, &first, first.launch[0], quota)
	wantError(executionv1.ReasonQuotaExceeded, "exceeded quota")(t, d)
}

func TestRejectedHookFailsAlone(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateParsing)), withJob(parserRole, complete),
		catalogHooks(hook("a", executionv1.ReadOnly, 0), hook("b", executionv1.ReadOnly, 0), hook("c", executionv1.ReadOnly, 0)))
	first := decide(o)
	nameHookJob(first.status, "a", "job-a")
	d := decideRejected(o, &first, first.launch[1], rejection{trouble{executionv1.ReasonJobRejected, "invalid"}, true})
	if got := shape(d.status.OrderedHookStatuses); got != "a/InProgress b/Failed c/Pending" {
		t.Errorf("hooks %q", got)
	}
	o.scan.Status = *d.status
	for _, name := range []string{"a", "c"} {
		o.jobs = append(o.jobs, job{name: "job-" + name, namespace: gen.Namespace, role: hookRole(name), outcome: complete})
	}
	wantError(executionv1.ReasonHookFailed, `Hook "b": invalid`)(t, decide(o))
}

type textError string

func (e textError) Error() string { return string(e) }

// TestTriesThatFailed: while a Job is tried again its phase says so, and goes on being one that runs.
func TestTriesThatFailed(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateParsing)), withJob(parserRole, running, func(j *job) { j.failedPods = 2 }))
	d := decide(o)
	c := findCondition(d.status.Conditions, executionv1.ConditionParsed)
	if c.Reason != executionv1.ReasonRunning || !strings.Contains(c.Message, "Tries that failed: 2") || d.notice != nil {
		t.Errorf("%s: %s (Event %v)", c.Reason, c.Message, d.notice)
	}
}
