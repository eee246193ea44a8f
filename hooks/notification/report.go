// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"net/http"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// reportAll reports the findings one by one. One that is refused does not keep the others back.
func (t *turn) reportAll(ctx context.Context, l *selection, s *message.Findings) error {
	if s.Count == 0 {
		return nil
	}
	current := t.oneByOne(l.stateOf)
	fixed := t.oneByOne(func([]byte) (compare.State, error) { return compare.Fixed, nil })
	most := s.Count
	if t.MaxFindings > 0 && t.MaxFindings < s.Count {
		most = t.MaxFindings
		t.task.Session.Notef("channel %q: %d of %d findings are reported, as maxFindings says", t.Name, most, s.Count)
	}
	reported := 0
	var sending error // about a finding before the one at hand
	err := l.each(ctx, t.rules.Name(compare.Fixed), func(element []byte, value any, state compare.State) error {
		if reported == most || !t.rules.Match(value, state) {
			return nil
		}
		reported++
		to := current
		if state == compare.Fixed {
			to = fixed
		}
		id, err := t.task.Session.FindingID(element)
		if err != nil {
			return err
		}
		sending = to.Add(ctx, id, element)
		return sending
	})
	switch {
	case sending != nil:
		return sending
	case err != nil:
		return err
	}
	return errors.Join(current.Close(ctx), fixed.Close(ctx))
}

// oneByOne makes what reports a finding, and counts those that are refused.
func (t *turn) oneByOne(state func(element []byte) (compare.State, error)) *delivery.Batcher {
	return t.task.Client.NewBatcher(delivery.Limits{Count: 1}, func(ctx context.Context, b *delivery.Batch) ([]delivery.Failure, error) {
		found, err := state(b.Items[0].Data)
		if err != nil {
			return nil, err
		}
		e, err := message.NewEntry(t.task.Scan, b.Items[0].Data, found)
		if err != nil {
			return nil, err
		}
		err = t.reporter.Report(ctx, t.task, e)
		if refused, ok := errors.AsType[*delivery.StatusError](err); ok && isAboutOne(refused.Status) {
			return []delivery.Failure{{Err: refused}}, nil
		}
		return nil, err
	})
}

// isAboutOne says that a status is about what one request says, not about who says it or where to.
func isAboutOne(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// reportFailure reports that the Scan is Errored.
func (t *turn) reportFailure(ctx context.Context) error {
	return t.reporter.Report(ctx, t.task, t.task.Scan.Failure(t.task.Session.Key("errored")))
}
