// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/settings"
)

// settingsReconciler says in settings how their sinks are doing.
type settingsReconciler struct {
	f *Follower
	// cluster is true for the ClusterScanSetting.
	cluster bool
	written map[types.NamespacedName]time.Time // by one worker
}

// Reconcile looks at the sinks of one setting.
func (r *settingsReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Name != settingsv1alpha2.Name {
		return ctrl.Result{}, nil
	}
	if err := r.f.forgetSinks(ctx); err != nil {
		return ctrl.Result{}, err
	}
	object, s, err := r.read(ctx, request.NamespacedName)
	if err != nil || object == nil {
		delete(r.written, request.NamespacedName)
		return ctrl.Result{}, err
	}
	s.Now, s.Created, s.Generation, s.Written = r.f.o.Clock.Now(), object.GetCreationTimestamp().Time, object.GetGeneration(), r.written[request.NamespacedName]
	d := plan.DecideSetting(s)
	if !d.Write {
		return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": object.GetResourceVersion()}, "status": map[string]any{"sinks": d.Sinks, "conditions": d.Conditions},
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.f.o.Client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, raw)); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ctrl.Result{RequeueAfter: settleTime}, nil
		}
		return ctrl.Result{}, err
	}
	r.written[request.NamespacedName] = s.Now
	r.f.tell(object, d.Events)
	return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
}

// read gives the setting and its sinks; nil: the setting is gone.
func (r *settingsReconciler) read(ctx context.Context, key types.NamespacedName) (client.Object, plan.Setting, error) {
	in, cluster, own, err := r.f.inForce(ctx, key.Namespace)
	if err != nil {
		return nil, plan.Setting{}, err
	}
	if r.cluster {
		if cluster == nil {
			return nil, plan.Setting{}, nil
		}
		s := plan.Setting{Status: cluster.Status.Sinks, Conditions: cluster.Status.Conditions}
		var sinks []settingsv1alpha2.NamedClusterSink
		if in.Cluster != nil {
			sinks = in.Cluster.ResultForwarding.All()
		}
		s.Sinks, s.PendingOf = r.f.facts(ctx, sinks, "", nil)
		return cluster, s, nil
	}
	if own == nil {
		return nil, plan.Setting{}, nil
	}
	s := plan.Setting{Status: own.Status.Sinks, Conditions: own.Status.Conditions}
	outOfBounds := map[string]string{}
	for _, e := range settings.Compute(in).Forwarding.Sinks {
		if e.Namespace != "" {
			outOfBounds[e.Name] = e.OutOfBounds
		}
	}
	var sinks []settingsv1alpha2.NamedClusterSink
	if in.Setting != nil {
		sinks = in.Setting.ResultForwarding.All()
	}
	s.Sinks, s.PendingOf = r.f.facts(ctx, sinks, key.Namespace, outOfBounds)
	return own, s, nil
}

// facts is what is known of the sinks of one setting.
func (f *Follower) facts(
	ctx context.Context, sinks []settingsv1alpha2.NamedClusterSink, namespace string, outOfBounds map[string]string,
) ([]plan.SinkFacts, func(string) int) {
	id := func(name string) string { return settings.SinkID(namespace, name) }
	counts, dead := f.counts(), f.deadLetters(ctx)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var facts []plan.SinkFacts
	for i := range sinks {
		one := plan.SinkFacts{Name: sinks[i].Name, Provider: sinks[i].Provider, OutOfBounds: outOfBounds[sinks[i].Name]}
		if s := f.sinks[id(one.Name)]; s != nil {
			one.Health, one.Proving = s.health, s.proving
		}
		w := counts[id(one.Name)]
		one.Pending, one.Oldest = w.scans, w.oldest
		for _, n := range dead[id(one.Name)] {
			one.DeadLetters += n
		}
		facts = append(facts, one)
	}
	return facts, func(name string) int { return counts[id(name)].scans }
}

// forgetSinks closes the sinks that no setting has any longer.
func (f *Follower) forgetSinks(ctx context.Context) error {
	known := map[string]bool{}
	in, _, _, err := f.inForce(ctx, "")
	if err != nil {
		return err
	}
	if in.Cluster != nil {
		for _, s := range in.Cluster.ResultForwarding.All() {
			known[settings.SinkID("", s.Name)] = true
		}
	}
	list := &settingsv1alpha2.ScanSettingList{}
	if err := f.o.Client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		for _, s := range list.Items[i].Spec.ResultForwarding.All() {
			known[settings.SinkID(list.Items[i].Namespace, s.Name)] = true
		}
	}
	f.part(known)
	return nil
}

// lookAtSettings has the setting looked at that a sink is of.
func (f *Follower) lookAtSettings(ctx context.Context, id string) {
	meta := metav1.ObjectMeta{Namespace: settings.SinkNamespace(id), Name: settingsv1alpha2.Name}
	to := f.settingEvents
	if meta.Namespace == "" {
		to = f.clusterEvents
	}
	select {
	case <-ctx.Done():
	case to <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: meta}}:
	}
}
