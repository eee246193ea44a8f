// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"fmt"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// readScan takes the Scan from the environment, else from the API server.
func (c Config) readScan(ctx context.Context) (*sdk.Scan, error) {
	if c.Handover == nil {
		text, err := c.Client.Get(ctx)
		if err != nil {
			return nil, err
		}
		return sdk.DecodeScan(text)
	}
	scan, err := sdk.DecodeScan(c.Handover.Scan)
	if err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", handover.EnvScan, err)
	}
	return scan, nil
}

// readExceptions reads the exceptions that hold for the Scan. A parser that cannot goes on without, and tells the operator; one in
// the scanner's pod leaves the work to a parser in a pod of its own.
func (r *run) readExceptions(ctx context.Context) ([]outcome.Condition, error) {
	if r.Handover == nil {
		return nil, nil
	}
	text, err := r.Handover.Exceptions(ctx, r.Store)
	if err == nil && text == nil {
		return nil, nil
	}
	if err == nil {
		r.exceptions, err = exception.TakeOver(text)
	}
	c := outcome.Condition{
		Type: conditionApplied, Status: outcome.True, Reason: "Applied", Message: "The counts of open findings go by the exceptions that hold.",
	}
	if err != nil {
		if ctx.Err() != nil || r.File != "" { // a parser that the operator starts again gets a URL that is valid
			return nil, err
		}
		r.Log.Warn("going on without exceptions", "error", err)
		c.Status, c.Reason, c.Message = outcome.False, "ExceptionsUnreadable", "All findings count as open: "+err.Error()
	}
	return []outcome.Condition{c}, nil
}

// conditionApplied is the condition of a Scan that says whether exceptions were counted.
const conditionApplied = "ExceptionsApplied"

// report leaves an outcome for the operator.
func (r *run) report(ctx context.Context, o *outcome.Outcome) error {
	words, err := r.Handover.Words(ctx, r.Store, o)
	if err == nil {
		err = r.Leave(words)
	}
	if err != nil {
		return fmt.Errorf("report the outcome to the operator: %w", explain(err))
	}
	return nil
}
