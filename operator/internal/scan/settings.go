// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
)

// Tenancy tells what holds for the Scans of a namespace, without asking the API server. What it
// returns is shared.
type Tenancy interface {
	Effective(ctx context.Context, namespace string) (*tenancy.Effective, error)
}

// observeSettings looks up what the settings of the Scan's namespace say.
func (r *Reconciler) observeSettings(ctx context.Context, o *observed) error {
	if r.tenancy == nil {
		return nil
	}
	var err error
	if o.tenant, err = r.tenancy.Effective(ctx, o.scan.Namespace); err != nil {
		return err
	}
	o.settings.StatusLinks = o.tenant.StatusLinks
	return nil
}

// bounds are the deadlines of the phases.
func (o *observed) bounds() tenancy.Deadlines {
	if o.tenant != nil {
		return o.tenant.Deadlines
	}
	s := o.settings
	return tenancy.Deadlines{
		Start: tenancy.Deadline{Default: s.StartDeadline}, Scanner: tenancy.Deadline{Default: s.ScannerDeadline},
		Parser: tenancy.Deadline{Default: s.ParserDeadline}, Hook: tenancy.Deadline{Default: s.HookDeadline},
	}
}

// startDeadline is how long the pods of a phase may take to start.
func (o *observed) startDeadline() time.Duration {
	return o.bounds().Start.For(o.deadlines().StartSeconds)
}

// ttl is how long the Scan is kept when it has ended; false where it is kept for ever.
func (o *observed) ttl() (time.Duration, bool) {
	seconds := o.scan.Spec.TTLSecondsAfterFinished
	if o.tenant != nil {
		seconds = o.tenant.TTL.Seconds(seconds)
	}
	return time.Duration(ptr.Deref(seconds, 0)) * time.Second, seconds != nil
}

// takeUp puts our finalizer on a Scan and, in the same write, where its results will lie.
func (r *Reconciler) takeUp(ctx context.Context, o *observed) error {
	scan := o.scan.DeepCopy()
	if phaseOf(o.scan, o.jobs) == phaseNew && !hasAnyFinalizer(o) {
		place := ""
		if o.tenant != nil {
			place = o.tenant.Storage.Place().String()
		}
		// One that is there already was copied from another Scan, or made up.
		delete(scan.Annotations, executionv1.AnnotationStoragePlace)
		if place != "" {
			metav1.SetMetaDataAnnotation(&scan.ObjectMeta, executionv1.AnnotationStoragePlace, place)
		}
	}
	return r.patchFinalizers(ctx, o.scan, scan, true)
}

// jobShape is what the settings make of a Job.
type jobShape struct {
	config jobs.Config
	tenant *tenancy.Effective
	traits tenancy.Traits
}

// shapeOf returns what the settings of the namespace say in which a Job runs: those of a team do
// not reach a hook that the cluster admin runs elsewhere, with its own account and Secrets.
func (r *Reconciler) shapeOf(ctx context.Context, o *observed, l launch) (jobShape, error) {
	s := jobShape{config: r.jobs, tenant: o.tenant, traits: tenancy.Traits{
		Phase: settingsv1alpha1.PhaseScanner, ScanType: o.scan.Spec.ScanType, Labels: o.scan.Labels,
	}}
	switch {
	case l.hook != nil:
		s.traits.Phase, s.traits.Hook = settingsv1alpha1.PhaseHook, l.hook.Name
		if away := l.hook.ExecutionNamespace; r.tenancy != nil && away != "" && away != o.scan.Namespace {
			var err error
			if s.tenant, err = r.tenancy.Effective(ctx, away); err != nil {
				return s, err
			}
		}
	case l.role == parserRole:
		s.traits.Phase = settingsv1alpha1.PhaseParser
	}
	if s.tenant != nil {
		s.config = withAdditions(s.config, s.tenant)
	}
	return s, nil
}

// patch returns a Job with the patches that are for it.
func (s jobShape) patch(job *batchv1.Job) (*batchv1.Job, error) {
	if s.tenant == nil {
		return job, nil
	}
	return s.tenant.Patch(job, s.traits)
}

// withAdditions tells the builders what the settings add.
func withAdditions(c jobs.Config, e *tenancy.Effective) jobs.Config {
	defaults := func(p settingsv1alpha1.Phase) jobs.Defaults {
		d := e.Phases[p]
		return jobs.Defaults{Resources: d.Resources, SecurityContext: d.SecurityContext, PodSecurityContext: d.PodSecurityContext}
	}
	c.Additions = jobs.Additions{
		Scanner:     defaults(settingsv1alpha1.PhaseScanner),
		Parser:      defaults(settingsv1alpha1.PhaseParser),
		Hook:        defaults(settingsv1alpha1.PhaseHook),
		PullSecrets: e.Jobs.PullSecrets,
		Env:         e.Jobs.Env,
	}
	if p := e.Jobs.Proxy; p != nil {
		c.Additions.Proxy = jobs.Proxy{HTTP: p.HTTP, HTTPS: p.HTTPS, NoProxy: p.NoProxy}
	}
	if ca := e.Jobs.CACertificate; ca != nil {
		c.CustomCA = jobs.CustomCA{ConfigMap: ca.ConfigMap, Key: ca.Key}
		c.Additions.TrustCA = true
	}
	return c
}

// forbidden says what a Job would use that the settings do not allow; "" where there is nothing.
// Cluster* kinds are not asked: cluster admins write them.
func forbidden(o *observed, l launch) string {
	if o.tenant == nil {
		return ""
	}
	a, own := o.tenant.Allowed, o.scan.Mode() == executionv1.NamespaceLocal
	switch {
	case l.hook != nil:
		if !own {
			return ""
		}
		return firstOf(
			a.Volumes("spec.volumes", l.hook.Spec.Volumes),
			a.ServiceAccount("spec.serviceAccountName", ptr.Deref(l.hook.Spec.ServiceAccountName, "")),
		)
	case l.role == parserRole:
		if !own || o.definition == nil {
			return ""
		}
		return inKind("ParseDefinition", o.scan.Status.RawResultType, a.Volumes("spec.volumes", o.definition.Volumes))
	}
	if why := a.Volumes("spec.volumes", o.scan.Spec.Volumes); why != "" || !own {
		return why
	}
	pod := o.scanType.JobTemplate.Spec.Template.Spec
	const path = "spec.jobTemplate.spec.template.spec."
	return inKind("ScanType", o.scan.Spec.ScanType, firstOf(
		a.Volumes(path+"volumes", pod.Volumes),
		a.ServiceAccount(path+"serviceAccountName", pod.ServiceAccountName),
	))
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

// watchSettings brings the Scans that changed settings are for.
func (r *Reconciler) watchSettings(b *ctrl.Builder) *ctrl.Builder {
	if r.tenancy == nil {
		return b
	}
	return b.
		Watches(&settingsv1alpha1.ScanSetting{}, r.enqueueUnder()).
		Watches(&settingsv1alpha1.ClusterScanSetting{}, r.enqueueUnder())
}

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueueUnder brings the Scans of a setting's namespace, or all, when what it says has changed.
// They come behind all others: there may be many, and most have nothing to do.
func (r *Reconciler) enqueueUnder() handler.EventHandler {
	bring := func(ctx context.Context, o client.Object, q requestQueue) {
		for _, req := range r.scansIn(ctx, o.GetNamespace()) {
			if pq, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
				pq.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, req)
				continue
			}
			q.Add(req)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requestQueue) { bring(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requestQueue) { bring(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requestQueue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || tenancy.Verdict(e.ObjectOld) != tenancy.Verdict(e.ObjectNew) {
				bring(ctx, e.ObjectNew, q)
			}
		},
	}
}

// scansIn lists the Scans of a namespace, or, for "", all.
func (r *Reconciler) scansIn(ctx context.Context, namespace string) []reconcile.Request {
	var list executionv1.ScanList
	err := r.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List Scans under changed settings", "scanNamespace", namespace)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
