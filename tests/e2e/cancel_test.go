// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/scans"
)

// setCancel sets spec.cancel as somebody.
func setCancel(ctx context.Context, s *executionv1.Scan, to bool, as string) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"cancel":%t}}`, to))
	Expect(w.admin.Patch(ctx, s.DeepCopy(), patch, client.FieldOwner(as))).To(Succeed())
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
func wantCancelled(ctx context.Context, s *executionv1.Scan, by string) *executionv1.Scan {
	GinkgoHelper()
	got := settled(ctx, s)
	wantTrouble(ctx, got, executionv1.ReasonCancelledByUser, strconv.Quote(by))
	if c := meta.FindStatusCondition(got.Status.Conditions, executionv1.ConditionCancelled); c == nil || c.Status != metav1.ConditionTrue {
		Fail(fmt.Sprintf("condition Cancelled is %+v", c))
	}
	eventually(ctx, "the pods of the Scan to end", func(ctx context.Context) (bool, error) {
		var jobs batchv1.JobList
		err := w.admin.List(ctx, &jobs, client.InNamespace(s.Namespace))
		return len(podsOf(ctx, s.Namespace))+len(jobs.Items) == 0, err
	})
	return got
}

var _ = Describe("Cancelling and running again", Label("life"), func() {
	// Cancels nmap in the midst of a scan that would take half an hour:
	// its process ends, nothing is stored, no hook hears of it. Then the Scan is scanned again.
	It("ends the scanner's process, stores nothing and calls no hook; the Scan can then be scanned again", func(ctx SpecContext) {
		ns := namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		webhookAs(ctx, "always", ns, webhookValues(w.hooks.URL("/"+ns), map[string]any{"runOn": "Always"}))
		const slowly = "1999ms"
		s := scans.New(ns, "nmap-slow", "nmap", "-n", "-Pn", "-sT", "-p", "1-1000", "--scan-delay", slowly, "127.0.0.1")
		create(ctx, s)
		eventually(ctx, "nmap to run", func(context.Context) (bool, error) {
			pids, err := processesWith(slowly)
			return len(pids) > 0, err
		})
		setCancel(ctx, s, true, "kubectl-edit")
		got := wantCancelled(ctx, s, "kubectl-edit")
		var left []string
		eventually(ctx, "the processes of nmap to end", func(context.Context) (bool, error) {
			var err error
			left, err = processesWith(slowly)
			return len(left) == 0, err
		}, &left)
		wantStored(ctx, got)
		Expect(delivered(ctx, "/"+ns)).To(BeEmpty(), "calls of the hook")

		// It was the wrong one: it is scanned again, now with fewer ports.
		setCancel(ctx, s, false, "kubectl-edit")
		rerun(ctx, until(ctx, s, "have spec.cancel false", func(s *executionv1.Scan) bool { return !s.Cancelled() }), "scanner")
		eventually(ctx, "nmap to run again", func(context.Context) (bool, error) {
			pids, err := processesWith(slowly)
			return len(pids) > 0, err
		})
		setCancel(ctx, s, true, "somebody-else")
		until(ctx, s, "be cancelled again", func(s *executionv1.Scan) bool {
			return s.Settled() && strings.Contains(s.Status.ErrorDescription, `"somebody-else"`)
		})
		wantCancelled(ctx, s, "somebody-else")
		if n := w.ran.Of(got.UID)["scanner"]; n != 2 {
			Fail(fmt.Sprintf("the scanner had %d Jobs, want 2", n))
		}
	})

	// Runs the parser of a real Scan again over the raw result that is
	// stored, after its findings were lost; then its scanner, which finds more this time.
	It("parses the stored result again after findings were lost, and scans again", func(ctx SpecContext) {
		ns := namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		chart(ctx, "generic-webhook", ns, webhookValues(w.hooks.URL("/"+ns), nil))
		web := webSite()
		port, open := closedPort(ctx)
		got := done(ctx, scans.New(ns, "nmap-again", "nmap", "-n", "-Pn", "-sT", "-p", fmt.Sprintf("%d,%d", web.Port, port), web.Host))
		first := findings(ctx, got)
		raw := object(ctx, got, "nmap-results.xml")

		Expect(w.store.RemoveObject(ctx, w.bucket, prefix(got)+"findings.json", minio.RemoveObjectOptions{})).To(Succeed())
		got = again(ctx, got, "parser")
		Expect(got.Status.State).To(Equal(executionv1.ScanStateDone), "it ended %s: %s", got.Status.State, got.Status.ErrorDescription)
		second := findings(ctx, got)
		Expect(ids(second)).To(BeComparableTo(ids(first)), "findings of the same raw result (-first +again)")
		wantStats(got, second)
		Expect(raw).To(Equal(object(ctx, got, "nmap-results.xml")), "the raw result has changed")

		open()
		got = again(ctx, got, "scanner")
		Expect(got.Status.State).To(Equal(executionv1.ScanStateDone), "it ended %s: %s", got.Status.State, got.Status.ErrorDescription)
		third := findings(ctx, got)
		Expect(third).To(HaveLen(len(second)+1), "it has found %v, and %v before a port was opened", lines(third, "name", "location"), lines(second, "name", "location"))
		wantStats(got, third)
		// The parser ran in the scanner's pod, but for the time when it was asked for alone.
		Expect(w.ran.Of(got.UID)).To(BeComparableTo(map[string]int{"scanner": 2, "parser": 1, "read-only-hook/generic-webhook": 3}), "Jobs")
		Expect(delivered(ctx, "/"+ns)).To(HaveLen(3), "calls of the hook")
	})
})

// closedPort is a port of this machine on which nothing listens, until open is called.
func closedPort(ctx context.Context) (port int, open func()) {
	GinkgoHelper()
	listen := func(address string) net.Listener {
		var cfg net.ListenConfig
		l, err := cfg.Listen(ctx, "tcp", address)
		Expect(err).NotTo(HaveOccurred())
		return l
	}
	l := listen("127.0.0.1:0")
	address := l.Addr().String()
	addr, ok := l.Addr().(*net.TCPAddr)
	Expect(ok).To(BeTrue(), "%s is not an address of TCP", address)
	Expect(l.Close()).To(Succeed())
	return addr.Port, func() {
		l := listen(address)
		DeferCleanup(func() {
			Expect(l.Close()).To(Succeed())
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
func again(ctx context.Context, s *executionv1.Scan, what string) *executionv1.Scan {
	GinkgoHelper()
	rerun(ctx, s, what)
	return until(ctx, s, "run its "+what+" again", func(s *executionv1.Scan) bool { return s.Status.LastRerun == what && s.Settled() })
}
