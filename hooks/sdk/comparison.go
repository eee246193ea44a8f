// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// Comparison compares this Scan's findings with those of the previous run.
type Comparison struct {
	session *Session
	known   compare.Set
	has     bool
}

// Compare reads the findings of the previous run, and keeps 16 bytes of each. The operator puts their URL into the
// variable PREVIOUS_FINDINGS_URL. Without the variable, or if those findings were deleted since, there is no previous run,
// and every finding is new.
func (s *Session) Compare(ctx context.Context) (*Comparison, error) {
	c := &Comparison{session: s}
	if s.urls.previous == "" {
		return c, nil
	}
	err := s.each(ctx, s.urls.previous, func(element []byte) error {
		mark, err := compare.MarkOf(element)
		if err == nil {
			c.known.Add(mark)
		}
		return err
	})
	if status, ok := errors.AsType[*transfer.StatusError](err); ok && status.Code == http.StatusNotFound {
		s.Notef("the findings of the previous run are gone; every finding counts as new")
		return &Comparison{session: s}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("previous run: %w", err)
	}
	c.has = true
	return c, nil
}

// HasPrevious reports whether there is a previous run.
func (c *Comparison) HasPrevious() bool { return c.has }

// State returns whether one of the Scan's findings is new or known. It may be called more than once.
func (c *Comparison) State(element []byte) (compare.State, error) {
	mark, err := compare.MarkOf(element)
	if err != nil {
		return "", err
	}
	return c.known.Classify(mark), nil
}

// EachFixed calls a function with every finding of the previous run that this Scan does not have any more, as it was then.
// State must have been called for all findings of this Scan before. Bytes are valid during the call.
func (c *Comparison) EachFixed(ctx context.Context, do func(element []byte) error) error {
	if !c.has || c.known.FixedCount() == 0 {
		return nil
	}
	return c.session.each(ctx, c.session.urls.previous, func(element []byte) error {
		mark, err := compare.MarkOf(element)
		if err != nil || !c.known.IsFixed(mark) {
			return err
		}
		return do(element)
	})
}

// FixedCount is how many different findings of the previous run are gone, after State was called for all of this Scan.
func (c *Comparison) FixedCount() int { return c.known.FixedCount() }
