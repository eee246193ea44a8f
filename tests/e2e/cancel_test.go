// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/scans"
)

// setCancel sets spec.cancel as somebody.
func setCancel(t *testing.T, s *executionv1.Scan, to bool, as string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"cancel":%t}}`, to))
	if err := w.admin.Patch(t.Context(), s.DeepCopy(), patch, client.FieldOwner(as)); err != nil {
		t.Fatal(err)
	}
}

// processesWith are the processes of this machine that have an argument.
func processesWith(argument string) (pids []string, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		if slices.Contains(strings.Split(string(line), "\x00"), argument) {
			pids = append(pids, strings.Split(path, "/")[2])
		}
	}
	return pids, nil
}

// wantCancelled waits until a Scan is cancelled and neither Jobs nor pods of it run.
func wantCancelled(t *testing.T, s *executionv1.Scan, by string) *executionv1.Scan {
	t.Helper()
	got := settled(t, s)
	wantTrouble(t, got, executionv1.ReasonCancelledByUser, strconv.Quote(by))
	if c := meta.FindStatusCondition(got.Status.Conditions, executionv1.ConditionCancelled); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition Cancelled is %+v", c)
	}
	eventually(t, "the pods of the Scan to end", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		var jobs batchv1.JobList
		if err := w.admin.List(ctx, &pods, client.InNamespace(s.Namespace)); err != nil {
			return false, err
		}
		err := w.admin.List(ctx, &jobs, client.InNamespace(s.Namespace))
		return len(pods.Items)+len(jobs.Items) == 0, err
	})
	return got
}

// TestCancelEndsTheScanner cancels nmap in the midst of a scan that would take half an hour:
// its process ends, nothing is stored, no hook hears of it. Then the Scan is scanned again.
func TestCancelEndsTheScanner(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	chart(t, "nmap", ns, nil)
	webhookAs(t, "always", ns, webhookValues(w.hooks.URL("/"+ns), map[string]any{"runOn": "Always"}))
	const slowly = "1999ms"
	s := scans.New(ns, "nmap-slow", "nmap", "-n", "-Pn", "-sT", "-p", "1-1000", "--scan-delay", slowly, "127.0.0.1")
	create(t, s)
	eventually(t, "nmap to run", func(context.Context) (bool, error) {
		pids, err := processesWith(slowly)
		return len(pids) > 0, err
	})
	setCancel(t, s, true, "kubectl-edit")
	got := wantCancelled(t, s, "kubectl-edit")
	var left []string
	eventually(t, "the processes of nmap to end", func(context.Context) (bool, error) {
		var err error
		left, err = processesWith(slowly)
		return len(left) == 0, err
	}, &left)
	wantStored(t, got)
	if n := len(w.hooks.At("/" + ns)); n > 0 {
		t.Errorf("a hook was called %d times", n)
	}

	// It was the wrong one: it is scanned again, now with fewer ports.
	setCancel(t, s, false, "kubectl-edit")
	rerun(t, until(t, s, "have spec.cancel false", func(s *executionv1.Scan) bool { return !s.Cancelled() }), "scanner")
	eventually(t, "nmap to run again", func(context.Context) (bool, error) {
		pids, err := processesWith(slowly)
		return len(pids) > 0, err
	})
	setCancel(t, s, true, "somebody-else")
	until(t, s, "be cancelled again", func(s *executionv1.Scan) bool {
		return s.Settled() && strings.Contains(s.Status.ErrorDescription, `"somebody-else"`)
	})
	wantCancelled(t, s, "somebody-else")
	if n := w.ran.Of(got.UID)["scanner"]; n != 2 {
		t.Errorf("the scanner had %d Jobs, want 2", n)
	}
}

// closedPort is a port of this machine on which nothing listens, until open is called.
func closedPort(t *testing.T) (port int, open func()) {
	t.Helper()
	listen := func(address string) net.Listener {
		var cfg net.ListenConfig
		l, err := cfg.Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := listen("127.0.0.1:0")
	address := l.Addr().String()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%s is no address of TCP", address)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return addr.Port, func() {
		l := listen(address)
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return // the test has ended
				}
				if err := c.Close(); err != nil {
					return
				}
			}
		}()
	}
}

// ids are those of findings, sorted. They are derived from what was found.
func ids(all []finding.Finding) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].ID.String()
	}
	slices.Sort(out)
	return out
}

// again asks for a re-run and waits for its end.
func again(t *testing.T, s *executionv1.Scan, what string) *executionv1.Scan {
	t.Helper()
	rerun(t, s, what)
	return until(t, s, "run its "+what+" again", func(s *executionv1.Scan) bool { return s.Status.LastRerun == what && s.Settled() })
}

// TestRerunWithRealFindings runs the parser of a real Scan again over the raw result that is
// stored, after its findings were lost; then its scanner, which finds more this time.
func TestRerunWithRealFindings(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	chart(t, "nmap", ns, nil)
	chart(t, "generic-webhook", ns, webhookValues(w.hooks.URL("/"+ns), nil))
	web := webSite(t)
	port, open := closedPort(t)
	got := done(t, scans.New(ns, "nmap-again", "nmap", "-n", "-Pn", "-sT", "-p", fmt.Sprintf("%d,%d", web.Port, port), web.Host))
	first := findings(t, got)
	raw := object(t, got, "nmap-results.xml")

	if err := w.store.RemoveObject(t.Context(), w.bucket, prefix(got)+"findings.json", minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	got = again(t, got, "parser")
	if got.Status.State != executionv1.ScanStateDone {
		t.Fatalf("it ended %s: %s", got.Status.State, got.Status.ErrorDescription)
	}
	second := findings(t, got)
	if diff := cmp.Diff(ids(first), ids(second)); diff != "" {
		t.Errorf("findings of the same raw result (-first +again):\n%s", diff)
	}
	wantStats(t, got, second)
	if !bytes.Equal(raw, object(t, got, "nmap-results.xml")) {
		t.Error("the raw result has changed")
	}

	open()
	got = again(t, got, "scanner")
	if got.Status.State != executionv1.ScanStateDone {
		t.Fatalf("it ended %s: %s", got.Status.State, got.Status.ErrorDescription)
	}
	third := findings(t, got)
	if len(third) != len(second)+1 {
		t.Errorf("it has found %v, and %v before a port was opened", lines(third, "name", "location"), lines(second, "name", "location"))
	}
	wantStats(t, got, third)
	if diff := cmp.Diff(map[string]int{"scanner": 2, "parser": 3, "read-only-hook/generic-webhook": 3}, w.ran.Of(got.UID)); diff != "" {
		t.Errorf("Jobs (-want +got):\n%s", diff)
	}
	if n := len(w.hooks.At("/" + ns)); n != 3 {
		t.Errorf("the hook was called %d times, want 3", n)
	}
}
