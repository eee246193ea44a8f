// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"testing"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster"
)

const (
	defaultScans = 200
	// inFlight keeps a machine with few processors busy with work instead of with waiting.
	inFlight = 40
)

// TestOperatorKilled kills the operator at random points, kill -9, while Scans run and
// while they are deleted.
func TestOperatorKilled(t *testing.T) {
	r := newRig(t)
	n := int(number(t, "FAULT_SCANS", defaultScans))
	kills := 0
	kill := func(ctx context.Context) error {
		// From before its caches are filled to long after.
		if err := r.pause(ctx, 300*time.Millisecond, 4*time.Second); err != nil {
			return err
		}
		kills++
		return r.operator.Kill()
	}
	stop := r.during(kill)
	r.run(n, inFlight)
	stop()
	r.check(n)
	t.Logf("killed %d times while %d Scans ran", kills, n)
	stop = r.during(kill)
	r.deleteAll()
	stop()
	t.Logf("killed %d times in all", kills)
	if kills < 3 {
		t.Errorf("the operator was killed %d times only", kills)
	}
}

// TestStorageRefuses lets object storage answer 503 for a minute, to the operator and
// to all pods.
func TestStorageRefuses(t *testing.T) {
	r := newRig(t)
	n := int(number(t, "FAULT_SCANS", defaultScans))
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
	t.Logf("storage refused %d requests and took %d", r.proxy.Refused(), r.proxy.Passed())
	if r.proxy.Refused() == 0 {
		t.Error("storage never refused anything")
	}
	r.check(n)
	r.deleteAll()
}

// maxAPIRestarts bounds how often TestAPIServerRestarted restarts it.
const maxAPIRestarts = 4

// TestAPIServerRestarted ends the API server at once, and brings it back some seconds
// later, again and again. In between there is time for Kubernetes' own controllers to
// come back, which pause for up to half a minute when they have lost it; and they are
// few, since each takes Kubernetes' controllers far longer to get over than us.
func TestAPIServerRestarted(t *testing.T) {
	r := newRig(t)
	n := int(number(t, "FAULT_SCANS", defaultScans))
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
	t.Logf("the API server was restarted %d times", restarts)
	if restarts == 0 {
		t.Error("the API server was never restarted")
	}
	r.check(n)
	r.deleteAll()
}
