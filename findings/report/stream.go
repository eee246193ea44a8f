// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/apis/finding"
)

// Stream is the Source of a findings.json, which is opened each time.
func Stream(open func(ctx context.Context) (io.ReadCloser, error)) Source {
	return func(ctx context.Context, do func(element []byte) error) (err error) {
		body, err := open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, body.Close()) }()
		reader := finding.NewReader(body, finding.Limits{})
		for {
			element, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read findings: %w", err)
			}
			if err := do(element); err != nil {
				return fmt.Errorf("finding %d: %w", reader.Count()-1, err)
			}
		}
	}
}
