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

// Comparison holds this Scan's findings against those of the run before it.
type Comparison struct {
	session *Session
	known   compare.Set
	has     bool
}

// Compare reads what the previous run found, remembering 16 bytes of each. The operator says where that is in the
// variable PREVIOUS_FINDINGS_URL. Where it does not, or where those findings were deleted meanwhile, there is no
// previous run, and every finding is new.
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

// HasPrevious says that there is a run to compare with.
func (c *Comparison) HasPrevious() bool { return c.has }

// State says whether one of the Scan's findings is new or known. It may be asked more than once.
func (c *Comparison) State(element []byte) (compare.State, error) {
	mark, err := compare.MarkOf(element)
	if err != nil {
		return "", err
	}
	return c.known.Classify(mark), nil
}

// EachFixed calls a function with every finding of the previous run that this Scan does not have any more, as it was
// then. All findings of this Scan must have been asked about with State before. Bytes are valid during the call.
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

// FixedCount is how many different findings of the previous run are gone, as soon as all of this Scan were asked about.
func (c *Comparison) FixedCount() int { return c.known.FixedCount() }
