// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
	"github.com/scanyard/scanyard/settings"
)

// Tenancy tells what holds for the Scans of a namespace, without asking the API server. What it
// returns is shared.
type Tenancy interface {
	Effective(ctx context.Context, namespace string) (*settings.Effective, error)
}

// observeSettings looks up what the settings of the Scan's namespace say.
func (r *Reconciler) observeSettings(ctx context.Context, o *life.Observation) error {
	if r.tenancy == nil {
		return nil
	}
	var err error
	if o.Tenant, err = r.tenancy.Effective(ctx, o.Scan.Namespace); err != nil {
		return err
	}
	o.Settings.StatusLinks = o.Tenant.StatusLinks
	return nil
}

// tenantOf returns what the settings say that hold for a hook of a Scan: those of a team do not reach
// a hook that the cluster admin runs elsewhere, with its own account and Secrets.
func (r *Reconciler) tenantOf(ctx context.Context, o *life.Observation, h *catalog.Hook) (*settings.Effective, error) {
	if r.tenancy == nil || h.ExecutionNamespace == "" || h.ExecutionNamespace == o.Scan.Namespace {
		return o.Tenant, nil
	}
	return r.tenancy.Effective(ctx, h.ExecutionNamespace)
}

// initialize puts our finalizers on a Scan and, in the same write, where its results will lie.
func (r *Reconciler) initialize(ctx context.Context, o *life.Observation) error {
	scan := o.Scan.DeepCopy()
	if life.PhaseOf(o.Scan, o.Jobs) == life.PhaseNew && !life.HasAnyFinalizer(o) {
		place := ""
		if o.Tenant != nil {
			place = tenancy.PlaceOf(o.Tenant.Storage).String()
		}
		// One that is there already was copied from another Scan, or made up.
		delete(scan.Annotations, executionv1.AnnotationStoragePlace)
		metav1.SetMetaDataAnnotation(&scan.ObjectMeta, executionv1.AnnotationRecord, life.Record{}.Text())
		if place != "" {
			metav1.SetMetaDataAnnotation(&scan.ObjectMeta, executionv1.AnnotationStoragePlace, place)
		}
	}
	want := []string{executionv1.FinalizerStorage}
	if o.Forwards() {
		want = append(want, executionv1.FinalizerDelivery)
	}
	return r.patchFinalizers(ctx, o.Scan, scan, want...)
}

// jobShape is what the settings make of a Job.
type jobShape struct {
	config jobs.Config
	tenant *settings.Effective
	traits settings.Traits
}

// shapeOf returns what the settings of the namespace say in which a Job runs.
func (r *Reconciler) shapeOf(o *life.Observation, l life.JobRequest) jobShape {
	s := jobShape{config: r.jobs, tenant: l.Tenant, traits: settings.Traits{
		Phase: settingsv1alpha2.PhaseScanner, ScanType: o.Scan.Spec.ScanType, Labels: o.Scan.Labels,
	}}
	switch {
	case l.Hook != nil:
		s.traits.Phase, s.traits.Hook = settingsv1alpha2.PhaseHook, l.Hook.Name
	case l.Role == life.ParserRole:
		s.traits.Phase = settingsv1alpha2.PhaseParser
	}
	if s.tenant != nil {
		s.config = withAdditions(s.config, s.tenant)
	}
	return s
}

// patch returns a Job with the patches that are for it.
func (s jobShape) patch(job *batchv1.Job) (*batchv1.Job, error) {
	if s.tenant == nil {
		return job, nil
	}
	return s.tenant.Patch(job, s.traits)
}

// withAdditions tells the builders what the settings add.
func withAdditions(c jobs.Config, e *settings.Effective) jobs.Config {
	defaults := func(p settingsv1alpha2.Phase) jobs.Defaults {
		d := e.Phases[p]
		return jobs.Defaults{Resources: d.Resources, SecurityContext: d.SecurityContext, PodSecurityContext: d.PodSecurityContext}
	}
	c.Additions = jobs.Additions{
		Scanner:     defaults(settingsv1alpha2.PhaseScanner),
		Parser:      defaults(settingsv1alpha2.PhaseParser),
		Hook:        defaults(settingsv1alpha2.PhaseHook),
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

// watchSettings brings the Scans that changed settings are for.
func (r *Reconciler) watchSettings(b *ctrl.Builder) *ctrl.Builder {
	if r.tenancy == nil {
		return b
	}
	return b.
		Watches(&settingsv1alpha2.ScanSetting{}, r.enqueueUnder()).
		Watches(&settingsv1alpha2.ClusterScanSetting{}, r.enqueueUnder())
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
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || settings.Verdict(e.ObjectOld) != settings.Verdict(e.ObjectNew) {
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
