// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/discovery"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
	"github.com/scanyard/scanyard/registry/internal/results"
)

const (
	// parallel requests of one discovery.
	parallel = 8
	// keptFor is how long an Image that has left is kept, where the Registry does not say.
	keptFor = 7 * 24 * time.Hour
)

// discover reads the repository that a message names, or the catalogue. back: the message is for another worker.
func (w *Worker) discover(ctx context.Context, d *queue.Delivery) (back bool) {
	named := d.Items[0]
	if w.isStillRefused(ctx, d) {
		return false
	}
	a, err := w.look(ctx, d)
	switch {
	case err != nil:
		w.passed(d, named.Name, item.Decision{}, err)
		return false
	case a.task.dryRun:
		return w.dryRun(ctx, d, a)
	}
	var repository reportsv1.Repository
	h, decision, err := w.approach(ctx, d, item.Discover, named.UID, true, func(ctx context.Context) (seen, error) {
		var err error
		if a, err = w.look(ctx, d); err != nil {
			return seen{}, err
		}
		now, err := w.repository(ctx, d, a, &repository)
		if err != nil {
			return seen{}, err
		}
		return seen{viewOfRepository(&repository), a.circumstances(d, now)}, nil
	})
	if h == nil {
		w.passed(d, named.Name, decision, err)
		return false
	}
	if repository.Spec.Repository == "" {
		err = w.readCatalog(h, &repository, a)
	} else {
		err = w.readRepository(h, &repository, a)
	}
	return h.end(ctx, err, hostOf(a.registry), 0).outcome == item.GivenBack && w.isDraining()
}

// repository reads the item of a discovery. That of the catalogue is made where there is none.
func (w *Worker) repository(ctx context.Context, d *queue.Delivery, a around, into *reportsv1.Repository) (time.Time, error) {
	name := d.Items[0].Name
	*into = reportsv1.Repository{}
	now, err := w.Reports.Get(ctx, d.Namespace, reportsclient.Repositories, name, into)
	uid := string(a.registry.UID)
	if !apierrors.IsNotFound(err) || uid != d.Registry.UID || name != results.RepositoryName(uid, "") || a.task.gone {
		return now, err
	}
	made := results.NewRepository(placeOf(a, d.Namespace), "")
	if err := w.Reports.Create(ctx, d.Namespace, reportsclient.Repositories, &made, into); err != nil && !apierrors.IsAlreadyExists(err) {
		return now, err
	}
	return w.Reports.Get(ctx, d.Namespace, reportsclient.Repositories, name, into)
}

// placeOf is where something is found.
func placeOf(a around, namespace string) results.Registry {
	return results.Registry{Namespace: namespace, Name: a.registry.Name, UID: string(a.registry.UID), Host: hostOf(a.registry)}
}

// imagesOf reads the Images that there are of a repository.
func (w *Worker) imagesOf(ctx context.Context, namespace, registryUID, repository string) ([]reportsv1.Image, error) {
	var list []reportsv1.Image
	selector := reportsclient.Selector("spec.registry.uid", registryUID, "spec.repository", repository)
	err := reportsclient.List(ctx, w.Reports, namespace, reportsclient.Images, selector, func(i *reportsv1.Image) error {
		list = append(list, *i)
		return nil
	})
	return list, err
}

// reading is one discovery of a repository.
type reading struct {
	w          *Worker
	h          *hold
	a          around
	repository *reportsv1.Repository
	images     []reportsv1.Image
	dir        string
}

// readRepository is a try.
func (w *Worker) readRepository(h *hold, repository *reportsv1.Repository, a around) (err error) {
	compiled, err := a.filterOf()
	if err != nil {
		return err
	}
	s, err := h.open(a.registry)
	if err != nil {
		return err
	}
	defer s.close()
	r := &reading{w: w, h: h, a: a, repository: repository}
	if r.dir, err = os.MkdirTemp(w.CacheDir, "tags-"); err != nil {
		return fmt.Errorf("keep tags: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	in, err := r.input(h.ctx, compiled, s.host)
	if err != nil {
		return err
	}
	found, listErr := discovery.Discover(h.ctx, in, s, r)
	if listErr != nil && found.Name == "" {
		return listErr
	}
	changes := results.Plan(placeOf(a, h.seen.namespace), found, r.images)
	if err := r.keepToQuota(h.ctx, &found, &changes); err != nil {
		return errors.Join(listErr, err)
	}
	if err := r.apply(h.ctx, found, changes); err != nil {
		return errors.Join(listErr, err)
	}
	if listErr != nil {
		return listErr
	}
	tags, _ := stored(found.Tags, nameIn(string(a.registry.UID), repository.Spec.Repository))
	now := w.Clock.Now()
	status := doneStatus(repository.Status, found, a.registry.Generation, now)
	if err := r.put(h.ctx, status, tags); err != nil {
		return err
	}
	return r.forget(h.ctx)
}

// input is what discovery needs to know.
func (r *reading) input(ctx context.Context, compiled *filter.Compiled, host string) (discovery.Input, error) {
	spec, status := r.a.registry.Spec, r.repository.Status
	in := discovery.Input{
		Registry: host, Repository: r.repository.Spec.Repository, Filter: compiled, ImmutableTags: spec.ImmutableTags,
		MaxImageBytes: limitsOf(r.a.registry).CompressedBytes, Force: r.a.task.force,
		FilterChanged: status.FilterGeneration != r.a.registry.Generation, Parallel: parallel, Now: r.w.Clock.Now,
	}
	var err error
	if r.images, err = r.w.imagesOf(ctx, r.h.seen.namespace, string(r.a.registry.UID), in.Repository); err != nil {
		return in, err
	}
	tags, err := r.w.Reports.Tags(ctx, r.h.seen.namespace, r.h.seen.name)
	if err != nil {
		return in, err
	}
	byName := map[string]*reportsv1.Image{}
	for i := range r.images {
		byName[r.images[i].Name] = &r.images[i]
	}
	// What another job has left is begun anew: what it has seen may be old.
	seen := int64(0)
	if status.Cursor != "" && status.Tags != nil && r.h.seen.jobID() == r.a.task.uid {
		in.Cursor, seen = status.Cursor, status.Tags.Listed
	}
	in.Known = remembered(tags, byName, seen)
	return in, nil
}

// Checkpoint implements discovery.Store.
func (r *reading) Checkpoint(ctx context.Context, c discovery.Checkpoint) error {
	tags, seen := stored(c.Tags, nameIn(string(r.a.registry.UID), r.repository.Spec.Repository))
	status := r.repository.Status
	status.Work, status.State, status.Cursor, status.Tags = nil, reportsv1.RepositoryWorking, c.Cursor, &reportsv1.TagCounts{Listed: seen}
	return r.put(ctx, status, tags)
}

// put writes tags and status.
func (r *reading) put(ctx context.Context, status reportsv1.RepositoryStatus, tags []reportsv1.Tag) error {
	if tags == nil {
		tags = []reportsv1.Tag{}
	}
	text, err := json.Marshal(map[string]any{"tags": tags})
	if err != nil {
		return fmt.Errorf("encode tags: %w", err)
	}
	const permissions = 0o600
	file := filepath.Join(r.dir, "tags.json")
	if err := os.WriteFile(file, text, permissions); err != nil {
		return fmt.Errorf("keep tags: %w", err)
	}
	return r.w.Reports.PutTags(ctx, r.h.seen.namespace, r.h.seen.name, r.h.claim, status, file)
}

// apply writes what a discovery has found.
func (r *reading) apply(ctx context.Context, found discovery.Result, changes results.Changes) error {
	firstSeen := map[string]time.Time{}
	for _, t := range found.Tags {
		firstSeen[t.Name] = t.FirstSeen
	}
	// Each takes two requests, and nothing depends on their order.
	err := discovery.Each(ctx, parallel, changes.Create, func(ctx context.Context, image reportsv1.Image) error {
		return r.create(ctx, &image, firstSeen[image.Spec.Tag])
	})
	if err != nil {
		return err
	}
	for _, change := range changes.Change {
		i := slices.IndexFunc(r.images, func(known reportsv1.Image) bool { return known.Name == change.Name })
		if err := r.w.changePresence(ctx, &r.images[i], change, r.h.d.Job); err != nil {
			return err
		}
	}
	return nil
}

// create makes an Image that waits for its SBOM.
func (r *reading) create(ctx context.Context, image *reportsv1.Image, firstSeen time.Time) error {
	var made reportsv1.Image
	err := r.w.Reports.Create(ctx, image.Namespace, reportsclient.Images, image, &made)
	if apierrors.IsAlreadyExists(err) {
		// Somebody else was first, or the answer was lost. Who has written the status has done the rest.
		if _, err = r.w.Reports.Get(ctx, image.Namespace, reportsclient.Images, image.Name, &made); err == nil && made.Status.State != "" {
			return nil
		}
	}
	if err != nil {
		return err
	}
	if firstSeen.IsZero() {
		firstSeen = r.w.Clock.Now()
	}
	_, err = r.w.Reports.PatchStatus(ctx, image.Namespace, reportsclient.Images, image.Name, newStatus(firstSeen, r.h.d.Job), &made)
	return ignoreGone(err)
}

// newStatus is that of an Image that was found.
func newStatus(firstSeen time.Time, job *queue.Ref) object {
	status := object{
		"presence": reportsv1.ImagePresent, "state": reportsv1.ImagePending, "firstSeenTime": firstSeen.UTC().Format(time.RFC3339),
	}
	if job != nil {
		status["work"] = object{"job": object{"kind": job.Kind, "name": job.Name, "uid": job.UID}}
	}
	return object{"status": status}
}

// changePresence writes that an Image has left, or is there again.
func (w *Worker) changePresence(ctx context.Context, image *reportsv1.Image, change results.Change, job *queue.Ref) error {
	now := w.Clock.Now()
	patch := object{"status": object{"presence": change.Presence, "goneTime": now.UTC().Format(time.RFC3339), "message": orNull(change.Reason)}}
	switch {
	case change.Presence == reportsv1.ImagePresent && image.Status.State == "":
		patch = newStatus(now, job)
	case change.Presence == reportsv1.ImagePresent:
		patch = object{"status": object{"presence": change.Presence, "goneTime": nil, "message": nil}}
	}
	_, err := w.Reports.PatchStatus(ctx, image.Namespace, reportsclient.Images, image.Name, patch, &struct{}{})
	return ignoreGone(err)
}

// forget deletes Images that have left long ago, with their SBOMs and reports.
func (r *reading) forget(ctx context.Context) error {
	kept := keptFor
	if retention := r.a.registry.Spec.Retention; retention != nil && retention.Gone != "" {
		if own, err := filter.ParseDuration(string(retention.Gone)); err == nil {
			kept = max(own, time.Minute)
		}
	}
	for _, image := range r.images {
		left := image.Status.GoneTime
		if left == nil || image.Status.Presence == reportsv1.ImagePresent || r.w.Clock.Now().Sub(left.Time) < kept {
			continue
		}
		if err := r.w.Reports.Delete(ctx, image.Namespace, reportsclient.Images, image.Name); err != nil {
			return err
		}
	}
	return nil
}
