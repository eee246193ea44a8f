// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/scanyard/scanyard/tests/install"
)

// The many Scans of one namespace do not come before the few of others: while these are
// there to start, it starts no more than its share.
func TestFairness(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // only to end a broken one
	defer cancel()
	programs, err := install.FromEnvironment("../..")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Bin: filepath.Dir(programs.Path("operator")), CRDs: filepath.Join("..", "..", "charts", "scanyard", "crds"),
		Workers: 16, QPS: 2000, JobSyncs: 10, SimNodes: 3, Out: t.Output(),
	}
	f := Fairness{Tenants: 9, Each: 5, Flood: 300, Limit: 10}
	fair, err := RunFairness(ctx, o, f)
	if err != nil {
		t.Fatal(err)
	}
	if fair.MostRunning > f.Limit || fair.MostRunning < f.Limit/2 {
		t.Errorf("%d Scans ran at a time, with a limit of %d", fair.MostRunning, f.Limit)
	}
	// Its share is a tenth: 5 of the 50 that start. Those that start while the small ones'
	// objects are still being created, and while their last ones only run, come on top.
	if bound := f.Each + 3*f.Limit; fair.FloodStarted > bound {
		t.Errorf("%d Scans of the flood started in between, more than %d", fair.FloodStarted, bound)
	}
	if fair.FloodLeft < f.Flood/2 {
		t.Errorf("only %d of the flood wait still: it was no flood", fair.FloodLeft)
	}
}
