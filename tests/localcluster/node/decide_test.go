// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:fix inline
func ptr[T any](v T) *T { return new(v) }

func TestRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		policy corev1.RestartPolicy
		code   int
		want   bool
	}{
		"AlwaysAfterSuccess":    {corev1.RestartPolicyAlways, 0, true},
		"AlwaysAfterFailure":    {corev1.RestartPolicyAlways, 1, true},
		"OnFailureAfterSuccess": {corev1.RestartPolicyOnFailure, 0, false},
		"OnFailureAfterFailure": {corev1.RestartPolicyOnFailure, 137, true},
		"NeverAfterFailure":     {corev1.RestartPolicyNever, 1, false},
		"UnknownPolicy":         {"", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := restarts(c.policy, c.code); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

func TestPolicyOf(t *testing.T) {
	sidecar := &corev1.Container{RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways)}
	plain := &corev1.Container{}
	for name, c := range map[string]struct {
		pod  corev1.RestartPolicy
		c    *corev1.Container
		init bool
		want corev1.RestartPolicy
	}{
		"Plain":             {corev1.RestartPolicyNever, plain, false, corev1.RestartPolicyNever},
		"Sidecar":           {corev1.RestartPolicyNever, sidecar, true, corev1.RestartPolicyAlways},
		"InitOfAlways":      {corev1.RestartPolicyAlways, plain, true, corev1.RestartPolicyOnFailure},
		"InitOfNever":       {corev1.RestartPolicyNever, plain, true, corev1.RestartPolicyNever},
		"ContainerOfAlways": {corev1.RestartPolicyAlways, plain, false, corev1.RestartPolicyAlways},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policyOf(&corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.pod}}, c.c, c.init); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestStartsIn(t *testing.T) {
	start := time.Date(2026, time.November, 28, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		delay, passed, want time.Duration
	}{
		"NoDelay":            {0, 0, 0},
		"JustCame":           {3 * time.Second, 0, 3 * time.Second},
		"VolumesTookAPart":   {3 * time.Second, time.Second, 2 * time.Second},
		"VolumesTookLonger":  {3 * time.Second, time.Minute, 0},
		"ClockWasPutForward": {3 * time.Second, -time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got := startsIn(start, c.delay, start.Add(c.passed)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestBackoffDoublesAndForgets(t *testing.T) {
	b := backoff{initial: 10 * time.Second}
	var got []time.Duration
	for range 7 {
		got = append(got, b.after(time.Second))
	}
	got = append(got, b.after(time.Hour))
	want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

type fakeSources struct {
	maps, secrets map[string]map[string][]byte
	err           error
}

func (f fakeSources) configMap(n string) (map[string][]byte, error) { return f.maps[n], f.err }
func (f fakeSources) secret(n string) (map[string][]byte, error)    { return f.secrets[n], f.err }

func TestEnvironment(t *testing.T) {
	errBoom := errors.New("boom")
	secretKey := func(name, key string, optional bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
	}
	src := fakeSources{
		maps:    map[string]map[string][]byte{"cm": {"a": []byte("1"), "b": []byte("2")}},
		secrets: map[string]map[string][]byte{"se": {"key": []byte("s3")}},
	}
	for name, c := range map[string]struct {
		container corev1.Container
		err       error
		want      map[string]string
		wantErr   string
	}{
		"ExpandsInOrder": {
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "x"}, {Name: "B", Value: "$(A)-$(C)-$$(A)-$(H)"}, {Name: "C", Value: "late"}}},
			want:      map[string]string{"A": "x", "B": "x-$(C)-$(A)-host", "C": "late"},
		},
		"EnvFromWithPrefixThenEnv": {
			container: corev1.Container{
				EnvFrom: []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}},
				Env:     []corev1.EnvVar{{Name: "P_b", Value: "$(P_a)!"}},
			},
			want: map[string]string{"P_a": "1", "P_b": "1!"},
		},
		"SecretKey":         {container: corev1.Container{Env: []corev1.EnvVar{{Name: "S", ValueFrom: secretKey("se", "key", false)}}}, want: map[string]string{"S": "s3"}},
		"OptionalIsLeftOut": {container: corev1.Container{Env: []corev1.EnvVar{{Name: "S", ValueFrom: secretKey("no", "key", true)}}}, want: map[string]string{}},
		"SecretMissing":     {container: corev1.Container{Env: []corev1.EnvVar{{Name: "S", ValueFrom: secretKey("no", "key", false)}}}, wantErr: `secret "no" not found`},
		"KeyMissing":        {container: corev1.Container{Env: []corev1.EnvVar{{Name: "S", ValueFrom: secretKey("se", "no", false)}}}, wantErr: "couldn't find key no in Secret ns/se"},
		"APIError":          {container: corev1.Container{Env: []corev1.EnvVar{{Name: "S", ValueFrom: secretKey("se", "key", false)}}}, err: errBoom, wantErr: "boom"},
		"Fields": {
			container: corev1.Container{Name: "c", Env: []corev1.EnvVar{
				{Name: "N", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
				{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
				{Name: "M", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
			}},
			want: map[string]string{"N": "x", "IP": "192.0.2.1", "M": "64"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			limited := c.container.DeepCopy()
			limited.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
			s := src
			s.err = c.err
			got, err := environment(&c.container, envContext{
				pod: &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "x"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{*limited}},
				},
				podIP: "192.0.2.1", cluster: map[string]string{"H": "host"}, sources: s,
			})
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("got error %v, want one with %q", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			delete(got, "H")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	entry, cmd := []string{"/entry"}, []string{"default"}
	for name, c := range map[string]struct {
		c    corev1.Container
		want []string
	}{
		"ImageAlone":     {corev1.Container{}, []string{"/entry", "default"}},
		"ArgsOverCmd":    {corev1.Container{Args: []string{"$(A)", "$(B)"}}, []string{"/entry", "x", "$(B)"}},
		"CommandOverAll": {corev1.Container{Command: []string{"run"}}, []string{"run"}},
		"Both":           {corev1.Container{Command: []string{"run"}, Args: []string{"$$(A)"}}, []string{"run", "$(A)"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, commandLine(&c.c, entry, cmd, map[string]string{"A": "x"})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func waiting(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func running() corev1.ContainerStatus {
	return corev1.ContainerStatus{Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func terminated(code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func crashLooping() corev1.ContainerStatus {
	s := waiting(reasonCrashLoop)
	s.LastTerminationState = terminated(1).State
	return s
}

func TestPodStatus(t *testing.T) {
	for name, c := range map[string]struct {
		init, main []corev1.ContainerStatus
		sidecar    bool
		finished   bool
		reason     string
		phase      corev1.PodPhase
		ready      string // "<status>/<reason>"
	}{
		"Created":             {main: []corev1.ContainerStatus{waiting(reasonCreating)}, phase: corev1.PodPending, ready: "False/ContainersNotReady"},
		"InitRuns":            {init: []corev1.ContainerStatus{running()}, main: []corev1.ContainerStatus{waiting(reasonInitializing)}, phase: corev1.PodPending, ready: "False/ContainersNotReady"},
		"Running":             {init: []corev1.ContainerStatus{terminated(0)}, main: []corev1.ContainerStatus{running()}, phase: corev1.PodRunning, ready: "True/"},
		"OnePulls":            {main: []corev1.ContainerStatus{running(), waiting(reasonPullBackoff)}, phase: corev1.PodPending, ready: "False/ContainersNotReady"},
		"OneDone":             {main: []corev1.ContainerStatus{running(), terminated(0)}, phase: corev1.PodRunning, ready: "False/ContainersNotReady"},
		"CrashLoop":           {main: []corev1.ContainerStatus{crashLooping()}, phase: corev1.PodRunning, ready: "False/ContainersNotReady"},
		"Succeeded":           {main: []corev1.ContainerStatus{terminated(0)}, finished: true, phase: corev1.PodSucceeded, ready: "False/PodCompleted"},
		"Failed":              {main: []corev1.ContainerStatus{terminated(0), terminated(2)}, finished: true, phase: corev1.PodFailed, ready: "False/PodFailed"},
		"InitFailed":          {init: []corev1.ContainerStatus{terminated(1)}, main: []corev1.ContainerStatus{waiting(reasonInitializing)}, finished: true, phase: corev1.PodFailed, ready: "False/PodFailed"},
		"SidecarKilledAtEnd":  {init: []corev1.ContainerStatus{terminated(137)}, sidecar: true, main: []corev1.ContainerStatus{terminated(0)}, finished: true, phase: corev1.PodSucceeded, ready: "False/PodCompleted"},
		"SidecarNotUp":        {init: []corev1.ContainerStatus{waiting(reasonCreating)}, sidecar: true, main: []corev1.ContainerStatus{waiting(reasonInitializing)}, phase: corev1.PodPending, ready: "False/ContainersNotReady"},
		"DeadlinePassed":      {main: []corev1.ContainerStatus{terminated(0)}, finished: true, reason: reasonDeadline, phase: corev1.PodFailed, ready: "False/PodFailed"},
		"NeverPulledThenDead": {main: []corev1.ContainerStatus{waiting(reasonPullBackoff)}, finished: true, phase: corev1.PodFailed, ready: "False/PodFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts{pod: &corev1.Pod{}, containers: map[string]corev1.ContainerStatus{}, finished: c.finished, reason: c.reason}
			add := func(list []corev1.ContainerStatus, prefix string, to *[]corev1.Container) {
				for i, s := range list {
					s.Name = prefix + string(rune('0'+i))
					f.containers[s.Name] = s
					k := corev1.Container{Name: s.Name}
					if c.sidecar && prefix == "i" {
						k.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
					}
					*to = append(*to, k)
				}
			}
			add(c.init, "i", &f.pod.Spec.InitContainers)
			add(c.main, "m", &f.pod.Spec.Containers)
			s := podStatus(f)
			ready := ""
			for _, cond := range s.Conditions {
				if cond.Type == corev1.PodReady {
					ready = string(cond.Status) + "/" + cond.Reason
				}
			}
			if diff := cmp.Diff([]string{string(c.phase), c.ready}, []string{string(s.Phase), ready}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if c.finished {
				for _, cs := range s.ContainerStatuses {
					if cs.State.Terminated == nil {
						t.Errorf("container %s of a finished pod has no end", cs.Name)
					}
				}
			}
		})
	}
}

func TestConditionsKeepTheirTransitionTime(t *testing.T) {
	before, now := metav1.Unix(100, 0), metav1.Unix(200, 0)
	s := podStatus(facts{
		pod: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}, now: now,
		containers: map[string]corev1.ContainerStatus{"c": running()},
		previous: []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: before},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: before},
		},
	})
	got := map[corev1.PodConditionType]metav1.Time{}
	for _, c := range s.Conditions {
		got[c.Type] = c.LastTransitionTime
	}
	want := map[corev1.PodConditionType]metav1.Time{corev1.PodInitialized: before, corev1.PodReady: now, corev1.ContainersReady: now}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatusPatchTakesOldWordsAway(t *testing.T) {
	b, err := statusPatch("u", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"message":null`, `"reason":null`, `"uid":"u"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("missing %s in %s", want, b)
		}
	}
}

func TestFirstStatusOfARestartedAgent(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "ran", RestartCount: 2, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: "done", State: terminated(0).State},
	}}}
	now := metav1.Unix(1, 0)
	if s := firstStatus(p, &corev1.Container{Name: "ran"}, now); s.State.Terminated == nil || s.State.Terminated.ExitCode != 137 || s.State.Terminated.Reason != reasonStatusUnknown || s.RestartCount != 2 || s.Ready {
		t.Errorf("ran: got %+v", s)
	}
	if s := firstStatus(p, &corev1.Container{Name: "done"}, now); s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
		t.Errorf("done: got %+v", s)
	}
	if s := firstStatus(p, &corev1.Container{Name: "new"}, now); s.State.Waiting == nil || s.State.Waiting.Reason != reasonCreating {
		t.Errorf("new: got %+v", s)
	}
}

func TestFitting(t *testing.T) {
	node := func(name string, change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"host": name}}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		if change != nil {
			change(n)
		}
		return n
	}
	for name, c := range map[string]struct {
		spec  corev1.PodSpec
		nodes []*corev1.Node
		want  []string
		why   string
	}{
		"Fits":           {nodes: []*corev1.Node{node("local", nil)}, want: []string{"local"}},
		"SimulatedFirst": {nodes: []*corev1.Node{node("local", nil), node("sim-1", nil), node("sim-0", nil)}, want: []string{"sim-0", "sim-1", "local"}},
		"Selector":       {spec: corev1.PodSpec{NodeSelector: map[string]string{"host": "local"}}, nodes: []*corev1.Node{node("sim-0", nil), node("local", nil)}, want: []string{"local"}},
		"NoMatch": {
			spec: corev1.PodSpec{NodeSelector: map[string]string{"host": "x"}}, nodes: []*corev1.Node{node("local", nil)},
			why: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		},
		"Cordoned": {
			nodes: []*corev1.Node{node("local", func(n *corev1.Node) { n.Spec.Unschedulable = true })},
			why:   "0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		},
		"Tainted": {
			nodes: []*corev1.Node{node("local", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
			})},
			why: "0/1 nodes are available: 1 node(s) had untolerated taint(s) {k: v}. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		},
		"TooBig": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("64"),
			}}}}},
			nodes: []*corev1.Node{node("local", nil)},
			why:   "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		},
		"NoNodes": {why: "no nodes available to schedule pods"},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := fitting(&corev1.Pod{Spec: c.spec}, c.nodes)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("nodes: -want +got:\n%s", diff)
			}
			if why != c.why {
				t.Errorf("got  %s\nwant %s", why, c.why)
			}
		})
	}
}

func TestIdentify(t *testing.T) {
	for name, c := range map[string]struct {
		pod     *corev1.PodSecurityContext
		own     *corev1.SecurityContext
		image   string
		want    []int // uid, gid, groups...
		wantErr string
	}{
		"ImageNumbers":    {image: "1001:1002", want: []int{1001, 1002, 1002}},
		"ImageRoot":       {want: []int{0, 0, 0}},
		"PodOverImage":    {image: "1001:1002", pod: &corev1.PodSecurityContext{RunAsUser: new(int64(5)), FSGroup: new(int64(7))}, want: []int{5, 1002, 1002, 7}},
		"OwnOverPod":      {pod: &corev1.PodSecurityContext{RunAsUser: new(int64(5))}, own: &corev1.SecurityContext{RunAsUser: new(int64(6)), RunAsGroup: new(int64(8))}, want: []int{6, 8, 8}},
		"RootRefused":     {own: &corev1.SecurityContext{RunAsNonRoot: new(true)}, wantErr: "container has runAsNonRoot and image will run as root"},
		"RunAsRootBreaks": {own: &corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}, image: "1", wantErr: "container's runAsUser breaks non-root policy"},
		"NameUnknown":     {image: "nobody-here", wantErr: "unable to find user nobody-here"},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := identify(&corev1.Pod{Spec: corev1.PodSpec{SecurityContext: c.pod}}, &corev1.Container{SecurityContext: c.own}, c.image, t.TempDir())
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("got error %v, want one with %q", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, append([]int{id.uid, id.gid}, id.groups...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCapabilities(t *testing.T) {
	caps := func(add, drop []corev1.Capability) *corev1.SecurityContext {
		return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: add, Drop: drop}}
	}
	for name, c := range map[string]struct {
		sc   *corev1.SecurityContext
		want []int
	}{
		"Default":   {nil, []int{0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}},
		"DropAll":   {caps(nil, []corev1.Capability{"ALL"}), []int{}},
		"AddOne":    {caps([]corev1.Capability{"NET_RAW"}, []corev1.Capability{"ALL"}), []int{13}},
		"DropOne":   {caps(nil, []corev1.Capability{"NET_RAW", "CAP_MKNOD"}), []int{0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31}},
		"AddTwice":  {caps([]corev1.Capability{"KILL"}, nil), []int{0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}},
		"AddAdmins": {caps([]corev1.Capability{"CAP_SYS_ADMIN"}, []corev1.Capability{"all"}), []int{21}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := capabilities(c.sc)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if _, err := capabilities(caps([]corev1.Capability{"FLY"}, nil)); err == nil {
		t.Error("an unknown capability was accepted")
	}
}

func TestParseLogOptions(t *testing.T) {
	now := time.Unix(1000, 0)
	got, err := parseLogOptions(url.Values{"follow": {"true"}, "tailLines": {"3"}, "sinceSeconds": {"10"}, "limitBytes": {"5"}}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := logOptions{follow: true, tail: 3, since: time.Unix(990, 0), limit: 5}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []url.Values{{"follow": {"x"}}, {"tailLines": {"x"}}, {"sinceTime": {"x"}}, {"sinceSeconds": {"x"}}, {"limitBytes": {"x"}}} {
		if _, err := parseLogOptions(bad, now); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

func TestCopyLog(t *testing.T) {
	const log = "2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:01Z stdout P tw\n2026-01-01T00:00:01Z stdout F o\n2026-01-01T00:00:02Z stderr F three\n"
	for name, c := range map[string]struct {
		o    logOptions
		want string
	}{
		"All":    {logOptions{tail: -1}, "one\ntwo\nthree\n"},
		"Tail":   {logOptions{tail: 1}, "three\n"},
		"None":   {logOptions{tail: 0}, ""},
		"Since":  {logOptions{tail: -1, since: time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC)}, "three\n"},
		"Stamps": {logOptions{tail: 1, timestamps: true}, "2026-01-01T00:00:02Z three\n"},
		"Limit":  {logOptions{tail: -1, limit: 5}, "one\nt"},
		"Follow": {logOptions{tail: -1, follow: true}, "one\ntwo\nthree\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			err := copyLog(t.Context(), &b, strings.NewReader(log), c.o, func() bool { return true })
			if err != nil && !errors.Is(err, errLimit) {
				t.Fatal(err)
			}
			if b.String() != c.want {
				t.Errorf("got %q, want %q", b.String(), c.want)
			}
		})
	}
}

func TestCgroupSettings(t *testing.T) {
	l := limits{memory: 1 << 20, milliCPU: 500, pids: 10}
	v1 := []setting{
		{controller: "pids", file: "pids.max", value: "10"},
		{controller: "memory", file: "memory.limit_in_bytes", value: "1048576"},
		{controller: "memory", file: "memory.memsw.limit_in_bytes", value: "1048576", optional: true},
		{controller: "cpu", file: "cpu.cfs_period_us", value: "100000"},
		{controller: "cpu", file: "cpu.cfs_quota_us", value: "50000"},
	}
	if diff := cmp.Diff(v1, settingsV1(l), cmp.AllowUnexported(setting{})); diff != "" {
		t.Errorf("version 1: -want +got:\n%s", diff)
	}
	v2 := []setting{
		{file: "pids.max", value: "10"},
		{file: "memory.max", value: "1048576"},
		{file: "memory.swap.max", value: "0", optional: true},
		{file: "memory.oom.group", value: "1", optional: true},
		{file: "cpu.max", value: "50000 100000"},
	}
	if diff := cmp.Diff(v2, settingsV2(l), cmp.AllowUnexported(setting{})); diff != "" {
		t.Errorf("version 2: -want +got:\n%s", diff)
	}
	if got := oomKills([]byte("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")); got != 2 {
		t.Errorf("oom kills: got %d, want 2", got)
	}
}

func TestTallyNeedsItsThresholds(t *testing.T) {
	y := tally{success: 1, failure: 3}
	var got []bool
	for _, ok := range []bool{false, false, true, false, false, false} {
		_, decided := y.add(ok)
		got = append(got, decided)
	}
	if diff := cmp.Diff([]bool{false, false, true, false, false, true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRefreshAfter(t *testing.T) {
	for name, c := range map[string]struct{ life, want time.Duration }{
		"Hour":    {time.Hour, 48 * time.Minute},
		"Year":    {365 * 24 * time.Hour, 24 * time.Hour},
		"Expired": {-time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refreshAfter(c.life); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
