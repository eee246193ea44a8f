// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
	"github.com/scanyard/scanyard/podkit/transfer"
)

const (
	freshTimeout = 30 * time.Second
	// freshPatience is how long requests to the operator are retried.
	freshPatience = time.Hour
	maxAnswer     = 64 << 10
)

// Endpoint is where the operator gives fresh upload URLs.
type Endpoint struct {
	// URL of the endpoint.
	URL string
	// CA to trust, PEM.
	CA string
	// TokenFile holds the pod's token for the endpoint. Kubelet replaces it from time to
	// time, so it is read for each request.
	TokenFile string
	Clock     retry.Clock
	Log       *slog.Logger
}

// Fresh requests an upload URL, and retries while the operator does not respond.
func (e Endpoint) Fresh(ctx context.Context) (transfer.URL, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(e.CA)) {
		return "", errors.New("the CA of the operator's endpoint holds no PEM certificate")
	}
	c := &http.Client{
		Timeout:   freshTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}
	defer c.CloseIdleConnections()
	policy := pauses(e.Clock, e.Log, "the operator gives no fresh upload URL, trying again")
	policy.Budget = freshPatience
	loop := policy.Begin()
	for {
		u, final, err := e.ask(ctx, c)
		if err == nil || final {
			return u, err
		}
		if err := loop.Wait(ctx, err, 0); err != nil {
			return "", err
		}
	}
}

// ask requests once. A response that a retry cannot change is final.
func (e Endpoint) ask(ctx context.Context, c *http.Client) (u transfer.URL, final bool, err error) {
	token, err := os.ReadFile(e.TokenFile)
	if err != nil {
		return "", true, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, http.NoBody)
	if err != nil {
		return "", true, err
	}
	req.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	resp, err := c.Do(req)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", false, err
	}
	if resp.StatusCode != http.StatusOK {
		final = resp.StatusCode == http.StatusForbidden
		return "", final, fmt.Errorf("the operator responds %s: %s", resp.Status, bytes.TrimSpace(body))
	}
	var answer struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.URL == "" {
		return "", false, errors.New("the operator's response has no URL")
	}
	return transfer.URL(answer.URL), false, nil
}
