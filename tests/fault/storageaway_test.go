// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

var _ = Describe("A Scan whose storage is away", Label("fault", "slow"), func() {
	// Its pods wait without a word. When storage is back it goes on with the same Jobs, and does not
	// speak of storage at its end.
	It("reports the outage while it runs, and continues by itself", NodeTimeout(patience), func(ctx SpecContext) {
		r := newRig(ctx)
		// The operator knows the storage by now, so signing works, and the scanner starts.
		r.run(1, inFlight)

		r.proxy.Fail(true)
		began := time.Now()
		s := scans.New(namespace(1), "away", "test-scan")
		r.must(r.admin.Create(ctx, s))
		got := r.until(s, func(s *executionv1.Scan) bool {
			return scans.Ready(s).Reason == executionv1.ReasonStorageUnavailable || s.Settled()
		})
		GinkgoWriter.Printf("told after %s, in state %q\n", time.Since(began).Round(100*time.Millisecond), got.Status.State)
		ready := scans.Ready(got)
		Expect(got.Settled()).To(BeFalse(), "the Scan is %s for %s: %s", got.Status.State, ready.Reason, ready.Message)
		Expect(ready.Message).To(And(ContainSubstring("Object storage cannot be used; the Scan goes on when it can"), Not(ContainSubstring("X-Amz-"))))
		Expect(r.proxy.Refused()).NotTo(BeZero(), "requests that storage refused")

		r.proxy.Fail(false)
		r.until(s, (*executionv1.Scan).Settled)
		r.check(2)
		r.deleteAll()
	})
})

// until waits until a condition over a Scan holds.
func (r *rig) until(s *executionv1.Scan, cond func(*executionv1.Scan) bool) *executionv1.Scan {
	GinkgoHelper()
	got, err := r.scans.Until(r.ctx, s.Namespace, s.Name, func(s *executionv1.Scan, there bool) bool { return there && cond(s) })
	Expect(err).NotTo(HaveOccurred(), "Scan %s, last seen %+v", s.Name, got)
	return got
}
