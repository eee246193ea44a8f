// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Messenger sends what a template made of a Scan.
type Messenger interface {
	Send(ctx context.Context, t *Task, n Note) error
}

// Note is what a template made, with a key that is the same when the Job is started again.
type Note struct{ Text, Key string }

// Reporter reports one finding to a remote service, or that a Scan is Errored.
type Reporter interface {
	Report(ctx context.Context, t *Task, e *message.Entry) error
}

// Task is one channel's part of a run.
type Task struct {
	*Channel

	Session *sdk.Session
	Client  *delivery.Client
	Scan    *message.Scan
	// Errored is the template for Errored Scans, Override the one that changes reports; nil where the channel has none.
	Errored, Override *message.Message
}

// Post sends a value as JSON to a remote service that cannot detect a repetition: a success whose response body is lost is still a success.
func (t *Task) Post(ctx context.Context, address string, header http.Header, value any, check func(*delivery.Answer) error) error {
	body, err := delivery.JSON(value)
	if err != nil {
		return err
	}
	_, err = t.Client.Do(ctx, &delivery.Request{URL: address, Header: header, Body: body, Check: check, StatusIsEnough: true})
	return err
}

// Overridden lays what the channel's template says over what would be sent.
func (t *Task) Overridden(value map[string]any, e *message.Entry) (map[string]any, error) {
	if t.Override == nil || e.Failure {
		return value, nil
	}
	text, err := t.Override.RenderEntry(t.Scan, e)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		return value, nil
	}
	over, err := message.ToObject(text)
	if err != nil {
		return nil, err
	}
	return laidOver(value, over), nil
}

// laidOver merges objects key by key; all else is replaced.
func laidOver(value, over map[string]any) map[string]any {
	for key, member := range over {
		below, isObject := value[key].(map[string]any)
		above, ok := member.(map[string]any)
		if isObject && ok {
			member = laidOver(below, above)
		}
		value[key] = member
	}
	return value
}

// JSONHeader is a header for JSON with further fields, given as names and values.
func JSONHeader(more ...string) http.Header {
	header := http.Header{"Content-Type": {"application/json"}}
	for pair := range slices.Chunk(more, 2) {
		header.Set(pair[0], pair[1])
	}
	return header
}
