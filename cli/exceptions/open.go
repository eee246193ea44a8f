// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/report"
)

// Counted are findings of a Scan.
type Counted struct {
	// Failing reach a threshold, and no exception suppresses them.
	Failing int64
	// Excepted are those that an exception suppresses.
	Excepted int64
}

// Count counts the findings of a Scan that reach a threshold. It downloads the findings only where the status of the Scan
// cannot tell: where an exception holds for the Scan, and where the threshold asks for more than a severity. With all,
// exceptions are not looked at.
func Count(
	ctx context.Context, s *session.Session, c client.WithWatch, reading results.Options, scan *executionv1.Scan, least report.Threshold, all bool,
) (counted Counted, err error) {
	var selection *exception.Selection
	if !all {
		selection = For(ctx, s, c, scan)
	}
	if selection.IsEmpty() && !least.IsCritical() {
		return Counted{Failing: view.AtOrAbove(scan.Status.Findings, least.Least().String())}, nil
	}
	reader, err := results.New(s, c, reading)
	if err != nil {
		return Counted{}, err
	}
	source := reader.Source(scan, false)
	defer func() { err = errors.Join(err, source.Close()) }()
	in := report.Input{Findings: source.Each, Exceptions: selection}
	err = in.Each(ctx, func(e *report.Entry) error {
		switch {
		case e.Excepted():
			counted.Excepted++
		case least.Reached(e):
			counted.Failing++
		}
		return nil
	})
	return counted, s.Explain(err)
}
