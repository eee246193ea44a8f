// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// TestSignaturesAreNowhere leads Scans to their good and bad ends, and looks for the
// signatures of their URLs in whatever people read: logs of the operator and of all
// containers, Events, conditions, and what containers leave behind when they end.
func TestSignaturesAreNowhere(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		script string
		hooks  []*executionv1.ScanCompletionHook
		edit   func(*batchv1.JobSpec)
		parser string
		state  executionv1.ScanState
	}{
		"Done": {script: quick, state: executionv1.ScanStateDone, hooks: []*executionv1.ScanCompletionHook{
			hook("", "writes", "ok", executionv1.ReadAndWrite, 1), hook("", "reads", "ok", executionv1.ReadOnly, 0),
		}},
		"FreshURL":        {script: "sleep 4; " + quick, state: executionv1.ScanStateDone},
		"ScannerFails":    {script: "exit 3", state: executionv1.ScanStateErrored},
		"NoResult":        {script: "true", state: executionv1.ScanStateErrored},
		"ResultIsALink":   {script: "ln -s /etc/passwd " + resultPath, state: executionv1.ScanStateErrored},
		"InvalidJob":      {script: quick, state: executionv1.ScanStateErrored, edit: func(j *batchv1.JobSpec) { j.Template.Spec.Containers[0].Name = "Not A Name" }},
		"ParserFails":     {script: "echo junk >" + resultPath, parser: "nmap-xml", state: executionv1.ScanStateErrored},
		"HookFails":       {script: quick, state: executionv1.ScanStateErrored, hooks: []*executionv1.ScanCompletionHook{hook("", "fails", "fail", executionv1.ReadAndWrite, 0)}},
		"HookDoesNotRun":  {script: quick, state: executionv1.ScanStateErrored, hooks: []*executionv1.ScanCompletionHook{hook("", "Broken", "no such image", executionv1.ReadOnly, 0)}},
		"ParserHasNoRoom": {script: quick, state: executionv1.ScanStateErrored, parser: "no-such-image"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resultType := "test-txt"
			if tc.parser == "nmap-xml" {
				resultType = tc.parser
			}
			ns := namespace(t)
			definition := parser(ns, resultType)
			if tc.parser == "no-such-image" {
				definition.Spec.Image = "docker.io/e2e/no-such-image"
			}
			edits := []func(*batchv1.JobSpec){once}
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			create(t, shellType(ns, resultType, edits...), definition)
			for _, h := range tc.hooks {
				h.Namespace, h.Name = ns, strings.ToLower(h.Name)
				create(t, h)
			}
			s := shellScan(ns, "s", tc.script)
			if tc.state == executionv1.ScanStateErrored {
				seconds := int64(5)
				s.Spec.Deadlines = &executionv1.Deadlines{StartSeconds: &seconds}
			}
			create(t, s)
			if got := settled(t, s); got.Status.State != tc.state {
				t.Errorf("the Scan ended %s, want %s: %s", got.Status.State, tc.state, got.Status.ErrorDescription)
			}
			wantNoSignature(t, s)
		})
	}
}

// wantNoSignature looks through what there is to read of a Scan.
func wantNoSignature(t *testing.T, s *executionv1.Scan) {
	t.Helper()
	logs, err := w.op.Logs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"the operator's log": logs, "the logs of the pods": readableLogs(t, s.Namespace)}
	now := &executionv1.Scan{}
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(s), now); err != nil {
		t.Fatal(err)
	}
	if now.Status.StartedAt != nil && !strings.Contains(now.Status.FindingDownloadLink, signature) {
		t.Errorf("the links, which the contract wants in the status, hold no %q: this test looks for the wrong word", signature)
	}
	now.Status.FindingDownloadLink, now.Status.RawResultDownloadLink, now.Status.FindingHeadLink, now.Status.RawResultHeadLink = "", "", "", ""
	texts["the Scan"] = asJSON(t, now)
	var pods corev1.PodList
	var jobs batchv1.JobList
	var events corev1.EventList
	var newEvents eventsv1.EventList
	for _, list := range []client.ObjectList{&pods, &jobs, &events, &newEvents} {
		if err := w.admin.List(t.Context(), list, client.InNamespace(s.Namespace)); err != nil {
			t.Fatal(err)
		}
	}
	// Their specs hold the URLs as arguments: that is the contract.
	for i := range pods.Items {
		texts["the status of pod "+pods.Items[i].Name] = asJSON(t, pods.Items[i].Status)
	}
	for i := range jobs.Items {
		texts["the status of Job "+jobs.Items[i].Name] = asJSON(t, jobs.Items[i].Status)
	}
	texts["Events"], texts["new Events"] = asJSON(t, events.Items), asJSON(t, newEvents.Items)
	for where, text := range texts {
		for _, word := range []string{signature, "x-amz-credential", "x-amz-security-token"} {
			if at := strings.Index(strings.ToLower(text), strings.ToLower(word)); at >= 0 {
				t.Errorf("%s: there is %s in …%s…", where, word, text[max(0, at-200):at])
			}
		}
	}
}

// signature is what every presigned URL has in its query.
const signature = "X-Amz-Signature"

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readableLogs are those of all containers that have run.
func readableLogs(t *testing.T, ns string) string {
	t.Helper()
	var pods corev1.PodList
	if err := w.admin.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.ContainerStatuses {
			if c.State.Waiting != nil {
				continue
			}
			b, err := w.kube.CoreV1().Pods(ns).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(t.Context())
			if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Code == http.StatusBadRequest {
				continue // it has never run, or was removed meanwhile
			}
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			out.Write(b)
		}
	}
	return out.String()
}
