// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
	"github.com/scanyard/scanyard/registry/internal/results"
)

// warningQuota is that of a catalogue with more repositories than the namespace may have.
const warningQuota = "QuotaExceeded"

// names are the repositories of a Registry.
type names struct {
	// listed are in the order in which they came.
	listed []string
	known  map[string]bool
	// complete: there are no others.
	complete bool
	warnings map[string]int64
	examples map[string][]string
}

func (n *names) warn(code, example string) {
	n.warnings[code]++
	const maxExamples = 5
	if example != "" && len(n.examples[code]) < maxExamples {
		n.examples[code] = append(n.examples[code], example)
	}
}

// namesOf finds out which repositories a filter takes.
func (w *Worker) namesOf(ctx context.Context, s *session, r *registryv1alpha1.Registry, narrow []string, compiled *filter.Compiled) (*names, error) {
	n := &names{known: map[string]bool{}, warnings: map[string]int64{}, examples: map[string][]string{}, complete: true}
	narrowed, wrong := filter.Compile(registryv1alpha1.Filter{Repositories: narrow})
	if wrong != nil {
		return n, wrong
	}
	take := func(name string) {
		d := compiled.Demand(s.host, name)
		if !d.Selected || n.known[d.Name] || len(narrow) > 0 && !narrowed.Demand(s.host, name).Selected {
			return
		}
		n.known[d.Name] = true
		n.listed = append(n.listed, d.Name)
	}
	listed, catalog := compiled.Names(s.host)
	for _, name := range listed {
		take(name)
	}
	always, never := r.Spec.Catalog == registryv1alpha1.CatalogAlways, r.Spec.Catalog == registryv1alpha1.CatalogNever
	if !catalog || never || !always && !distribution.HasCatalog(string(r.Spec.Type), s.host) {
		return n, nil
	}
	listing, err := s.Catalog(ctx, "", func(p distribution.Page) error {
		for _, name := range p.Names {
			take(name)
		}
		return nil
	})
	n.complete = listing.Complete
	if listing.Code != "" {
		n.warn(listing.Code, "")
	}
	if reason := distribution.ReasonOf(err); len(listed) > 0 && (reason == distribution.CatalogForbidden || reason == distribution.CatalogNotSupported) {
		// The names that are written down are enough to go on.
		n.warn(string(reason), "")
		err = nil
	}
	return n, err
}

// readCatalog is a try: it makes the Repositories that are missing, and deletes those that are gone.
func (w *Worker) readCatalog(h *hold, repository *reportsv1.Repository, a around) error {
	compiled, err := a.filterOf()
	if err != nil {
		return err
	}
	s, err := h.open(a.registry)
	if err != nil {
		return err
	}
	defer s.close()
	found, listErr := w.namesOf(h.ctx, s, a.registry, a.task.repositories, compiled)
	// What a list that broke off has is used.
	err = w.keepRepositories(h, a, found)
	if err = errors.Join(listErr, err); err != nil {
		return err
	}
	return w.endCatalog(h, repository, a, found)
}

// keepRepositories makes what is missing, as far as the namespace may have it, and lets go what is not there any more.
func (w *Worker) keepRepositories(h *hold, a around, found *names) error {
	there := map[string]*reportsv1.Repository{}
	all := int64(0)
	uid, namespace := string(a.registry.UID), h.seen.namespace
	err := reportsclient.List(h.ctx, w.Reports, namespace, reportsclient.Repositories, "", func(r *reportsv1.Repository) error {
		if r.Spec.Repository == "" {
			return nil
		}
		all++
		if r.Spec.Registry.UID == uid {
			there[r.Spec.Repository] = r
		}
		return nil
	})
	if err != nil {
		return err
	}
	quota, _ := w.quotas(h.d.Bounds)
	// The first ones by name are taken, whatever the order of the catalogue.
	for _, name := range slices.Sorted(slices.Values(found.listed)) {
		if there[name] != nil {
			continue
		}
		if all >= quota {
			found.warn(warningQuota, name)
			continue
		}
		all++
		if err := w.newRepository(h.ctx, results.NewRepository(placeOf(a, namespace), name), h.d.Job); err != nil {
			return err
		}
	}
	// A job that looks at a part of the repositories knows nothing of the others.
	if !found.complete || len(a.task.repositories) > 0 {
		return nil
	}
	for name, gone := range there {
		if found.known[name] {
			continue
		}
		if err := w.letGo(h.ctx, gone, h.d.Job); err != nil {
			return err
		}
	}
	return nil
}

// newRepository makes an item of discovery.
func (w *Worker) newRepository(ctx context.Context, r reportsv1.Repository, job *queue.Ref) error {
	var made reportsv1.Repository
	err := w.Reports.Create(ctx, r.Namespace, reportsclient.Repositories, &r, &made)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	status := object{"state": reportsv1.RepositoryWaiting}
	if job != nil {
		status["work"] = object{"job": object{"kind": job.Kind, "name": job.Name, "uid": job.UID}}
	}
	_, err = w.Reports.PatchStatus(ctx, r.Namespace, reportsclient.Repositories, r.Name, object{"status": status}, &made)
	return ignoreGone(err)
}

// letGo ends a repository that the registry, or the filter, does not have any more: its Images have left.
func (w *Worker) letGo(ctx context.Context, r *reportsv1.Repository, job *queue.Ref) error {
	images, err := w.imagesOf(ctx, r.Namespace, r.Spec.Registry.UID, r.Spec.Repository)
	if err != nil {
		return err
	}
	for i := range images {
		if images[i].Status.Presence == reportsv1.ImageGone || images[i].Spec.External {
			continue
		}
		change := results.Change{Name: images[i].Name, Presence: reportsv1.ImageGone, Reason: "RepositoryGone"}
		if err := w.changePresence(ctx, &images[i], change, job); err != nil {
			return err
		}
	}
	return w.Reports.Delete(ctx, r.Namespace, reportsclient.Repositories, r.Name)
}

// endCatalog writes that the names are known, which ends the claim.
func (w *Worker) endCatalog(h *hold, repository *reportsv1.Repository, a around, found *names) error {
	var warnings []reportsv1.RepositoryWarning
	for _, code := range sorted(found.warnings) {
		warnings = append(warnings, reportsv1.RepositoryWarning{Code: code, Count: found.warnings[code], Examples: found.examples[code]})
	}
	now := w.Clock.Now()
	var err error
	for range rounds {
		v, _, failed := w.readWork(h.ctx, h.seen.resource, h.seen.namespace, h.seen.name)
		if failed != nil {
			return failed
		}
		if v.work.Claim != h.claim {
			return errDropped
		}
		status := object{
			"state": reportsv1.RepositoryDone, "reason": nil, "message": fmt.Sprintf("%d repositories", len(found.listed)), "warnings": warnings, "cursor": nil,
			"discoveredAt": now.UTC().Format(time.RFC3339), "filterGeneration": a.registry.Generation,
			"work": object{
				"claim": nil, "worker": nil, "startedAt": nil, "leaseExpiresAt": nil, "attempt": nil, "crashes": nil, "lost": nil, "notBefore": nil, "step": nil,
			},
		}
		patch := object{"metadata": object{"resourceVersion": v.version}, "status": status}
		_, err = w.Reports.PatchStatus(h.ctx, repository.Namespace, reportsclient.Repositories, repository.Name, patch, &struct{}{})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}
