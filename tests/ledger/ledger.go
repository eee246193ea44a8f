// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Ledger remembers Jobs. The zero Ledger is empty and ready to use.
type Ledger struct {
	mu   sync.Mutex
	uids map[types.UID]map[string]map[types.UID]bool
}

// Add takes note of a Job; it is what a watch of Jobs calls.
func (l *Ledger) Add(j *batchv1.Job, _ bool) {
	scan, role := ScanOf(j), Role(j)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uids == nil {
		l.uids = map[types.UID]map[string]map[types.UID]bool{}
	}
	if l.uids[scan] == nil {
		l.uids[scan] = map[string]map[types.UID]bool{}
	}
	if l.uids[scan][role] == nil {
		l.uids[scan][role] = map[types.UID]bool{}
	}
	l.uids[scan][role][j.UID] = true
}

// ScanOf is the UID of the Scan of a Job: its owner, or, for one in another namespace,
// what its label says.
func ScanOf(j *batchv1.Job) types.UID {
	if c := metav1.GetControllerOf(j); c != nil {
		return c.UID
	}
	return types.UID(j.Labels[executionv1.LabelScanUID])
}

// Role is the phase of a Job, for hooks with the hook's name: "scanner",
// "read-only-hook/notify".
func Role(j *batchv1.Job) string {
	return strings.TrimSuffix(j.Labels[executionv1.LabelJobType]+"/"+j.Labels[executionv1.LabelHookName], "/")
}

// Of returns how many Jobs a Scan has had, by role.
func (l *Ledger) Of(scan types.UID) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for role, uids := range l.uids[scan] {
		out[role] = len(uids)
	}
	return out
}

// Check returns an error unless a Scan has had one Job of each role, and no others.
func (l *Ledger) Check(s *executionv1.Scan, roles ...string) error {
	want := map[string]int{}
	for _, r := range roles {
		want[r] = 1
	}
	if got := l.Of(s.UID); !maps.Equal(got, want) {
		return fmt.Errorf("scan %s has had Jobs %v, want one each of %v", s.Name, got, slices.Sorted(maps.Keys(want)))
	}
	return nil
}
