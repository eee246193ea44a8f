// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"fmt"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
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
