// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/resource"
	schedv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// fitting returns the names of the nodes that can take the pod, simulated ones
// first, and the scheduler's words if there is none.
func fitting(p *corev1.Pod, nodes []*corev1.Node) (names []string, why string) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(p)
	requests := resource.PodRequests(p, resource.PodResourcesOptions{})
	reasons := map[string]int{}
	for _, n := range nodes {
		if r := misfit(p, n, affinity, requests); r != "" {
			reasons[r]++
			continue
		}
		names = append(names, n.Name)
	}
	if len(names) > 0 {
		slices.SortFunc(names, func(x, y string) int {
			switch xs, ys := isSimulated(x), isSimulated(y); {
			case xs == ys:
				return strings.Compare(x, y)
			case xs:
				return -1
			}
			return 1
		})
		return names, ""
	}
	if len(nodes) == 0 {
		return nil, "no nodes available to schedule pods"
	}
	parts := make([]string, 0, len(reasons))
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%d %s", reasons[r], r))
	}
	return nil, fmt.Sprintf("0/%d nodes are available: %s. preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling.",
		len(nodes), strings.Join(parts, ", "), len(nodes), len(nodes))
}

// misfit says why a node cannot take a pod, or "". Requests are held against
// the whole node and not against what other pods have left of it: the local
// node is meant to be overcommitted.
func misfit(p *corev1.Pod, n *corev1.Node, affinity nodeaffinity.RequiredNodeAffinity, requests corev1.ResourceList) string {
	if n.Spec.Unschedulable {
		return "node(s) were unschedulable"
	}
	forbids := func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}
	if t, found := schedv1.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, forbids, false); found {
		return fmt.Sprintf("node(s) had untolerated taint(s) {%s: %s}", t.Key, t.Value)
	}
	if ok, err := affinity.Match(n); err != nil || !ok {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		want := requests[name]
		have, known := n.Status.Allocatable[name]
		if !want.IsZero() && (!known || want.Cmp(have) > 0) {
			return "Insufficient " + string(name)
		}
	}
	return ""
}

// simCursor spreads pods over the simulated nodes.
type simCursor struct{ n atomic.Uint64 }

// pick takes a simulated node in turn if the first choice is one.
func (c *simCursor) pick(names []string) string {
	sims := 0
	for sims < len(names) && isSimulated(names[sims]) {
		sims++
	}
	if sims == 0 {
		return names[0]
	}
	return names[c.n.Add(1)%uint64(sims)]
}

// replace looks again at every pod without a node.
func (a *Agent) replace() {
	if a.pods == nil {
		return
	}
	for _, o := range a.pods.List() {
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName == "" && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0 {
			a.place.Add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
	}
}

// nodeChanged looks again at waiting pods if a node changed in what pods ask for.
func (a *Agent) nodeChanged(before, after any) {
	b, ok1 := before.(*corev1.Node)
	n, ok2 := after.(*corev1.Node)
	if !ok1 || !ok2 {
		return
	}
	same := maps.Equal(b.Labels, n.Labels) && b.Spec.Unschedulable == n.Spec.Unschedulable &&
		len(b.Spec.Taints) == len(n.Spec.Taints) && len(b.Status.Allocatable) == len(n.Status.Allocatable)
	if !same {
		a.replace()
	}
}

func (a *Agent) placeLoop(ctx context.Context) {
	for {
		key, down := a.place.Get()
		if down {
			return
		}
		if err := a.placeOne(ctx, key); err != nil && ctx.Err() == nil {
			a.o.Log.Warn("place pod", "pod", key, "error", err)
			a.place.AddRateLimited(key)
		} else {
			a.place.Forget(key)
		}
		a.place.Done(key)
	}
}

func (a *Agent) placeOne(ctx context.Context, key types.NamespacedName) error {
	o, found, err := a.pods.GetByKey(cache.ObjectName(key).String())
	if err != nil || !found {
		return err
	}
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
		return nil
	}
	var nodes []*corev1.Node
	for _, o := range a.nodes.List() {
		if n, ok := o.(*corev1.Node); ok {
			nodes = append(nodes, n)
		}
	}
	names, why := fitting(p, nodes)
	if len(names) == 0 {
		return a.unschedulable(ctx, p, why)
	}
	err = a.o.Client.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: a.simNext.pick(names)},
	}, metav1.CreateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // bound or deleted since
	}
	return err
}

// unschedulable says on the pod why no node takes it. The next change of a
// node, or of the pod, looks again.
func (a *Agent) unschedulable(ctx context.Context, p *corev1.Pod, why string) error {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message == why {
			return nil
		}
	}
	b, err := statusPatch(p.UID, corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: why, LastTransitionTime: metav1.NewTime(a.o.Now()),
	}}})
	if err != nil {
		return err
	}
	_, err = a.o.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, b, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err == nil {
		a.event(ctx, p, corev1.EventTypeWarning, "FailedScheduling", why)
	}
	return err
}
