// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

const (
	// defaultTimeout of an SBOM.
	defaultTimeout = 30 * time.Minute
	// quotaPause is when an image is looked at again that is larger than what may be fetched: the bytes of an hour expire together.
	quotaPause = time.Hour
)

// sbom makes the SBOM of the image that a message names. back: the message is for another worker.
func (w *Worker) sbom(ctx context.Context, d *queue.Delivery) (back bool) {
	named := d.Items[0]
	if w.isStillRefused(ctx, d) {
		return false
	}
	var image reportsv1.Image
	var a around
	h, decision, err := w.approach(ctx, d, item.SBOM, named.UID, true, func(ctx context.Context) (seen, error) {
		var s seen
		var now time.Time
		var err error
		if a, err = w.look(ctx, d); err != nil {
			return s, err
		}
		image = reportsv1.Image{}
		if now, err = w.Reports.Get(ctx, d.Namespace, reportsclient.Images, named.Name, &image); err != nil {
			return s, err
		}
		s = seen{viewOfImage(&image), a.circumstances(d, now)}
		if limitsOf(a.registry).CompressedBytes < image.Spec.CompressedBytes {
			s.unfit = string(protocol.TooLarge)
		}
		if d.BudgetBytes > 0 && image.Spec.CompressedBytes > d.BudgetBytes {
			s.quotaUntil = now.Add(quotaPause)
		}
		s.remake, err = w.mustRemake(ctx, d, a, s.view)
		return s, err
	})
	if h == nil {
		w.passed(d, named.Name, decision, err)
		return false
	}
	v, err := w.makeSBOM(h, &image, a)
	host := hostOf(a.registry)
	return h.end(ctx, err, host, v).outcome == item.GivenBack && w.isDraining()
}

// mustRemake tells whether an SBOM is wanted though the image has had one: somebody has deleted it, or the job forces.
func (w *Worker) mustRemake(ctx context.Context, d *queue.Delivery, a around, v view) (bool, error) {
	if v.state != reportsv1.ImageWaitingForMatch && v.state != reportsv1.ImageScanned {
		return false, nil
	}
	if a.task.force && v.jobID() != a.task.uid {
		return true, nil
	}
	sbom, err := w.sbomOf(ctx, d.Namespace, v.name)
	return sbom == nil, err
}

// sbomOf reads what is known of an SBOM, without the document; nil: there is none.
func (w *Worker) sbomOf(ctx context.Context, namespace, name string) (*reportsv1.SBOM, error) {
	var found *reportsv1.SBOM
	selector := reportsclient.Selector("metadata.name", name)
	err := reportsclient.List(ctx, w.Reports, namespace, reportsclient.SBOMs, selector, func(s *reportsv1.SBOM) error {
		found = s
		return nil
	})
	return found, err
}

// limitsOf are the bounds of an image, which a Registry may tighten.
func limitsOf(r *registryv1alpha1.Registry) protocol.Limits {
	l := protocol.DefaultLimits()
	if own := r.Spec.Limits; own != nil {
		if own.ImageBytes != nil {
			l.CompressedBytes = min(l.CompressedBytes, own.ImageBytes.Value())
		}
		if own.UncompressedBytes != nil {
			l.UncompressedBytes = min(l.UncompressedBytes, own.UncompressedBytes.Value())
		}
	}
	return l
}

func timeoutOf(r *registryv1alpha1.Registry) time.Duration {
	if r.Spec.Limits == nil || r.Spec.Limits.Timeout == "" {
		return defaultTimeout
	}
	d, err := filter.ParseDuration(string(r.Spec.Limits.Timeout))
	if err != nil {
		return defaultTimeout
	}
	return min(d, defaultTimeout)
}

// makeSBOM is a try. It gives how many bytes were fetched.
func (w *Worker) makeSBOM(h *hold, image *reportsv1.Image, a around) (bytes int64, err error) {
	ctx := h.ctx
	s, err := h.open(a.registry)
	if err != nil {
		return 0, err
	}
	defer s.close()
	// That these credentials may read the image is proved before anything is reused.
	if _, found, err := s.Manifest(ctx, image.Spec.Repository, image.Spec.Digest); err != nil || !found {
		return 0, errors.Join(err, missing(found || err != nil))
	}
	about, _ := w.Engine.Describe(h.d.Adapter)
	maker := reportsv1.Engine{Name: about.Engine.Name, Version: about.Engine.Version}
	if reused, err := w.reuse(h, s, a, maker); err != nil || reused {
		return 0, err
	}
	r := engine.SBOMRequest{
		Adapter: h.d.Adapter, Client: s, Repository: image.Spec.Repository, Digest: image.Spec.Digest, Config: image.Spec.ConfigDigest, Platform: image.Spec.Platform,
		Scope: s.scope, Limits: limitsOf(a.registry), Deadline: w.Clock.Now().Add(timeoutOf(a.registry)),
	}
	for _, l := range image.Spec.Layers {
		r.Layers = append(r.Layers, manifest.Layer{Digest: l.Digest, DiffID: l.DiffID, MediaType: l.MediaType, Bytes: l.Bytes, Command: l.Command})
	}
	for _, format := range a.registry.Spec.Formats {
		if format == registryv1alpha1.FormatCycloneDX {
			r.Formats = append(r.Formats, protocol.CycloneDX)
		}
	}
	result, err := w.Engine.SBOM(ctx, r)
	if err != nil {
		return 0, err
	}
	err = w.upload(h, result, maker, s.shareable)
	return result.BytesFetched, errors.Join(err, result.Release())
}

// missing is the error of a manifest that the registry does not have any more.
func missing(found bool) error {
	if found {
		return nil
	}
	return &distribution.Error{Reason: distribution.NotFound, Detail: string(manifest.ManifestMissing)}
}

// reuse asks for an SBOM that is there already, and for a report where the job wants one.
func (w *Worker) reuse(h *hold, s *session, a around, maker reportsv1.Engine) (bool, error) {
	if a.task.force || w.Config.Dedupe == reportsv1.DedupeOff {
		return false, nil
	}
	at := metav1.NewTime(h.began.UTC())
	asked := reportsv1.ReuseRequest{Dedupe: w.Config.Dedupe, Shareable: s.shareable, Engine: maker, Job: a.task.uid, At: &at}
	if database, has := w.Engine.Database(h.d.Adapter); has && a.task.stopAfter == registryv1alpha1.StopAfterMatch {
		asked.Adapter, asked.Database = w.adapterOf(h.d.Adapter), w.databaseOf(database)
	}
	answer, err := w.Reports.Reuse(h.ctx, h.seen.namespace, h.seen.name, h.claim, asked)
	if err != nil {
		return false, err
	}
	scope := "namespace"
	if s.shareable {
		scope = "host"
	}
	for kind, was := range map[string]bool{"sbom": answer.SBOM, "report": answer.Report} {
		if was {
			w.Metrics.reused.WithLabelValues(kind, scope).Inc()
		}
	}
	return answer.SBOM || answer.Report, nil
}

// upload writes the SBOM, which ends the claim. What else there is comes afterwards: the SBOM stands without it.
func (w *Worker) upload(h *hold, result *engine.SBOMResult, maker reportsv1.Engine, shareable bool) error {
	about := reportsv1.SBOMUpload{
		Engine: &maker, OS: &reportsv1.OperatingSystem{Family: result.OS.Family, Version: result.OS.Version, EOL: result.OS.EOL},
		Completeness: reportsv1.Completeness(result.Completeness), Missing: result.Missing, Shareable: shareable,
	}
	document := result.Documents[protocol.SPDX]
	if _, err := w.Reports.PutDocument(h.ctx, h.seen.namespace, h.seen.name, protocol.SPDX, h.claim, about, document.Path); err != nil {
		return err
	}
	w.Metrics.uploaded.Add(float64(document.Bytes))
	if further, has := result.Documents[protocol.CycloneDX]; has {
		if _, err := w.Reports.PutDocument(h.ctx, h.seen.namespace, h.seen.name, protocol.CycloneDX, "", about, further.Path); err != nil {
			w.Log.Warn("an SBOM is not stored as CycloneDX; it is converted when it is read", "image", h.seen.name, "error", err)
		}
	}
	return nil
}

// adapterOf tells of an adapter as reports do.
func (w *Worker) adapterOf(name string) *reportsv1.Adapter {
	about, _ := w.Engine.Describe(name)
	return &reportsv1.Adapter{Name: name, Version: about.Version, Protocol: protocol.Name}
}

// databaseOf tells of a database as reports do.
func (w *Worker) databaseOf(d engine.Database) *reportsv1.DatabaseUsed {
	built := metav1.NewTime(d.BuiltAt.UTC())
	age := max(w.Clock.Now().Sub(d.BuiltAt), 0)
	return &reportsv1.DatabaseUsed{
		DatabaseRef: reportsv1.DatabaseRef{Name: d.Name, Version: d.Version, BuiltAt: &built}, Schema: d.Schema, AgeSeconds: int64(age.Seconds()),
		Stale: age > w.Config.MaxAge(),
	}
}
