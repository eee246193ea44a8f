// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/findings/scanview"
)

// Advice is an action that a user can take about a Scan.
type Advice struct {
	// Text says the purpose.
	Text string
	// Command is the command to type, without the program's name; empty if there is none.
	Command []string
}

// remedies are what a user does next, by reason.
var remedies = map[string]string{
	executionv1.ReasonScanTypeNotFound:        "install the scanner, or correct spec.scanType by creating the scan again",
	executionv1.ReasonParseDefinitionNotFound: "install the chart that brings the parser",
	executionv1.ReasonInvalidSpec:             "correct the field in the message, and create the scan again",
	executionv1.ReasonInvalidScanType:         "let the ScanType be corrected, and create the scan again",
	executionv1.ReasonInvalidHook:             "let the hook be corrected, and create the scan again",
	executionv1.ReasonHookNotFound:            "create the scan again: a hook was deleted before it ran",
	executionv1.ReasonJobRejected:             "correct what the message names, and create the scan again",
	executionv1.ReasonNameConflict:            "delete the Job that the message names, and create the scan again",
	executionv1.ReasonQuotaExceeded:           "make room in the namespace's quota; the scan continues by itself",
	executionv1.ReasonImagePull:               "check the image's name and tag and the pull secrets; the scan continues by itself",
	executionv1.ReasonContainerConfig:         "make the Secret or ConfigMap that the message names; the scan continues by itself",
	executionv1.ReasonUnschedulable:           "make room in the cluster, or correct resources, tolerations or nodeSelector",
	executionv1.ReasonPodRejected:             "change what the message quotes: mostly a securityContext against the namespace's Pod Security",
	executionv1.ReasonJobSuspended:            "nothing: the queue that has suspended the Job lets it go on",
	executionv1.ReasonStorageUnavailable:      "nothing, or inform the operators of the object storage; the scan continues when it responds",
	executionv1.ReasonDeadlineExceeded:        "remove what kept the phase, or raise spec.deadlines, and create the scan again",
	executionv1.ReasonForwarding:              "nothing, or look at the condition Forwarded: every sink has to have the results",
	executionv1.ReasonForwardingFailed:        "correct what the message names; the results are still sent, the scan stays Errored",
	executionv1.ReasonJobLost:                 "create the scan again: its Job was deleted",
}

// Next returns what a user may want to do, the most useful first.
func Next(s *executionv1.Scan) []Advice {
	var out []Advice
	ready := scanview.Ready(s)
	if text := remedies[ready.Reason]; text != "" {
		out = append(out, Advice{Text: text})
	}
	switch {
	case s.DeletionTimestamp != nil:
		return []Advice{{Text: "it is being deleted: its stored results are removed first"}}
	case s.Status.State == executionv1.ScanStateDone:
		if scanview.Unreached(s) != "" {
			out = append(out, Advice{Text: "check that the parameters name targets that exist, and that the scanner may reach them"},
				Advice{"what the scanner has written", []string{"logs", s.Name, scanview.PhaseScanner}})
		}
		if s.Status.Findings.Count != nil && *s.Status.Findings.Count > 0 {
			out = append(out, Advice{"the findings", []string{"findings", s.Name}})
		}
		if s.Spec.Cascades != nil {
			out = append(out, Advice{"the scans that it has started", []string{"tree"}})
		}
		return append(out, Advice{"the raw result of the scanner", []string{"raw", s.Name}})
	case s.Status.State == executionv1.ScanStateErrored:
		return append(out, afterError(s, ready.Reason)...)
	case s.Spec.Suspend != nil && *s.Spec.Suspend:
		return append(out, Advice{"let it go on", []string{"resume", s.Name}})
	case ready.Reason == executionv1.ReasonContainerFailing:
		out = append(out, Advice{"what the failing container has written", []string{"logs", s.Name}})
	case ready.Reason == "":
		out = append(out, Advice{"where nothing happens for long: check the installation", []string{"doctor"}})
	}
	return append(out, Advice{"wait for its end", []string{"wait", s.Name}}, Advice{"end it", []string{"cancel", s.Name}})
}

func afterError(s *executionv1.Scan, reason string) []Advice {
	var out []Advice
	switch reason {
	case executionv1.ReasonScannerFailed, executionv1.ReasonDeadlineExceeded:
		out = append(out, Advice{"what the scanner has written", []string{"logs", s.Name, scanview.PhaseScanner}})
	case executionv1.ReasonParserFailed:
		out = append(out, Advice{"what the parser has written", []string{"logs", s.Name, scanview.PhaseParser}},
			Advice{"the raw result that it has read", []string{"raw", s.Name}})
	case executionv1.ReasonHookFailed:
		out = append(out, Advice{"what the hooks have written", []string{"logs", s.Name, scanview.PhaseHooks}},
			Advice{"the findings, which are stored", []string{"findings", s.Name}})
	}
	for _, p := range scanview.Phases(s) {
		if p.Progress == scanview.Failed {
			out = append(out, Advice{fmt.Sprintf("run it again from its %s on, when the reason is mended", p.Name), []string{"retry", s.Name}})
			break
		}
	}
	return out
}
