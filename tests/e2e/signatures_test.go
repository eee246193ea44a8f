// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

var _ = Describe("Presigned URLs", Label("isolation"), func() {
	// Leads Scans to their good and bad ends, and looks for the
	// signatures of their URLs in whatever people read: logs of the operator and of all
	// containers, Events, conditions, and what containers leave behind when they end.
	Describe("have their signatures in nothing that people read, however a Scan ends", slow, func() {
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
		for name, tc := range inOrder(cases) {
			It(name, func(ctx SpecContext) {
				resultType := "test-txt"
				if tc.parser == "nmap-xml" {
					resultType = tc.parser
				}
				ns := namespace(ctx)
				definition := parser(ns, resultType)
				if tc.parser == "no-such-image" {
					definition.Spec.Image = "docker.io/e2e/no-such-image"
				}
				edits := []func(*batchv1.JobSpec){once}
				if tc.edit != nil {
					edits = append(edits, tc.edit)
				}
				create(ctx, shellType(ns, resultType, edits...), definition)
				for _, h := range tc.hooks {
					h.Namespace, h.Name = ns, strings.ToLower(h.Name)
					create(ctx, h)
				}
				s := shellScan(ns, "s", tc.script)
				if tc.state == executionv1.ScanStateErrored {
					seconds := int64(5)
					s.Spec.Deadlines = &executionv1.Deadlines{StartSeconds: &seconds}
				}
				create(ctx, s)
				if got := settled(ctx, s); got.Status.State != tc.state {
					Fail(fmt.Sprintf("the Scan ended %s, want %s: %s", got.Status.State, tc.state, got.Status.ErrorDescription))
				}
				wantNoSignature(ctx, s)
			})
		}
	})
})

// wantNoSignature looks through what there is to read of a Scan.
func wantNoSignature(ctx context.Context, s *executionv1.Scan) {
	GinkgoHelper()
	logs, err := w.op.Logs(ctx)
	Expect(err).NotTo(HaveOccurred())
	texts := map[string]string{"the operator's log": logs, "the logs of the pods": readableLogs(ctx, s.Namespace)}
	now := &executionv1.Scan{}
	Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(s), now)).To(Succeed())
	if now.Status.StartedAt != nil && !strings.Contains(now.Status.FindingDownloadLink, signature) {
		Fail(fmt.Sprintf("the links, which the contract wants in the status, hold no %q: this test looks for the wrong word", signature))
	}
	now.Status.FindingDownloadLink, now.Status.RawResultDownloadLink, now.Status.FindingHeadLink, now.Status.RawResultHeadLink, now.Status.ScannerLogDownloadLink = "", "", "", "", ""
	texts["the Scan"] = asJSON(now)
	var jobs batchv1.JobList
	var events corev1.EventList
	var newEvents eventsv1.EventList
	for _, list := range []client.ObjectList{&jobs, &events, &newEvents} {
		Expect(w.admin.List(ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
	}
	// Their specs hold the URLs as arguments: that is the contract.
	for _, pod := range podsOf(ctx, s.Namespace) {
		texts["the status of pod "+pod.Name] = asJSON(pod.Status)
	}
	for i := range jobs.Items {
		texts["the status of Job "+jobs.Items[i].Name] = asJSON(jobs.Items[i].Status)
	}
	texts["Events"], texts["new Events"] = asJSON(events.Items), asJSON(newEvents.Items)
	for where, text := range texts {
		for _, word := range []string{signature, "x-amz-credential", "x-amz-security-token"} {
			if at := strings.Index(strings.ToLower(text), strings.ToLower(word)); at >= 0 {
				Fail(fmt.Sprintf("%s: there is %s in …%s…", where, word, text[max(0, at-200):at]))
			}
		}
	}
}

// signature is what every presigned URL has in its query.
const signature = "X-Amz-Signature"

func asJSON(v any) string {
	GinkgoHelper()
	b, err := json.Marshal(v)
	Expect(err).NotTo(HaveOccurred())
	return string(b)
}

// readableLogs are those of all containers that have run.
func readableLogs(ctx context.Context, ns string) string {
	GinkgoHelper()
	var out strings.Builder
	for _, pod := range podsOf(ctx, ns) {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				continue
			}
			b, err := w.kube.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(ctx)
			if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Code == http.StatusBadRequest {
				continue // it has never run, or was removed meanwhile
			}
			if err != nil && !apierrors.IsNotFound(err) {
				Expect(err).NotTo(HaveOccurred())
			}
			out.Write(b)
		}
	}
	return out.String()
}
