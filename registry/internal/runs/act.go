// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/feeder"
	"github.com/scanyard/scanyard/registry/internal/job"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// act writes the status, and tells the Feeder. What ends a job is written to the Registry first: a controller that dies in between does
// both again.
func (r *Reconciler) act(ctx context.Context, s *seen, d job.Decision) error {
	uid := string(s.job.object().GetUID())
	if !d.LetIn {
		r.Feeder.Withdraw(uid)
	}
	if d.TellWorkers {
		if err := r.Cancel(uid); err != nil {
			return err
		}
	}
	if s.observed.Deleting || s.observed.Ended {
		return nil
	}
	over := d.Completed.Status == metav1.ConditionTrue || d.Completed.Status == metav1.ConditionFalse
	if s.registry != nil && s.found != nil && !s.job.isDry() && !s.observed.RegistryReplaced {
		if err := r.tellRegistry(ctx, s, d, over); err != nil {
			return err
		}
	}
	if err := r.writeStatus(ctx, s, d, over); err != nil {
		return err
	}
	switch {
	case over:
		r.announceEnd(s, d)
		if s.found != nil && r.Unaffected != nil {
			r.Unaffected(s.found.Scanned.Unaffected)
		}
	case d.Start:
		r.Events.Eventf(s.job.object(), s.registry, corev1.EventTypeNormal, "Started", "Work", "the job has begun")
	case d.LetIn:
		r.Feeder.Offer(r.offer(s))
	}
	return nil
}

func (r *Reconciler) announceEnd(s *seen, d job.Decision) {
	kind, reason := corev1.EventTypeNormal, "Completed"
	switch d.Completed.Reason {
	case registryv1alpha1.ReasonNothingToDo:
		return
	case registryv1alpha1.ReasonSucceeded:
		if f := s.found; f != nil && r.kind == job.Discovery && f.SBOMs.Made+f.Reports.Made+f.Repositories.Failed == 0 {
			return // it went well, and found nothing new
		}
	case registryv1alpha1.ReasonCompletedWithErrors, registryv1alpha1.ReasonCancelled:
		kind, reason = corev1.EventTypeWarning, d.Completed.Reason
	default:
		kind, reason = corev1.EventTypeWarning, "Failed"
	}
	r.Events.Eventf(s.job.object(), nil, kind, reason, "Work", "%s: %s", d.Completed.Reason, d.Completed.Message)
}

// offer is what the Feeder may let in.
func (r *Reconciler) offer(s *seen) feeder.Offer {
	registry, o := s.registry, s.observed
	offer := feeder.Offer{
		Namespace: registry.Namespace, Registry: registry.Name, RegistryUID: string(registry.UID), Generation: registry.Generation,
		Job:         queue.Ref{Kind: string(r.kind), Name: s.wanted.Name, UID: s.wanted.UID},
		Interactive: s.wanted.Spec.Priority != registryv1alpha1.Scheduled, Priority: registry.Spec.Priority,
		Host: hostOf(registry), Account: accountOf(registry), Adapter: s.wanted.Adapter, Database: s.wanted.Database.Version,
		Deadline: o.Started.Add(o.Deadline), Heads: s.found.Heads,
		Own: feeder.Own{
			Weight: s.limits.Weight, Concurrent: s.limits.Concurrent, Bytes: s.limits.Bytes,
			Bounds: &queue.Bounds{Repositories: s.limits.Repositories, Images: s.limits.Images, AllowedHosts: s.limits.AllowedHosts},
		},
	}
	if l := registry.Spec.Limits; l != nil {
		if l.Concurrent != nil {
			offer.Concurrent = int(*l.Concurrent)
		}
		if l.BytesPerDay != nil {
			offer.Bytes = l.BytesPerDay.Value()
		}
		if l.RequestsPerSecond != nil {
			offer.RequestsPerSecond = float64(*l.RequestsPerSecond)
		}
	}
	return offer
}

// writeStatus patches what has changed. Sums alone are not written more often than every 5 s.
func (r *Reconciler) writeStatus(ctx context.Context, s *seen, d job.Decision, over bool) error {
	changed := s.job.copied()
	status, now := changed.status(), metav1.NewTime(r.Clock.Now().Truncate(time.Second))
	for kind, state := range map[string]job.State{
		registryv1alpha1.ConditionProgressing: d.Progressing, registryv1alpha1.ConditionCompleted: d.Completed,
	} {
		if state != (job.State{}) {
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{
				Type: kind, Status: state.Status, Reason: state.Reason, Message: r.explained(s, d, kind, state), LastTransitionTime: now,
				ObservedGeneration: changed.object().GetGeneration(),
			})
		}
	}
	status.ObservedGeneration = changed.object().GetGeneration()
	if d.Progressing != (job.State{}) {
		status.State = d.Progressing.Reason
	}
	if over {
		status.State, status.CompletionTime = d.Completed.Reason, &now
	}
	if d.Start {
		status.StartTime, status.RegistryUID, status.RegistryGeneration = &now, string(s.registry.UID), s.registry.Generation
		if scan, is := changed.(scanJob); is {
			v := s.wanted.Database
			scan.Status.Database = &registryv1alpha1.Database{Name: s.wanted.Adapter, Version: v.Version, BuiltAt: v.BuiltAt}
		}
	}
	conditionsOnly := changed.copied()
	r.sums(s, changed)
	if equality.Semantic.DeepEqual(s.job.object(), changed.object()) {
		return nil
	}
	uid := s.job.object().GetUID()
	r.mu.Lock()
	since := r.Clock.Now().Sub(r.written[uid])
	r.mu.Unlock()
	if !over && since < writeEvery && equality.Semantic.DeepEqual(s.job.object(), conditionsOnly.object()) {
		return nil
	}
	patch := client.MergeFromWithOptions(s.job.object(), client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, changed.object(), patch)); err != nil {
		return fmt.Errorf("write the status of the job: %w", err)
	}
	r.mu.Lock()
	r.written[uid] = r.Clock.Now()
	r.mu.Unlock()
	return nil
}

// explained is the message of a condition: that of a job at work tells where no worker takes it.
func (r *Reconciler) explained(s *seen, d job.Decision, kind string, state job.State) string {
	if kind == registryv1alpha1.ConditionProgressing && d.LetIn {
		if why := r.Feeder.Explain(s.wanted.Adapter); why != "" {
			return why
		}
		refused, _ := r.Feeder.Held(string(s.registry.UID), hostOf(s.registry), accountOf(s.registry), s.registry.Generation)
		if refused.After(s.observed.Now) {
			return "the registry refuses its credentials; see the condition Reachable of the Registry"
		}
		if r.Feeder.OverQuota(s.wanted.UID) {
			return "QuotaExceeded: the bytes of a day are fetched; images wait until some are a day old"
		}
		if s.wanted.Database.Version == "" && !s.found.Listing && s.found.Reports.Wanted > 0 {
			return errNoDatabase.Error() + ", and images wait for it"
		}
	}
	return state.Message
}

// sums are what the items say.
func (r *Reconciler) sums(s *seen, into anyJob) {
	if s.found == nil {
		return
	}
	status, f := into.status(), s.found
	into.count(f)
	if d, is := into.(discoveryJob); is && s.job.isDry() {
		r.mu.Lock()
		answer := r.previews[d.UID]
		r.mu.Unlock()
		if answer != nil {
			d.Status.Preview, d.Status.Requests = answer.Preview, answer.Requests
		}
	}
	status.Warnings, status.Errors, status.ErrorsTotal = f.Warnings, f.Errors, f.ErrorsTotal
	if s.registry.Generation != status.RegistryGeneration && status.RegistryGeneration > 0 {
		status.Warnings = append(status.Warnings, registryv1alpha1.Warning{Code: "RegistryChanged", Count: 1})
	}
	status.Progress = &registryv1alpha1.Progress{Done: f.Items.Done, Total: f.Items.Total, Failed: f.Items.Failed}
	if status.CompletionTime != nil && status.StartTime != nil {
		status.Progress.Duration = status.CompletionTime.Sub(status.StartTime.Time).Round(time.Second).String()
	}
}
