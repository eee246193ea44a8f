// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// source is something that may be attached: the key of its object, and its content.
type source struct {
	key     string
	content int64
}

// reuse attaches to an Image what is there already of the same digest and platform.
func (s *Service) reuse(w http.ResponseWriter, req *http.Request, at target) error {
	var asked reportsv1.ReuseRequest
	const maxRequest = 64 << 10
	if err := json.NewDecoder(io.LimitReader(req.Body, maxRequest)).Decode(&asked); err != nil {
		return apierrors.NewBadRequest("the body must be a request in JSON: " + err.Error())
	}
	ctx, claim := req.Context(), req.Header.Get(reportsv1.HeaderClaim)
	var answered reportsv1.ReuseAnswer
	err := s.together(ctx, func() ([]mvcc.Change, error) {
		image, err := s.image(ctx, at)
		if err != nil {
			return nil, err
		}
		if err := holds(image.Status.Work, claim); err != nil {
			return nil, err
		}
		var changes []mvcc.Change
		changes, answered, err = s.attachAll(ctx, image, &asked)
		return changes, err
	})
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, &answered)
}

func nothing() error {
	return refused(http.StatusNotFound, metav1.StatusReasonNotFound, reportsv1.ReasonNothingToReuse, "there is nothing that the image may share")
}

// attachAll prepares what is attached to an Image, in one transaction.
func (s *Service) attachAll(ctx context.Context, image *reportsv1.Image, asked *reportsv1.ReuseRequest) (
	changes []mvcc.Change, answered reportsv1.ReuseAnswer, err error,
) {
	if asked.Dedupe != reportsv1.DedupeHost && asked.Dedupe != reportsv1.DedupeNamespace {
		return nil, answered, nothing()
	}
	own, err := contents.Of(ctx, s.store, s.sboms.Key(image.Namespace, image.Name), kinds.FormatSPDX)
	if err != nil {
		return nil, answered, err
	}
	var sbom int64
	if own != nil {
		sbom = own.Content
	} else {
		change, content, err := s.attachSBOM(ctx, image, asked)
		if err != nil {
			return nil, answered, err
		}
		if change == nil {
			return nil, answered, nothing()
		}
		changes, sbom, answered.SBOM = append(changes, *change), content, true
	}
	if asked.Adapter != nil && asked.Database != nil {
		change, err := s.attachReport(ctx, image, asked, sbom)
		if err != nil {
			return nil, answered, err
		}
		if change != nil {
			changes, answered.Report = append(changes, *change), true
		}
	}
	if len(changes) == 0 {
		return nil, answered, nothing()
	}
	change, err := s.images.ChangeTo(image, nil)
	return append(changes, change), answered, err
}

// find looks for something of the same digest and platform that the Image may share: of its own namespace first.
func (s *Service) find(ctx context.Context, image *reportsv1.Image, asked *reportsv1.ReuseRequest, kind int, conditions string, args ...any) (*source, error) {
	across := 0
	if asked.Dedupe == reportsv1.DedupeHost && asked.Shareable && image.Spec.Registry.Host != "" && !image.Spec.External {
		across = 1
	}
	found := &source{}
	query := `SELECT o."key", s.content FROM subjects s JOIN objects o ON o.id = s.object WHERE s.kind = ? AND s.digest = ? AND s.platform = ? AND s.content <> 0
		AND (s.ns = ? OR (1 = ? AND s.shareable = 1 AND s.host = ?))` + conditions + ` ORDER BY CASE WHEN s.ns = ? THEN 0 ELSE 1 END, s.object LIMIT 1`
	all := append([]any{kind, image.Spec.Digest, image.Spec.Platform, image.Namespace, across, image.Spec.Registry.Host}, args...)
	err := s.store.Query(ctx, func(tx *sqldb.Tx) error {
		err := tx.QueryRow(ctx, query, append(all, image.Namespace)...).Scan(&found.key, &found.content)
		if errors.Is(err, sql.ErrNoRows) {
			found = nil
			return nil
		}
		return err
	})
	return found, err
}

// attachSBOM prepares an SBOM that somebody has made already. What it says of its making is this namespace's.
func (s *Service) attachSBOM(ctx context.Context, image *reportsv1.Image, asked *reportsv1.ReuseRequest) (*mvcc.Change, int64, error) {
	from, err := s.find(ctx, image, asked, kinds.SBOMNumber, ` AND s.engine = ? AND s.engine_version = ?`, asked.Engine.Name, asked.Engine.Version)
	if err != nil || from == nil {
		return nil, 0, err
	}
	made := &reportsv1.SBOM{}
	if err := s.sboms.Get(ctx, from.key, storage.GetOptions{}, made); err != nil {
		return nil, 0, err
	}
	sbom, err := s.sbom(ctx, image)
	if err != nil {
		return nil, 0, err
	}
	sbom.Spec = reportsv1.SBOMSpec{
		ImageRef: refOf(image), Image: image.Name, Format: made.Spec.Format, SHA256: made.Spec.SHA256, Bytes: made.Spec.Bytes, Packages: made.Spec.Packages,
		OS: made.Spec.OS, Engine: made.Spec.Engine, Completeness: made.Spec.Completeness, Missing: made.Spec.Missing, Origin: made.Spec.Origin, SBOMOmitted: true,
	}
	shareable := asked.Dedupe == reportsv1.DedupeHost && asked.Shareable && made.Spec.Origin == reportsv1.OriginGenerated
	change, err := s.sboms.ChangeTo(sbom, func(ctx context.Context, tx *sqldb.Tx, object int64, now time.Time) error {
		if err := contents.Refer(ctx, tx, object, kinds.FormatSPDX, from.content, now); err != nil {
			return err
		}
		return images.Share(ctx, tx, object, from.content, shareable)
	})
	if err != nil {
		return nil, 0, err
	}
	s.noteSBOM(image, sbom)
	return &change, from.content, nil
}

// attachReport prepares a report of the present engine and data of the same SBOM.
func (s *Service) attachReport(ctx context.Context, image *reportsv1.Image, asked *reportsv1.ReuseRequest, sbom int64) (*mvcc.Change, error) {
	const same = ` AND s.adapter = ? AND s.engine_version = ? AND s.database_version = ? AND s.content = ? AND s.name <> ?`
	from, err := s.find(ctx, image, asked, kinds.VulnerabilityReportNumber, same,
		asked.Adapter.Name, asked.Engine.Version, asked.Database.Version, sbom, image.Name)
	if err != nil || from == nil {
		return nil, err
	}
	info, err := contents.Of(ctx, s.store, from.key, kinds.FormatFindings)
	if err != nil || info == nil {
		return nil, err
	}
	made := &reportsv1.VulnerabilityReport{}
	if err := s.reports.Get(ctx, from.key, storage.GetOptions{}, made); err != nil {
		return nil, err
	}
	report, err := s.report(ctx, image)
	if err != nil {
		return nil, err
	}
	now := metav1.NewTime(s.clock.Now())
	begun := now
	if asked.At != nil {
		begun = *asked.At
	}
	about := &reportsv1.FindingsUpload{Shareable: asked.Dedupe == reportsv1.DedupeHost && asked.Shareable, Provenance: reportsv1.Provenance{
		Engine: made.Spec.Provenance.Engine, Adapter: made.Spec.Provenance.Adapter, SBOM: made.Spec.Provenance.SBOM, Database: asked.Database,
		StartedAt: &begun, FinishedAt: &now, Mode: reportsv1.MatchFull, Job: asked.Job,
	}}
	report.Spec = reportsv1.VulnerabilityReportSpec{ImageRef: refOf(image), Image: image.Name, Provenance: &about.Provenance, ReportOmitted: true}
	f := &found{set: kinds.SetOfFindings(report), keys: map[int64]bool{}, summary: newSummary()}
	if err := s.collect(ctx, info, report, f); err != nil {
		return nil, err
	}
	f.follow(image)
	report.Spec.Summary = &f.summary
	if report.Spec.Changes, report.Spec.Previous, err = s.compare(ctx, image, f.set.Rows); err != nil {
		return nil, err
	}
	refer := func(ctx context.Context, tx *sqldb.Tx, object int64, now time.Time) (int64, error) {
		return info.Content, contents.Refer(ctx, tx, object, kinds.FormatFindings, info.Content, now)
	}
	change, err := s.reports.ChangeTo(report, s.keepFindings(about, f, refer, sbom, true))
	if err != nil {
		return nil, err
	}
	s.noteReport(image, report)
	return &change, nil
}

// collect reads the findings of a content as those of another image.
func (s *Service) collect(ctx context.Context, info *contents.Info, report *reportsv1.VulnerabilityReport, f *found) error {
	reader, err := contents.Open(ctx, s.store, info.Content)
	if err != nil {
		return err
	}
	f.set.Rows = make([]rows.Row, 0)
	return unlessStopped(eachLine(reader, func(l *line) error {
		if l.PURL != "" {
			return errStop
		}
		return f.add(report, &l.VulnerabilityFinding)
	}))
}
