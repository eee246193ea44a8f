// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// problem is why something was not done. Most often an object, but proxies in front write a text.
type problem struct {
	Type   string
	Reason string
}

// UnmarshalJSON takes the deepest cause, which is the one that names the field.
func (p *problem) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &p.Reason)
	}
	var object struct {
		Type     string   `json:"type"`
		Reason   string   `json:"reason"`
		CausedBy *problem `json:"caused_by"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("read error: %w", err)
	}
	p.Type, p.Reason = object.Type, object.Reason
	if cause := object.CausedBy; cause != nil && cause.Reason != "" {
		p.Reason += ": " + cause.Reason
	}
	return nil
}

// Error says it in one short line.
func (p *problem) Error() string { return delivery.Excerpt(p.Type + ": " + p.Reason) }

// item is what is said about one document.
type item struct {
	ID     string   `json:"_id"`
	Status int      `json:"status"`
	Error  *problem `json:"error"`
}

// failures reads which findings of a batch were not written. The answer holds one item for each, in their order; one
// that does not is of a remote service that cannot be relied on.
func (r *run) failures(a *delivery.Answer, b *delivery.Batch) ([]delivery.Failure, error) {
	var answer struct {
		Items []struct {
			Index *item `json:"index"`
		} `json:"items"`
	}
	if err := a.JSON(&answer); err != nil {
		return nil, err
	}
	if len(answer.Items) != len(b.Items) {
		return nil, fmt.Errorf("it speaks of %d findings, not of the %d that were sent", len(answer.Items), len(b.Items))
	}
	var failures []delivery.Failure
	for i := range answer.Items {
		it := answer.Items[i].Index
		if it == nil || it.ID != r.documentID(b.Items[i].ID) {
			return nil, errors.New("it speaks of other findings than those that were sent")
		}
		if it.Status >= 200 && it.Status <= 299 {
			continue
		}
		status := &delivery.StatusError{Status: it.Status}
		_, again := delivery.MayPass(status)
		failure := delivery.Failure{Index: i, Again: again, Err: fmt.Errorf("status %d", it.Status)}
		if it.Error != nil {
			failure.Err = fmt.Errorf("status %d %w", it.Status, it.Error)
		}
		failures = append(failures, failure)
	}
	return failures, nil
}
