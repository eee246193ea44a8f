// SPDX-License-Identifier: Apache-2.0

package genericwebhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/scanyard/scanyard/findings/render"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Hook registers generic-webhook.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:     "generic-webhook",
		Summary:  "POSTs the Scan and its findings as JSON to an address of your choice.",
		Excepted: sdk.ExceptedMark,
		Settings: append([]sdk.Setting{
			sdk.ExceptedSetting(sdk.ExceptedMark),
			{Name: "WEBHOOK_URL", Text: "where to POST to (http or https); or WEBHOOK_URL_FILE"},
			{Name: "WEBHOOK_APIKEY_HEADER_NAME", Text: "header that carries an API key; needs WEBHOOK_APIKEY_HEADER_VALUE too; or WEBHOOK_APIKEY_HEADER_NAME_FILE"},
			{Name: "WEBHOOK_APIKEY_HEADER_VALUE", Text: "the API key; or WEBHOOK_APIKEY_HEADER_VALUE_FILE"},
			{Name: "WEBHOOK_USER", Text: "user for basic authentication; needs WEBHOOK_PASSWORD too; or WEBHOOK_USER_FILE"},
			{Name: "WEBHOOK_PASSWORD", Text: "password for basic authentication; or WEBHOOK_PASSWORD_FILE"},
			{
				Name: "WEBHOOK_SIGNING_SECRET",
				Text: "signs requests as Standard Webhooks says; several, separated by spaces, while one replaces another; or WEBHOOK_SIGNING_SECRET_FILE",
			},
			{Name: "WEBHOOK_BATCH_SIZE", Text: "sends requests with at most this many findings each; default one request with all"},
			{Name: "WEBHOOK_TEMPLATE", Text: "Go template that makes the body of .scan, .findings and .batch; default is the JSON of both; or WEBHOOK_TEMPLATE_FILE"},
			{Name: "WEBHOOK_CONTENT_TYPE", Text: "what the template makes; default application/json"},
			{Name: "WEBHOOK_TIMEOUT", Text: "how long the receiver may take without a sign of life, such as 30s; default DELIVERY_TIMEOUT"},
		}, sdk.DeliverySettings()...),
		New: newHandler,
	}
}

type handler struct {
	address  string
	header   http.Header
	signer   *delivery.Signer
	timeout  time.Duration
	batch    int // findings per request, 0 is all
	template *render.Text
	// source is the template as it was written: two hooks that send different things must not share keys.
	source string
}

const (
	defaultContentType = "application/json"
	// templateTime is what a template may take for one request.
	templateTime = 30 * time.Second
)

func newHandler(env sdk.Env) (sdk.Handler, error) {
	h := &handler{}
	var err error
	if h.address, err = env.RequireSecret("WEBHOOK_URL"); err != nil {
		return nil, err
	}
	if _, err := delivery.ParseURL(h.address); err != nil {
		return nil, fmt.Errorf("WEBHOOK_URL %w", err)
	}
	if h.timeout, err = env.Duration("WEBHOOK_TIMEOUT", 0); err != nil {
		return nil, err
	}
	if h.batch, err = env.Count("WEBHOOK_BATCH_SIZE", 0); err != nil {
		return nil, err
	}
	if h.header, err = newHeader(env); err != nil {
		return nil, err
	}
	if err := h.setTemplate(env); err != nil {
		return nil, err
	}
	secret, err := env.Secret("WEBHOOK_SIGNING_SECRET")
	if err != nil || secret == "" {
		return h, err
	}
	if h.signer, err = delivery.NewSigner(secret); err != nil {
		return nil, fmt.Errorf("WEBHOOK_SIGNING_SECRET %w", err)
	}
	return h, nil
}

func (h *handler) setTemplate(env sdk.Env) (err error) {
	kind := env.Get("WEBHOOK_CONTENT_TYPE")
	if h.source, err = env.Secret("WEBHOOK_TEMPLATE"); err != nil {
		return err
	}
	if h.source == "" {
		if kind != "" {
			return errors.New("WEBHOOK_CONTENT_TYPE is set without WEBHOOK_TEMPLATE; without a template it is " + defaultContentType)
		}
		return nil
	}
	if kind != "" {
		if _, _, err := mime.ParseMediaType(kind); err != nil {
			return fmt.Errorf("WEBHOOK_CONTENT_TYPE is %q, want a media type such as text/plain", kind)
		}
		h.header.Set("Content-Type", kind)
	}
	if h.template, err = render.ParseText("WEBHOOK_TEMPLATE", h.source, render.Limits{Time: templateTime}); err != nil {
		return fmt.Errorf("WEBHOOK_TEMPLATE: %w", err)
	}
	return nil
}

// makesJSON says whether the template's text must be JSON.
func (h *handler) makesJSON() bool {
	kind, _, err := mime.ParseMediaType(h.header.Get("Content-Type"))
	return err == nil && (kind == defaultContentType || strings.HasSuffix(kind, "+json"))
}

func newHeader(env sdk.Env) (http.Header, error) {
	header := http.Header{"Content-Type": {defaultContentType}}
	values := map[string]string{}
	for _, name := range []string{"WEBHOOK_APIKEY_HEADER_NAME", "WEBHOOK_APIKEY_HEADER_VALUE", "WEBHOOK_USER", "WEBHOOK_PASSWORD"} {
		value, err := env.Secret(name)
		if err != nil {
			return nil, err
		}
		values[name] = value
	}
	name, value := values["WEBHOOK_APIKEY_HEADER_NAME"], values["WEBHOOK_APIKEY_HEADER_VALUE"]
	user, password := values["WEBHOOK_USER"], values["WEBHOOK_PASSWORD"]
	switch {
	case name != "" && value != "":
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, errors.New("WEBHOOK_APIKEY_HEADER_NAME is not a valid name of a header")
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
