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

// Tenancy returns the settings in force for the Scans of a namespace, without asking the API server.
// The result is shared and must not be changed.
type Tenancy interface {
	Effective(ctx context.Context, namespace string) (*settings.Effective, error)
}

// observeSettings looks up the settings of the Scan's namespace.
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

// tenantOf returns the settings in force for a hook of a Scan. A team's settings do not reach a hook
// that the cluster admin runs in another namespace, with its own account and Secrets.
func (r *Reconciler) tenantOf(ctx context.Context, o *life.Observation, h *catalog.Hook) (*settings.Effective, error) {
	if r.tenancy == nil || h.ExecutionNamespace == "" || h.ExecutionNamespace == o.Scan.Namespace {
		return o.Tenant, nil
	}
	return r.tenancy.Effective(ctx, h.ExecutionNamespace)
}

// initialize adds our finalizers to a Scan and, in the same write, the place of its results.
func (r *Reconciler) initialize(ctx context.Context, o *life.Observation) error {
	scan := metadataOf(o.Scan)
	if life.PhaseOf(o.Scan, o.Jobs) == life.PhaseNew && !life.HasAnyFinalizer(o) {
		place := ""
		if o.Tenant != nil {
			place = tenancy.PlaceOf(o.Tenant.Storage).String()
		}
		// A place that the new Scan has already was copied from another Scan, or made up.
		delete(scan.Annotations, executionv1.AnnotationStoragePlace)
		delete(scan.Annotations, executionv1.AnnotationReleased)
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

// jobShape is how settings change a Job.
type jobShape struct {
	config     jobs.Config
	tenant     *settings.Effective
	attributes settings.JobAttributes
}

// shapeOf returns how the settings of the namespace change a Job that runs in it.
func (r *Reconciler) shapeOf(o *life.Observation, l life.JobRequest) jobShape {
	s := jobShape{config: r.jobs, tenant: l.Tenant, attributes: settings.JobAttributes{
		Phase: settingsv1alpha2.PhaseScanner, ScanType: o.Scan.Spec.ScanType, Labels: o.Scan.Labels,
	}}
	switch {
	case l.Hook != nil:
		s.attributes.Phase, s.attributes.Hook = settingsv1alpha2.PhaseHook, l.Hook.Name
	case l.Role == life.ParserRole:
		s.attributes.Phase = settingsv1alpha2.PhaseParser
	}
	if s.tenant != nil {
		s.config = withAdditions(s.config, s.tenant)
	}
	return s
}

// patch returns a Job with all patches that apply to it.
func (s jobShape) patch(job *batchv1.Job) (*batchv1.Job, error) {
	if s.tenant == nil {
		return job, nil
	}
	return s.tenant.Patch(job, s.attributes)
}

// withAdditions passes the additions of the settings to the builders.
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

// watchSettings enqueues the Scans to which changed settings apply.
func (r *Reconciler) watchSettings(b *ctrl.Builder) *ctrl.Builder {
	if r.tenancy == nil {
		return b
	}
	return b.
		Watches(&settingsv1alpha2.ScanSetting{}, r.enqueueUnder()).
		Watches(&settingsv1alpha2.ClusterScanSetting{}, r.enqueueUnder())
}

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueueUnder enqueues the Scans of a setting's namespace, or all Scans, when the setting has changed.
// They get a low priority: there may be many, and most need no work.
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

// scansIn lists the Scans of a namespace; "" means all namespaces.
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
