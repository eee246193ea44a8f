// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func waitingPod(reason, message string) *corev1.Pod {
	return &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "nmap", Image: "registry/nmap:1"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "nmap", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}},
	}
}

func TestPendingSince(t *testing.T) {
	created, ended := time.Unix(1000, 0), time.Unix(5000, 0)
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	done := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: ended}}}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	always := corev1.ContainerRestartPolicyAlways
	pod := func(main corev1.ContainerState, init ...corev1.ContainerState) *corev1.Pod {
		p := waitingPod("", "")
		p.CreationTimestamp = metav1.Time{Time: created}
		p.Status.ContainerStatuses[0].State = main
		for i, state := range init {
			name := string(rune('a' + i))
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name})
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name, State: state})
		}
		return p
	}
	sidecar := pod(waits, running)
	sidecar.Spec.InitContainers[0].RestartPolicy = &always
	scheduled := pod(waits)
	scheduled.Status.ContainerStatuses = nil
	restarted := pod(waits)
	restarted.Status.ContainerStatuses[0].LastTerminationState = done
	for name, tc := range map[string]struct {
		why  string
		pod  *corev1.Pod
		want time.Time
	}{
		"NothingYet":     {"the kubelet has told nothing", scheduled, created},
		"Waits":          {"its container waits", pod(waits), created},
		"Runs":           {"its container runs", pod(running), time.Time{}},
		"Ended":          {"its container has ended", pod(done), time.Time{}},
		"Restarted":      {"its container has run before", restarted, time.Time{}},
		"InitWaits":      {"an init container waits", pod(waits, waits), created},
		"InitRuns":       {"an init container may take long", pod(waits, running), time.Time{}},
		"InitEnded":      {"what follows an init container has its own time to start", pod(waits, done), ended},
		"NextInitWaits":  {"so has the next init container", pod(waits, done, waits), ended},
		"NextInitRuns":   {"which may take long as well", pod(waits, done, running), time.Time{}},
		"SidecarRuns":    {"nothing waits for the end of a sidecar", sidecar, created},
		"InitEndedFirst": {"all run", pod(running, done), time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PendingSince(tc.pod); !got.Equal(tc.want) {
				t.Errorf("%s: %v, and not %v", tc.why, got, tc.want)
			}
		})
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
			got := PodTrouble(tc.pod)
			switch {
			case tc.reason == "" && got != nil:
				t.Errorf("%s: %v", tc.why, *got)
			case tc.reason != "" && (got == nil || got.Reason != tc.reason || !strings.Contains(got.Message, tc.says)):
				t.Errorf("%s: %v, want %s with %q", tc.why, got, tc.reason, tc.says)
			}
		})
	}
}

func TestPullErrorDoesNotFlap(t *testing.T) {
	a, b := PodTrouble(waitingPod("ErrImagePull", "one")), PodTrouble(waitingPod("ImagePullBackOff", "two"))
	if *a != *b {
		t.Errorf("%v and %v: the status would be written on every try", *a, *b)
	}
}

func TestCreateErrors(t *testing.T) {
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
			got := CreateTrouble(tc.events)
			if tc.reason == "" {
				if got != nil {
					t.Errorf("got %v", *got)
				}
				return
			}
			if got == nil || got.Reason != tc.reason || !strings.Contains(got.Message, tc.says) || tc.not != "" && strings.Contains(got.Message, tc.not) {
				t.Errorf("got %v, want %s with %q and without %q", got, tc.reason, tc.says, tc.not)
			}
		})
	}
}

// TestDefect47NoCredentialsInMessages: what pods and servers say is quoted without the
// queries of URLs.
func TestDefect47NoCredentialsInMessages(t *testing.T) {
	const said = "GET https://s3.example/b/scan-1/raw.xml?X-Amz-Signature=abc&X-Amz-Security-Token=def failed\x1b[31m\n\nagain"
	got := Clean(said)
	if strings.Contains(got, "abc") || strings.Contains(got, "def") || strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("clean = %q", got)
	}
	if !strings.Contains(got, "https://s3.example/b/scan-1/raw.xml?… failed") {
		t.Errorf("clean = %q lost what helps", got)
	}
	if long := Clean(strings.Repeat("é", 4000)); len(long) > maxQuoted+10 {
		t.Errorf("%d bytes are quoted", len(long))
	}
}

// TestLastWords: what a container ends with is quoted without what drives a terminal, hides a word or is a credential;
// of a long log the end counts, of a long sentence its beginning.
func TestLastWords(t *testing.T) {
	cases := map[string]struct{ said, want string }{
		"Nmap":      {"nmap: unrecognized option '--nosuchflag'\nSee the output of nmap -h for a summary of options.\n", "nmap: unrecognized option '--nosuchflag' See the output of nmap -h for a summary of options."},
		"Colours":   {"\x1b[1;31merror\x1b[0m: bad\x07 flag\r\n", "error: bad flag"},
		"Title":     {"\x1b]0;owned\x07after", "0;owned after"},
		"Direction": {"a\u202eb\u2066c", "a b c"},
		"C1":        {"a\u009b31mb", "a 31mb"},
		"Presigned": {"PUT https://s3/b/raw?X-Amz-Signature=abc&x=y: 403", "PUT https://s3/b/raw?… 403"},
		"User":      {"clone https://bot:s3cr3t@git.example/x failed", "clone https://…@git.example/x failed"},
		"NotText":   {"a\xffb", "a\uFFFDb"},
		"Sentence":  {strings.Repeat("x", 600), strings.Repeat("x", maxQuoted-len("…")) + "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := terminationMessage(tc.said); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
	const end = "FATAL: no such template"
	if got := terminationMessage(strings.Repeat("progress\n", 200) + end); !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, " "+end) || len(got) > maxQuoted+len("…") {
		t.Errorf("of a log there is %q", got)
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
	got, first := PodsFailure([]corev1.Pod{failedPod(2, "newer"), failedPod(1, "older"), {Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}})
	if want := `container "nmap" exited with code 137 (OOMKilled): newer`; got != want {
		t.Errorf("podsFailure = %q, want %q", got, want)
	}
	if diff := cmp.Diff(&executionv1.ContainerFailure{Container: "nmap", ExitCode: 137, Reason: "OOMKilled", Message: "newer"}, first); diff != "" {
		t.Errorf("the container that failed (-want +got):\n%s", diff)
	}
	if got, first := PodsFailure(nil); got != "" || first != nil {
		t.Errorf("podsFailure of no pods = %q, %+v", got, first)
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
			got, ok := Classify(tc.err)
			if ok != (tc.reason != "") || got.Reason != tc.reason || got.Final != tc.final {
				t.Errorf("%s: %+v, %t", tc.why, got, ok)
			}
		})
	}
}

func TestQuotaIsWaitedForAndEnds(t *testing.T) {
	quota := Rejection{Cause{executionv1.ReasonQuotaExceeded, "exceeded quota"}, false}
	o := observationOf(testobjects.Scan("s"))
	first := Decide(o)
	d := DecideRejected(o, &first, first.Create[0], quota)
	if d.Status.State != executionv1.ScanStateNew || d.RequeueAfter != quotaRetry {
		t.Errorf("state %q, again in %s", d.Status.State, d.RequeueAfter)
	}
	o.Scan = testobjects.Scan("s", waitingSince(executionv1.ReasonQuotaExceeded, 2*time.Hour))
	d = DecideRejected(o, &first, first.Create[0], quota)
	wantError(executionv1.ReasonQuotaExceeded, "exceeded quota")(t, d)
}

func TestRejectedHookFailsAlone(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)), withJob(ParserRole, Complete),
		catalogHooks(hook("a", executionv1.ReadOnly, 0), hook("b", executionv1.ReadOnly, 0), hook("c", executionv1.ReadOnly, 0)))
	first := Decide(o)
	NameHookJob(first.Status, "a", "job-a")
	d := DecideRejected(o, &first, first.Create[1], Rejection{Cause{executionv1.ReasonJobRejected, "invalid"}, true})
	if got := shape(d.Status.OrderedHookStatuses); got != "a/InProgress b/Failed c/Pending" {
		t.Errorf("hooks %q", got)
	}
	o.Scan.Status = *d.Status
	for _, name := range []string{"a", "c"} {
		o.Jobs = append(o.Jobs, Job{Name: "job-" + name, Namespace: testobjects.Namespace, Role: hookRole(name), Outcome: Complete})
	}
	wantError(executionv1.ReasonHookFailed, `Hook "b": invalid`)(t, Decide(o))
}

type textError string

func (e textError) Error() string { return string(e) }

// TestTriesThatFailed: while a Job is tried again its phase says so with the words of the last try, and goes on being one
// that runs.
func TestTriesThatFailed(t *testing.T) {
	const words = `container "hook" exited with code 1: the webhook at crm:443 cannot be reached: connection refused`
	tried := func(j *Job) { j.FailedPods, j.LastTry = 2, words }
	parsing := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)), withJob(ParserRole, Running, tried))
	hooks := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)), withJob(ParserRole, Complete),
		catalogHooks(hook("crm", executionv1.ReadOnly, 0), hook("mail", executionv1.ReadOnly, 0)))
	hooks.Jobs = append(hooks.Jobs,
		Job{Name: "job-crm", Namespace: testobjects.Namespace, Role: hookRole("crm"), Attempt: 1, FailedPods: 1, LastTry: words, Created: hooks.Now},
		Job{Name: "job-mail", Namespace: testobjects.Namespace, Role: hookRole("mail"), Attempt: 1, Created: hooks.Now})
	for name, tc := range map[string]struct {
		o     *Observation
		phase string
		want  string
	}{
		"Parser": {parsing, executionv1.ConditionParsed, "The parser is running. Tries that failed: 2 (the last one: " + words + "); the next one follows (Job job-parser)."},
		"Hook":   {hooks, executionv1.ConditionHooksCompleted, `Hooks are running. Hook "crm": Tries that failed: 1 (the last one: ` + words + "); the next one follows (Job job-crm)."},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.o)
			c := FindCondition(d.Status.Conditions, tc.phase)
			if c.Reason != executionv1.ReasonRunning || c.Message != tc.want || d.Event != nil {
				t.Errorf("%s: %s (Event %v), want %s", c.Reason, c.Message, d.Event, tc.want)
			}
		})
	}
}

// TestContainerFailure: how a container ended is shown while its Job goes on and when it has failed, stays while its pod is gone, and
// goes when the Job ends well or is another one.
func TestContainerFailure(t *testing.T) {
	ended := &executionv1.ContainerFailure{Container: "nmap", ExitCode: 137, Reason: "OOMKilled"}
	shown := func(job string) *executionv1.ContainerFailure {
		f := *ended
		f.Job = job
		return &f
	}
	scanner := func(change func(*Job)) func(*Observation) {
		return func(o *Observation) {
			withJob(ScannerRole, Running)(o)
			change(&o.Jobs[0])
		}
	}
	name := func() string {
		o := observationOf(testobjects.Scan("s"))
		withJob(ScannerRole, Running)(o)
		return o.Jobs[0].Name
	}()
	cases := map[string]struct {
		was    *executionv1.ContainerFailure
		state  executionv1.ScanState
		change func(*Observation)
		want   *executionv1.ContainerFailure
	}{
		"Restarted":   {change: scanner(func(j *Job) { j.Ended = ended }), want: shown(name)},
		"PodGone":     {was: shown(name), change: scanner(func(j *Job) { j.PodGone = true }), want: shown(name)},
		"OfAnother":   {was: shown("older"), change: scanner(func(*Job) {})},
		"Failed":      {change: scanner(func(j *Job) { j.Outcome, j.Ended = Failed, ended }), want: shown(name)},
		"Overcome":    {was: shown(name), state: executionv1.ScanStateScanning, change: withJob(ScannerRole, Complete)},
		"NothingEver": {change: scanner(func(*Job) {})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observationOf(testobjects.Scan("s", func(s *executionv1.Scan) {
				s.Status.State, s.Status.ContainerFailure = tc.state, tc.was
			}))
			tc.change(o)
			if diff := cmp.Diff(tc.want, Decide(o).Status.ContainerFailure); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
