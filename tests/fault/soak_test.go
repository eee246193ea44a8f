// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/scanyard/scanyard/tests/localcluster"
)

const (
	defaultSoak = 2 * time.Hour
	// soakScans is how many Scans a round has. After each round everything is held against what it should be.
	soakScans = 40
	// mostMemory is what the operator may have, in bytes.
	mostMemory = 256 << 20
	// settle bounds the wait for Kubernetes' garbage collector after a round, only to end a broken test.
	settle = 5 * time.Minute
)

// soakFor is how long the soak goes on. Specs are built before any of them may fail, so a value that cannot be read is told by the spec.
func soakFor() (time.Duration, error) {
	text := os.Getenv("FAULT_SOAK")
	if text == "" {
		return defaultSoak, nil
	}
	return time.ParseDuration(text)
}

var soakPatience = func() time.Duration {
	d, err := soakFor()
	if err != nil {
		return patience
	}
	return d + patience
}()

var _ = Describe("A soak", Label("fault", "long"), func() {
	// Operator, API server, etcd, S3 server and node agent are killed in turn, kill -9, round after round.
	It("loses nothing, doubles nothing and grows in nothing", NodeTimeout(soakPatience), func(ctx SpecContext) {
		d, err := soakFor()
		Expect(err).NotTo(HaveOccurred(), "FAULT_SOAK")
		r := newRig(ctx)
		kills := map[string]int{}
		turn := 0
		var peak int64
		var first map[string]int
		rounds := 0
		for end := time.Now().Add(d); rounds == 0 || time.Now().Before(end); rounds++ {
			stop := r.during(func(ctx context.Context) error {
				if err := r.pause(ctx, 4*time.Second, 12*time.Second); err != nil {
					return err
				}
				used, err := r.operator.PeakMemory()
				if err == nil {
					peak = max(peak, used) // else it is between two lives
				}
				what := soakTurns[turn%len(soakTurns)]
				turn++
				kills[what]++
				return r.breakdown(ctx, what)
			})
			r.run(soakScans, inFlight)
			stop()
			r.check(soakScans)
			r.deleteAll()
			left := r.leftovers(first)
			if first == nil {
				first = left
			}
			GinkgoWriter.Printf("round %d: kills so far %v; operator's peak %d MiB; objects %v\n", rounds+1, kills, peak>>20, left)
		}
		Expect(peak).To(BeNumerically("<=", mostMemory), "peak of the operator's memory, in bytes")
		AddReportEntry("soak", ReportEntryVisibilityAlways, struct {
			For                  string
			Rounds, Scans, Kills int
			PeakMiB              int64
		}{d.String(), rounds, rounds * soakScans, turn, peak >> 20})
	})
})

// theOperator stands beside the components of the cluster among what is killed.
const theOperator = "operator"

var soakTurns = []string{theOperator, localcluster.APIServer, localcluster.S3, localcluster.Node, localcluster.Etcd}

// breakdown kills one part, which comes back some seconds later.
func (r *rig) breakdown(ctx context.Context, what string) error {
	if what == theOperator {
		return r.operator.Kill() // and it is kept running
	}
	if err := r.cluster.Kill(r.ctx, what); err != nil {
		return err
	}
	// The end of a round must not leave the cluster without one of its parts.
	_ = r.pause(ctx, time.Second, 5*time.Second)
	return r.cluster.StartComponent(r.ctx, what)
}

// soakKinds are what Scans bring into a cluster and what must be gone with them. Events go by their own time.
var soakKinds = []schema.GroupVersionKind{
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
}

// leftovers counts what there is, and waits until that is no more of any kind than after the first round.
func (r *rig) leftovers(first map[string]int) map[string]int {
	GinkgoHelper()
	var have map[string]int
	err := wait.PollUntilContextTimeout(r.ctx, time.Second, settle, true, func(ctx context.Context) (bool, error) {
		have = map[string]int{}
		for _, kind := range soakKinds {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			if err := r.admin.List(ctx, list); err != nil {
				return false, nil //nolint:nilerr // the API server may have just come back
			}
			have[kind.Kind] = len(list.Items)
		}
		return first == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(have)), func(k string) bool { return have[k] > first[k] }), nil
	})
	Expect(err).NotTo(HaveOccurred(), "objects grow: %v after the first round, %v now", first, have)
	return have
}
