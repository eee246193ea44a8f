// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

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

// Excepted says what a hook does with findings that an exception matches.
type Excepted string

// The values of EXCEPTED.
const (
	// ExceptedMark sends them with a member "exception", or as the far end says it.
	ExceptedMark Excepted = "mark"
	// ExceptedOmit leaves out those that an exception suppresses, and marks the others.
	ExceptedOmit Excepted = "omit"
	// ExceptedSend sends them as if there were no exception.
	ExceptedSend Excepted = "send"
)

// ExceptedVariable is the variable of every hook that hands findings on.
const ExceptedVariable = "EXCEPTED"

// ExceptedSetting is the setting of a hook that does one of them by default.
func ExceptedSetting(usual Excepted) Setting {
	return Setting{Name: ExceptedVariable, Text: fmt.Sprintf(
		"what becomes of findings that an exception matches: mark, omit (those that it suppresses) or send (without a mark); default %s", usual,
	)}
}

// exceptedOf reads EXCEPTED.
func exceptedOf(env Env, usual Excepted) (Excepted, error) {
	switch text := Excepted(env.Get(ExceptedVariable)); text {
	case "":
		return usual, nil
	case ExceptedMark, ExceptedOmit, ExceptedSend:
		return text, nil
	default:
		return "", fmt.Errorf("%s is %q, want mark, omit or send", ExceptedVariable, text)
	}
}

// reported is the matching exception by which the hook goes: nil with EXCEPTED=send. left says that the finding is left out.
func (s *Session) reported(x *Excepting, element []byte) (mark *exception.Mark, left bool, err error) {
	if s.excepted == "" || s.excepted == ExceptedSend {
		return nil, false, nil
	}
	mark, err = x.Mark(element)
	return mark, mark != nil && mark.Suppresses() && s.excepted == ExceptedOmit, err
}

// EachReported is EachFinding for a hook that hands findings on, with the exception that matches: EXCEPTED says whether findings
// are left out, and a finding with a mark has a member "exception" at its end. The bytes are valid during the call.
func (s *Session) EachReported(ctx context.Context, do func(element []byte, mark *exception.Mark) error) error {
	x, err := s.Excepting(ctx)
	if err != nil {
		return err
	}
	return s.EachFinding(ctx, func(element []byte) error {
		mark, left, err := s.reported(x, element)
		switch {
		case err != nil, left:
			return err
		case mark == nil:
			return do(element, nil)
		}
		marked, err := withMark(element, mark)
		if err != nil {
			return err
		}
		return do(marked, mark)
	})
}

// EachMarked is EachReported without the exceptions themselves.
func (s *Session) EachMarked(ctx context.Context, do func(element []byte) error) error {
	return s.EachReported(ctx, func(element []byte, _ *exception.Mark) error { return do(element) })
}

// Goes are the exceptions by which a hook goes that matches findings itself, and whether suppressed ones are left out.
func (s *Session) Goes(ctx context.Context) (held *exception.Selection, omit bool, err error) {
	if s.excepted == ExceptedSend {
		return nil, false, nil
	}
	held, err = s.Exceptions(ctx)
	return held, s.excepted == ExceptedOmit, err
}

// TakesNoNotice tells that the hook sends findings as if there were no exception.
func (s *Session) TakesNoNotice() bool { return s.excepted == ExceptedSend }

// withMark adds the member "exception" to a finding, which is an object.
func withMark(element []byte, mark *exception.Mark) ([]byte, error) {
	text, err := json.Marshal(mark)
	if err != nil {
		return nil, fmt.Errorf("mark finding: %w", err)
	}
	inner := bytes.TrimRight(bytes.TrimSuffix(bytes.TrimSpace(element), []byte("}")), " \t\r\n")
	marked := append(make([]byte, 0, len(inner)+len(text)+16), inner...)
	if !bytes.HasSuffix(inner, []byte("{")) {
		marked = append(marked, ',')
	}
	marked = append(marked, `"exception":`...)
	return append(append(marked, text...), '}'), nil
}
