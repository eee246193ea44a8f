// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
)

const (
	simPrefix = "sim-"
	// simLabel marks simulated nodes, for node selectors.
	simLabel = "localcluster.scanyard.io/simulated"
	// simExitCode is a pod annotation: the exit code of the pod's simulated
	// containers, 0 if absent.
	simExitCode = "localcluster.scanyard.io/sim-exit-code"
)

func simName(i int) string { return simPrefix + strconv.Itoa(i) }

func isSimulated(node string) bool { return strings.HasPrefix(node, simPrefix) }

// simulate lets a pod run and end without a process: two status writes, or one
// if there is no delay. Pods seen before are under way already.
func (a *Agent) simulate(ctx context.Context, p *corev1.Pod) {
	if p.DeletionTimestamp != nil {
		go a.until(ctx, "delete simulated pod", func() error { return a.deletePod(ctx, p) })
		return
	}
	if _, seen := a.simSeen.LoadOrStore(p.UID, true); seen {
		return
	}
	go func() {
		if p.Status.StartTime == nil && !sleep(ctx, a.o.PodStartDelay) {
			return
		}
		began := metav1.NewTime(a.o.Now())
		if a.o.SimDelay > 0 {
			if p.Status.StartTime != nil {
				began = *p.Status.StartTime // an earlier agent started it
			} else {
				a.putSim(ctx, p, simRunning(p, began))
			}
			if !sleep(ctx, began.Add(a.o.SimDelay).Sub(a.o.Now())) {
				return
			}
		}
		a.putSim(ctx, p, simFinished(p, began, metav1.NewTime(a.o.Now())))
	}()
}

func (a *Agent) putSim(ctx context.Context, p *corev1.Pod, s corev1.PodStatus) {
	b, err := statusPatch(p.UID, s)
	if err != nil {
		a.o.Log.Error("encode simulated status", "error", err)
		return
	}
	a.until(ctx, "write simulated status", func() error {
		_, err := a.o.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, b, metav1.PatchOptions{}, "status")
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

func simRunning(p *corev1.Pod, began metav1.Time) corev1.PodStatus {
	s := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &began, Conditions: simConditions(true, "", began)}
	for i := range p.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses, simTerminated(p, &p.Spec.InitContainers[i], 0, began, began))
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		yes := true
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "sim", ContainerID: simID(p, c), Ready: true, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		})
	}
	return s
}

func simFinished(p *corev1.Pod, began, ended metav1.Time) corev1.PodStatus {
	code, err := strconv.ParseInt(p.Annotations[simExitCode], 10, 32)
	if err != nil {
		code = 0
	}
	phase, reason := corev1.PodSucceeded, "PodCompleted"
	if code != 0 {
		phase, reason = corev1.PodFailed, "PodFailed"
	}
	s := corev1.PodStatus{Phase: phase, StartTime: &began, Conditions: simConditions(false, reason, ended)}
	for i := range p.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses, simTerminated(p, &p.Spec.InitContainers[i], 0, began, began))
	}
	for i := range p.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, simTerminated(p, &p.Spec.Containers[i], int32(code), began, ended))
	}
	return s
}

func simTerminated(p *corev1.Pod, c *corev1.Container, code int32, began, ended metav1.Time) corev1.ContainerStatus {
	no := false
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "sim", ContainerID: simID(p, c), Started: &no,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: exitReason(int(code), false), StartedAt: began, FinishedAt: ended, ContainerID: simID(p, c),
			Message: simWords(c, code),
		}},
	}
}

// simWords are the last words of a container that is handed a Scan: those of a parser or hook that has stored one finding.
func simWords(c *corev1.Container, code int32) string {
	handed := slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == handover.EnvScan })
	if !handed || code != 0 {
		return ""
	}
	words, err := (&outcome.Outcome{
		Findings: &outcome.Findings{
			Stored: outcome.StoredBytes([]byte("[{}]")), Count: 1, Severities: outcome.Severities{Informational: 1}, Categories: map[string]int64{"Open Port": 1},
		},
		Reached: &outcome.Reached{Status: outcome.True, Message: "1 of 1 hosts answered"},
	}).Encode()
	if err != nil {
		return err.Error()
	}
	return string(words)
}

func simID(p *corev1.Pod, c *corev1.Container) string {
	return fmt.Sprintf("sim://%s/%s", p.UID, c.Name)
}

func simConditions(ready bool, reason string, now metav1.Time) []corev1.PodCondition {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.PodReady, Status: status, Reason: reason, LastTransitionTime: now},
		{Type: corev1.ContainersReady, Status: status, Reason: reason, LastTransitionTime: now},
	}
}
