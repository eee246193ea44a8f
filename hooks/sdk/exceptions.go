// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/exception"
)

// exceptions are what was read, and whether it could be.
type exceptions struct{ held *exception.Selection }

// Exceptions are those that hold for the Scan, as the operator has decided when it made the pod: they are read once. Nil where
// none does, or where they cannot be read, which the log says. The error is that of a context that has ended.
func (s *Session) Exceptions(ctx context.Context) (*exception.Selection, error) {
	if s.exceptions != nil || s.handover == nil {
		return s.held(), nil
	}
	text, err := s.handover.Exceptions(ctx, s.store)
	read := &exceptions{}
	if err == nil && text != nil {
		read.held, err = exception.TakeOver(text)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.Notef("going on without exceptions: %v", err)
	}
	s.exceptions = read
	return read.held, nil
}

func (s *Session) held() *exception.Selection {
	if s.exceptions == nil {
		return nil
	}
	return s.exceptions.held
}

// Excepting says of each finding whether an exception matches. It is for one goroutine.
type Excepting struct {
	held    *exception.Selection
	decoder *finding.Decoder
}

// Excepting reads the exceptions that hold for the Scan.
func (s *Session) Excepting(ctx context.Context) (*Excepting, error) {
	held, err := s.Exceptions(ctx)
	return &Excepting{held, finding.NewDecoder(0)}, err
}

// Mark is what a finding is marked with; nil where no exception matches.
func (x *Excepting) Mark(element []byte) (*exception.Mark, error) {
	mark, ok, err := x.held.MatchRaw(x.decoder, element)
	if !ok || err != nil {
		return nil, err
	}
	return &mark, nil
}
