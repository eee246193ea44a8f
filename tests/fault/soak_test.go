// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

const (
	defaultSoak = 2 * time.Hour
	// soakScans is how many Scans a round has. After each round everything is held against what it should be.
	soakScans = 40
	// mostMemory is what the operator may have, in bytes, and mostGrowth what its heap may grow by in one life: after each round there are as many
	// objects as before.
	mostMemory, mostGrowth = 256 << 20, 8 << 20
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
	// Operator, API server, etcd, S3 server and node agent are killed in turn, kill -9, round after round. In the second half the operator lives on,
	// so that what grows in it can be seen.
	It("loses nothing, doubles nothing and grows in nothing", NodeTimeout(soakPatience), func(ctx SpecContext) {
		d, err := soakFor()
		Expect(err).NotTo(HaveOccurred(), "FAULT_SOAK")
		s := &soak{began: time.Now(), length: d, kills: map[string]int{}}
		s.rig = newRig(ctx)
		for s.hasTime(time.Now()) {
			s.round()
		}
		Expect(s.peak).To(BeNumerically("<=", mostMemory), "peak of the operator's memory, in bytes")
		Expect(s.heap.most).To(BeNumerically("<=", mostGrowth), "growth of the operator's heap in one life, in bytes")
		AddReportEntry("soak", ReportEntryVisibilityAlways, struct {
			For                  string
			Rounds, Scans, Kills int
			PeakMiB              int64
			RoundsOfOneLife      int
			GrowthKiB            int64
		}{d.String(), s.rounds, s.rounds * soakScans, s.turn, s.peak >> 20, s.heap.rounds, s.heap.most >> 10})
	})
})

// soak is what has come of a soak so far.
type soak struct {
	rig    *rig
	began  time.Time
	length time.Duration

	rounds  int
	longest time.Duration
	kills   map[string]int
	turn    int
	peak    int64
	heap    growth
	first   map[string]int
}

// hasTime says whether a round more ends within the length of the soak, if the round takes as long as the longest so far. There is one round in
// any case.
func (s *soak) hasTime(now time.Time) bool {
	return s.rounds == 0 || now.Add(s.longest).Before(s.began.Add(s.length))
}

// turns are what is killed now.
func (s *soak) turns(now time.Time) []string {
	if now.Sub(s.began) > s.length/2 {
		return soakTurns[1:]
	}
	return soakTurns
}

// round lets Scans run while things break, holds everything against what it should be, and deletes the Scans.
func (s *soak) round() {
	GinkgoHelper()
	began, r := time.Now(), s.rig
	stop := r.during(func(ctx context.Context) error {
		if err := r.pause(ctx, 4*time.Second, 12*time.Second); err != nil {
			return err
		}
		if used, err := usage.Of(r.operator.PID()); err == nil {
			s.peak = max(s.peak, used.Peak) // else it is between two lives
		}
		turns := s.turns(time.Now())
		what := turns[s.turn%len(turns)]
		s.turn++
		s.kills[what]++
		return r.breakdown(ctx, what)
	})
	r.run(soakScans, inFlight)
	stop()
	r.check(soakScans)
	r.deleteAll()
	left := r.leftovers(s.first)
	if s.first == nil {
		s.first = left
	}
	s.heap.add(r.held())
	s.rounds++
	took := time.Since(began)
	s.longest = max(s.longest, took)
	GinkgoWriter.Printf("round %d took %s: kills so far %v; operator's peak %d MiB, its heap %d KiB and %d rounds in this life; objects %v\n",
		s.rounds, took.Round(time.Second), s.kills, s.peak>>20, s.heap.last>>10, s.heap.rounds, left)
}

// held is the present life of the operator, and what it holds in its heap: bytes. It may be about to come back from a kill.
func (r *rig) held() (pid int, bytes int64) {
	GinkgoHelper()
	r.must(r.retry(func() error {
		pid = r.operator.PID()
		req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.operator.Profiles+usage.HeldPath, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		bytes, err = usage.Held(string(text))
		return err
	}))
	return pid, bytes
}

// growth follows the heap of a process that is killed now and then. Only what grows within one life is growth.
type growth struct {
	pid, rounds int
	// first and last are those of the present life, most is the largest growth of any life.
	first, last, most int64
}

// add takes what a process holds after a round.
func (g *growth) add(pid int, held int64) {
	if pid != g.pid {
		*g = growth{pid: pid, first: held, most: g.most}
	}
	g.rounds, g.last = g.rounds+1, held
	g.most = max(g.most, held-g.first)
}

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
