// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/podkit/process"
)

// webhook sends what a template makes to any address: in one request, or in one per finding.
type webhook struct {
	address, method string
	header          http.Header
	isJSON          bool
}

// NewWebhook makes what sends one request for all findings.
func NewWebhook(s *channel.Settings) (channel.Messenger, error) { return makeWebhook(s) }

// NewWebhookReporter makes what sends a request per finding.
func NewWebhookReporter(s *channel.Settings) (channel.Reporter, error) {
	if s.Channel.Template == "" && s.Channel.TemplateText == "" {
		return nil, errors.New("template is not set")
	}
	return makeWebhook(s)
}

func makeWebhook(s *channel.Settings) (*webhook, error) {
	address, err := s.Address()
	if err != nil {
		return nil, err
	}
	c := s.Channel
	w := &webhook{address: address, method: strings.ToUpper(c.Method), header: http.Header{"Content-Type": {c.ContentType}}}
	switch w.method {
	case "":
		w.method = http.MethodPost
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		return nil, fmt.Errorf("method is %q, want POST, PUT or PATCH", c.Method)
	}
	if c.ContentType == "" {
		w.header.Set("Content-Type", "application/json")
	}
	kind, _, err := mime.ParseMediaType(w.header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("contentType is %q, want a media type such as text/plain", c.ContentType)
	}
	w.isJSON = kind == "application/json" || strings.HasSuffix(kind, "+json")
	for name, variable := range c.Headers {
		value, err := s.Env.RequireSecret(variable)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("header %s: its name, or what %s holds, is nothing that a header can carry", name, variable)
		}
		s.Hide(value)
		w.header.Set(name, value)
	}
	return w, nil
}

// Send sends what the template made, if that is anything.
func (w *webhook) Send(ctx context.Context, t *channel.Task, n channel.Note) error {
	if strings.TrimSpace(n.Text) == "" {
		t.Session.Notef("channel %q: the template makes nothing, so nothing is sent", t.Name)
		return nil
	}
	body := []byte(n.Text)
	if w.isJSON {
		var err error
		if body, err = message.ToJSON(n.Text); err != nil {
			return process.Misconfigured(fmt.Errorf("the template makes neither JSON nor YAML; put values into it with toJson: %w", err))
		}
	}
	_, err := t.Client.Do(ctx, &delivery.Request{Method: w.method, URL: w.address, Header: w.header, Body: delivery.Bytes(body), Key: n.Key})
	return err
}

// Report sends what the template makes of one entry.
func (w *webhook) Report(ctx context.Context, t *channel.Task, e *message.Entry) error {
	m := t.Override
	if e.Failure && t.Errored != nil {
		m = t.Errored
	}
	text, err := m.RenderEntry(t.Scan, e)
	if err != nil {
		return err
	}
	return w.Send(ctx, t, channel.Note{Text: text, Key: t.Session.Key(t.Name, w.address, m.Source, string(e.State), e.Key)})
}
