// SPDX-License-Identifier: Apache-2.0

package jsonstream

import (
	"context"

	"github.com/scanyard/scanyard/parsers/sdk"
)

// Read opens a parser's input and lets walk read its document. It fails if anything is left after the document.
func Read(ctx context.Context, in *sdk.Input, walk func(*Reader) error) error {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	r := NewReader(raw, in.Limits.JSON())
	if err := walk(r); err != nil {
		return err
	}
	return r.End()
}
