// SPDX-License-Identifier: Apache-2.0

package genericwebhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/hooks/sdk"
)

const defaultTimeout = time.Minute

// Hook registers generic-webhook.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:    "generic-webhook",
		Summary: "POSTs the Scan and its findings as JSON to an address of your choice.",
		Settings: []sdk.Setting{
			{Name: "WEBHOOK_URL", Text: "where to POST to (http or https)"},
			{Name: "WEBHOOK_APIKEY_HEADER_NAME", Text: "header that carries an API key; needs WEBHOOK_APIKEY_HEADER_VALUE too"},
			{Name: "WEBHOOK_APIKEY_HEADER_VALUE", Text: "the API key"},
			{Name: "WEBHOOK_USER", Text: "user for basic authentication; needs WEBHOOK_PASSWORD too"},
			{Name: "WEBHOOK_PASSWORD", Text: "password for basic authentication"},
			{Name: "WEBHOOK_TIMEOUT", Text: "how long the receiver may take without a sign of life, such as 30s; default 1m"},
		},
		New: newHandler,
	}
}

type handler struct {
	target  *url.URL
	header  http.Header
	timeout time.Duration
	wait    func(context.Context, time.Duration) error
}

func newHandler(env sdk.Env) (sdk.Handler, error) {
	h, err := newWebhook(env)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func newWebhook(env sdk.Env) (*handler, error) {
	address, err := env.Require("WEBHOOK_URL")
	if err != nil {
		return nil, err
	}
	// The parser's own error repeats the address, which may hold a secret.
	target, err := url.Parse(address)
	if err != nil || target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
		return nil, errors.New("WEBHOOK_URL is no http:// or https:// address")
	}
	h := &handler{target: target, timeout: defaultTimeout, wait: pause}
	if text := env.Get("WEBHOOK_TIMEOUT"); text != "" {
		if h.timeout, err = time.ParseDuration(text); err != nil || h.timeout <= 0 {
			return nil, fmt.Errorf("WEBHOOK_TIMEOUT is %q, want a duration such as 30s", text)
		}
	}
	if h.header, err = newHeader(env); err != nil {
		return nil, err
	}
	return h, nil
}

func newHeader(env sdk.Env) (http.Header, error) {
	header := http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"scanyard-generic-webhook"},
	}
	name, value := env.Get("WEBHOOK_APIKEY_HEADER_NAME"), env.Get("WEBHOOK_APIKEY_HEADER_VALUE")
	user, password := env.Get("WEBHOOK_USER"), env.Get("WEBHOOK_PASSWORD")
	switch {
	case name != "" && value != "":
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, errors.New("WEBHOOK_APIKEY_HEADER_NAME is no valid name of a header")
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("WEBHOOK_APIKEY_HEADER_VALUE holds characters that a header cannot carry, perhaps a line break at its end")
		}
		header.Set(name, value)
	case user != "" && password != "":
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	return header, nil
}

// Handle sends the Scan and its findings.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	body, err := sdk.Stage(ctx, func(ctx context.Context, w io.Writer) error {
		return writePayload(w, s.Scan().Raw, func(add func([]byte) error) error { return s.EachFinding(ctx, add) })
	})
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	return h.send(ctx, s.Transport(), body, s.Notef)
}

// writePayload writes the JSON document without ever holding more of it than one finding.
func writePayload(w io.Writer, scan []byte, each func(add func([]byte) error) error) error {
	for _, part := range [][]byte{[]byte(`{"scan":`), scan, []byte(`,"findings":`)} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write payload: %w", err)
		}
	}
	findings := finding.NewWriter(w)
	if err := each(findings.WriteRaw); err != nil {
		return err
	}
	if err := findings.Close(); err != nil {
		return fmt.Errorf("write payload: %w", err)
	}
	if _, err := w.Write([]byte("}")); err != nil {
		return fmt.Errorf("write payload: %w", err)
	}
	return nil
}
