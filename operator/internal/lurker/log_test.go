// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/scanyard/scanyard/podkit/transfer"
)

// shelf notes what is PUT where, in order.
type shelf struct {
	*httptest.Server

	mu    sync.Mutex
	taken []string
}

func newShelf(t *testing.T, refuse string) *shelf {
	t.Helper()
	s := &shelf{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == refuse {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken = append(s.taken, r.URL.Path+": "+string(body))
	}))
	t.Cleanup(s.Close)
	return s
}

func runOf(id string, state corev1.ContainerState) corev1.ContainerState {
	state.Terminated.ContainerID = id
	return state
}

// TestLogEndIsUploaded after the result, and where there is none.
func TestLogEndIsUploaded(t *testing.T) {
	const words = "fake logs" // of the client
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		none   bool
		refuse string
		want   []string
		fails  string
	}{
		"Ended":         {pod: pod(corev1.RestartPolicyNever, runOf("n1", ended(0, "")), 0), want: []string{"/raw: <x/>", "/log: " + words}},
		"FailedForGood": {pod: pod(corev1.RestartPolicyNever, runOf("n1", ended(2, "Error")), 0), want: []string{"/log: " + words}, fails: "exit code 2"},
		"NotWanted":     {pod: pod(corev1.RestartPolicyNever, runOf("n1", ended(0, "")), 0), none: true, want: []string{"/raw: <x/>"}},
		"LogIsRefused":  {pod: pod(corev1.RestartPolicyNever, runOf("n1", ended(0, "")), 0), refuse: "/log", want: []string{"/raw: <x/>"}},
		"ResultRefused": {pod: pod(corev1.RestartPolicyNever, runOf("n1", ended(0, "")), 0), refuse: "/raw", want: []string{"/log: " + words}, fails: "403"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(t, tc.pod), newShelf(t, tc.refuse)
			w.write(t, "<x/>")
			w.lurker.URL = transfer.URL(s.URL + "/raw")
			if !tc.none {
				w.lurker.LogURL = transfer.URL(s.URL + "/log")
			}
			err := w.lurker.Run(t.Context())
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("error %v, want %q", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, s.taken); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLogOfRestartedRunIsUploaded: the pod may be removed before another run ends.
func TestLogOfRestartedRunIsUploaded(t *testing.T) {
	w, s := newWorld(t, pod(corev1.RestartPolicyOnFailure, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, 0)), newShelf(t, "")
	w.write(t, "<x/>")
	w.lurker.URL, w.lurker.LogURL = transfer.URL(s.URL+"/raw"), transfer.URL(s.URL+"/log")
	events := watch.NewFake()
	w.api.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, events, nil })
	done := make(chan error, 1)
	go func() { done <- w.lurker.Run(t.Context()) }()
	failed := pod(corev1.RestartPolicyOnFailure, runOf("n1", ended(1, "Error")), 0)
	again := pod(corev1.RestartPolicyOnFailure, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, 1)
	again.Status.ContainerStatuses[1].LastTerminationState = runOf("n1", ended(1, "Error"))
	for _, p := range []*corev1.Pod{failed, failed, again} {
		events.Modify(p)
	}
	events.Modify(pod(corev1.RestartPolicyOnFailure, runOf("n2", ended(0, "")), 1))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	logs := 0
	for _, put := range s.taken {
		if strings.HasPrefix(put, "/log") {
			logs++
		}
	}
	if logs != 2 || len(s.taken) != 3 {
		t.Errorf("stored %q, want the log of each of two runs, and the result", s.taken)
	}
}

// TestLogOfNextRunIsNotUploaded: the next run begins while the log is read.
func TestLogOfNextRunIsNotUploaded(t *testing.T) {
	w, s := newWorld(t, pod(corev1.RestartPolicyOnFailure, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, 0)), newShelf(t, "")
	w.write(t, "<x/>")
	w.lurker.URL, w.lurker.LogURL = transfer.URL(s.URL+"/raw"), transfer.URL(s.URL+"/log")
	again := pod(corev1.RestartPolicyOnFailure, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, 1)
	again.Status.ContainerStatuses[1].LastTerminationState = runOf("n1", ended(1, "Error"))
	var read []bool // whether the previous run's log was asked for
	mu := sync.Mutex{}
	began := make(chan struct{})
	w.api.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if options, ok := a.(clienttesting.GenericAction); ok && a.GetSubresource() == "log" {
			read = append(read, options.GetValue().(*corev1.PodLogOptions).Previous)
			if len(read) == 2 {
				close(began)
			}
			return false, nil, nil
		}
		return len(read) > 0, again, nil
	})
	events := watch.NewFake()
	w.api.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, events, nil })
	done := make(chan error, 1)
	go func() { done <- w.lurker.Run(t.Context()) }()
	events.Modify(pod(corev1.RestartPolicyOnFailure, runOf("n1", ended(1, "Error")), 0))
	select {
	case <-began:
	case err := <-done:
		t.Fatalf("it ended with %v before the log of the previous run was read", err)
	}
	events.Modify(pod(corev1.RestartPolicyOnFailure, runOf("n2", ended(0, "")), 1))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{false, true, false}, read); diff != "" {
		t.Errorf("logs of the previous run (-want +got):\n%s", diff)
	}
}

func TestLastBytes(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	for name, tc := range map[string]struct {
		write string
		times int
		first string
		size  int
	}{
		"Nothing":  {"", 1, "", 0},
		"Short":    {"half a line", 1, "half", 11},
		"Long":     {line, 10_000, line, maxLog / 100 * 100},
		"OneLine":  {"y", 3 * maxLog, "y", maxLog},
		"JustFits": {"z", maxLog, "z", maxLog},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lastBytes{}
			for range tc.times {
				if n, err := l.Write([]byte(tc.write)); n != len(tc.write) || err != nil {
					t.Fatal(n, err)
				}
			}
			if got := l.lines(); len(got) != tc.size || !strings.HasPrefix(string(got), tc.first) {
				t.Errorf("%d bytes, begin with %.20q", len(got), got)
			}
			if cap(l.kept) > 4*maxLog {
				t.Errorf("%d bytes are held", cap(l.kept))
			}
		})
	}
}
