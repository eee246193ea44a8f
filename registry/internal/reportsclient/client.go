// SPDX-License-Identifier: Apache-2.0

package reportsclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// Short is the patience of reads and of small writes.
	Short = 30 * time.Second
	// Long is the patience with a document, which costs much to make again.
	Long = 10 * time.Minute

	// tryTimeout bounds one try of a small call, uploadTimeout one of a document.
	tryTimeout    = 30 * time.Second
	uploadTimeout = 5 * time.Minute

	firstWait   = time.Second
	longestWait = 30 * time.Second
	// maxError is how much of a refusal is read.
	maxError = 64 << 10
)

// Clock tells the time and waits.
type Clock interface {
	Now() time.Time
	// Wait ends with the error of the context where that ends first.
	Wait(ctx context.Context, d time.Duration) error
}

// Options are what a Client needs.
type Options struct {
	// Config is how the API server is reached.
	Config *rest.Config
	Clock  Clock
	// Patience takes the place of Short, Uploads that of Long; 0: those.
	Patience, Uploads time.Duration
	// Answered is told how long each answer took and its status, 0 where there was none; it may be missing.
	Answered func(took time.Duration, status int)
}

// Client asks the reports API. Several goroutines may use it at once.
type Client struct {
	options Options
	base    *url.URL
	http    *http.Client
}

// New makes a Client.
func New(o Options) (*Client, error) {
	base, _, err := rest.DefaultServerUrlFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	client, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	if o.Patience == 0 {
		o.Patience = Short
	}
	if o.Uploads == 0 {
		o.Uploads = Long
	}
	if o.Answered == nil {
		o.Answered = func(time.Duration, int) {}
	}
	return &Client{options: o, base: base, http: client}, nil
}

// UnavailableError is a reports API that did not answer for as long as the call waits.
type UnavailableError struct{ cause error }

func (e *UnavailableError) Error() string {
	return "the reports API does not answer: " + e.cause.Error()
}

// Unwrap gives the last answer, or why there was none.
func (e *UnavailableError) Unwrap() error { return e.cause }

// IsUnavailable tells whether the reports API did not answer.
func IsUnavailable(err error) bool {
	_, is := errors.AsType[*UnavailableError](err)
	return is
}

// ReasonOf gives what a refusal tells programs; "" is none.
func ReasonOf(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return ""
	}
	return string(status.ErrStatus.Details.Causes[0].Type)
}

// request is one call.
type request struct {
	method, path string
	query        url.Values
	header       map[string]string
	// body opens the body for a try; nil: there is none.
	body func() (io.ReadCloser, error)
	// patience and timeout of 0 are those of small calls.
	patience, timeout time.Duration
	// take reads a good answer.
	take func(io.Reader) error
}

// do tries until there is an answer. It gives the time of the server.
func (c *Client) do(ctx context.Context, r request) (time.Time, error) {
	if r.patience == 0 {
		r.patience = c.options.Patience
	}
	if r.timeout == 0 {
		r.timeout = tryTimeout
	}
	until := c.options.Clock.Now().Add(r.patience)
	for tried := 0; ; tried++ {
		now, wait, err := c.try(ctx, r)
		if err == nil || wait < 0 || ctx.Err() != nil {
			return now, err
		}
		wait = max(wait, min(firstWait<<min(tried, 5), longestWait))
		if c.options.Clock.Now().Add(wait).After(until) {
			return now, &UnavailableError{cause: err}
		}
		if waited := c.options.Clock.Wait(ctx, wait); waited != nil {
			return now, errors.Join(waited, err)
		}
	}
}

// never is the wait of what is not tried again.
const never = -1

// try asks once. wait is how long the server wants to be left alone, or never.
func (c *Client) try(ctx context.Context, r request) (now time.Time, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var body io.ReadCloser
	if r.body != nil {
		if body, err = r.body(); err != nil {
			return time.Time{}, never, err
		}
	}
	address := *c.base
	address.Path = strings.TrimSuffix(address.Path, "/") + r.path
	address.RawQuery = r.query.Encode()
	asked, err := http.NewRequestWithContext(ctx, r.method, address.String(), body)
	if err != nil {
		return time.Time{}, never, fmt.Errorf("ask the reports API: %w", err)
	}
	asked.Header.Set("Accept", "application/json")
	for key, value := range r.header {
		asked.Header.Set(key, value)
	}
	began := c.options.Clock.Now()
	answer, err := c.http.Do(asked)
	if err != nil {
		c.options.Answered(c.options.Clock.Now().Sub(began), 0)
		return time.Time{}, 0, fmt.Errorf("ask the reports API: %w", withoutURL(err))
	}
	defer answer.Body.Close()
	c.options.Answered(c.options.Clock.Now().Sub(began), answer.StatusCode)
	now = dateOf(answer.Header, c.options.Clock)
	if answer.StatusCode >= http.StatusMultipleChoices {
		return now, waitOf(answer), refusal(answer)
	}
	if r.take == nil {
		return now, 0, nil
	}
	if err := r.take(answer.Body); err != nil {
		return now, 0, fmt.Errorf("read what the reports API answers: %w", err)
	}
	return now, 0, nil
}

// withoutURL leaves the address out, which is the same in every message.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// dateOf is the time of the server. One that tells none is believed to have ours.
func dateOf(header http.Header, clock Clock) time.Time {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return date
	}
	return clock.Now()
}

// waitOf is how long to wait before the next try; never: the same call would be refused again.
func waitOf(answer *http.Response) time.Duration {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode < http.StatusInternalServerError {
		return never
	}
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestWait)
}

// refusal is what a server says of a call that it does not answer.
func refusal(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxError))
	if err != nil {
		return fmt.Errorf("read a refusal of the reports API: %w", err)
	}
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(answer.StatusCode), Message: fmt.Sprintf("status %d", answer.StatusCode), Reason: reasonOfCode(answer.StatusCode),
	}}
}

func reasonOfCode(code int) metav1.StatusReason {
	switch code {
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	}
	return metav1.StatusReasonUnknown
}

// decode reads JSON into a value.
func decode(into any) func(io.Reader) error {
	return func(from io.Reader) error { return json.NewDecoder(from).Decode(into) }
}
