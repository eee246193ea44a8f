// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/scans"
)

var _ = Describe("Programs of secureCodeBox", Label("compat"), func() {
	// Parser images of secureCodeBox insist on the
	// namespaced ParseDefinition in every mode. It comes with the first Scan that needs
	// it, and goes with the last.
	It("find the namespaced ParseDefinition that a parser insists on in clusterWide mode, too (trap T1)", func(ctx SpecContext) {
		ns := namespace(ctx)
		resultType := "upstream-" + ns
		createGlobal(ctx,
			&executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: shellSpec(resultType)},
			&executionv1.ClusterParseDefinition{ObjectMeta: metav1.ObjectMeta{Name: resultType}, Spec: executionv1.ParseDefinitionSpec{Image: "docker.io/e2e/upstream-parser"}})
		run := func(name string) *executionv1.Scan {
			return done(ctx, onlyHooks(scans.NewClusterWide(ns, name, ns, "printf upstream >"+resultPath), ""))
		}
		one, two := run("one"), run("two")
		for _, s := range []*executionv1.Scan{one, two} {
			all := findings(ctx, s)
			wantStats(s, all)
			Expect(categories(all)).To(BeComparableTo(map[string]int64{"Upstream": 1}), "categories")
			wantJobs(s, "scanner", "parser")
		}
		// A Scan of the namespace itself must not take the copy for an installed parser.
		kind := shellType(ns, resultType)
		create(ctx, kind)
		troubled(ctx, shellScan(ns, "local", quick), executionv1.ReasonParseDefinitionNotFound, resultType)
		copied := &executionv1.ParseDefinition{}
		Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: resultType}, copied)).To(Succeed(), "the namespaced copy")
		for _, s := range []*executionv1.Scan{one, two} {
			Expect(w.admin.Delete(ctx, s)).To(Succeed())
		}
		gone(ctx, copied)
	})

	It("parse in a namespace as they do today", func(ctx SpecContext) {
		ns := namespace(ctx)
		p := parser(ns, "upstream")
		p.Spec.Image = "docker.io/e2e/upstream-parser"
		create(ctx, shellType(ns, "upstream"), p)
		got := done(ctx, shellScan(ns, "today", "printf upstream >"+resultPath))
		wantStats(got, findings(ctx, got))
	})

	// Another client replaces the status of 50 Scans at
	// every step. Each ends Done, each phase runs once, and the status is whole again.
	// Counters are not held against the stored findings here: they are the parser's, and
	// a stale replace takes them back to what it had read.
	It("may replace the whole status at every step: no phase runs twice, and the status is whole again", defect(66), func(ctx SpecContext) {
		const n = 50
		ns := prepared(ctx, hook("", "reads", "ok", executionv1.ReadOnly, 0))
		r := &replacer{ctx: ctx, seed: uint64(time.Now().UnixNano()), seen: map[string]bool{}}
		GinkgoWriter.Printf("seed %d\n", r.seed)
		f := follow.Start(ctx, w.admin, &executionv1.ScanList{}, r.onScan, client.InNamespace(ns))
		var all []*executionv1.Scan
		for i := range n {
			s := shellScan(ns, fmt.Sprintf("scan-%02d", i), quick)
			create(ctx, s)
			all = append(all, s)
		}
		for _, s := range all {
			got := until(ctx, s, "end with its conditions", func(s *executionv1.Scan) bool {
				return s.Settled() && scans.Ready(s).Reason != "" && s.Status.ObservedGeneration > 0
			})
			Expect(got.Status.State).To(Equal(executionv1.ScanStateDone), "Scan %s ended %s: %s", s.Name, got.Status.State, got.Status.ErrorDescription)
			wantJobs(s, "scanner", "parser", "read-only-hook/reads")
		}
		f.Stop()
		r.work.Wait()
		Expect(r.writes).To(BeNumerically(">=", 2*n), "the status was replaced %d times only", r.writes)
		for _, s := range all {
			got := until(ctx, s, "be whole again", func(s *executionv1.Scan) bool {
				return s.Status.State == executionv1.ScanStateDone && scans.Ready(s).Reason == executionv1.ReasonCompleted && s.Status.FinishedAt != nil &&
					s.Status.FindingDownloadLink != "" && s.Status.RawResultFile == "result"
			})
			Expect(hookStates(got)).To(BeComparableTo([][]string{{"reads Completed"}}), "hooks of %s", s.Name)
			Expect(findings(ctx, got)).To(HaveLen(2), "Scan %s has lost findings", s.Name)
			wantJobs(s, "scanner", "parser", "read-only-hook/reads")
		}
	})
})

// statusOfDefectDojo are the fields of status that the model of secureCodeBox's
// DefectDojo hook knows; all others are gone after it has written.
var statusOfDefectDojo = []string{
	"errorDescription", "findingDownloadLink", "findingHeadLink", "findings", "finishedAt", "orderedHookStatuses", "rawResultDownloadLink",
	"rawResultFile", "rawResultHeadLink", "rawResultType", "readAndWriteHookStatus", "state",
}

// replacer replaces the whole status of Scans, unguarded and with what it read a
// moment before, each time their state changes: what the DefectDojo hook does once.
type replacer struct {
	ctx  context.Context
	seed uint64

	mu     sync.Mutex
	seen   map[string]bool
	writes int
	work   sync.WaitGroup
}

func (r *replacer) onScan(s *executionv1.Scan, there bool) {
	key := string(s.UID) + string(s.Status.State)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !there || s.Status.State == "" || r.seen[key] {
		return
	}
	r.seen[key] = true
	n := uint64(len(r.seen))
	r.work.Go(func() {
		// Some write at once, some what they read up to 300 ms ago.
		delay := time.Duration(rand.New(rand.NewPCG(r.seed, n)).IntN(4)) * 100 * time.Millisecond
		r.replace(s.Namespace, s.Name, delay)
	})
}

func (r *replacer) replace(namespace, name string, delay time.Duration) {
	defer GinkgoRecover()
	ctx := context.WithoutCancel(r.ctx)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)).To(Succeed())
	status, _, err := unstructured.NestedMap(u.Object, "status")
	Expect(err).NotTo(HaveOccurred(), "read status")
	kept := map[string]any{}
	for _, f := range statusOfDefectDojo {
		if v, ok := status[f]; ok {
			kept[f] = v
		}
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/status", "value": kept}})
	Expect(err).NotTo(HaveOccurred(), "encode patch")
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	}
	Expect(w.admin.Status().Patch(ctx, u, client.RawPatch(types.JSONPatchType, patch))).To(Succeed(), "replace status")
	r.mu.Lock()
	r.writes++
	r.mu.Unlock()
}
