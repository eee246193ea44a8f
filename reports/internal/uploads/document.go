// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/spdx"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// packagesAtOnce is how many packages are noted in one transaction.
const packagesAtOnce = 1000

var mediaTypes = map[string]string{
	kinds.FormatSPDX: "application/spdx+json; version=2.3", kinds.FormatCycloneDX: "application/vnd.cyclonedx+json; version=1.6",
}

// formatOf reads which form of a document a request is about.
func formatOf(req *http.Request) (string, error) {
	format := req.URL.Query().Get("format")
	if format == "" {
		format = kinds.FormatSPDX
	}
	if mediaTypes[format] == "" {
		return "", apierrors.NewBadRequest("format must be " + kinds.FormatSPDX + " or " + kinds.FormatCycloneDX + ", is " + format)
	}
	return format, nil
}

// putDocument takes in the SBOM of an Image.
func (s *Service) putDocument(w http.ResponseWriter, req *http.Request, at target) error {
	format, err := formatOf(req)
	if err != nil {
		return err
	}
	if format == kinds.FormatCycloneDX {
		return s.putFurther(w, req, at, format)
	}
	var about reportsv1.SBOMUpload
	if err := readSpec(req, &about); err != nil {
		return err
	}
	ctx, claim := req.Context(), req.Header.Get(reportsv1.HeaderClaim)
	image, err := s.image(ctx, at)
	if err != nil {
		return err
	}
	if err := mustHold(image.Status.Work, claim); err != nil {
		return err
	}
	var packages int64
	staged, err := s.stage(req, func(from io.Reader, staged *contents.Upload) error {
		packages, err = s.notePackages(ctx, from, staged.ID())
		return err
	})
	if err != nil {
		return err
	}
	answered := &reportsv1.UploadAnswer{SHA256: staged.Sum(), Packages: packages}
	err = s.together(ctx, func() ([]mvcc.Change, error) { return s.changeSBOM(ctx, at, claim, &about, staged, answered) })
	if err != nil {
		return errors.Join(err, staged.Discard(context.WithoutCancel(ctx)))
	}
	return answer(w, http.StatusOK, answered)
}

// mustHold checks a claim that must be given.
func mustHold(work *reportsv1.Work, claim string) error {
	if claim == "" {
		return conflict(reportsv1.ReasonClaimLost, "%s is required", reportsv1.HeaderClaim)
	}
	return holds(work, claim)
}

// notePackages reads a document and notes its packages beside the staged content.
func (s *Service) notePackages(ctx context.Context, from io.Reader, content int64) (packages int64, err error) {
	var purls []string
	note := func() error {
		err := s.store.Maintain(ctx, "note packages", func(tx *sqldb.Tx) error { return images.AddPackages(ctx, tx, content, purls) })
		purls = purls[:0]
		return err
	}
	_, err = spdx.Read(from, func(p *spdx.Package) error {
		packages++
		if purl := p.PURL(); purl != "" {
			purls = append(purls, purl)
		}
		if len(purls) < packagesAtOnce {
			return nil
		}
		return note()
	})
	switch {
	case errors.Is(err, spdx.ErrTooLong):
		return 0, bad(reportsv1.ReasonTooLarge, "%v", err)
	case errors.Is(err, spdx.ErrNotSPDX):
		return 0, bad(reportsv1.ReasonNotSPDX, "%v", err)
	case err != nil || len(purls) == 0:
		return packages, err
	}
	return packages, note()
}

// sbom reads the SBOM of an Image; one that is to be made has no resource version.
func (s *Service) sbom(ctx context.Context, image *reportsv1.Image) (*reportsv1.SBOM, error) {
	sbom := &reportsv1.SBOM{}
	if err := s.sboms.Get(ctx, s.sboms.Key(image.Namespace, image.Name), storage.GetOptions{IgnoreNotFound: true}, sbom); err != nil {
		return nil, err
	}
	if sbom.ResourceVersion == "" {
		rest.FillObjectMetaSystemFields(sbom)
		ownedBy(image, sbom)
	}
	sbom.Generation++
	return sbom, nil
}

func (s *Service) changeSBOM(ctx context.Context, at target, claim string, about *reportsv1.SBOMUpload, staged *contents.Upload,
	answered *reportsv1.UploadAnswer,
) ([]mvcc.Change, error) {
	image, err := s.image(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := mustHold(image.Status.Work, claim); err != nil {
		return nil, err
	}
	sbom, err := s.sbom(ctx, image)
	if err != nil {
		return nil, err
	}
	answered.Changed = sbom.Spec.SHA256 != staged.Sum()
	completeness := about.Completeness
	if completeness == "" {
		completeness = reportsv1.CompletenessFull
	}
	sbom.Spec = reportsv1.SBOMSpec{
		ImageRef: refOf(image), Image: image.Name, Format: kinds.FormatSPDX, SHA256: staged.Sum(), Bytes: staged.Bytes(), Packages: answered.Packages,
		OS: about.OS, Engine: about.Engine, Completeness: completeness, Missing: about.Missing, Origin: reportsv1.OriginGenerated, SBOMOmitted: true,
	}
	first, err := s.sboms.ChangeTo(sbom, func(ctx context.Context, tx *sqldb.Tx, object int64, now time.Time) error {
		content, err := contents.Attach(ctx, tx, object, kinds.FormatSPDX, staged, now)
		if err != nil {
			return err
		}
		return images.Share(ctx, tx, object, content, about.Shareable)
	})
	if err != nil {
		return nil, err
	}
	s.noteSBOM(image, sbom)
	second, err := s.images.ChangeTo(image, nil)
	return []mvcc.Change{first, second}, err
}

// noteSBOM moves an Image on that has got an SBOM.
func (s *Service) noteSBOM(image *reportsv1.Image, sbom *reportsv1.SBOM) {
	now := metav1.NewTime(s.clock.Now())
	image.Status.SBOM = &reportsv1.ImageSBOM{
		SHA256: sbom.Spec.SHA256, Packages: sbom.Spec.Packages, Formats: []string{kinds.FormatSPDX}, Engine: sbom.Spec.Engine, GeneratedAt: &now,
	}
	s.settle(image, reportsv1.ImageWaitingForMatch)
}

// putFurther takes in another form of an SBOM that is there.
func (s *Service) putFurther(w http.ResponseWriter, req *http.Request, at target, format string) error {
	ctx := req.Context()
	image, err := s.image(ctx, at)
	if err != nil {
		return err
	}
	if image.Status.SBOM == nil {
		return apierrors.NewNotFound(reportsv1.SchemeGroupVersion.WithResource("sboms").GroupResource(), at.name)
	}
	staged, err := s.stage(req, func(io.Reader, *contents.Upload) error { return nil })
	if err != nil {
		return err
	}
	changed := false
	err = s.together(ctx, func() ([]mvcc.Change, error) {
		image, err := s.image(ctx, at)
		if err != nil {
			return nil, err
		}
		sbom, err := s.sbom(ctx, image)
		if err != nil {
			return nil, err
		}
		if sbom.ResourceVersion == "" || image.Status.SBOM == nil {
			return nil, apierrors.NewNotFound(reportsv1.SchemeGroupVersion.WithResource("sboms").GroupResource(), at.name)
		}
		stored, err := contents.Of(ctx, s.store, s.sboms.Key(at.namespace, at.name), format)
		if err != nil {
			return nil, err
		}
		changed = stored == nil || stored.Sum != staged.Sum()
		first, err := s.sboms.ChangeTo(sbom, func(ctx context.Context, tx *sqldb.Tx, object int64, now time.Time) error {
			_, err := contents.Attach(ctx, tx, object, format, staged, now)
			return err
		})
		if err != nil {
			return nil, err
		}
		if !slices.Contains(image.Status.SBOM.Formats, format) {
			image.Status.SBOM.Formats = append(image.Status.SBOM.Formats, format)
		}
		second, err := s.images.ChangeTo(image, nil)
		return []mvcc.Change{first, second}, err
	})
	if err != nil {
		return errors.Join(err, staged.Discard(context.WithoutCancel(ctx)))
	}
	return answer(w, http.StatusOK, &reportsv1.UploadAnswer{Changed: changed, SHA256: staged.Sum()})
}

// getDocument streams the SBOM of an Image.
func (s *Service) getDocument(w http.ResponseWriter, req *http.Request, at target) error {
	format, err := formatOf(req)
	if err != nil {
		return err
	}
	ctx, key := req.Context(), s.sboms.Key(at.namespace, at.name)
	info, err := contents.Of(ctx, s.store, key, format)
	if err != nil {
		return err
	}
	convert := info == nil && format == kinds.FormatCycloneDX
	if convert {
		info, err = contents.Of(ctx, s.store, key, kinds.FormatSPDX)
	}
	if err != nil {
		return err
	}
	if info == nil {
		return apierrors.NewNotFound(reportsv1.SchemeGroupVersion.WithResource("sboms").GroupResource(), at.name)
	}
	header := w.Header()
	header.Set("Content-Type", mediaTypes[format])
	header.Set("Accept-Ranges", "none")
	header.Add("Vary", "Accept-Encoding")
	if convert {
		return s.converted(ctx, w, info)
	}
	etag := `"` + info.Sum + `"`
	header.Set("ETag", etag)
	if req.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return s.stream(w, req, info)
}

// stream sends a content as it is stored, where the client takes that.
func (s *Service) stream(w http.ResponseWriter, req *http.Request, info *contents.Info) error {
	open := contents.Open
	if packed := acceptsZstd(req); packed {
		open = contents.OpenPacked
		w.Header().Set("Content-Encoding", "zstd")
	} else {
		w.Header().Set("Content-Length", strconv.FormatInt(info.Bytes, 10))
	}
	reader, err := open(req.Context(), s.store, info.Content)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	abortOn(io.Copy(w, reader))
	return nil
}

func acceptsZstd(req *http.Request) bool {
	for part := range strings.SplitSeq(req.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "zstd" && strings.ReplaceAll(quality, " ", "") != "q=0" {
			return true
		}
	}
	return false
}

// abortOn ends a connection whose answer cannot be sent to its end, so that the client does not take a part for the whole.
func abortOn(_ int64, err error) {
	if err != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // the one way that net/http has
	}
}
