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
	"github.com/scanyard/scanyard/registry/internal/inventory"
	"github.com/scanyard/scanyard/registry/internal/job"
)

// tellRegistry writes what the items of a job say of its Registry: whether the registry answers, and at the end the sums.
func (r *Reconciler) tellRegistry(ctx context.Context, s *seen, d job.Decision, over bool) error {
	changed := s.registry.DeepCopy()
	status := &changed.Status
	r.reachable(s, changed)
	r.rateLimit(s, status, over)
	if over {
		if err := r.summarize(ctx, s, d, status); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(s.registry.Status, *status) {
		return nil
	}
	patch := client.MergeFromWithOptions(s.registry, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, changed, patch)); err != nil {
		return fmt.Errorf("write the status of the Registry: %w", err)
	}
	r.announce(s, changed, over)
	return nil
}

// refusals are reasons of the condition Reachable, by the Event that tells of them.
var refusals = map[string]string{
	registryv1alpha1.ReasonUnauthorized: "AuthenticationFailed", registryv1alpha1.ReasonForbidden: "AuthenticationFailed",
	registryv1alpha1.ReasonSecretNotFound: "AuthenticationFailed", registryv1alpha1.ReasonSecretForbidden: "AuthenticationFailed",
	registryv1alpha1.ReasonHostNotAllowed: "HostNotAllowed", registryv1alpha1.ReasonRateLimited: "RateLimited",
}

// announce writes Events on the Registry: once when it begins to refuse, and of what a discovery has found new.
func (r *Reconciler) announce(s *seen, changed *registryv1alpha1.Registry, over bool) {
	before := meta.FindStatusCondition(s.registry.Status.Conditions, registryv1alpha1.ConditionReachable)
	now := meta.FindStatusCondition(changed.Status.Conditions, registryv1alpha1.ConditionReachable)
	if now != nil && now.Status == metav1.ConditionFalse && (before == nil || before.Reason != now.Reason) && refusals[now.Reason] != "" {
		r.Events.Eventf(changed, nil, corev1.EventTypeWarning, refusals[now.Reason], "Discover", "%s: %s", now.Reason, now.Message)
	}
	if over && r.kind == job.Discovery && overQuota(changed.Status.Warnings) != nil && overQuota(s.registry.Status.Warnings) == nil {
		r.Events.Eventf(changed, s.job.object(), corev1.EventTypeWarning, registryv1alpha1.ReasonQuotaExceeded, "Discover",
			"%d repositories or images were left out: the namespace has as many as it may have", overQuota(changed.Status.Warnings).Count)
	}
	if found := s.found.SBOMs.Made; over && r.kind == job.Discovery && found > 0 {
		r.Events.Eventf(changed, s.job.object(), corev1.EventTypeNormal, "Discovered", "Discover", "%d images are new", found)
	}
}

// rateLimit writes that the host wants to be left alone, which outlives this controller. What is left of an allowance changes with each
// request, and is written at the end of a job.
func (r *Reconciler) rateLimit(s *seen, status *registryv1alpha1.RegistryStatus, over bool) {
	host := hostOf(s.registry)
	told, counts := r.Feeder.Allowance(string(s.registry.UID), host, accountOf(s.registry))
	switch {
	case counts && (told.Remaining == nil || over):
		reset := metav1.NewTime(told.ResetTime.Truncate(time.Second))
		status.RateLimit = &registryv1alpha1.RateLimit{Host: host, Remaining: told.Remaining, ResetTime: &reset}
	case !counts && status.RateLimit != nil && (status.RateLimit.ResetTime == nil || !status.RateLimit.ResetTime.After(s.observed.Now)):
		status.RateLimit = nil
	}
}

// overQuota is the warning of a discovery that has left something out for a quota.
func overQuota(warnings []registryv1alpha1.Warning) *registryv1alpha1.Warning {
	for i := range warnings {
		if warnings[i].Code == registryv1alpha1.ReasonQuotaExceeded {
			return &warnings[i]
		}
	}
	return nil
}

// reachable writes the conditions Reachable and CatalogAvailable.
func (r *Reconciler) reachable(s *seen, changed *registryv1alpha1.Registry) {
	if r.kind == job.Scan {
		return // it asks no registry
	}
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: changed.Generation,
			LastTransitionTime: metav1.NewTime(r.Clock.Now().Truncate(time.Second)),
		})
	}
	switch {
	case s.found.Refusal != "":
		set(registryv1alpha1.ConditionReachable, metav1.ConditionFalse, s.found.Refusal, s.found.RefusalMessage)
	case s.found.Reached:
		set(registryv1alpha1.ConditionReachable, metav1.ConditionTrue, registryv1alpha1.ReasonAnswered, "the registry answers")
	default:
		return
	}
	switch {
	case s.found.Catalog == registryv1alpha1.ReasonListed:
		set(registryv1alpha1.ConditionCatalogAvailable, metav1.ConditionTrue, registryv1alpha1.ReasonListed, "the registry tells its names")
	case s.found.Catalog == registryv1alpha1.ReasonNotAsked:
		set(registryv1alpha1.ConditionCatalogAvailable, metav1.ConditionUnknown, registryv1alpha1.ReasonNotAsked, "spec.repositories names what there is")
	case s.found.Catalog != "":
		set(registryv1alpha1.ConditionCatalogAvailable, metav1.ConditionFalse, s.found.Catalog, "name the repositories in spec.repositories")
	}
}

// summarize writes what the end of a job says.
func (r *Reconciler) summarize(ctx context.Context, s *seen, d job.Decision, status *registryv1alpha1.RegistryStatus) error {
	last := &registryv1alpha1.LastJob{Job: s.wanted.Name, Time: new(metav1.NewTime(r.Clock.Now().Truncate(time.Second))), Result: d.Completed.Reason}
	if r.kind == job.Scan {
		status.LastScan = last
	} else {
		status.LastDiscovery = last
		status.Repositories, status.Tags, status.Warnings = s.found.Repositories.Total, s.found.Tags.Selected, s.found.Warnings
	}
	sums, err := inventory.Reader{Client: r.Reports}.Sums(ctx, s.wanted)
	if err != nil {
		return err
	}
	status.Images, status.Vulnerabilities = &sums.Images, &sums.Vulnerabilities
	if v := s.wanted.Database; v.Version != "" && sums.Images.Waiting == 0 && d.Completed.Status == metav1.ConditionTrue {
		status.Database = &registryv1alpha1.Database{Name: s.wanted.Adapter, Version: v.Version, BuiltAt: v.BuiltAt}
	}
	upToDate := metav1.Condition{Type: registryv1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, ObservedGeneration: s.registry.Generation}
	stale := s.wanted.Database.BuiltAt != nil && s.observed.Now.Sub(s.wanted.Database.BuiltAt.Time) > r.Config.MaxAge()
	switch {
	case s.wanted.Database.Version == "" && sums.Images.Present > 0:
		upToDate.Reason, upToDate.Message = registryv1alpha1.ReasonDatabaseMissing, errNoDatabase.Error()
	case sums.Images.Failed+sums.Images.Quarantined > 0:
		upToDate.Reason = registryv1alpha1.ReasonImagesFailed
		upToDate.Message = fmt.Sprintf("%d images failed, %d are quarantined: kubectl get images shows why", sums.Images.Failed, sums.Images.Quarantined)
	case sums.Images.Waiting > 0:
		upToDate.Reason, upToDate.Message = registryv1alpha1.ReasonWaiting, fmt.Sprintf("%d images wait", sums.Images.Waiting)
	case stale:
		upToDate.Reason, upToDate.Message = registryv1alpha1.ReasonDatabaseStale, "the vulnerability database is older than "+r.Config.Database.MaxAge
	default:
		upToDate.Status, upToDate.Reason, upToDate.Message = metav1.ConditionTrue, registryv1alpha1.ReasonScanned, "every present image has a report"
	}
	upToDate.LastTransitionTime = metav1.NewTime(r.Clock.Now().Truncate(time.Second))
	meta.SetStatusCondition(&status.Conditions, upToDate)
	return nil
}
