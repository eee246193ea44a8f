// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Bounds of one call of FillPackages.
const (
	fillAtOnce = 50
	fillRounds = 20
)

// filling is how far the rows of findings have been given their packages by this process.
type filling struct {
	after int64 // the number of the last object
	done  bool
}

// lacking is a report whose rows were written before rows had packages.
type lacking struct {
	object int64
	at     target
}

// FillPackages gives rows their packages that were written before rows had any, a part of them in each call. A report that
// cannot be read is passed by. Once all have theirs, it does nothing.
func (s *Service) FillPackages(ctx context.Context) error {
	var errs []error
	for range fillRounds {
		if s.filling.done {
			break
		}
		reports, err := s.lacking(ctx)
		if err != nil {
			return fmt.Errorf("look for findings without packages: %w", err)
		}
		for _, report := range reports {
			if err := s.fillPackages(ctx, report); err != nil {
				errs = append(errs, fmt.Errorf("fill in the packages of %s/%s: %w", report.at.namespace, report.at.name, err))
			}
			s.filling.after = report.object
		}
		s.filling.done = len(reports) < fillAtOnce
	}
	return errors.Join(errs...)
}

// lacking returns the next reports. The rows of a report are written together, so that the first one tells.
func (s *Service) lacking(ctx context.Context) (reports []lacking, err error) {
	err = s.store.Query(ctx, func(tx *sqldb.Tx) error {
		found, err := tx.Query(ctx, `SELECT s.object, s.ns, s.name FROM subjects s JOIN results r ON r.object = s.object AND r.i = 0
			WHERE s.kind = ? AND s.object > ? AND r.fixable IS NULL ORDER BY s.object LIMIT ?`, kinds.VulnerabilityReportNumber, s.filling.after, fillAtOnce)
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // errors of reading are those of Err
		for found.Next() {
			var report lacking
			if err := found.Scan(&report.object, &report.at.namespace, &report.at.name); err != nil {
				return err
			}
			reports = append(reports, report)
		}
		return found.Err()
	})
	return reports, err
}

func (s *Service) fillPackages(ctx context.Context, of lacking) error {
	report, key := &reportsv1.VulnerabilityReport{}, s.reports.Key(of.at.namespace, of.at.name)
	if err := s.reports.Get(ctx, key, storage.GetOptions{IgnoreNotFound: true}, report); err != nil {
		return err
	}
	info, err := contents.Of(ctx, s.store, key, kinds.FormatFindings)
	if err != nil {
		return err
	}
	var packages []*rows.Package
	err = s.walk(ctx, report, info, func(f *reportsv1.VulnerabilityFinding) error {
		packages = append(packages, kinds.PackageOf(f))
		return nil
	})
	if err != nil {
		return err
	}
	return s.store.Maintain(ctx, "fill in packages", func(tx *sqldb.Tx) error { return rows.FillPackages(ctx, tx, of.object, packages) })
}
