// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// webhook sends what a template makes to any address: in one request, or in one per finding.
type webhook struct {
	address, method string
	header          http.Header
	isJSON          bool
}

func newWebhook(s *settings) (messenger, error) { return makeWebhook(s) }

func newWebhookReporter(s *settings) (reporter, error) {
	if s.channel.Template == "" && s.channel.TemplateText == "" {
		return nil, errors.New("template is not set")
	}
	return makeWebhook(s)
}

func makeWebhook(s *settings) (*webhook, error) {
	address, err := s.address()
	if err != nil {
		return nil, err
	}
	c := s.channel
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
		value, err := s.env.RequireSecret(variable)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("header %s: its name, or what %s holds, is nothing that a header can carry", name, variable)
		}
		s.secrets = append(s.secrets, value)
		w.header.Set(name, value)
	}
	return w, nil
}

func (w *webhook) send(ctx context.Context, t *task, n note) error {
	if strings.TrimSpace(n.text) == "" {
		t.session.Notef("channel %q: the template makes nothing, so nothing is sent", t.Name)
		return nil
	}
	body := []byte(n.text)
	if w.isJSON {
		var err error
		if body, err = yamlToJSON(n.text); err != nil {
			return fmt.Errorf("the template makes neither JSON nor YAML; put values into it with toJson: %w", err)
		}
	}
	_, err := t.client.Do(ctx, &delivery.Request{Method: w.method, URL: w.address, Header: w.header, Body: delivery.Bytes(body), Key: n.key})
	return err
}

func (w *webhook) report(ctx context.Context, t *task, e *entry) error {
	m := t.override
	if e.failure && t.errored != nil {
		m = t.errored
	}
	text, err := m.renderEntry(t.scan, e)
	if err != nil {
		return err
	}
	return w.send(ctx, t, note{text: text, key: t.session.Key(t.Name, w.address, m.source, string(e.state), e.key)})
}
