// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/findings/report"
)

// Open counts the findings of a Scan that no exception suppresses, by severity, and those that one does. It downloads the
// findings only where an exception holds for the Scan; held is false where none does: then all findings are open.
func Open(ctx context.Context, s *session.Session, c client.WithWatch, reading results.Options, scan *executionv1.Scan) (
	open [report.Severities]int64, excepted int64, held bool, err error,
) {
	selection := For(ctx, s, c, scan)
	if selection.IsEmpty() {
		return open, 0, false, nil
	}
	reader, err := results.New(s, c, reading)
	if err != nil {
		return open, 0, true, err
	}
	source := reader.Source(scan, false)
	defer func() { err = errors.Join(err, source.Close()) }()
	in := report.Input{Findings: source.Each, Exceptions: selection}
	err = in.Each(ctx, func(e *report.Entry) error {
		if e.Excepted() {
			excepted++
		} else {
			open[e.Severity]++
		}
		return nil
	})
	return open, excepted, true, s.Explain(err)
}
