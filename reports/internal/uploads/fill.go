// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// maxInline is how much of a document one object is answered with.
const maxInline = 4 << 20

// Fill puts into an SBOM or a report, which is read singly, what lists do not hold: its document up to 4 MiB, and how far it
// is known to be good.
func (s *Service) Fill(ctx context.Context, obj runtime.Object) error {
	switch obj := obj.(type) {
	case *reportsv1.SBOM:
		if obj.Spec.SBOM != nil {
			return nil
		}
		return s.fillSBOM(ctx, obj)
	case *reportsv1.VulnerabilityReport:
		if err := s.fillCurrent(ctx, obj); err != nil {
			return err
		}
		if !obj.Spec.ReportOmitted {
			return statusOrNil(s.suppressInline(ctx, obj))
		}
		return s.fillReport(ctx, obj)
	}
	return nil
}

func (s *Service) fillSBOM(ctx context.Context, sbom *reportsv1.SBOM) error {
	info, err := contents.Of(ctx, s.store, s.sboms.Key(sbom.Namespace, sbom.Name), kinds.FormatSPDX)
	if err != nil || info == nil || info.Bytes > maxInline {
		return statusOrNil(err)
	}
	reader, err := contents.Open(ctx, s.store, info.Content)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		return statusOf(fmt.Errorf("read the document of %s: %w", sbom.Name, err))
	}
	sbom.Spec.SBOM, sbom.Spec.SBOMOmitted = &runtime.RawExtension{Raw: data}, false
	return nil
}

func statusOrNil(err error) error {
	if err == nil {
		return nil
	}
	return statusOf(err)
}

var errTooLong = errors.New("too long for one object")

// limited is a buffer that takes so much and no more.
type limited struct {
	bytes.Buffer

	most int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.most {
		return 0, errTooLong
	}
	return l.Buffer.Write(p)
}

func (s *Service) fillReport(ctx context.Context, report *reportsv1.VulnerabilityReport) error {
	info, err := contents.Of(ctx, s.store, s.reports.Key(report.Namespace, report.Name), kinds.FormatFindings)
	if err != nil || info == nil || info.Bytes > maxInline {
		return statusOrNil(err)
	}
	out := &limited{most: maxInline - int(info.Bytes)}
	err = s.writeSARIF(ctx, out, report, nil)
	if errors.Is(err, errTooLong) {
		return nil
	}
	if err != nil {
		return statusOf(err)
	}
	err = s.findings(ctx, report, 0, func(_ int, f *reportsv1.VulnerabilityFinding) error {
		report.Spec.Findings = append(report.Spec.Findings, *f.DeepCopy())
		return nil
	})
	if err != nil {
		return statusOf(err)
	}
	report.Spec.Report, report.Spec.ReportOmitted = &runtime.RawExtension{Raw: bytes.TrimSpace(out.Bytes())}, false
	return nil
}

// fillCurrent computes the newest data that would change nothing in a report.
func (s *Service) fillCurrent(ctx context.Context, report *reportsv1.VulnerabilityReport) error {
	return statusOrNil(s.store.Query(ctx, func(tx *sqldb.Tx) error {
		var object int64
		err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(id), 0) FROM objects WHERE "key" = ?`, s.reports.Key(report.Namespace, report.Name)).Scan(&object)
		if err != nil || object == 0 {
			return err
		}
		version, built, err := images.CurrentAsOf(ctx, tx, object)
		if err != nil || version == "" {
			return err
		}
		report.Spec.CurrentAsOf = &reportsv1.CurrentAsOf{Version: version}
		if !built.IsZero() && built.Unix() != 0 {
			at := metav1.NewTime(built)
			report.Spec.CurrentAsOf.BuiltAt = &at
		}
		return nil
	}))
}
