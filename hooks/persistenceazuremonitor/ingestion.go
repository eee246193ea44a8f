// SPDX-License-Identifier: Apache-2.0

package persistenceazuremonitor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	defaultAuthority = "https://login.microsoftonline.com"
	// defaultScope has two slashes: the name of the service ends with one.
	defaultScope = "https://monitor.azure.com//.default"
	// early is how long before its end a token is no longer used.
	early = 5 * time.Minute
)

// ingestionLimits stay below the 1 MB that a request may have, with the separators of the records.
var ingestionLimits = delivery.Limits{Count: 10_000, Bytes: 950_000}

// ingestion sends to the Logs Ingestion API.
type ingestion struct {
	address string // of the stream
	token   string // where a token comes from
	form    url.Values
}

func newIngestion(env sdk.Env) (sdk.Handler, error) {
	var rule, stream, tenant, client, secret string
	err := require(env, map[string]*string{
		"MONITOR_INGESTION_RULE": &rule, "MONITOR_INGESTION_STREAM": &stream,
		"MONITOR_TENANT_ID": &tenant, "MONITOR_CLIENT_ID": &client, "MONITOR_CLIENT_SECRET": &secret,
	})
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{"MONITOR_INGESTION_ENDPOINT": "", "MONITOR_AUTHORITY": defaultAuthority}
	for name := range addresses {
		if value := env.Get(name); value != "" {
			addresses[name] = value
		}
		if _, err := delivery.ParseURL(addresses[name]); err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
		addresses[name] = strings.TrimRight(addresses[name], "/")
	}
	scope := env.Get("MONITOR_SCOPE")
	if scope == "" {
		scope = defaultScope
	}
	return &ingestion{
		address: addresses["MONITOR_INGESTION_ENDPOINT"] + "/dataCollectionRules/" + url.PathEscape(rule) +
			"/streams/" + url.PathEscape(stream) + "?api-version=2023-01-01",
		token: addresses["MONITOR_AUTHORITY"] + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token",
		form:  url.Values{"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {secret}, "scope": {scope}},
	}, nil
}

// Handle sends the findings.
func (i *ingestion) Handle(ctx context.Context, s *sdk.Session) error {
	at, err := s.StoredAt()
	if err != nil {
		return err
	}
	secrets := i.form["client_secret"]
	client := s.Sender(delivery.Options{Remote: "Azure Monitor", Secrets: secrets})
	tokens := &tokens{ingestion: i, client: s.Sender(delivery.Options{Remote: "Microsoft Entra", Secrets: secrets}), now: s.Now}
	generated := at.UTC().Format("2006-01-02T15:04:05.000Z")
	stamp := func(r *record) { r.Set("TimeGenerated", generated) }
	return deliver(ctx, s, client, ingestionLimits, stamp, func(ctx context.Context, body delivery.Body) error {
		return i.post(ctx, client, tokens, body)
	})
}

// post sends once more with another token where the one in hand is not taken: it may have been revoked.
func (i *ingestion) post(ctx context.Context, client *delivery.Client, tokens *tokens, body delivery.Body) error {
	for again := false; ; again = true {
		token, fresh, err := tokens.get(ctx)
		if err != nil {
			return fmt.Errorf("get token: %w", err)
		}
		_, err = client.Do(ctx, &delivery.Request{
			URL: i.address, Header: http.Header{"Content-Type": {contentType}, "Authorization": {"Bearer " + token}},
			Body: body, StatusIsEnough: true,
		})
		status, ok := errors.AsType[*delivery.StatusError](err)
		if !ok || status.Status != http.StatusUnauthorized || fresh || again {
			return err
		}
		tokens.forget()
	}
}

// tokens keeps a token as long as it is valid.
type tokens struct {
	*ingestion

	client *delivery.Client
	now    func() time.Time
	value  string
	ends   time.Time
}

// get returns a token, and whether it was made just now.
func (t *tokens) get(ctx context.Context) (token string, fresh bool, err error) {
	if t.value != "" && t.now().Before(t.ends) {
		return t.value, false, nil
	}
	asked := t.now()
	answer, err := t.client.Do(ctx, &delivery.Request{
		URL: t.token, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: delivery.Bytes(t.form.Encode()),
	})
	if err != nil {
		return "", false, err
	}
	var got struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if err := answer.JSON(&got); err != nil {
		return "", false, err
	}
	if got.AccessToken == "" {
		return "", false, errors.New("the response has no token")
	}
	t.value, t.ends = got.AccessToken, asked.Add(time.Duration(got.ExpiresIn)*time.Second-early)
	return t.value, true, nil
}

// forget has the next request ask for another token.
func (t *tokens) forget() { t.value = "" }
