// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"net/http"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// selection asks the rules of channels about findings.
type selection struct {
	session  *sdk.Session
	previous *sdk.Comparison // nil where no channel compares
	decoder  *finding.Decoder
	keys     map[string]bool // the members of findings that rules look at
}

// newSelection reads the previous run where a rule asks for it. An Errored Scan is not compared: it is not whole.
func newSelection(ctx context.Context, s *sdk.Session, to []*recipient, errored bool) (*selection, error) {
	l := &selection{session: s, decoder: finding.NewDecoder(0), keys: map[string]bool{}}
	for _, c := range to {
		c.rules.AddKeys(l.keys)
		if c.rules.Compare() && l.previous == nil && !errored {
			var err error
			if l.previous, err = s.Compare(ctx); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// stateOf is what the comparison says of a current finding; nothing where runs are not compared.
func (l *selection) stateOf(element []byte) (compare.State, error) {
	if l.previous == nil {
		return "", nil
	}
	return l.previous.State(element)
}

// each calls a function with every finding, what rules can see of it, and its state; those that are gone come last.
func (l *selection) each(ctx context.Context, fixed bool, do func(element []byte, value any, state compare.State) error) error {
	err := l.session.EachMarked(ctx, func(element []byte) error {
		value, err := l.decoder.Pick(element, l.keys)
		if err != nil {
			return err
		}
		state, err := l.stateOf(element)
		if err != nil {
			return err
		}
		return do(element, value, state)
	})
	if err != nil || l.previous == nil || !fixed {
		return err
	}
	return l.previous.EachFixed(ctx, func(element []byte) error {
		value, err := l.decoder.Pick(element, l.keys)
		if err != nil {
			return err
		}
		return do(element, value, compare.Fixed)
	})
}

// choose goes through the findings once, for all channels.
func (l *selection) choose(ctx context.Context, to []*recipient) ([]*message.Findings, error) {
	all := make([]*message.Findings, len(to))
	for i, c := range to {
		limit := message.MaxKept
		switch {
		case c.messenger == nil:
			limit = 0
		case c.MaxFindings > 0:
			limit = c.MaxFindings
		}
		all[i] = message.NewFindings(limit)
	}
	err := l.each(ctx, true, func(element []byte, value any, state compare.State) error {
		for i, c := range to {
			if c.rules.Match(value, state) {
				all[i].Add(element, state)
			}
		}
		return nil
	})
	return all, err
}

// nothingThere says that an error means that there are no findings to download. A store whose callers may not list it
// answers 403 for what is missing.
func nothingThere(err error) bool {
	status, ok := errors.AsType[*transfer.StatusError](err)
	return ok && (status.Code == http.StatusNotFound || status.Code == http.StatusForbidden)
}

// chooseForErrored is choose for a Scan that may have no findings: whatever is wrong with them, the failure is reported.
func (l *selection) chooseForErrored(ctx context.Context, to []*recipient) ([]*message.Findings, error) {
	all, err := l.choose(ctx, to)
	if err == nil || ctx.Err() != nil {
		return all, err
	}
	if !nothingThere(err) {
		l.session.Notef("%v; the Scan is Errored, so it is reported without findings", err)
	}
	for i := range all {
		all[i] = message.NewFindings(all[i].Limit)
	}
	return all, nil
}
