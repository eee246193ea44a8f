// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// annotationTarget keeps, in the cache only, the target of a Scan that is Done: what it is
// made of is not kept.
const annotationTarget = "cache.scanyard.io/target"

// targetDigits of a hash tell targets apart.
const targetDigits = 24

// targetOf names what a Scan scans, with what: two Scans of one target can be compared. It
// is the resource mode and the scan type with, where the Scan has it, the label
// scanyard.io/target, else all of the spec that says what is looked at: many scan types have
// their target not in the parameters but in what an init container fetches.
func targetOf(s *executionv1.Scan) string {
	if s.Spec.Parameters == nil && s.Annotations[annotationTarget] != "" {
		return s.Annotations[annotationTarget] // stripScan has left nothing else
	}
	identity := struct {
		Mode           executionv1.ResourceMode
		ScanType       string
		Label          *string
		Parameters     []string
		Env            []corev1.EnvVar
		InitContainers []corev1.Container
		Volumes        []corev1.Volume
		Mounts         []corev1.VolumeMount
	}{Mode: s.Mode(), ScanType: s.Spec.ScanType}
	if label, ok := s.Labels[executionv1.LabelTarget]; ok {
		identity.Label = &label
	} else {
		identity.Parameters, identity.Env, identity.InitContainers = s.Spec.Parameters, s.Spec.Env, s.Spec.InitContainers
		identity.Volumes, identity.Mounts = s.Spec.Volumes, s.Spec.VolumeMounts
	}
	text, err := json.Marshal(identity)
	if err != nil {
		return "" // such as a quantity that was never one; the Scan is compared with nothing
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:targetDigits]
}

// lineage knows the Scans of each target that are Done, oldest first. It is fed by the
// watch of Scans, so that a question costs no more where there are a hundred thousand.
type lineage struct {
	mu      sync.Mutex
	runs    map[lineageKey][]store.Owner
	targets map[types.UID]lineageKey
	synced  toolscache.InformerSynced
}

type lineageKey struct{ namespace, target string }

func newLineage() *lineage {
	return &lineage{runs: map[lineageKey][]store.Owner{}, targets: map[types.UID]lineageKey{}}
}

// watch feeds the lineage from the cache.
func (l *lineage) watch(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &executionv1.Scan{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(queue.Following(l.see, func(s *executionv1.Scan) { l.forget(s.UID) }))
	if err != nil {
		return fmt.Errorf("watch Scans for their targets: %w", err)
	}
	l.synced = registration.HasSynced
	return nil
}

// see takes note of a Scan as it is now. What is not Done, or is about to go, is nothing to
// compare with.
func (l *lineage) see(s *executionv1.Scan) {
	if s.Status.State != executionv1.ScanStateDone || !s.DeletionTimestamp.IsZero() {
		l.forget(s.UID)
		return
	}
	key := lineageKey{s.Namespace, targetOf(s)}
	owner := store.OwnerOf(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.targets[s.UID]; ok {
		if was == key {
			return
		}
		l.drop(s.UID, was) // its label has changed
	}
	if key.target == "" {
		return
	}
	runs := l.runs[key]
	at, _ := slices.BinarySearchFunc(runs, owner, byCreation)
	l.runs[key] = slices.Insert(runs, at, owner)
	l.targets[s.UID] = key
}

func byCreation(a, b store.Owner) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
}

func (l *lineage) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key, ok := l.targets[uid]; ok {
		l.drop(uid, key)
	}
}

func (l *lineage) drop(uid types.UID, key lineageKey) {
	delete(l.targets, uid)
	runs := slices.DeleteFunc(l.runs[key], func(o store.Owner) bool { return o.UID == uid })
	if len(runs) == 0 {
		delete(l.runs, key)
		return
	}
	l.runs[key] = runs
}

var errNoLineage = errors.New("the cache of Scans is not complete yet")

// before returns the Scan of the same target, namespace and mode that was created last
// before a Scan and is Done; false where there is none.
func (l *lineage) before(ctx context.Context, s *executionv1.Scan) (store.Owner, bool, error) {
	if l.synced != nil && !toolscache.WaitForCacheSync(ctx.Done(), l.synced) {
		return store.Owner{}, false, errNoLineage
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	runs := l.runs[lineageKey{s.Namespace, targetOf(s)}]
	// Neither of two runs of one second is before the other.
	at, _ := slices.BinarySearchFunc(runs, s.CreationTimestamp.Time, func(o store.Owner, t time.Time) int { return o.CreationTimestamp.Compare(t) })
	if at == 0 {
		return store.Owner{}, false, nil
	}
	return runs[at-1], true, nil
}
