// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/http"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

func TestRunsAreCompared(t *testing.T) {
	w := consoletest.Full(t).Enter()
	was, is := scan(t, w, "nightly-1"), scan(t, w, "nightly-3")
	const page = "/scans/team-blue/nightly-3/changes"
	has(t, w.Get(page), "There is nothing to compare with.")
	w.Store(was, consoletest.Finding("old hole", "HIGH"), consoletest.Finding("known hole", "LOW"))
	w.Store(is, consoletest.Finding("known hole", "LOW"), consoletest.Finding("new hole", "HIGH"), consoletest.Finding("new port", "INFORMATIONAL"))
	a := w.Get(page)
	has(t, a, "since nightly-1: 2 new, 1 fixed, 1 known", "new hole", "new port", "old hole", "/findings/fp-old-hole?ns=team-blue&amp;scan=nightly-1")
	lacks(t, a, ">known hole<")
	has(t, w.Get("/scans/team-blue/nightly-3"), page)
	if a := w.Get("/scans/team-blue/none/changes"); a.Code != http.StatusNotFound {
		t.Errorf("a Scan that is not there answers %d", a.Code)
	}
}

func TestPodsOfAScan(t *testing.T) {
	s := consoletest.Scan("team-blue", "nmap-x", "nmap", time.Hour)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team-blue", Name: "scan-nmap-x", Labels: map[string]string{
		executionv1.LabelScanUID: string(s.UID), executionv1.LabelJobType: executionv1.JobTypeScanner,
	}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-blue", Name: "scan-nmap-x-7", Labels: map[string]string{batchv1.JobNameLabel: job.Name}}}
	pod.Spec.NodeName, pod.Status.Phase = "node-3", corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "nmap", RestartCount: 2, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
	}}
	w := consoletest.New(t, s, job, pod).Enter()
	has(t, w.Get("/scans/team-blue/nmap-x"), "scan-nmap-x-7", "node-3", "nmap ended with exit code 137 (OOMKilled)", "2 restarts")
	w.Denied = []string{"list pods"}
	lacks(t, w.Get("/scans/team-blue/nmap-x"), "scan-nmap-x-7")
}
