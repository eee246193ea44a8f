// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/settings"
)

// bounds are the deadlines of the phases.
func (o *Observation) bounds() settings.Deadlines {
	if o.Tenant != nil {
		return o.Tenant.Deadlines
	}
	s := o.Settings
	return settings.Deadlines{
		Start: settings.Deadline{Default: s.StartDeadline}, Scanner: settings.Deadline{Default: s.ScannerDeadline},
		Parser: settings.Deadline{Default: s.ParserDeadline}, Hook: settings.Deadline{Default: s.HookDeadline},
	}
}

// startDeadline is how long the pods of a phase may take to start.
func (o *Observation) startDeadline() time.Duration {
	return o.bounds().Start.For(o.deadlines().StartSeconds)
}

// ttl is how long the Scan is kept when it has ended; false where it is kept for ever.
func (o *Observation) ttl() (time.Duration, bool) {
	seconds := o.Scan.Spec.TTLSecondsAfterFinished
	if o.Tenant != nil {
		seconds = o.Tenant.TTL.Seconds(seconds)
	}
	return time.Duration(ptr.Deref(seconds, 0)) * time.Second, seconds != nil
}

// --- rows: what may not be ---

// isScannerForbidden holds where the settings do not allow what the scanner's Job would use.
func isScannerForbidden(o *Observation) bool { return o.scannerForbidden() != "" }

func rejectScanner(o *Observation, d *Decision) {
	d.fail(o, NewStatus(o), executionv1.ConditionScanned, Cause{executionv1.ReasonNotAllowed, o.scannerForbidden()})
}

// isParserForbidden holds where the settings do not allow what the parser's Job would use.
func isParserForbidden(o *Observation) bool { return o.parserForbidden() != "" }

func rejectParser(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.advance(executionv1.ScanStateScanCompleted)
	s.scanned(o)
	d.fail(o, s, executionv1.ConditionParsed, Cause{executionv1.ReasonNotAllowed, o.parserForbidden()})
}

// scannerForbidden says what the scanner's Job would use that the settings do not allow; "" where
// there is nothing. Cluster* kinds are not asked: cluster admins write them.
func (o *Observation) scannerForbidden() string {
	if o.Tenant == nil || o.ScanType == nil {
		return ""
	}
	a := o.Tenant.Allowed
	why := firstOf(a.Volumes("spec.volumes", o.Scan.Spec.Volumes), o.Tenant.TargetScope.Refuses("spec", &o.Scan.Spec))
	if why != "" || o.Scan.Mode() != executionv1.NamespaceLocal {
		return why
	}
	pod := o.ScanType.JobTemplate.Spec.Template.Spec
	const path = "spec.jobTemplate.spec.template.spec."
	return inKind("ScanType", o.Scan.Spec.ScanType, firstOf(
		a.Volumes(path+"volumes", pod.Volumes),
		a.ServiceAccount(path+"serviceAccountName", pod.ServiceAccountName),
	))
}

func (o *Observation) parserForbidden() string {
	if o.Definition == nil {
		return ""
	}
	return ParserForbidden(o, o.Definition)
}

// ParserForbidden says what the parser of a ParseDefinition would use that the settings do not allow; "" where there is nothing.
func ParserForbidden(o *Observation, definition *executionv1.ParseDefinitionSpec) string {
	if o.Tenant == nil || o.Scan.Mode() != executionv1.NamespaceLocal {
		return ""
	}
	return inKind("ParseDefinition", o.RawResult().Type, o.Tenant.Allowed.Volumes("spec.volumes", definition.Volumes))
}

// refusedHook says why a hook of the Scan is not started: the operator cannot run it, though other operators may, or
// the settings do not allow what it would use. Nil where nothing is wrong.
func (o *Observation) refusedHook(h *Hook) *Cause {
	switch {
	case len(h.Spec.Outputs) > 0 && !o.OwnsFolder:
		return &Cause{
			executionv1.ReasonInvalidHook,
			"spec.outputs needs a folder for each Scan in storage, which S3_URL_TEMPLATE of the operator does not give: nobody would remove them",
		}
	case h.ExecutionNamespace != "" && len(o.Settings.Namespaces) > 0 && !slices.Contains(o.Settings.Namespaces, h.ExecutionNamespace):
		return &Cause{executionv1.ReasonInvalidHook, fmt.Sprintf("spec.executionNamespace %q is none of the namespaces that the operator works in; "+
			"add it to --watch-namespaces (chart: watchNamespaces)", h.ExecutionNamespace)}
	case o.Tenant == nil || o.Scan.Mode() != executionv1.NamespaceLocal:
		return nil
	}
	a := o.Tenant.Allowed
	why := firstOf(a.Volumes("spec.volumes", h.Spec.Volumes), a.ServiceAccount("spec.serviceAccountName", ptr.Deref(h.Spec.ServiceAccountName, "")))
	if why == "" {
		return nil
	}
	return &Cause{executionv1.ReasonNotAllowed, why}
}

func firstOf(reasons ...string) string {
	for _, why := range reasons {
		if why != "" {
			return why
		}
	}
	return ""
}

func inKind(kind, name, why string) string {
	if why == "" {
		return ""
	}
	return kind + " " + name + ": " + why
}
