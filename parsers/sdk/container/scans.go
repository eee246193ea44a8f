// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/parsers/sdk"
)

// Scans reads and patches one Scan. It speaks plain HTTP with client-go's credentials: a client with caches and
// codecs would cost more memory than the parsing.
type Scans struct {
	client    *http.Client
	url       string
	what      string
	namespace string
	patience  time.Duration
	now       func() time.Time
	sleep     func(context.Context, time.Duration) error
	log       *slog.Logger
}

const (
	scansPath      = "/apis/execution.securecodebox.io/v1/namespaces/%s/scans/%s"
	requestTimeout = 30 * time.Second
	maxAnswer      = 16 << 20 // an object in etcd is at most a tenth of it
	firstPause     = 500 * time.Millisecond
	longestPause   = 15 * time.Second
)

// DefaultPatience is how long faults of the API server are waited out.
const DefaultPatience = 5 * time.Minute

// Clock is where time comes from, and how it is waited for.
type Clock struct {
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
}

// NewScans returns a client for one Scan.
func NewScans(
	config *rest.Config, namespace, name string, patience time.Duration, clock Clock, log *slog.Logger,
) (*Scans, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to talk to the API server: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	return &Scans{
		client:    client,
		url:       base.JoinPath(fmt.Sprintf(scansPath, url.PathEscape(namespace), url.PathEscape(name))).String(),
		what:      "Scan " + namespace + "/" + name,
		namespace: namespace,
		patience:  patience,
		now:       clock.Now,
		sleep:     clock.Sleep,
		log:       log,
	}, nil
}

// Get reads the Scan.
func (s *Scans) Get(ctx context.Context) (*sdk.Scan, error) {
	answer, err := s.do(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.what, err)
	}
	return sdk.DecodeScan(answer)
}

// PatchStatus merges a patch into the status and returns the Scan as it is then.
func (s *Scans) PatchStatus(ctx context.Context, patch []byte) (*sdk.Scan, error) {
	answer, err := s.do(ctx, http.MethodPatch, s.url+"/status", patch)
	if err != nil {
		return nil, fmt.Errorf("write the counters of %s: %w", s.what, err)
	}
	return sdk.DecodeScan(answer)
}

// apiError is an answer of the API server other than success.
type apiError struct {
	code       int
	message    string
	retryAfter time.Duration
	namespace  string
}

func (e *apiError) Error() string {
	text := "the API server answers " + strconv.Itoa(e.code) + " " + http.StatusText(e.code)
	if e.message != "" {
		text += ": " + e.message
	}
	switch e.code {
	case http.StatusNotFound:
		text += " (it was deleted, or the custom resource definitions are not installed)"
	case http.StatusForbidden, http.StatusUnauthorized:
		text += " (check the RoleBinding of service account parser in namespace " + e.namespace + ")"
	}
	return text
}

// retryable tells what a running cluster heals: overload, restarts, conflicts, and tokens or roles that were made a
// moment ago and are not known everywhere yet.
func (e *apiError) retryable() bool {
	switch e.code {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusConflict:
		return true
	}
	return e.code >= 500 && e.code != http.StatusNotImplemented
}

// briefly tells what is tried again, but not for minutes.
func (e *apiError) briefly() bool {
	return e.code == http.StatusUnauthorized || e.code == http.StatusForbidden
}

const briefTries = 5

func (s *Scans) do(ctx context.Context, method, target string, body []byte) ([]byte, error) {
	start := s.now()
	for tries := 1; ; tries++ {
		answer, err := s.once(ctx, method, target, body)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		pause := longestPause
		if tries < 16 { // long before the shift overflows
			pause = min(pause, firstPause<<(tries-1))
		}
		pause = pause/2 + rand.N(pause/2+1) //nolint:gosec // jitter is no secret
		if status, ok := errors.AsType[*apiError](err); ok {
			if !status.retryable() && (!status.briefly() || tries >= briefTries) {
				return nil, err
			}
			pause = max(pause, status.retryAfter)
		}
		waited := s.now().Sub(start)
		if waited+pause > s.patience {
			return nil, fmt.Errorf("given up after %d attempts in %s: %w", tries, waited.Round(time.Second), err)
		}
		s.log.Warn("the API server can not be used, trying again", "error", err, "pause", pause)
		if err := s.sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (s *Scans) once(ctx context.Context, method, target string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, s.newError(resp, answer)
	}
	return answer, err
}

func (s *Scans) newError(resp *http.Response, answer []byte) *apiError {
	e := &apiError{code: resp.StatusCode, namespace: s.namespace}
	status := struct {
		Message string `json:"message"`
	}{}
	if err := json.Unmarshal(answer, &status); err == nil { // anything else is a proxy's page
		e.message = status.Message
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.retryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
