// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/vulnerability"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// byException is what a finding says of an exception that suppresses it.
const byException = "Exception"

// suppress says who accepts a finding, as its row does. What is said of the exception beside its name is what it says now.
func (s *Service) suppress(namespace string, f *reportsv1.VulnerabilityFinding, row *besideRow) {
	switch {
	case !row.suppressed:
		f.Suppressed = nil
	case row.exception != "":
		f.Suppressed = &reportsv1.Suppressed{By: byException, Name: row.exception}
		if s.suppressed == nil {
			return
		}
		if said := s.suppressed(namespace, row.exception); said != nil {
			f.Suppressed = said
		}
	}
}

// suppressInline does so for findings that are in their object.
func (s *Service) suppressInline(ctx context.Context, report *reportsv1.VulnerabilityReport) error {
	var kept beside
	key := s.reports.Key(report.Namespace, report.Name)
	for i := range report.Spec.Findings {
		row, err := kept.at(ctx, s, key, i)
		if err != nil {
			return err
		}
		s.suppress(report.Namespace, &report.Spec.Findings[i], row)
	}
	return nil
}

// errMarked ends the change of a report that is marked already, or gone.
var errMarked = errors.New("the report is marked already")

// Mark marks the findings of a report by the exceptions that hold for images of its namespace. Rows, counts, the summary of the
// report and that of its Image change together.
func (s *Service) Mark(ctx context.Context, namespace, name string, held *exception.Selection) error {
	err := s.together(ctx, func() ([]mvcc.Change, error) { return s.mark(ctx, target{namespace, name}, held) })
	if errors.Is(err, errMarked) {
		return nil
	}
	return err
}

func (s *Service) mark(ctx context.Context, at target, held *exception.Selection) ([]mvcc.Change, error) {
	report, key := &reportsv1.VulnerabilityReport{}, s.reports.Key(at.namespace, at.name)
	if err := s.reports.Get(ctx, key, storage.GetOptions{}, report); err != nil {
		if storage.IsNotFound(err) {
			return nil, errMarked
		}
		return nil, err
	}
	before, err := s.marksOf(ctx, key)
	if err != nil {
		return nil, err
	}
	if held.IsEmpty() && len(before) == 0 && suppressedOf(report.Spec.Summary) == 0 {
		return nil, errMarked
	}
	info, err := contents.Of(ctx, s.store, key, kinds.FormatFindings)
	if err != nil {
		return nil, err
	}
	found, after, err := s.matched(ctx, report, info, held)
	if err != nil {
		return nil, err
	}
	// A summary in an object without a document is what its writer has counted.
	counted := info == nil || equality.Semantic.DeepEqual(report.Spec.Summary, &found.summary)
	if counted && equality.Semantic.DeepEqual(before, after) {
		return nil, errMarked
	}
	report.Spec.Summary = &found.summary
	report.Generation++
	first, err := s.reports.ChangeTo(report, found.set.Indexer())
	if err != nil {
		return nil, err
	}
	image, err := s.image(ctx, at)
	switch {
	case apierrors.IsNotFound(err):
		return []mvcc.Change{first}, nil
	case err != nil:
		return nil, err
	}
	image.Status.Vulnerabilities = report.Spec.Summary
	second, err := s.images.ChangeTo(image, nil)
	return []mvcc.Change{first, second}, err
}

func suppressedOf(summary *reportsv1.VulnerabilitySummary) int64 {
	if summary == nil || summary.Suppressed == nil {
		return 0
	}
	return *summary.Suppressed
}

// rowMark is which exception matches a finding, as KIND/NAME, and whether it suppresses it.
type rowMark struct {
	Exception  string
	Suppressed bool
}

// marksOf are the marks of a report's findings, by their numbers.
func (s *Service) marksOf(ctx context.Context, key string) (map[int]rowMark, error) {
	marks := map[int]rowMark{}
	err := s.store.Query(ctx, func(tx *sqldb.Tx) error {
		found, err := tx.Query(ctx, `SELECT r.i, r.suppressed, COALESCE(n.s, '') FROM objects o JOIN results r ON r.object = o.id
			LEFT JOIN names n ON n.id = r.exception WHERE o."key" = ? AND (r.suppressed = 1 OR r.exception IS NOT NULL)`, key)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // errors of reading are those of Err
		for found.Next() {
			var at, suppressed int
			var mark rowMark
			if err := found.Scan(&at, &suppressed, &mark.Exception); err != nil {
				return err
			}
			mark.Suppressed = suppressed != 0
			marks[at] = mark
		}
		return found.Err()
	})
	return marks, err
}

// matched are the rows and the summary of a report by the exceptions that hold, and the marks among them.
func (s *Service) matched(ctx context.Context, report *reportsv1.VulnerabilityReport, info *contents.Info, held *exception.Selection) (
	f *found, marks map[int]rowMark, err error,
) {
	f, marks = &found{set: kinds.SetOfFindings(report), summary: newSummary()}, map[int]rowMark{}
	f.set.Target = "" // nothing was looked at anew
	f.set.Rows = make([]rows.Row, 0, len(report.Spec.Findings))
	err = s.walk(ctx, report, info, func(finding *reportsv1.VulnerabilityFinding) error {
		finding.Suppressed = nil
		row := kinds.RowOfFinding(report, finding)
		object, err := vulnerability.Object(report, finding, row.Known)
		if err != nil {
			return err
		}
		if mark, ok := held.Match(object); ok {
			row.Exception, row.Suppressed = mark.Kind+"/"+mark.Name, mark.Suppresses()
			marks[len(f.set.Rows)] = rowMark{row.Exception, row.Suppressed}
		}
		f.set.Rows = append(f.set.Rows, row)
		count(&f.summary, finding, row.Suppressed)
		return nil
	})
	return f, marks, err
}
