// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
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
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Bounds of findings.
const (
	maxFindings = 50_000
	maxLine     = 1 << 20
	keysAtOnce  = 200
)

var (
	severities = []string{"CRITICAL", "HIGH", "MEDIUM", "LOW", "UNKNOWN", ""}
	classes    = []string{"os-pkgs", "lang-pkgs", "binary", ""}
	statuses   = []string{"fixed", "affected", "will_not_fix", "end_of_life", "unknown", ""}
)

// line is a line of an upload: a finding, or the keys of a package.
type line struct {
	reportsv1.VulnerabilityFinding

	PURL string   `json:"purl"`
	Keys []string `json:"keys"`
}

// found is what is kept of findings while they are taken in.
type found struct {
	set     *rows.Set
	keys    map[int64]bool
	summary reportsv1.VulnerabilitySummary
}

// newSummary counts nothing yet.
func newSummary() reportsv1.VulnerabilitySummary {
	zero := func() *int64 { return new(int64) }
	return reportsv1.VulnerabilitySummary{Critical: zero(), High: zero(), Medium: zero(), Low: zero(), Unknown: zero(), Fixable: zero(), Suppressed: zero()}
}

// count counts a finding; one that an exception suppresses as such only.
func count(summary *reportsv1.VulnerabilitySummary, finding *reportsv1.VulnerabilityFinding, suppressed bool) {
	if suppressed {
		*summary.Suppressed++
		return
	}
	bySeverity := map[string]*int64{
		"CRITICAL": summary.Critical, "HIGH": summary.High, "MEDIUM": summary.Medium, "LOW": summary.Low,
	}
	counter := bySeverity[finding.Severity]
	if counter == nil {
		counter = summary.Unknown
	}
	*counter++
	if len(finding.FixedVersions) > 0 {
		*summary.Fixable++
	}
}

// eachLine reads lines of JSON.
func eachLine(from io.Reader, visit func(*line) error) error {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(make([]byte, 64<<10), maxLine)
	for scanner.Scan() {
		data := bytes.TrimSpace(scanner.Bytes())
		if len(data) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return bad(reportsv1.ReasonNotFindings, "%v", err)
		}
		if err := visit(&l); err != nil {
			return err
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return bad(reportsv1.ReasonTooLarge, "a line has more than %d bytes", maxLine)
	}
	return scanner.Err()
}

// check refuses a finding that could not be shown.
func check(f *reportsv1.VulnerabilityFinding) error {
	switch {
	case f.VulnerabilityID == "" || f.Package.Name == "":
		return bad(reportsv1.ReasonNotFindings, "a finding needs vulnerabilityID and package.name")
	case !slices.Contains(severities, f.Severity):
		return bad(reportsv1.ReasonNotFindings, "severity %q of %s is unknown", f.Severity, f.VulnerabilityID)
	case !slices.Contains(classes, f.Class):
		return bad(reportsv1.ReasonNotFindings, "class %q of %s is unknown", f.Class, f.VulnerabilityID)
	case !slices.Contains(statuses, f.Status):
		return bad(reportsv1.ReasonNotFindings, "status %q of %s is unknown", f.Status, f.VulnerabilityID)
	}
	return nil
}

// putFindings takes in the findings of an Image.
func (s *Service) putFindings(w http.ResponseWriter, req *http.Request, at target) error {
	var about reportsv1.FindingsUpload
	if err := readSpec(req, &about); err != nil {
		return err
	}
	if p := &about.Provenance; p.Adapter == nil || p.Adapter.Name == "" || p.Engine == nil || p.Database == nil || p.SBOM == nil {
		return apierrors.NewBadRequest(reportsv1.HeaderSpec + " must have provenance with adapter.name, engine, sbom and database")
	}
	ctx, claim := req.Context(), req.Header.Get(reportsv1.HeaderClaim)
	image, err := s.image(ctx, at)
	if err != nil {
		return err
	}
	if err := holds(image.Status.Work, claim); err != nil {
		return err
	}
	sbom, err := contents.Of(ctx, s.store, s.sboms.Key(at.namespace, at.name), kinds.FormatSPDX)
	if err != nil {
		return err
	}
	if sbom == nil {
		return apierrors.NewNotFound(reportsv1.SchemeGroupVersion.WithResource("sboms").GroupResource(), at.name)
	}
	report := &reportsv1.VulnerabilityReport{}
	ownedBy(image, report)
	report.Spec.ImageRef, report.Spec.Provenance = refOf(image), &about.Provenance
	f := &found{set: kinds.SetOfFindings(report), keys: map[int64]bool{}, summary: newSummary()}
	staged, err := s.stage(req, func(from io.Reader, _ *contents.Upload) error {
		return s.readFindings(ctx, from, report, sbom.Content, f)
	})
	if err != nil {
		return err
	}
	answered := &reportsv1.UploadAnswer{SHA256: staged.Sum(), Findings: int64(len(f.set.Rows))}
	err = s.together(ctx, func() ([]mvcc.Change, error) {
		return s.changeReport(ctx, at, claim, &about, f, func(ctx context.Context, tx *sqldb.Tx, object int64, now time.Time) (int64, error) {
			return contents.Attach(ctx, tx, object, kinds.FormatFindings, staged, now)
		}, staged.Sum(), answered)
	})
	if err != nil {
		return errors.Join(err, staged.Discard(context.WithoutCancel(ctx)))
	}
	return answer(w, http.StatusOK, answered)
}

// readFindings reads findings, and notes the keys of packages as they come.
func (s *Service) readFindings(ctx context.Context, from io.Reader, report *reportsv1.VulnerabilityReport, sbom int64, f *found) error {
	var keys []reportsv1.PackageKeys
	note := func() error {
		err := s.store.Maintain(ctx, "note keys of packages", func(tx *sqldb.Tx) error {
			return images.AddKeys(ctx, tx, report.Spec.Provenance.Adapter.Name, sbom, keys)
		})
		keys = keys[:0]
		return err
	}
	err := eachLine(from, func(l *line) error {
		if l.PURL != "" {
			if keys = append(keys, reportsv1.PackageKeys{PURL: l.PURL, Keys: l.Keys}); len(keys) < keysAtOnce {
				return nil
			}
			return note()
		}
		if len(f.set.Rows) == maxFindings {
			return bad(reportsv1.ReasonTooLarge, "there are more than %d findings", maxFindings)
		}
		return f.add(report, &l.VulnerabilityFinding)
	})
	if err != nil || len(keys) == 0 {
		return err
	}
	return note()
}

func (f *found) add(report *reportsv1.VulnerabilityReport, finding *reportsv1.VulnerabilityFinding) error {
	if err := check(finding); err != nil {
		return err
	}
	finding.Suppressed = nil // who accepts a finding is the server's to say
	f.set.Rows = append(f.set.Rows, kinds.RowOfFinding(report, finding))
	count(&f.summary, finding, false)
	for _, id := range append([]string{finding.VulnerabilityID}, finding.Aliases...) {
		f.keys[images.Hash("vuln|"+id)] = true
	}
	return nil
}

// follow has the life of each finding noted, since this is all that the image has now. An image that is not what its tag leads to any more
// says nothing about the tag.
func (f *found) follow(image *reportsv1.Image) {
	f.set.Whole()
	if presence := image.Status.Presence; presence == reportsv1.ImageSuperseded || presence == reportsv1.ImageGone {
		f.set.Target = ""
	}
}

// report reads the report of an Image; one that is to be made has no resource version.
func (s *Service) report(ctx context.Context, image *reportsv1.Image) (*reportsv1.VulnerabilityReport, error) {
	report := &reportsv1.VulnerabilityReport{}
	if err := s.reports.Get(ctx, s.reports.Key(image.Namespace, image.Name), storage.GetOptions{IgnoreNotFound: true}, report); err != nil {
		return nil, err
	}
	if report.ResourceVersion == "" {
		rest.FillObjectMetaSystemFields(report)
		ownedBy(image, report)
	}
	report.Generation++
	return report, nil
}

// newer tells whether a report may replace the stored one.
func newer(stored *reportsv1.Provenance, made *reportsv1.Provenance, claimed bool) error {
	if stored == nil || stored.Database == nil || stored.Adapter == nil || stored.Adapter.Name != made.Adapter.Name {
		return nil
	}
	was, is := stored.Database, made.Database
	if was.BuiltAt != nil && is.BuiltAt != nil && was.BuiltAt.After(is.BuiltAt.Time) {
		return conflict(reportsv1.ReasonNotNewer, "the stored report was made with newer data")
	}
	same := was.Version == is.Version && stored.Engine != nil && *stored.Engine == *made.Engine && stored.SBOM != nil && stored.SBOM.SHA256 == made.SBOM.SHA256
	if same && !claimed {
		return conflict(reportsv1.ReasonNotNewer, "the stored report was made with the same data")
	}
	return nil
}

// attach makes a content the findings of a report, in the report's transaction.
type attach func(ctx context.Context, tx *sqldb.Tx, object int64, now time.Time) (content int64, err error)

func (s *Service) changeReport(ctx context.Context, at target, claim string, about *reportsv1.FindingsUpload, f *found, attach attach, sum string,
	answered *reportsv1.UploadAnswer,
) ([]mvcc.Change, error) {
	image, err := s.image(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := holds(image.Status.Work, claim); err != nil {
		return nil, err
	}
	sbom, err := contents.Of(ctx, s.store, s.sboms.Key(at.namespace, at.name), kinds.FormatSPDX)
	if err != nil {
		return nil, err
	}
	if sbom == nil || sbom.Sum != about.Provenance.SBOM.SHA256 {
		return nil, conflict(reportsv1.ReasonNotNewer, "the SBOM that was matched is not the stored one")
	}
	report, err := s.report(ctx, image)
	if err != nil {
		return nil, err
	}
	if err := newer(report.Spec.Provenance, &about.Provenance, claim != ""); err != nil {
		return nil, err
	}
	stored, err := contents.Of(ctx, s.store, s.reports.Key(at.namespace, at.name), kinds.FormatFindings)
	if err != nil {
		return nil, err
	}
	answered.Changed = stored == nil || stored.Sum != sum
	changes, previous, err := s.compare(ctx, image, f.set.Rows)
	if err != nil {
		return nil, err
	}
	f.follow(image)
	report.Spec = reportsv1.VulnerabilityReportSpec{
		ImageRef: refOf(image), Image: image.Name, Provenance: &about.Provenance, Summary: &f.summary, Changes: changes, Previous: previous, ReportOmitted: true,
	}
	first, err := s.reports.ChangeTo(report, s.keepFindings(about, f, attach, sbom.Content, answered.Changed))
	if err != nil {
		return nil, err
	}
	s.noteReport(image, report)
	second, err := s.images.ChangeTo(image, nil)
	return []mvcc.Change{first, second}, err
}

// keepFindings writes what is kept beside a report, in its transaction.
func (s *Service) keepFindings(about *reportsv1.FindingsUpload, f *found, attach attach, sbom int64, changed bool) mvcc.Indexer {
	return func(ctx context.Context, tx *sqldb.Tx, object int64, now time.Time) error {
		if _, err := attach(ctx, tx, object, now); err != nil {
			return err
		}
		if changed {
			if err := f.set.Indexer()(ctx, tx, object, now); err != nil {
				return err
			}
			if err := images.SetFindingKeys(ctx, tx, object, f.keys); err != nil {
				return err
			}
		}
		if err := images.Share(ctx, tx, object, sbom, about.Shareable); err != nil {
			return err
		}
		database := about.Provenance.Database
		var built int64
		if database.BuiltAt != nil {
			built = database.BuiltAt.UnixMilli()
		}
		return images.Good(ctx, tx, object, about.Provenance.Adapter.Name, database.Version, built)
	}
}

// noteReport moves an Image on that has got a report.
func (s *Service) noteReport(image *reportsv1.Image, report *reportsv1.VulnerabilityReport) {
	now := metav1.NewTime(s.clock.Now())
	status := &image.Status
	status.Vulnerabilities, status.ScannedAt = report.Spec.Summary, &now
	used := report.Spec.Provenance.Database.DatabaseRef
	status.Database = &used
	s.settle(image, reportsv1.ImageScanned)
	// Batches make no claims: what has looked at the image is known from here only.
	if by := report.Spec.Provenance.Job; by != "" && (status.Work == nil || status.Work.Job == nil || status.Work.Job.UID != by) {
		status.Work = &reportsv1.Work{Job: &reportsv1.JobRef{UID: by}}
	}
	if changes := report.Spec.Changes; changes == nil || changes.New+changes.Fixed > 0 {
		status.Reason = reportsv1.ReasonChanged
	}
}

// compare compares findings with those of the report before, of this Image or of the one that had the tag before.
func (s *Service) compare(ctx context.Context, image *reportsv1.Image, now []rows.Row) (changes *reportsv1.Changes, previous string, err error) {
	before := map[string]bool{}
	err = s.store.Query(ctx, func(tx *sqldb.Tx) error {
		object, digest, err := s.before(ctx, tx, image)
		if err != nil || object == 0 {
			return err
		}
		previous = digest
		found, err := tx.Query(ctx, `SELECT DISTINCT fingerprint FROM results WHERE object = ?`, object)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // errors of reading are those of Err
		for found.Next() {
			var fingerprint string
			if err := found.Scan(&fingerprint); err != nil {
				return err
			}
			before[fingerprint] = true
		}
		return found.Err()
	})
	if err != nil || previous == "" {
		return nil, "", err
	}
	changes = &reportsv1.Changes{}
	seen := map[string]bool{}
	for i := range now {
		fingerprint := now[i].Fingerprint()
		switch {
		case seen[fingerprint]:
		case before[fingerprint]:
			changes.Unchanged++
		default:
			changes.New++
		}
		seen[fingerprint] = true
	}
	for fingerprint := range before {
		if !seen[fingerprint] {
			changes.Fixed++
		}
	}
	return changes, previous, nil
}

// before finds the report before: its number and the digest of its image; 0 if there is none.
func (s *Service) before(ctx context.Context, tx *sqldb.Tx, image *reportsv1.Image) (object int64, digest string, err error) {
	const kind = kinds.VulnerabilityReportNumber
	err = tx.QueryRow(ctx, `SELECT object, digest FROM subjects WHERE kind = ? AND ns = ? AND name = ?`, kind, image.Namespace, image.Name).Scan(&object, &digest)
	if errors.Is(err, sql.ErrNoRows) && image.Spec.Tag != "" {
		err = tx.QueryRow(ctx, `SELECT object, digest FROM subjects WHERE kind = ? AND ns = ? AND repository = ? AND tag = ? AND registry_uid = ? AND platform = ?
			ORDER BY object DESC LIMIT 1`, kind, image.Namespace, image.Spec.Repository, image.Spec.Tag, image.Spec.Registry.UID,
			image.Spec.Platform).Scan(&object, &digest)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", nil
	}
	return object, digest, err
}

// lower is a text for comparisons that do not tell cases apart.
func lower(text string) string { return strings.ToLower(text) }
