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
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// annotationTarget keeps, in the cache only, the target of a Scan that is Done: the cache does not
// keep the fields from which the target is computed.
const annotationTarget = "cache.scanyard.io/target"

// targetDigits is how many digits of a hash identify a target.
const targetDigits = 24

// TargetOf identifies what a Scan scans and by which means: two Scans of one target can be compared.
// The target is the resource mode and the scan type and, if the Scan has it, the label
// scanyard.io/target, else the whole part of the spec that decides what is scanned: many scan types
// have their target not in the parameters but in what an init container fetches.
func TargetOf(s *executionv1.Scan) string {
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
		return "" // such as an invalid quantity; the Scan is compared with no other
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:targetDigits]
}

// previousRuns lists the Scans of each target that are Done, oldest first. The watch of Scans keeps
// the list, so that a lookup costs no more with a hundred thousand Scans.
type previousRuns struct {
	mu      sync.Mutex
	runs    map[runsKey][]store.Owner
	targets map[types.UID]runsKey
	synced  toolscache.InformerSynced
}

type runsKey struct{ namespace, target string }

func newPreviousRuns() *previousRuns {
	return &previousRuns{runs: map[runsKey][]store.Owner{}, targets: map[types.UID]runsKey{}}
}

// watch keeps the list by the cache's events.
func (p *previousRuns) watch(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &executionv1.Scan{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(queue.Following(p.see, func(s *executionv1.Scan) { p.forget(s.UID) }))
	if err != nil {
		return fmt.Errorf("watch Scans for their targets: %w", err)
	}
	p.synced = registration.HasSynced
	return nil
}

// isComparable reports whether a Scan has findings that hooks of later runs may be compared with. A Scan that is not Done, is
// being deleted, or whose results were removed after they were forwarded, has none.
func isComparable(s *executionv1.Scan) bool {
	return s.Status.State == executionv1.ScanStateDone && s.DeletionTimestamp.IsZero() && !life.HasReleaseAnnotation(s)
}

// see notes a Scan in its present version.
func (p *previousRuns) see(s *executionv1.Scan) {
	if !isComparable(s) {
		p.forget(s.UID)
		return
	}
	key := runsKey{s.Namespace, TargetOf(s)}
	owner := store.OwnerOf(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if was, ok := p.targets[s.UID]; ok {
		if was == key {
			return
		}
		p.drop(s.UID, was) // its label has changed
	}
	if key.target == "" {
		return
	}
	runs := p.runs[key]
	at, _ := slices.BinarySearchFunc(runs, owner, byCreation)
	p.runs[key] = slices.Insert(runs, at, owner)
	p.targets[s.UID] = key
}

func byCreation(a, b store.Owner) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
}

func (p *previousRuns) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key, ok := p.targets[uid]; ok {
		p.drop(uid, key)
	}
}

func (p *previousRuns) drop(uid types.UID, key runsKey) {
	delete(p.targets, uid)
	runs := slices.DeleteFunc(p.runs[key], func(o store.Owner) bool { return o.UID == uid })
	if len(runs) == 0 {
		delete(p.runs, key)
		return
	}
	p.runs[key] = runs
}

var errRunsUnknown = errors.New("the cache of Scans is not complete yet")

// before returns the Scan of the same target, namespace and mode that was created last before a
// Scan and is Done; false if there is none.
func (p *previousRuns) before(ctx context.Context, s *executionv1.Scan) (store.Owner, bool, error) {
	if p.synced != nil && !toolscache.WaitForCacheSync(ctx.Done(), p.synced) {
		return store.Owner{}, false, errRunsUnknown
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := p.runs[runsKey{s.Namespace, TargetOf(s)}]
	// Of two runs created in the same second neither is before the other.
	at, _ := slices.BinarySearchFunc(runs, s.CreationTimestamp.Time, func(o store.Owner, t time.Time) int { return o.CreationTimestamp.Compare(t) })
	if at == 0 {
		return store.Owner{}, false, nil
	}
	return runs[at-1], true, nil
}

// newest returns the Scan of a target that was created last, is Done and has its findings; false where there is none.
func (p *previousRuns) newest(ctx context.Context, s *executionv1.Scan) (store.Owner, bool, error) {
	if p.synced != nil && !toolscache.WaitForCacheSync(ctx.Done(), p.synced) {
		return store.Owner{}, false, errRunsUnknown
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := p.runs[runsKey{s.Namespace, TargetOf(s)}]
	if len(runs) == 0 {
		return store.Owner{}, false, nil
	}
	return runs[len(runs)-1], true, nil
}
