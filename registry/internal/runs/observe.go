// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/feed"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/inventory"
	"github.com/scanyard/scanyard/registry/internal/job"
	"github.com/scanyard/scanyard/registry/internal/results"
	"github.com/scanyard/scanyard/registry/internal/schedule"
	"github.com/scanyard/scanyard/registry/internal/tenancy"
)

const defaultDeadline = 24 * time.Hour

// seen is what a pass has seen.
type seen struct {
	job      anyJob
	registry *registryv1alpha1.Registry
	observed job.Observation
	found    *inventory.Found
	wanted   inventory.Job
	limits   tenancy.Limits
}

// observe reads what the life of a job is decided by.
func (r *Reconciler) observe(ctx context.Context, a anyJob) (*seen, error) {
	object, spec, status := a.object(), a.spec(), a.status()
	s := &seen{job: a, observed: job.Observation{
		Now: r.Clock.Now(), Kind: r.kind, Created: object.GetCreationTimestamp().Time, Deleting: !object.GetDeletionTimestamp().IsZero(), Ended: a.isEnded(),
		Cancel: spec.Cancel, Deadline: defaultDeadline,
	}}
	o := &s.observed
	if o.Deleting || o.Ended {
		return s, nil // the Registry deletes what has ended
	}
	if status.StartTime != nil {
		o.Started = status.StartTime.Time
	}
	if spec.DeadlineSeconds != nil {
		o.Deadline = time.Duration(*spec.DeadlineSeconds) * time.Second
	}
	if c := meta.FindStatusCondition(status.Conditions, registryv1alpha1.ConditionProgressing); c != nil && c.Reason == job.ReasonCancelling {
		o.CancelSeen = c.LastTransitionTime.Time
	}
	if err := r.observeRegistry(ctx, s); err != nil || s.registry == nil {
		return s, err
	}
	if err := r.observeOthers(ctx, s); err != nil {
		return nil, err
	}
	o.Invalid = invalid(a, s.registry)
	limits, err := r.Limits(ctx, s.registry.Namespace)
	if err != nil {
		return nil, err
	}
	s.limits = limits
	if err := r.observeWork(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}

func (r *Reconciler) observeRegistry(ctx context.Context, s *seen) error {
	registry := &registryv1alpha1.Registry{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.job.object().GetNamespace(), Name: s.job.spec().Registry}, registry)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get Registry: %w", err)
	}
	s.registry = registry
	uid := s.job.status().RegistryUID
	s.observed.RegistryFound = true
	s.observed.RegistryReplaced = !registry.DeletionTimestamp.IsZero() || uid != "" && uid != string(registry.UID)
	return nil
}

// observeOthers looks for an older job of the kind that has not ended.
func (r *Reconciler) observeOthers(ctx context.Context, s *seen) error {
	all, err := r.list(ctx, s.job.object().GetNamespace())
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.object().GetUID() != s.job.object().GetUID() && other.spec().Registry == s.job.spec().Registry && !other.isEnded() &&
			other.object().GetDeletionTimestamp().IsZero() && comesBefore(other, s.job) {
			s.observed.OlderAtWork = true
		}
	}
	return nil
}

// comesBefore tells whose turn is first: who has begun, then who is older.
func comesBefore(a, b anyJob) bool {
	begunA, begunB := a.status().StartTime != nil, b.status().StartTime != nil
	if begunA != begunB {
		return begunA
	}
	createdA, createdB := a.object().GetCreationTimestamp(), b.object().GetCreationTimestamp()
	if !createdA.Equal(&createdB) {
		return createdA.Before(&createdB)
	}
	return a.object().GetName() < b.object().GetName()
}

// invalid names a field that can never work.
func invalid(a anyJob, registry *registryv1alpha1.Registry) string {
	of, field := registry.Spec.Filter, "the Registry's spec."
	if d, is := a.(discoveryJob); is && d.Spec.Override != nil {
		of, field = *d.Spec.Override, "spec.override."
	}
	if _, failure := filter.Compile(of); failure != nil {
		return field + failure.Field + ": " + failure.Message
	}
	return ""
}

// observeWork looks at what holds the job, and at its items where it has begun.
func (r *Reconciler) observeWork(ctx context.Context, s *seen) error {
	o, registry := &s.observed, s.registry
	s.wanted = inventory.Job{
		Kind: r.kind, Namespace: registry.Namespace, Name: s.job.object().GetName(), UID: string(s.job.object().GetUID()), Spec: *s.job.spec(), Registry: registry,
		Adapter: r.Config.Adapter(registry.Spec.Adapter), Started: o.Started, Now: o.Now,
	}
	reports, queue := r.Away()
	if reports == "" {
		if err := r.database(ctx, s); err != nil {
			return err
		}
	}
	s.job.complete(&s.wanted)
	o.Holds = r.holds(s, reports, queue)
	if o.Started.IsZero() || reports != "" || o.RegistryReplaced {
		return nil
	}
	found, err := r.items(ctx, s)
	if err != nil {
		return err
	}
	s.found, o.Asked, o.Items, o.Listing = found, true, found.Items, found.Listing
	return nil
}

// items asks what the items of the job are.
func (r *Reconciler) items(ctx context.Context, s *seen) (*inventory.Found, error) {
	r.mu.Lock()
	r.looked[s.job.object().GetUID()] = s.observed.Now
	r.mu.Unlock()
	reader := inventory.Reader{Client: r.Reports}
	switch {
	case s.job.isDry():
		return r.dry(s), nil
	case r.kind == job.Scan:
		return reader.Scan(ctx, s.wanted)
	default:
		return reader.Discovery(ctx, s.wanted)
	}
}

// dry is the one item of a dry run: a worker that looks, and tells.
func (r *Reconciler) dry(s *seen) *inventory.Found {
	f := &inventory.Found{Listing: true, Items: job.Items{Total: 1}}
	r.mu.Lock()
	answer := r.previews[s.job.object().GetUID()]
	r.mu.Unlock()
	if answer == nil {
		f.Items.Waiting = 1
		f.Heads = []inventory.Head{{Step: feed.Discover, Name: results.RepositoryName(string(s.registry.UID), ""), Since: s.observed.Started}}
		return f
	}
	f.Items.Done, f.Listing, f.Reached = 1, false, true
	f.Warnings = answer.Warnings
	if answer.Repositories != nil {
		f.Repositories = *answer.Repositories
	}
	if answer.Tags != nil {
		f.Tags = *answer.Tags
	}
	if answer.Images != nil {
		f.Images = *answer.Images
	}
	return f
}

// errNoDatabase says that an adapter has no data yet.
var errNoDatabase = errors.New("the adapter has no vulnerability database yet")

// database notes the data of the job's adapter.
func (r *Reconciler) database(ctx context.Context, s *seen) error {
	database := &reportsv1.VulnerabilityDatabase{}
	err := r.Reports.Get(ctx, client.ObjectKey{Name: s.wanted.Adapter}, database)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("get VulnerabilityDatabase: %w", err)
	}
	s.wanted.Database = database.Status
	return nil
}

// holds are what keeps a job waiting, in their order.
func (r *Reconciler) holds(s *seen, reports, queue string) []job.Hold {
	var all []job.Hold
	hold := func(reason, message string, until time.Time) {
		all = append(all, job.Hold{Reason: reason, Message: message, Until: until})
	}
	registry, now := s.registry, s.observed.Now
	if s.job.spec().Suspend {
		hold(registryv1alpha1.ReasonSuspended, "spec.suspend is true", time.Time{})
	}
	if registry.Spec.Suspend {
		hold(registryv1alpha1.ReasonSuspended, "the Registry is suspended", time.Time{})
	}
	if until := r.windowUntil(s); until.After(now) {
		hold(registryv1alpha1.ReasonWindowClosed, "a window of the Registry is open in which no job starts", until)
	}
	ready := meta.FindStatusCondition(registry.Status.Conditions, registryv1alpha1.ConditionReady)
	passing := ready != nil && (ready.Reason == registryv1alpha1.ReasonReportsUnavailable || ready.Reason == registryv1alpha1.ReasonQueueUnavailable)
	switch {
	case ready == nil || ready.ObservedGeneration != registry.Generation:
		hold(registryv1alpha1.ReasonRegistryNotReady, "the Registry has not been looked at yet", time.Time{})
	case ready.Status != metav1.ConditionTrue && !passing:
		hold(registryv1alpha1.ReasonRegistryNotReady, ready.Reason+": "+ready.Message, time.Time{})
	}
	if reports != "" {
		hold(registryv1alpha1.ReasonReportsUnavailable, reports, time.Time{})
	}
	if queue != "" {
		hold(registryv1alpha1.ReasonQueueUnavailable, queue, time.Time{})
	}
	if r.kind == job.Scan {
		all = append(all, r.databaseHolds(s)...)
	}
	if told := registry.Status.RateLimit; told != nil && told.Remaining == nil && told.ResetTime != nil && told.ResetTime.After(now) {
		r.Feeder.Pause(told.Host, accountOf(registry), told.ResetTime.Time)
	}
	// A registry that refuses holds no job: one item goes out now and then, and sees a new Secret. Matching asks no host, so a ScanJob goes
	// on; what it has made anew of failed images waits in the Feeder.
	_, paused := r.Feeder.Held(string(registry.UID), hostOf(registry), accountOf(registry), registry.Generation)
	if r.kind == job.Discovery && paused.After(now) {
		hold(registryv1alpha1.ReasonRateLimited, "the registry wants fewer requests", paused)
	}
	return all
}

func (r *Reconciler) databaseHolds(s *seen) []job.Hold {
	d := s.wanted.Database
	if d.Version == "" {
		return []job.Hold{{Reason: registryv1alpha1.ReasonDatabaseMissing, Message: errNoDatabase.Error()}}
	}
	if r.Config.Database.WhenStale == config.Stop && d.BuiltAt != nil && s.observed.Now.Sub(d.BuiltAt.Time) > r.Config.MaxAge() {
		return []job.Hold{{Reason: registryv1alpha1.ReasonDatabaseStale, Message: "the vulnerability database is older than " + r.Config.Database.MaxAge}}
	}
	return nil
}

// windowUntil is the end of the window that keeps the job from starting, or from going on; the zero time: there is none.
func (r *Reconciler) windowUntil(s *seen) time.Time {
	goesOn := !s.observed.Started.IsZero() && s.registry.Spec.WindowPolicy != registryv1alpha1.WindowPause
	if goesOn || len(s.registry.Spec.Windows) == 0 {
		return time.Time{}
	}
	kind := schedule.Discovery
	if r.kind == job.Scan {
		kind = schedule.Scan
	}
	table, problem := schedule.Read(s.registry, kind, r.Zones)
	if problem != nil || table == nil {
		return time.Time{}
	}
	until, _ := table.Open(s.observed.Now)
	return until
}

// hostOf is the registry's host.
func hostOf(registry *registryv1alpha1.Registry) string {
	u, err := url.Parse(registry.Spec.URL)
	if err != nil {
		return ""
	}
	return distribution.Host(u.Host)
}

// accountOf is whose limits count where a Registry is asked: its Secret, as namespace/name; "" is anonymous.
func accountOf(registry *registryv1alpha1.Registry) string {
	if auth := registry.Spec.Auth; auth != nil && auth.SecretName != "" {
		return registry.Namespace + "/" + auth.SecretName
	}
	return ""
}
