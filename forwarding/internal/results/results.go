// SPDX-License-Identifier: Apache-2.0

// Package results asks the operator where the results of a Scan lie, and reads them there. The forwarder has no credentials of any storage.
package results

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/scanyard/scanyard/apis/results"
	"github.com/scanyard/scanyard/podkit/transfer"
)

const (
	callTimeout = 30 * time.Second
	maxAnswer   = 64 << 10
	// rootsAge is how old the authority may be when it is used.
	rootsAge = 10 * time.Second
	// patience is how long a download waits out faults of storage; then its Scan goes to the end of the queue.
	patience = 20 * time.Second
)

// Options say where the operator is.
type Options struct {
	// URL of the operator's HTTPS server.
	URL string
	// TokenFile holds the token of the ServiceAccount, which is read for each call.
	TokenFile string
	// Roots gives the certificates of the operator's authority, PEM.
	Roots func(context.Context) ([]byte, error)
	Now   func() time.Time
}

// Client asks the operator. It is safe for concurrent use.
type Client struct {
	options Options
	storage *transfer.Client

	mutex sync.Mutex
	roots []byte
	read  time.Time
	http  *http.Client
}

// RefusedError is an answer that is not a success.
type RefusedError struct {
	results.Refusal

	Status     int
	RetryAfter time.Duration
}

func (r *RefusedError) Error() string {
	return fmt.Sprintf("the operator answers %d %s: %s", r.Status, r.Reason, r.Message)
}

// Final tells whether the operator has judged, and was not only kept from it.
func (r *RefusedError) Final() bool {
	return r.Status == http.StatusConflict || r.Reason == results.ReasonScanNotFound
}

// ErrChanged says that the results are others now.
var ErrChanged = transfer.ErrChanged

// New makes a Client.
func New(options Options) (*Client, error) {
	base, err := url.Parse(options.URL)
	if err != nil || base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("%q must be the https URL of the operator, such as https://scanyard.scanyard-system.svc:8443", options.URL)
	}
	options.URL = strings.TrimSuffix(options.URL, "/")
	storage, err := transfer.New(transfer.WithPatience(patience))
	if err != nil {
		return nil, err
	}
	return &Client{options: options, storage: storage}, nil
}

// Scan names one Scan.
type Scan struct{ Namespace, Name, UID string }

// Find asks where a file of a Scan lies.
func (c *Client) Find(ctx context.Context, scan Scan, file string) (results.URLAnswer, error) {
	var answer results.URLAnswer
	err := c.post(ctx, results.URLPath, results.URLRequest{Namespace: scan.Namespace, Name: scan.Name, UID: scan.UID, File: file}, &answer)
	return answer, err
}

// Release asks the operator to remove the results of a Scan, or with a dry run whether it would.
func (c *Client) Release(ctx context.Context, request results.ReleaseRequest) (results.ReleaseAnswer, error) {
	var answer results.ReleaseAnswer
	err := c.post(ctx, results.ReleasePath, request, &answer)
	return answer, err
}

// Read reads a file from a byte on. Another content than that of the answer is ErrChanged.
func (c *Client) Read(ctx context.Context, at results.URLAnswer, offset int64) (io.ReadCloser, error) {
	etag := at.ETag
	if etag != "" && !strings.HasPrefix(etag, `"`) {
		etag = `"` + etag + `"`
	}
	body, _, err := c.storage.DownloadAt(ctx, transfer.URL(at.URL), etag, offset)
	return body, err
}

// KeyOf is where the file lies, without what signs the URL.
func KeyOf(at results.URLAnswer) string {
	parsed, err := url.Parse(at.URL)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(parsed.Path, "/")
}

// post calls the operator once more where the authority of its certificate has changed.
func (c *Client) post(ctx context.Context, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	err = c.call(ctx, path, encoded, answer, rootsAge)
	if unknown := new(tls.CertificateVerificationError); errors.As(err, &unknown) {
		err = c.call(ctx, path, encoded, answer, 0)
	}
	return err
}

func (c *Client) call(ctx context.Context, path string, body []byte, answer any, age time.Duration) (err error) {
	client, err := c.client(ctx, age)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(c.options.TokenFile)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.options.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the operator: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the operator's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return refusal(response, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the operator's answer: %w", err)
	}
	return nil
}

func refusal(response *http.Response, text []byte) error {
	r := &RefusedError{Status: response.StatusCode}
	if err := json.Unmarshal(text, &r.Refusal); err != nil || r.Reason == "" {
		r.Reason = http.StatusText(response.StatusCode)
		r.Message = "the answer is not one of the results endpoint: is resultsEndpoint.enabled set in charts/scanyard?"
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.RetryAfter = time.Duration(seconds) * time.Second
	}
	return r
}

// client trusts the authority as it is now.
func (c *Client) client(ctx context.Context, age time.Duration) (*http.Client, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.http != nil && c.options.Now().Sub(c.read) < age {
		return c.http, nil
	}
	roots, err := c.options.Roots(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the authority of the operator: %w", err)
	}
	c.read = c.options.Now()
	if c.http != nil && bytes.Equal(roots, c.roots) {
		return c.http, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(roots) {
		return nil, errors.New("the authority of the operator has no certificate in PEM")
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.roots = roots
	c.http = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c.http, nil
}
