// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/scanyard/scanyard/cli/session"
)

// restarted is a container whose first run has ended and whose second one is there: kubelet gives the log of that one to who
// asks for the log, and that of the first to who asks for the one before.
const (
	firstLog  = "2026-11-22T10:00:00.1Z first 1\n2026-11-22T10:00:00.2Z first 2\n"
	secondLog = "2026-11-22T10:00:00.7Z second 1\n2026-11-22T10:00:01.1Z second 2\n"
)

// TestLogOfEndedRun is printed once, and so is the next one, whatever the log of which run was when it
// was asked for.
func TestLogOfEndedRun(t *testing.T) {
	one := run{namespace: "ns", pod: "p", uid: "u", container: "nmap", id: "n1", label: "scanner"}
	before, next := one, one
	before.previous, next.id = true, "n2"
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "n1"}}
	for name, tc := range map[string]struct {
		status corev1.ContainerStatus
		tail   int64
		want   string
	}{
		"KnownToBeOver": {
			corev1.ContainerStatus{Name: "nmap", ContainerID: "n2", LastTerminationState: ended},
			-1,
			"[scanner] first 1\n[scanner] first 2\n[scanner] second 1\n[scanner] second 2\n",
		},
		// The status tells of the first run still: nothing is lost, though it comes late.
		"StatusIsBehind": {
			corev1.ContainerStatus{Name: "nmap", ContainerID: "n1"},
			-1,
			"[scanner] second 1\n[scanner] second 2\n[scanner] first 1\n[scanner] first 2\n",
		},
		"Tail": {
			corev1.ContainerStatus{Name: "nmap", ContainerID: "n2", LastTerminationState: ended},
			1,
			"[scanner] first 2\n[scanner] second 1\n[scanner] second 2\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text := secondLog
				if r.URL.Query().Get("previous") == "true" {
					text = firstLog
				}
				if r.URL.Query().Get("tailLines") == "1" {
					text = text[len(text)/2:]
				}
				_, _ = io.WriteString(w, text)
			}))
			t.Cleanup(server.Close)
			pods, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{tc.status}}}
			var out bytes.Buffer
			r := &Reader{
				Client: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(pod).Build(), Pods: pods, Tail: tc.tail, Prefix: true,
				Session: &session.Session{IOStreams: genericiooptions.IOStreams{Out: &out}},
			}
			f := &follower{Reader: r, seen: map[string]bool{}, streams: map[string]*stream{}}
			for _, each := range []run{one, before, next, one, before, next} { // the status tells of each more than once
				f.begin(t.Context(), each)
				f.wait.Wait()
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStretch(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	var s interval
	if s.has(at(1)) {
		t.Error("nothing was printed")
	}
	for _, second := range []int{5, 7, 4} {
		s.add(at(second))
	}
	s.add(time.Time{})
	for second, want := range map[int]bool{3: false, 4: true, 6: true, 7: true, 8: false} {
		if s.has(at(second)) != want {
			t.Errorf("%d: %t", second, !want)
		}
	}
}
