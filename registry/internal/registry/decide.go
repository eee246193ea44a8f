// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/schedule"
)

// Job is a job of the Registry.
type Job struct {
	schedule.Job

	UID string
	// Active: it has not ended.
	Active bool
}

// Observation is what is decided by.
type Observation struct {
	Now      time.Time
	Registry *registryv1alpha1.Registry
	// Older counts Registries of the namespace that come before this one.
	Older int
	Jobs  []Job
	// ReportsAway and QueueAway say what is wrong with the reports API and the queue; "": nothing.
	ReportsAway, QueueAway string
}

// Start is a job that is made.
type Start struct {
	Kind    schedule.Kind
	Name    string
	Planned time.Time
}

// Decision is what is done.
type Decision struct {
	// Conditions are those of Ready and Secure, and UpToDate as long as nothing was discovered.
	Conditions []metav1.Condition
	Start      []Start
	// Skipped are kinds of jobs that were due while another one waited or worked.
	Skipped []schedule.Kind
	// Delete are ended jobs, by name.
	Delete []string
	// NextDiscovery and NextScan; zero: none is planned.
	NextDiscovery, NextScan time.Time
	// RequeueAfter is when the Registry is looked at again; 0: a change tells.
	RequeueAfter time.Duration
}

// Decide says what is done about a Registry.
func Decide(o Observation, b Bounds) Decision {
	var d Decision
	ready := readiness(o, b)
	d.Conditions = []metav1.Condition{ready, secure(o.Registry.Spec)}
	if o.Registry.Status.LastDiscovery == nil {
		d.Conditions = append(d.Conditions, metav1.Condition{
			Type: registryv1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: registryv1alpha1.ReasonNeverDiscovered,
			Message: "no DiscoveryJob has ended yet",
		})
	}
	keep := map[string]bool{}
	for _, kind := range []schedule.Kind{schedule.Discovery, schedule.Scan} {
		d.plan(o, b, kind, mayStart(ready.Reason), keep)
	}
	d.expire(o, keep)
	return d
}

// readiness is the condition Ready.
func readiness(o Observation, b Bounds) metav1.Condition {
	ready := metav1.Condition{Type: registryv1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	p := check(o.Registry, b)
	switch {
	case p != nil:
		ready.Reason, ready.Message = p.reason, p.message
	case o.Older >= b.Registries:
		ready.Reason = registryv1alpha1.ReasonQuotaExceeded
		ready.Message = fmt.Sprintf("the namespace may have %d Registries, and there are older ones; delete one, or ask for a wider quota", b.Registries)
	case o.ReportsAway != "":
		ready.Reason, ready.Message = registryv1alpha1.ReasonReportsUnavailable, o.ReportsAway
	case o.QueueAway != "":
		ready.Reason, ready.Message = registryv1alpha1.ReasonQueueUnavailable, o.QueueAway
	case o.Registry.Spec.Suspend:
		ready.Reason, ready.Message = registryv1alpha1.ReasonSuspended, "spec.suspend is true"
	default:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, registryv1alpha1.ReasonAccepted, "jobs may run"
	}
	return ready
}

func secure(spec registryv1alpha1.RegistrySpec) metav1.Condition {
	c := metav1.Condition{Type: registryv1alpha1.ConditionSecure, Status: metav1.ConditionFalse}
	switch spec.Insecure {
	case registryv1alpha1.SkipVerify:
		c.Reason, c.Message = string(registryv1alpha1.SkipVerify), "any certificate is taken: whoever is on the way can answer"
	case registryv1alpha1.PlainHTTP:
		c.Reason, c.Message = string(registryv1alpha1.PlainHTTP), "there is no TLS: whoever is on the way can read and answer"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, registryv1alpha1.ReasonVerified, "certificates are verified"
	}
	return c
}

// mayStart tells whether jobs are made for a Registry of that reason.
func mayStart(reason string) bool {
	return slices.Contains([]string{registryv1alpha1.ReasonAccepted, registryv1alpha1.ReasonReportsUnavailable, registryv1alpha1.ReasonQueueUnavailable}, reason)
}

// plan decides over the schedule of one kind.
func (d *Decision) plan(o Observation, b Bounds, kind schedule.Kind, may bool, keep map[string]bool) {
	table, p := schedule.Read(o.Registry, kind, b.Zones)
	if p != nil {
		return
	}
	status := o.Registry.Status
	stored, next := status.NextDiscoveryTime, &d.NextDiscovery
	if kind == schedule.Scan {
		stored, next = status.NextScanTime, &d.NextScan
	}
	observed := schedule.Observation{
		Now: o.Now, Changed: status.ObservedGeneration != o.Registry.Generation, Suspended: !may || o.Registry.Spec.Suspend,
		Active: slices.ContainsFunc(o.Jobs, func(j Job) bool { return j.Active && j.Kind == kind }),
		Exists: func(planned time.Time) bool {
			name := d.nameOf(o, kind, planned)
			return slices.ContainsFunc(o.Jobs, func(j Job) bool { return j.Name == name && j.Kind == kind })
		},
	}
	if stored != nil {
		observed.Next = stored.Time
	}
	decision := table.Decide(observed)
	*next = decision.Next
	d.requeue(o, decision.Next)
	if !decision.Planned.IsZero() {
		keep[d.nameOf(o, kind, decision.Planned)] = true
	}
	switch {
	case decision.Start:
		d.Start = append(d.Start, Start{kind, d.nameOf(o, kind, decision.Planned), decision.Planned})
	case decision.Skipped:
		d.Skipped = append(d.Skipped, kind)
	}
}

func (d *Decision) nameOf(o Observation, kind schedule.Kind, planned time.Time) string {
	return schedule.JobName(o.Registry.Name, string(o.Registry.UID), kind, planned)
}

// requeue has the Registry looked at again at a time at the latest; zero: at none.
func (d *Decision) requeue(o Observation, at time.Time) {
	if at.IsZero() {
		return
	}
	if after := max(at.Sub(o.Now), time.Millisecond); d.RequeueAfter == 0 || after < d.RequeueAfter {
		d.RequeueAfter = after
	}
}

// expire names the ended jobs that go.
func (d *Decision) expire(o Observation, keep map[string]bool) {
	limits := schedule.Limits{Succeeded: history(o.Registry.Spec.SuccessfulJobsHistoryLimit), Failed: history(o.Registry.Spec.FailedJobsHistoryLimit)}
	var ended []schedule.Job
	newest := map[schedule.Kind]schedule.Job{}
	for _, j := range o.Jobs {
		if j.Active {
			continue
		}
		ended = append(ended, j.Job)
		if n, found := newest[j.Kind]; j.Scheduled && (!found || j.Ended.After(n.Ended)) {
			newest[j.Kind] = j.Job
		}
	}
	// The newest scheduled one tells that its planned time has been served, also where the status was wiped.
	for _, j := range newest {
		keep[j.Name] = true
	}
	var again time.Time
	d.Delete, again = schedule.Expired(ended, limits, o.Now, func(name string) bool { return keep[name] })
	d.requeue(o, again)
}

const defaultHistory = 3

func history(limit *int32) int {
	if limit == nil {
		return defaultHistory
	}
	return int(*limit)
}
