// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/localcluster"
)

const (
	defaultScans = 200
	// inFlight keeps a machine with few processors busy with work instead of with waiting.
	inFlight = 40
)

const (
	// maxAPIRestarts bounds how often the API server is restarted.
	maxAPIRestarts = 4
	// scansPerKill bounds how often the operator is killed by what it has done meanwhile. A busy machine would otherwise
	// spend its time on starts of operators that are killed before they do anything.
	scansPerKill = 3
)

var _ = Describe("Every Scan is Done, with each phase run once and nothing left in storage,", Label("fault", "slow"), func() {
	// Kill -9 at random points, while Scans run and while they are deleted.
	It("when the operator is killed again and again", NodeTimeout(patience), func(ctx SpecContext) {
		r := newRig(ctx)
		n := int(number("FAULT_SCANS", defaultScans))
		kills := 0
		// perKill lets a kill wait until more is done.
		perKill := func(done func([]*executionv1.Scan) int) func(context.Context) error {
			before := kills
			return func(ctx context.Context) error {
				_, err := r.scans.UntilAll(ctx, func(have []*executionv1.Scan) bool { return (kills-before)*scansPerKill < done(have)+inFlight })
				if err != nil {
					return err
				}
				// From before its caches are filled to long after.
				if err := r.pause(ctx, 300*time.Millisecond, 4*time.Second); err != nil {
					return err
				}
				kills++
				return r.operator.Kill()
			}
		}
		stop := r.during(perKill(settled))
		r.run(n, inFlight)
		stop()
		r.check(n)
		GinkgoWriter.Printf("killed %d times while %d Scans ran\n", kills, n)
		stop = r.during(perKill(func(have []*executionv1.Scan) int { return n - len(have) }))
		r.deleteAll()
		stop()
		GinkgoWriter.Printf("killed %d times in all\n", kills)
		Expect(kills).To(BeNumerically(">=", 3), "how often the operator was killed")
	})

	// Storage answers 503 to the operator and to all pods.
	It("when storage refuses for a minute", NodeTimeout(patience), func(ctx SpecContext) {
		r := newRig(ctx)
		n := int(number("FAULT_SCANS", defaultScans))
		stop := r.during(func(ctx context.Context) error {
			if err := r.pause(ctx, 5*time.Second, 10*time.Second); err != nil {
				return err
			}
			r.proxy.Fail(true)
			defer r.proxy.Fail(false)
			if err := r.pause(ctx, time.Minute, time.Minute+time.Second); err != nil {
				return err
			}
			r.proxy.Fail(false)
			<-ctx.Done() // once is enough
			return nil
		})
		r.run(n, inFlight)
		stop()
		GinkgoWriter.Printf("storage refused %d requests and took %d\n", r.proxy.Refused(), r.proxy.Passed())
		Expect(r.proxy.Refused()).NotTo(BeZero(), "requests that storage refused")
		r.check(n)
		r.deleteAll()
	})

	// The API server ends at once and comes back some seconds later. In between there is time for
	// Kubernetes' own controllers to come back, which pause for up to half a minute when they have
	// lost it; and the restarts are few, since each takes Kubernetes' controllers far longer to get
	// over than us.
	It("when the API server goes away again and again", NodeTimeout(patience), func(ctx SpecContext) {
		r := newRig(ctx)
		n := int(number("FAULT_SCANS", defaultScans))
		restarts := 0
		stop := r.during(func(ctx context.Context) error {
			if restarts == maxAPIRestarts {
				<-ctx.Done()
				return ctx.Err()
			}
			if err := r.pause(ctx, 10*time.Second, 35*time.Second); err != nil {
				return err
			}
			if err := r.cluster.Kill(r.ctx, localcluster.APIServer); err != nil {
				return err
			}
			// The bound of the loop must not leave the cluster without its API server.
			_ = r.pause(ctx, time.Second, 5*time.Second)
			restarts++
			return r.cluster.StartComponent(r.ctx, localcluster.APIServer)
		})
		r.run(n, inFlight)
		stop()
		GinkgoWriter.Printf("the API server was restarted %d times\n", restarts)
		Expect(restarts).NotTo(BeZero(), "how often the API server was restarted")
		r.check(n)
		r.deleteAll()
	})
})
