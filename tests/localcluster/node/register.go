// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

const (
	heartbeatEvery = 10 * time.Second
	leaseSeconds   = int32(40)
	// podsPerNode is far above what one machine runs; Jobs queue elsewhere.
	podsPerNode = "1000"
)

// register makes the Node objects of this agent, or takes over those that an
// earlier agent made.
func (a *Agent) register(ctx context.Context, port int32) error {
	memory, err := totalMemory()
	if err != nil {
		return err
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourcePods:             resource.MustParse(podsPerNode),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	status := corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		// Loopback, since only the API server of this machine calls here.
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: a.o.Name}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
	}
	if err := a.registerOne(ctx, a.o.Name, status, nil); err != nil {
		return err
	}
	for i := range a.o.SimNodes {
		many := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1Ti"),
			corev1.ResourcePods: resource.MustParse("100000"), corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
		}
		err := a.registerOne(ctx, simName(i), corev1.NodeStatus{Capacity: many, Allocatable: many}, map[string]string{simLabel: "true"})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) registerOne(ctx context.Context, name string, s corev1.NodeStatus, labels map[string]string) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}}}
	maps.Copy(n.Labels, labels)
	if _, err := a.o.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register node %s: %w", name, err)
	}
	if err := a.removeNotReady(ctx, name); err != nil {
		return fmt.Errorf("register node %s: %w", name, err)
	}
	now := metav1.NewTime(a.o.Now())
	s.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "the local node agent runs",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	s.NodeInfo = corev1.NodeSystemInfo{
		Architecture: runtime.GOARCH, OperatingSystem: runtime.GOOS,
		KubeletVersion: "localcluster", ContainerRuntimeVersion: "process://1",
	}
	b, err := json.Marshal(map[string]any{"status": s})
	if err != nil {
		return fmt.Errorf("register node %s: %w", name, err)
	}
	if _, err := a.o.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, b, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("register node %s: %w", name, err)
	}
	return nil
}

// removeNotReady takes away the taint that admission gives every new node, and
// that a cluster with a node controller would remove when the node is ready.
func (a *Agent) removeNotReady(ctx context.Context, name string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := a.o.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
		if len(kept) == len(n.Spec.Taints) {
			return nil
		}
		n.Spec.Taints = kept
		_, err = a.o.Client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

// heartbeat renews the node's Lease, which says that it is alive.
func (a *Agent) heartbeat(ctx context.Context) {
	leases := a.o.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for {
		now, holder, seconds := metav1.NewMicroTime(a.o.Now()), a.o.Name, leaseSeconds
		spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
		l, err := leases.Get(ctx, a.o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: a.o.Name}, Spec: spec}, metav1.CreateOptions{})
		case err == nil:
			l.Spec = spec
			_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		}
		if err != nil && ctx.Err() == nil {
			a.o.Log.Warn("renew node lease", "error", err)
		}
		if !sleep(ctx, heartbeatEvery) {
			return
		}
	}
}

// totalMemory reads the machine's memory in bytes.
func totalMemory() (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read machine memory: %w", err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if rest, ok := strings.CutPrefix(s.Text(), "MemTotal:"); ok {
			var kib int64
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				return 0, fmt.Errorf("read machine memory: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("read machine memory: no MemTotal line (%w)", s.Err())
}

// event tells users what happened to a pod. Losing one is not worth a retry.
func (a *Agent) event(ctx context.Context, p *corev1.Pod, kind, reason, message string) {
	now := metav1.NewTime(a.o.Now())
	_, err := a.o.Client.CoreV1().Events(p.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: p.Name + "."},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Type:           kind, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "kubelet", Host: a.o.Name},
	}, metav1.CreateOptions{})
	if err != nil && ctx.Err() == nil {
		a.o.Log.Warn("write event", "reason", reason, "error", err)
	}
}
