// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

// matchTimeout of an image.
const matchTimeout = 2 * time.Minute

// match matches the images of a message. Delivered the first time, it makes no claims: what is written must be newer than what is there.
// Delivered again, each image is claimed before it is worked on, so that one that ends workers is found. back: the message is for another
// worker.
func (w *Worker) match(ctx context.Context, d *queue.Delivery) (back bool) {
	if err := w.haveDatabase(ctx, d.Adapter, d.Database); err != nil {
		w.Log.Warn("the database that a message names cannot be had; what is there is used", "adapter", d.Adapter, "version", d.Database, "error", err)
	}
	a, err := w.look(ctx, d)
	if err != nil {
		for _, named := range d.Items {
			w.passed(d, named.Name, item.Decision{}, err)
		}
		return false
	}
	for i, named := range w.inOrder(ctx, d) {
		if i > 0 && w.isDraining() {
			return true
		}
		v := w.matchOne(ctx, d, a, named, d.Redelivered)
		w.gate.together()
		if v.outcome == item.GivenBack {
			return w.isDraining()
		}
	}
	return false
}

// inOrder puts the images that workers were lost over behind the others.
func (w *Worker) inOrder(ctx context.Context, d *queue.Delivery) []queue.Item {
	if !d.Redelivered || len(d.Items) == 1 {
		return d.Items
	}
	lost := map[string]int32{}
	for _, named := range d.Items {
		if v, _, err := w.readWork(ctx, reportsclient.Images, d.Namespace, named.Name); err == nil {
			lost[named.Name] = v.work.Lost
			if v.work.Claim != "" {
				lost[named.Name]++
			}
		}
	}
	items := slices.Clone(d.Items)
	slices.SortStableFunc(items, func(a, b queue.Item) int { return cmp.Compare(lost[a.Name], lost[b.Name]) })
	return items
}

// matchOne matches one image.
func (w *Worker) matchOne(ctx context.Context, d *queue.Delivery, a around, named queue.Item, claim bool) verdict {
	var image reportsv1.Image
	database, has := w.Engine.Database(d.Adapter)
	read := func(ctx context.Context) (seen, error) {
		image = reportsv1.Image{}
		now, err := w.Reports.Get(ctx, d.Namespace, reportsclient.Images, named.Name, &image)
		if err != nil {
			return seen{}, err
		}
		s := seen{viewOfImage(&image), a.circumstances(d, now)}
		s.database = w.judgeDatabase(database, has)
		if s.state == reportsv1.ImageScanned && has {
			s.wanted, err = w.wants(ctx, d, a, &image, database)
		}
		return s, err
	}
	// A report of the same data is replaced by who claims only.
	claim = claim || a.task.full
	h, decision, err := w.approach(ctx, d, item.Match, named.UID, claim, read)
	if h == nil {
		w.passed(d, named.Name, decision, err)
		return verdict{}
	}
	suspect := h.decision.Crashes > 0 || h.decision.Lost > 0
	err = w.makeReport(h, &image, a, suspect)
	if adapter.IsCrash(err) && h.claim == "" && h.ctx.Err() == nil {
		// Other images were matched by the same process: this one is tried by itself, under a claim, before it is blamed.
		h.stop(nil)
		h.all.Wait()
		if h, decision, err = w.approach(ctx, d, item.Match, named.UID, true, read); h == nil {
			w.passed(d, named.Name, decision, err)
			return verdict{}
		}
		err = w.makeReport(h, &image, a, true)
	}
	if reportsclient.ReasonOf(err) == reportsv1.ReasonNotNewer {
		return h.superseded(ctx, err)
	}
	return h.end(ctx, err, "", 0)
}

// superseded ends a try whose report is not wanted any more: somebody has written one of newer data, or of a newer SBOM.
func (h *hold) superseded(ctx context.Context, err error) verdict {
	if h.claim == "" {
		h.decision.Row = "NotNewer"
		return h.end(ctx, errors.Join(errDropped, err), "", 0)
	}
	// The claim has to end: the image is as it was, and asked for again where there is something to do.
	h.stop(errCancelled)
	return h.end(ctx, err, "", 0)
}

// judgeDatabase tells whether there is something to match with.
func (w *Worker) judgeDatabase(d engine.Database, has bool) item.Database {
	switch {
	case !has:
		return item.DatabaseMissing
	case w.Config.Database.WhenStale == config.Stop && w.Clock.Now().Sub(d.BuiltAt) > w.Config.MaxAge():
		return item.DatabaseStale
	}
	return item.DatabaseGood
}

// wants tells whether an image that has a report is to be matched again. An image whose report is of older data is, so its report need not
// be read.
func (w *Worker) wants(ctx context.Context, d *queue.Delivery, a around, image *reportsv1.Image, database engine.Database) (bool, error) {
	if of := image.Status.Database; of != nil && of.Version != database.Version && of.BuiltAt != nil && !of.BuiltAt.After(database.BuiltAt) {
		return true, nil
	}
	var made *reportsv1.Provenance
	selector := reportsclient.Selector("metadata.name", image.Name)
	err := reportsclient.List(ctx, w.Reports, d.Namespace, reportsclient.Reports, selector, func(r *reportsv1.VulnerabilityReport) error {
		made = r.Spec.Provenance
		return nil
	})
	if err != nil {
		return false, err
	}
	if made == nil || made.Database == nil || made.Engine == nil || made.SBOM == nil || image.Status.SBOM == nil {
		return true, nil
	}
	about, _ := w.Engine.Describe(d.Adapter)
	same := made.Database.Version == database.Version && made.Engine.Version == about.Engine.Version && made.SBOM.SHA256 == image.Status.SBOM.SHA256
	older := made.Database.BuiltAt != nil && made.Database.BuiltAt.After(database.BuiltAt)
	return !older && (!same || a.task.full && made.Job != a.task.uid), nil
}

// makeReport is a try. A suspect is matched while nothing else is, so that a death of the adapter is certainly the suspect's.
func (w *Worker) makeReport(h *hold, image *reportsv1.Image, a around, suspect bool) (err error) {
	if suspect {
		w.alone.Lock()
		defer w.alone.Unlock()
	} else {
		w.alone.RLock()
		defer w.alone.RUnlock()
	}
	started := metav1.NewTime(w.Clock.Now().UTC())
	sbom, err := w.sbomOf(h.ctx, h.seen.namespace, h.seen.name)
	if err != nil {
		return err
	}
	if sbom == nil {
		return &protocol.Error{Code: ReasonSBOMMissing, Message: "the SBOM was deleted; the next discovery makes it anew", Retryable: true}
	}
	dir, err := os.MkdirTemp(w.CacheDir, "sbom-")
	if err != nil {
		return fmt.Errorf("keep SBOM: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "sbom.json")
	sum, err := w.Reports.Document(h.ctx, h.seen.namespace, h.seen.name, file)
	if err != nil {
		return err
	}
	r := engine.MatchRequest{
		Adapter: h.d.Adapter, SBOM: file, Format: protocol.SPDX, Digest: image.Spec.Digest, Platform: image.Spec.Platform, Deadline: w.Clock.Now().Add(matchTimeout),
	}
	if sbom.Spec.Engine != nil {
		r.Producer = sbom.Spec.Engine.Name
	}
	if sbom.Spec.OS != nil {
		r.OS = protocol.OS{Family: sbom.Spec.OS.Family, Version: sbom.Spec.OS.Version, EOL: sbom.Spec.OS.EOL}
	}
	for _, l := range image.Spec.Layers {
		r.Layers = append(r.Layers, manifest.Layer{Digest: l.Digest, DiffID: l.DiffID})
	}
	result, err := w.Engine.Match(h.ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, result.Release()) }()
	finished := metav1.NewTime(w.Clock.Now().UTC())
	about := reportsv1.FindingsUpload{
		Shareable: sbom.Spec.Origin != reportsv1.OriginImported && w.mayShare(a),
		Provenance: reportsv1.Provenance{
			Engine: &reportsv1.Engine{Name: result.Engine.Name, Version: result.Engine.Version}, Adapter: w.adapterOf(h.d.Adapter),
			SBOM: &reportsv1.SBOMSource{SHA256: sum, Engine: sbom.Spec.Engine}, Database: w.databaseOf(result.Database), StartedAt: &started, FinishedAt: &finished,
			Mode: reportsv1.MatchFull, Job: a.task.uid,
		},
	}
	files := []string{result.File.Path}
	if result.Keys.Path != "" {
		files = append(files, result.Keys.Path)
	}
	_, err = w.Reports.PutFindings(h.ctx, h.seen.namespace, h.seen.name, h.claim, about, files...)
	if err == nil {
		w.Metrics.uploaded.Add(float64(result.File.Bytes + result.Keys.Bytes))
	}
	return err
}

// mayShare tells whether what is made for a Registry may be shared with other namespaces.
func (w *Worker) mayShare(a around) bool {
	spec := a.registry.Spec
	return w.Config.Dedupe == reportsv1.DedupeHost && (spec.Insecure == "" && spec.CABundle == "" || slices.Contains(w.Config.DedupeHosts, hostOf(a.registry)))
}
