// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/install"
)

// TestWaitOverRestarts: the operator and the API server are restarted while somebody waits.
func TestWaitOverRestarts(t *testing.T) {
	forget(t, "long")
	ctx := bounded(t)
	broken := false
	r, err := w.alice.Watch(ctx, func(line string) bool {
		if broken || !strings.Contains(line, "The scanner is running") {
			return true
		}
		broken = true
		if err := w.admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(install.Namespace), client.MatchingLabels{"control-plane": "securecodebox-controller-manager"}); err != nil {
			t.Error(err)
		}
		if err := w.cluster.StopComponent(ctx, "kube-apiserver"); err != nil {
			t.Error(err)
		}
		// Long enough that the command notices.
		time.AfterFunc(3*time.Second, func() {
			if err := w.cluster.StartComponent(ctx, "kube-apiserver"); err != nil {
				t.Error(err)
			}
		})
		return true
	}, "scan", "sh", "--name", "long", "--wait", "--timeout", "2m", "--", "sleep 6"+found)
	if err != nil || r.Code != 0 {
		t.Fatalf("%v %s", err, r.Said())
	}
	wants(t, r.Out, "The API server is away, trying again", "The API server is back", "scan long is Done")
	if err := w.op.Ready(ctx, time.Minute); err != nil {
		t.Error(err)
	}
}

// TestFollowOverPodRestarts: each run of a container is printed once, the first one too.
func TestFollowOverPodRestarts(t *testing.T) {
	forget(t, "restarted")
	const script = `if [ -f /home/securecodebox/once ]; then echo the second run` + found + `; else touch /home/securecodebox/once; echo the first run; exit 3; fi`
	r := typed(t, w.alice, 0, "scan", "sh", "--name", "restarted", "--follow", "--", script)
	for _, line := range []string{"[scanner] the first run\n", "[scanner] the second run\n"} {
		if n := strings.Count(r.Out, line); n != 1 {
			t.Errorf("%q is there %d times:\n%s", line, n, r.Out)
		}
	}
	wants(t, r.Out, "[parser] ")
	wants(t, r.ErrOut, "is Done")
}

// TestFollowOverAPIServerRestart: the log goes on where it was, no line is lost and none
// comes twice.
func TestFollowOverAPIServerRestart(t *testing.T) {
	forget(t, "counts")
	ctx := bounded(t)
	const script = `for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 1; done` + found
	broken := false
	r, err := w.alice.Watch(ctx, func(line string) bool {
		if !broken && strings.HasSuffix(line, "line 2") {
			broken = true
			if err := w.cluster.Restart(ctx, "kube-apiserver"); err != nil {
				t.Error(err)
			}
		}
		return true
	}, "scan", "sh", "--name", "counts", "--follow", "--", script)
	if err != nil || r.Code != 0 {
		t.Fatalf("%v %s", err, r.Said())
	}
	var got []string
	for line := range strings.Lines(r.Out) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "[scanner] line "); ok {
			got = append(got, n)
		}
	}
	if strings.Join(got, " ") != "1 2 3 4 5 6 7 8 9" {
		t.Errorf("got lines %v:\n%s", got, r.Said())
	}
}
