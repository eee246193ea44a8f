// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/internal/release"
	"github.com/scanyard/scanyard/forwarding/internal/results"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/settings"
)

// Reports deletes the reports of a Scan from the reports API.
type Reports interface {
	Delete(ctx context.Context, namespace, uid string) error
}

const (
	releasers = 2
	// maxSteps is more than a Scan with as many sinks as there can be needs.
	maxSteps = 100

	eventRemoved = "ResultsRemoved"
	eventKept    = "ResultsKept"
)

// releaser has the results of Scans removed that every sink has. It has workers of its own: a far end that does not answer
// keeps nobody from looking at Scans.
type releaser struct {
	f *Follower

	mutex sync.Mutex
	// compared are the Scans that were kept as the newest of their target: a later run lets them go.
	compared map[runsKey]map[types.NamespacedName]bool
	again    chan event.GenericEvent
	seen     bool // the refusals of before the start are known
}

type runsKey struct{ namespace, scanType string }

// setupReleases adds the releaser to a manager.
func (f *Follower) setupReleases(mgr ctrl.Manager) error {
	r := &releaser{f: f, compared: map[runsKey]map[types.NamespacedName]bool{}, again: make(chan event.GenericEvent, 1024)}
	changed := builder.WithPredicates(settingChanged())
	return ctrl.NewControllerManagedBy(mgr).Named("releases").For(&executionv1.Scan{}).
		Watches(&settingsv1alpha2.ClusterScanSetting{}, f.scansOf(func(client.Object) string { return "" }), changed).
		Watches(&settingsv1alpha2.ScanSetting{}, f.scansOf(client.Object.GetNamespace), changed).
		WatchesRawSource(source.Channel(r.again, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: releasers}).Complete(r)
}

// Reconcile takes the results of one Scan through all steps, as far as they go now.
func (r *releaser) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	evidence := release.Evidence{Probed: map[string]bool{}, Proofs: map[string]sink.Verdict{}}
	var reader client.Reader = r.f.o.Client
	for range maxSteps {
		o, err := r.observe(ctx, reader, request.NamespacedName, evidence)
		if err != nil || o == nil {
			return ctrl.Result{}, err
		}
		d := release.Next(o)
		switch d.Step {
		case release.None:
			return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
		case release.Keep:
			return r.keep(ctx, o, d)
		case release.Done:
			r.done(o)
			return ctrl.Result{}, nil
		case release.Probe, release.Prove, release.Ask, release.DeleteReports, release.Release:
			reader = r.f.o.Live // from here on nothing counts that is not so now
			if err := r.step(ctx, o, d, &evidence); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
		}
	}
	return ctrl.Result{RequeueAfter: settleTime}, nil
}

// observe reads everything anew; nil: the Scan is gone, or no settings let its results go.
func (r *releaser) observe(ctx context.Context, reader client.Reader, key types.NamespacedName, evidence release.Evidence) (*release.Observation, error) {
	f := r.f
	scan := &executionv1.Scan{}
	if err := reader.Get(ctx, key, scan); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !scan.Settled() {
		return nil, nil
	}
	mode, err := f.modeOf(ctx, key.Namespace)
	if err != nil || mode == "" || mode == settingsv1alpha2.AfterForwardingKeep {
		return nil, err
	}
	sinks, err := f.effective(ctx, key.Namespace)
	if err != nil {
		return nil, err
	}
	if err := r.learnRefusals(ctx); err != nil {
		return nil, err
	}
	counts := f.counts()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	o := &release.Observation{Now: f.o.Clock.Now(), Scan: scan, Mode: mode, Allowed: f.o.Reports != nil, Keys: f.keys, Evidence: evidence}
	for i := range sinks {
		one := release.Sink{Sink: sinks[i], OldestPending: counts[sinks[i].ID].oldest, Refused: f.refused[sinks[i].ID]}
		if s := f.sinks[one.ID]; s != nil {
			one.Health = s.health
		}
		o.Sinks = append(o.Sinks, one)
	}
	return o, nil
}

// modeOf is what the settings of a namespace say of results that were forwarded.
func (f *Follower) modeOf(ctx context.Context, namespace string) (settingsv1alpha2.AfterForwarding, error) {
	in, _, _, err := f.inForce(ctx, namespace)
	if err != nil {
		return "", err
	}
	// Which sinks there are depends on labels; what becomes of results does not.
	space := &corev1.Namespace{}
	if _, err := f.get(ctx, types.NamespacedName{Name: namespace}, space); err != nil {
		return "", err
	}
	in.Labels = space.Labels
	return settings.Compute(in).Forwarding.AfterForwarding, nil
}

// learnRefusals notes once, after a start, when sinks have refused records before.
func (r *releaser) learnRefusals(ctx context.Context) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.seen {
		return nil
	}
	list := &executionv1.ScanList{}
	if err := r.f.o.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	r.f.mutex.Lock()
	defer r.f.mutex.Unlock()
	for i := range list.Items {
		for _, p := range list.Items[i].Status.Forwarding {
			if p.DeadLetters > 0 && p.CompletedAt != nil && p.CompletedAt.After(r.f.refused[p.Sink]) {
				r.f.refused[p.Sink] = p.CompletedAt.Time
			}
		}
	}
	r.seen = true
	return nil
}

// step does one step, and notes what it has shown.
func (r *releaser) step(ctx context.Context, o *release.Observation, d release.Decision, evidence *release.Evidence) error {
	switch d.Step {
	case release.Probe:
		evidence.Probed[d.Sink] = true
		r.f.probeOnce(ctx, d.Sink)
	case release.Prove:
		held, err := r.f.proof(ctx, d.Sink, o.Scan)
		if err != nil {
			return err
		}
		evidence.Proofs[d.Sink] = held
	case release.Ask:
		var err error
		evidence.Agreed, err = r.ask(ctx, o, true, evidence)
		return err
	case release.DeleteReports:
		if err := r.f.o.Reports.Delete(ctx, o.Scan.Namespace, string(o.Scan.UID)); err != nil {
			return err
		}
		evidence.ReportsDeleted = true
	case release.Release:
		var err error
		evidence.Released, err = r.ask(ctx, o, false, evidence)
		return err
	case release.None, release.Keep, release.Done:
	}
	return nil
}

// ask asks the operator. Its refusal is evidence; that it does not answer is an error.
func (r *releaser) ask(ctx context.Context, o *release.Observation, dryRun bool, evidence *release.Evidence) (bool, error) {
	answer, err := r.f.o.Results.Release(ctx, release.Request(o, dryRun))
	if refused, ok := errors.AsType[*results.RefusedError](err); ok && refused.Final() {
		evidence.Refusal = &refused.Refusal
		return false, nil
	}
	return err == nil && (dryRun || answer.Released), err
}

// keep says on the Scan that its results are kept, and why, where that is news.
func (r *releaser) keep(ctx context.Context, o *release.Observation, d release.Decision) (ctrl.Result, error) {
	if d.Reason == executionv1.ReasonKeptForComparison {
		r.later(ctx, o.Scan)
	}
	condition := metav1.Condition{Type: executionv1.ConditionResultsStored, Status: metav1.ConditionTrue, Reason: d.Reason, Message: d.Message}
	present := plan.Find(o.Scan.Status.Conditions, condition.Type)
	if present != nil && present.Status == condition.Status && present.Reason == condition.Reason && present.Message == condition.Message {
		return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.Scan.ResourceVersion},
		"status":   map[string]any{"conditions": plan.WithCondition(o.Scan, condition, o.Now)},
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.f.o.Client.Status().Patch(ctx, scanAt(client.ObjectKeyFromObject(o.Scan)), client.RawPatch(types.MergePatchType, raw)); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ctrl.Result{RequeueAfter: settleTime}, nil
		}
		return ctrl.Result{}, err
	}
	if o.Evidence.ReportsDeleted {
		r.f.tell(o.Scan, []plan.Event{{Warning: true, Reason: eventKept, Message: d.Message}})
	}
	return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
}

// done counts and tells.
func (r *releaser) done(o *release.Observation) {
	asked := release.Request(o, false)
	r.f.o.Metrics.released.Inc()
	r.f.tell(o.Scan, []plan.Event{{Reason: eventRemoved, Message: release.Told(&asked)}})
}

// later notes a Scan that is kept as the newest of its target, and has those looked at that were kept for that before.
func (r *releaser) later(ctx context.Context, scan *executionv1.Scan) {
	key, name := runsKey{scan.Namespace, scan.Spec.ScanType}, client.ObjectKeyFromObject(scan)
	r.mutex.Lock()
	known := r.compared[key]
	isNew := !known[name]
	var others []types.NamespacedName
	for other := range known {
		if other != name {
			others = append(others, other)
		}
	}
	if known == nil {
		known = map[types.NamespacedName]bool{}
		r.compared[key] = known
	}
	if isNew {
		clear(known) // whoever is still the newest comes back
	}
	known[name] = true
	r.mutex.Unlock()
	if !isNew {
		return
	}
	go func() {
		for _, other := range others {
			select {
			case <-ctx.Done():
				return
			case r.again <- event.GenericEvent{Object: scanAt(other)}:
			}
		}
	}()
}

// probeOnce asks a sink whether it would take records. One that does not is probed until it does.
func (f *Follower) probeOnce(ctx context.Context, id string) {
	f.mutex.Lock()
	s := f.sinks[id]
	f.mutex.Unlock()
	if s == nil {
		return
	}
	failure := f.ask(ctx, s)
	if ctx.Err() != nil {
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	switch {
	case f.sinks[id] != s:
	case failure != nil:
		f.fails(ctx, s, failure)
	default:
		f.answered(ctx, s)
	}
}

// proof asks a sink what it holds of a Scan. Nothing is proved by a sink that cannot say.
func (f *Follower) proof(ctx context.Context, id string, scan *executionv1.Scan) (sink.Verdict, error) {
	f.mutex.Lock()
	s := f.sinks[id]
	f.mutex.Unlock()
	if s == nil {
		return sink.Verdict{}, errChanged
	}
	c, err := f.use(s)
	if err != nil {
		return sink.Verdict{}, err
	}
	defer f.release(c)
	prover, can := c.sink.(sink.Prover)
	if !can {
		return sink.Verdict{}, nil
	}
	within, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	held, err := prover.Proof(within, mapping.StreamOf(f.o.ClusterID, scan))
	if err != nil {
		f.probeOnce(ctx, id) // the sink may have failed, which everybody is to know
		return sink.Verdict{}, err
	}
	return held, nil
}

// noteRefusals remembers when a sink last refused a record.
func (f *Follower) noteRefusals(id string, before, after int64, now time.Time) {
	if after <= before {
		return
	}
	f.mutex.Lock()
	f.refused[id] = now
	f.mutex.Unlock()
}
