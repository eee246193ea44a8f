// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/transfer"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/sdk"
)

const (
	// maxKept is how many findings a template is given where the channel does not say.
	maxKept = 1000
	// maxKeptBytes bounds their size: decoded they take several times as much, and there are several channels.
	maxKeptBytes = 2 << 20
)

// selected is what a channel is to hear of: all are counted, the first are kept.
type selected struct {
	kept   []kept
	bytes  int
	full   bool
	limit  int
	count  int
	counts map[compare.State]int
	hash   hash.Hash
}

type kept struct {
	element []byte
	state   compare.State
}

func newSelected(limit int) *selected {
	return &selected{limit: limit, counts: map[compare.State]int{}, hash: sha256.New()}
}

func (s *selected) add(element []byte, state compare.State) {
	s.count++
	s.counts[state]++
	s.hash.Write(element)
	s.full = s.full || len(s.kept) >= s.limit || s.bytes+len(element) > maxKeptBytes
	if s.full {
		return
	}
	s.bytes += len(element)
	s.kept = append(s.kept, kept{bytes.Clone(element), state})
}

// sum is the same for the same findings.
func (s *selected) sum() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// selection asks the rules of channels about findings.
type selection struct {
	session  *sdk.Session
	previous *sdk.Comparison // nil where no channel compares
	decoder  *finding.Decoder
	keys     map[string]bool // the members of findings that rules look at
}

// newSelection reads the previous run where a rule asks for it. An Errored Scan is not compared: it is not whole.
func newSelection(ctx context.Context, s *sdk.Session, channels []*Channel, errored bool) (*selection, error) {
	l := &selection{session: s, decoder: finding.NewDecoder(0), keys: map[string]bool{}}
	for _, c := range channels {
		for i := range c.rules {
			c.rules[i].keys(l.keys)
		}
		if c.compares() && l.previous == nil && !errored {
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
	err := l.session.EachFinding(ctx, func(element []byte) error {
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

// hears says whether a channel is to hear of a finding; of one that is gone only if a rule says so.
func (c *Channel) hears(value any, state compare.State) bool {
	return (state != compare.Fixed || c.wants(compare.Fixed)) && c.matches(value, state)
}

// choose goes through the findings once, for all channels.
func (l *selection) choose(ctx context.Context, channels []*Channel) ([]*selected, error) {
	all := make([]*selected, len(channels))
	for i, c := range channels {
		limit := maxKept
		switch {
		case c.messenger == nil:
			limit = 0
		case c.MaxFindings > 0:
			limit = c.MaxFindings
		}
		all[i] = newSelected(limit)
	}
	err := l.each(ctx, true, func(element []byte, value any, state compare.State) error {
		for i, c := range channels {
			if c.hears(value, state) {
				all[i].add(element, state)
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

// chooseForErrored is choose for a Scan that may have no findings: whatever is wrong with them, the failure is told.
func (l *selection) chooseForErrored(ctx context.Context, channels []*Channel) ([]*selected, error) {
	all, err := l.choose(ctx, channels)
	if err == nil || ctx.Err() != nil {
		return all, err
	}
	if !nothingThere(err) {
		l.session.Notef("%v; the Scan is Errored, so it is told as one without findings", err)
	}
	for i := range all {
		all[i] = newSelected(all[i].limit)
	}
	return all, nil
}

// keyOf names a finding across runs of a scanner.
func (t *task) keyOf(element []byte) (string, error) {
	mark, err := compare.MarkOf(element)
	if err != nil {
		return "", fmt.Errorf("name finding: %w", err)
	}
	return hex.EncodeToString(mark[:]), nil
}
