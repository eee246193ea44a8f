// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	api "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/settings"
)

// facts are read anew for each request to remove results.
type facts struct {
	asked *api.ReleaseRequest
	scan  *executionv1.Scan
	// forwarding are the settings in force for the Scan's namespace; health is the status of each sink, by ID.
	forwarding settings.Forwarding
	health     map[string]settingsv1alpha2.SinkStatus
	// etag is the ETag of the findings in storage; "": storage has no findings.
	etag string
	// compared is true if hooks of later runs may compare with the findings.
	compared bool
}

// decide returns why the results of a Scan must stay; nil: they may be removed.
func decide(f *facts) *api.Refusal {
	no := func(reason, format string, args ...any) *api.Refusal {
		return &api.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	mode := f.forwarding.AfterForwarding
	switch {
	case len(f.forwarding.Sinks) == 0, mode != settingsv1alpha2.AfterForwardingRemove && mode != settingsv1alpha2.AfterForwardingKeepLastRun:
		return no(api.ReasonModeIsKeep, "the settings of namespace %s do not let results go (inClusterStorage.afterForwarding)", f.scan.Namespace)
	case !f.scan.DeletionTimestamp.IsZero():
		return no(api.ReasonNotSettled, "the Scan is being deleted")
	case !f.scan.Settled(), life.Reopened(f.scan):
		return no(api.ReasonNotSettled, "the Scan runs, or is asked to run again")
	case f.scan.Annotations[executionv1.AnnotationOnDelete] == executionv1.OnDeleteRetain:
		return no(api.ReasonRetained, "the annotation %s is %q", executionv1.AnnotationOnDelete, executionv1.OnDeleteRetain)
	case f.scan.Revision() != f.asked.Revision:
		return no(api.ReasonResultsChanged, "the results are those of revision %d, and not %d", f.scan.Revision(), f.asked.Revision)
	case f.etag != f.asked.ETag:
		return no(api.ReasonResultsChanged, "the findings in storage are others than those that were sent")
	}
	if refusal := f.checkSinks(); refusal != nil {
		return refusal
	}
	if mode == settingsv1alpha2.AfterForwardingKeepLastRun && f.compared {
		return no(api.ReasonNeededForComparison, "this is the newest run of its target that went well, which KeepLastRun keeps")
	}
	return nil
}

// checkSinks returns a refusal if a sink lacks records or is not healthy.
func (f *facts) checkSinks() *api.Refusal {
	var lacking, unhealthy []string
	proved := false
	for i := range f.forwarding.Sinks {
		s := &f.forwarding.Sinks[i]
		p := f.progress(s)
		if p == nil || !slices.Contains(f.asked.Sinks, s.ID) {
			lacking = append(lacking, s.ID)
			continue
		}
		if f.health[s.ID].Healthy == corev1.ConditionFalse {
			unhealthy = append(unhealthy, s.ID)
		}
		proved = proved || p.Verdict == executionv1.VerdictComplete && p.Records == f.asked.Records && p.Chain == f.asked.Chain && f.asked.Chain != ""
	}
	switch {
	case len(lacking) > 0:
		return &api.Refusal{Reason: api.ReasonNotForwarded, Message: "not all records of this run are with: " + strings.Join(lacking, ", ")}
	case !proved:
		return &api.Refusal{Reason: api.ReasonNotProved, Message: "no sink has proved that it has these records"}
	case len(unhealthy) > 0:
		return &api.Refusal{Reason: api.ReasonNotHealthy, Message: "not healthy: " + strings.Join(unhealthy, ", ")}
	}
	return nil
}

// progress returns the progress of a sink if the sink has all records of the present run, otherwise nil.
func (f *facts) progress(s *settings.EffectiveSink) *executionv1.SinkProgress {
	for i := range f.scan.Status.Forwarding {
		p := &f.scan.Status.Forwarding[i]
		if p.Sink == s.ID && p.CompletedAt != nil && p.Revision == f.asked.Revision && p.Epoch == s.Sink.Epoch &&
			p.DeadLetters == 0 && p.ETag == f.asked.ETag && s.OutOfBounds == "" {
			return p
		}
	}
	return nil
}
