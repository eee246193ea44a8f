// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/install"
)

var _ = Describe("The command line over restarts", Label("cli"), Serial, func() {
	It("waits on while the operator and the API server are restarted", Label("fault"), func(spec SpecContext) {
		forget("long")
		ctx := bounded(spec)
		broken := false
		r, err := w.alice.Watch(ctx, func(line string) bool {
			defer GinkgoRecover()
			if broken || !strings.Contains(line, "The scanner is running") {
				return true
			}
			broken = true
			Expect(w.admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(install.Namespace), client.MatchingLabels{"control-plane": "securecodebox-controller-manager"})).To(Succeed())
			Expect(w.cluster.StopComponent(ctx, "kube-apiserver")).To(Succeed())
			// Long enough that the command notices.
			time.AfterFunc(3*time.Second, func() {
				defer GinkgoRecover()
				Expect(w.cluster.StartComponent(ctx, "kube-apiserver")).To(Succeed())
			})
			return true
		}, "scan", "sh", "--name", "long", "--wait", "--timeout", "2m", "--", "sleep 6"+found)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Code).To(Equal(0), "%v %s", err, r.Said())
		wants(r.Out, "The API server is away, trying again", "The API server is back", "scan long is Done")
		Expect(w.op.Ready(ctx, time.Minute)).To(Succeed())
	})

	It("prints each run of a container once, the first one too", func(ctx SpecContext) {
		forget("restarted")
		const script = `if [ -f /home/securecodebox/once ]; then echo the second run` + found + `; else touch /home/securecodebox/once; echo the first run; exit 3; fi`
		r := typed(ctx, w.alice, 0, "scan", "sh", "--name", "restarted", "--follow", "--", script)
		for _, line := range []string{"[scanner] the first run\n", "[scanner] the second run\n"} {
			if n := strings.Count(r.Out, line); n != 1 {
				Fail(fmt.Sprintf("%q is there %d times:\n%s", line, n, r.Out))
			}
		}
		wants(r.Out, "[parser] ")
		wants(r.ErrOut, "is Done")
	})

	It("continues a log where it was when the API server is restarted", Label("fault"), func(spec SpecContext) {
		forget("counts")
		ctx := bounded(spec)
		const script = `for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 1; done` + found
		broken := false
		r, err := w.alice.Watch(ctx, func(line string) bool {
			defer GinkgoRecover()
			if !broken && strings.HasSuffix(line, "line 2") {
				broken = true
				Expect(w.cluster.Restart(ctx, "kube-apiserver")).To(Succeed())
			}
			return true
		}, "scan", "sh", "--name", "counts", "--follow", "--", script)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Code).To(Equal(0), "%v %s", err, r.Said())
		var got []string
		for line := range strings.Lines(r.Out) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "[scanner] line "); ok {
				got = append(got, n)
			}
		}
		Expect(strings.Join(got, " ")).To(Equal("1 2 3 4 5 6 7 8 9"), "got lines %v:\n%s", got, r.Said())
	})
})
