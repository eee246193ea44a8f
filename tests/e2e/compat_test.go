// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/scans"
)

// TestTrapT1UpstreamParserInClusterMode: parser images of secureCodeBox insist on the
// namespaced ParseDefinition in every mode. It comes with the first Scan that needs
// it, and goes with the last.
func TestTrapT1UpstreamParserInClusterMode(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	resultType := "upstream-" + ns
	createGlobal(t,
		&executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: shellSpec(resultType)},
		&executionv1.ClusterParseDefinition{ObjectMeta: metav1.ObjectMeta{Name: resultType}, Spec: executionv1.ParseDefinitionSpec{Image: "docker.io/e2e/upstream-parser"}})
	run := func(name string) *executionv1.Scan {
		return done(t, onlyHooks(scans.NewClusterWide(ns, name, ns, "printf upstream >"+resultPath), ""))
	}
	one, two := run("one"), run("two")
	for _, s := range []*executionv1.Scan{one, two} {
		all := findings(t, s)
		wantStats(t, s, all)
		if diff := cmp.Diff(map[string]int64{"Upstream": 1}, categories(all)); diff != "" {
			t.Errorf("categories (-want +got):\n%s", diff)
		}
		wantJobs(t, s, "scanner", "parser")
	}
	// A Scan of the namespace itself must not take the copy for an installed parser.
	kind := shellType(ns, resultType)
	create(t, kind)
	troubled(t, shellScan(ns, "local", quick), executionv1.ReasonParseDefinitionNotFound, resultType)
	copied := &executionv1.ParseDefinition{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: resultType}, copied); err != nil {
		t.Fatalf("the namespaced copy: %v", err)
	}
	for _, s := range []*executionv1.Scan{one, two} {
		if err := w.admin.Delete(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, copied)
}

// TestUpstreamParserInNamespace: the same image, as it is used today.
func TestUpstreamParserInNamespace(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	p := parser(ns, "upstream")
	p.Spec.Image = "docker.io/e2e/upstream-parser"
	create(t, shellType(ns, "upstream"), p)
	got := done(t, shellScan(ns, "today", "printf upstream >"+resultPath))
	wantStats(t, got, findings(t, got))
}

// statusOfDefectDojo are the fields of status that the model of secureCodeBox's
// DefectDojo hook knows; all others are gone after it has written.
var statusOfDefectDojo = []string{
	"errorDescription", "findingDownloadLink", "findingHeadLink", "findings", "finishedAt", "orderedHookStatuses", "rawResultDownloadLink",
	"rawResultFile", "rawResultHeadLink", "rawResultType", "readAndWriteHookStatus", "state",
}

// replacer replaces the whole status of Scans, unguarded and with what it read a
// moment before, each time their state changes: what the DefectDojo hook does once.
type replacer struct {
	t    *testing.T
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
	ctx := context.WithoutCancel(r.t.Context())
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	if err := w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u); err != nil {
		r.t.Errorf("get Scan: %v", err)
		return
	}
	status, _, err := unstructured.NestedMap(u.Object, "status")
	if err != nil {
		r.t.Errorf("read status: %v", err)
		return
	}
	kept := map[string]any{}
	for _, f := range statusOfDefectDojo {
		if v, ok := status[f]; ok {
			kept[f] = v
		}
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/status", "value": kept}})
	if err != nil {
		r.t.Errorf("encode patch: %v", err)
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	}
	if err := w.admin.Status().Patch(ctx, u, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		r.t.Errorf("replace status: %v", err)
		return
	}
	r.mu.Lock()
	r.writes++
	r.mu.Unlock()
}

// TestDefect66WholeStatusReplaced (trap T4): another client replaces the status of 50 Scans at
// every step. Each ends Done, each phase runs once, and the status is whole again.
// Counters are not held against the stored findings here: they are the parser's, and
// a stale replace takes them back to what it had read.
func TestDefect66WholeStatusReplaced(t *testing.T) {
	t.Parallel()
	const n = 50
	ns := prepared(t, hook("", "reads", "ok", executionv1.ReadOnly, 0))
	r := &replacer{t: t, seed: uint64(time.Now().UnixNano()), seen: map[string]bool{}}
	t.Logf("seed %d", r.seed)
	f := follow.Start(t.Context(), w.admin, &executionv1.ScanList{}, r.onScan, client.InNamespace(ns))
	var all []*executionv1.Scan
	for i := range n {
		s := shellScan(ns, fmt.Sprintf("scan-%02d", i), quick)
		create(t, s)
		all = append(all, s)
	}
	for _, s := range all {
		got := until(t, s, "end with its conditions", func(s *executionv1.Scan) bool {
			return s.Settled() && scans.Ready(s).Reason != "" && s.Status.ObservedGeneration > 0
		})
		if got.Status.State != executionv1.ScanStateDone {
			t.Errorf("Scan %s ended %s: %s", s.Name, got.Status.State, got.Status.ErrorDescription)
		}
		wantJobs(t, s, "scanner", "parser", "read-only-hook/reads")
	}
	f.Stop()
	r.work.Wait()
	if r.writes < 2*n {
		t.Errorf("the status was replaced %d times only", r.writes)
	}
	for _, s := range all {
		got := until(t, s, "be whole again", func(s *executionv1.Scan) bool {
			return s.Status.State == executionv1.ScanStateDone && scans.Ready(s).Reason == executionv1.ReasonCompleted && s.Status.FinishedAt != nil &&
				s.Status.FindingDownloadLink != "" && s.Status.RawResultFile == "result"
		})
		if diff := cmp.Diff([][]string{{"reads Completed"}}, hookStates(got)); diff != "" {
			t.Errorf("hooks of %s (-want +got):\n%s", s.Name, diff)
		}
		if len(findings(t, got)) != 2 {
			t.Errorf("Scan %s has lost findings", s.Name)
		}
		wantJobs(t, s, "scanner", "parser", "read-only-hook/reads")
	}
}
