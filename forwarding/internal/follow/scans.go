// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/internal/turns"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Reconcile looks at one Scan.
func (f *Follower) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	scan := &executionv1.Scan{}
	if err := f.o.Client.Get(ctx, request.NamespacedName, scan); err != nil {
		if apierrors.IsNotFound(err) {
			f.forget(ctx, request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	sinks, err := f.effective(ctx, request.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := f.decide(ctx, scan, sinks)
	f.wake()
	if d.Status == nil {
		return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
	}
	if err := f.write(ctx, scan, d.Status); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ctrl.Result{RequeueAfter: settleTime}, nil // it is looked at again as it is now
		}
		return ctrl.Result{}, err
	}
	f.mutex.Lock()
	if k := f.scans[scan.UID]; k != nil {
		k.written = f.o.Clock.Now()
	}
	f.mutex.Unlock()
	f.tell(scan, d.Events)
	return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
}

// decide puts what is known together, decides, and gives what is due a place in the turns.
func (f *Follower) decide(ctx context.Context, scan *executionv1.Scan, sinks []plan.Sink) plan.Decision {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	key := client.ObjectKeyFromObject(scan)
	if uid, ok := f.uids[key]; ok && uid != scan.UID {
		f.drop(ctx, uid) // deleted and made again under its name
	}
	for i := range sinks {
		if s := f.sinks[sinks[i].ID]; s != nil {
			sinks[i].Health = s.health
		}
	}
	k := f.scans[scan.UID]
	o := plan.Observation{Now: f.o.Clock.Now(), Scan: scan, Sinks: sinks, Keys: f.keys}
	if k != nil {
		o.Progress, o.PendingSince, o.Written = k.progress, k.since, k.written
	}
	d := plan.Decide(o)
	if len(d.Pending) == 0 && k == nil {
		return d
	}
	if k == nil {
		k = &known{key: key, progress: map[string]plan.Progress{}, since: o.Now}
		f.scans[scan.UID], f.uids[key] = k, scan.UID
	}
	if more := d.Forged - k.forged; more > 0 {
		f.o.Metrics.forged.Add(float64(more)) // each look sees them until the status is written
	}
	k.forged = d.Forged
	f.enqueue(ctx, scan.UID, k, &d)
	if len(d.Pending) == 0 && d.Status == nil {
		f.drop(ctx, scan.UID) // everything is written down
	}
	return d
}

func (f *Follower) enqueue(ctx context.Context, uid types.UID, k *known, d *plan.Decision) {
	before := k.pending
	k.ended, k.due, k.pending = d.Ended, map[string]plan.Due{}, map[string]bool{}
	for _, id := range d.Pending {
		k.pending[id] = true
	}
	for _, due := range d.Due {
		id := due.Sink.ID
		k.due[id] = due
		f.turns.Add(turns.Task{Sink: id, Namespace: k.key.Namespace, UID: string(uid)}, d.Ended)
	}
	for id := range before {
		if _, due := k.due[id]; !due {
			f.turns.Remove(turns.Task{Sink: id, Namespace: k.key.Namespace, UID: string(uid)})
			f.idle(ctx, id)
		}
	}
}

// write patches what the forwarder has of the status, as it was read.
func (f *Follower) write(ctx context.Context, scan *executionv1.Scan, status *plan.Status) error {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": scan.ResourceVersion},
		"status":   map[string]any{"forwarding": status.Forwarding, "conditions": status.Conditions},
	})
	if err != nil {
		return err
	}
	target := scanAt(client.ObjectKeyFromObject(scan))
	if err := f.o.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return err
	}
	if len(target.Status.Forwarding) != len(status.Forwarding) || plan.Forwarded(target) == nil {
		return errNotStored
	}
	return nil
}

// errNotStored: admission has let the request pass, but not what it says.
var errNotStored = errors.New("the API server has not stored status.forwarding: name the forwarder's account in resultsEndpoint.account of charts/scanyard, " +
	"or in statusPolicy.exempt where the policy is another operator's")

func (f *Follower) tell(about client.Object, list []plan.Event) {
	for _, e := range list {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		f.o.Events.Eventf(about, nil, kind, e.Reason, "Forward", "%s", e.Message)
	}
}

// counts says of each sink how many Scans wait for it, and since when the oldest of them does.
func (f *Follower) counts() map[string]waiting {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	counts := map[string]waiting{}
	for _, k := range f.scans {
		for id := range k.pending {
			w := counts[id]
			w.scans++
			if failure := k.progress[id].Failure; failure != nil && failure.Reason == sink.Incomplete {
				w.incomplete++
			}
			if w.oldest.IsZero() || k.ended.Before(w.oldest) {
				w.oldest = k.ended
			}
			counts[id] = w
		}
	}
	return counts
}

type waiting struct {
	scans, incomplete int
	oldest            time.Time
}

// deadLetters counts the records that sinks have refused, by sink and namespace, as the Scans say.
func (f *Follower) deadLetters(ctx context.Context) map[string]map[string]int64 {
	counts := map[string]map[string]int64{}
	list := &executionv1.ScanList{}
	if err := f.o.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return counts // the cache is not filled yet
	}
	for i := range list.Items {
		for _, e := range list.Items[i].Status.Forwarding {
			if e.DeadLetters == 0 {
				continue
			}
			if counts[e.Sink] == nil {
				counts[e.Sink] = map[string]int64{}
			}
			counts[e.Sink][list.Items[i].Namespace] += e.DeadLetters
		}
	}
	return counts
}

// ids are the sinks that are known, sorted.
func (f *Follower) ids() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Sorted(maps.Keys(f.sinks))
}
