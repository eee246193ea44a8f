// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/scanyard/scanyard/podkit/redact"
	"github.com/scanyard/scanyard/podkit/retry"
)

// Defaults of Options.
const (
	DefaultAttempts = 6
	DefaultBudget   = 5 * time.Minute
	// DefaultContact is the budget while a far end has not answered well yet. Nothing is lost by failing then, the hook's
	// Job comes again, and its Scan tells meanwhile why it waits.
	DefaultContact   = 20 * time.Second
	DefaultTimeout   = time.Minute
	DefaultMaxAnswer = 1 << 20

	defaultFirstPause   = time.Second
	defaultLongestPause = 30 * time.Second
	// longestRetryAfter is how long a pod waits because it was asked to. Beyond that the Job comes again.
	longestRetryAfter = 2 * time.Minute
	// longestAttempt ends a request that goes on for ever, one byte at a time.
	longestAttempt = 30 * time.Minute
)

// Options say how a Client behaves. The zero value of each but FarEnd is its default.
type Options struct {
	// FarEnd is what the far end is called in sentences: "the webhook", "Elasticsearch".
	FarEnd string
	// Attempts is how often a request is made at most.
	Attempts int
	// Budget is how long after its first attempt a request is still repeated. By default it is DefaultBudget, and
	// DefaultContact until the far end has answered well once, unless it asks to be waited for.
	Budget time.Duration
	// Timeout is how long the far end may be silent.
	Timeout time.Duration
	// FirstPause is before the second attempt, about. Pauses double up to LongestPause.
	FirstPause, LongestPause time.Duration
	// MaxAnswer is how much of an answer is read.
	MaxAnswer int64
	// Secrets must not appear in errors. What addresses and headers carry is known without.
	Secrets []string
	// UserAgent is sent where a request's header has none.
	UserAgent string
	// Transport makes the connections.
	Transport http.RoundTripper
	// Clock is where time comes from.
	Clock Clock
	// Random is a number from 0 to below 1, for jitter.
	Random func() float64
	// Notef writes a line for people when something is tried again. Nil is silent.
	Notef func(format string, args ...any)
}

// Client delivers requests to far ends of one kind.
type Client struct {
	o    Options
	http *http.Client
	host atomic.Pointer[string] // of the last request
	// answered says that the far end has answered well.
	answered atomic.Bool
}

// New makes a Client.
func New(o Options) *Client {
	setDefault(&o.FarEnd, "the far end")
	setDefault(&o.Attempts, DefaultAttempts)
	setDefault(&o.Timeout, DefaultTimeout)
	setDefault(&o.FirstPause, defaultFirstPause)
	setDefault(&o.LongestPause, defaultLongestPause)
	setDefault(&o.MaxAnswer, DefaultMaxAnswer)
	setDefault(&o.UserAgent, "scanyard-hook")
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Notef == nil {
		o.Notef = func(string, ...any) {}
	}
	o.Clock = o.Clock.WithDefaults()
	return &Client{o: o, http: &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Do sends a request until it is taken, refused, or attempts or time are used up.
func (c *Client) Do(ctx context.Context, r *Request) (*Answer, error) {
	target, err := r.prepare()
	if err != nil {
		return nil, fmt.Errorf("send to %s: %w", c.o.FarEnd, err)
	}
	c.host.Store(&target.Host)
	loop := c.newLoop()
	for {
		answer, err := c.attempt(ctx, target, r)
		if err == nil {
			c.answered.Store(true)
			return answer, nil
		}
		if err := c.wait(ctx, loop, err); err != nil {
			return nil, err
		}
	}
}

// farEnd names the far end and its host, as soon as that is known.
func (c *Client) farEnd() string {
	if host := c.host.Load(); host != nil {
		return c.o.FarEnd + " at " + *host
	}
	return c.o.FarEnd
}

// attempt makes the request once.
func (c *Client) attempt(ctx context.Context, target *url.URL, r *Request) (*Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// One clock watches the whole exchange: every piece of the body that goes out sets it back, the answer does not.
	watch := c.o.Clock.AfterFunc(c.o.Timeout, func() { cancel(fmt.Errorf("%w (%s)", errSilent, c.o.Timeout)) })
	defer watch.Stop()
	limit := c.o.Clock.AfterFunc(longestAttempt, func() { cancel(fmt.Errorf("%w (%s)", errEndless, longestAttempt)) })
	defer limit.Stop()

	req, sent, err := c.newRequest(ctx, target, r, func() { watch.Reset(c.o.Timeout) })
	if err != nil {
		return nil, err
	}
	hide := func() redact.Secrets { return redact.OfRequest(target, r.Header, c.o.Secrets...) }
	resp, err := c.http.Do(req)
	if err != nil {
		if failure := sent.failure(); failure != nil {
			return nil, fmt.Errorf("%w: %w", errSource, failure)
		}
		return nil, c.unreachable(ctx, target, 0, err, hide())
	}
	defer resp.Body.Close()
	answer, err := readAnswer(resp, c.o.MaxAnswer)
	if !r.accepts(answer.Status) {
		return nil, c.statusError(target, resp, answer, hide()) // an explanation that breaks off is still one
	}
	if err != nil {
		if r.StatusIsEnough {
			return answer, nil
		}
		return nil, c.unreachable(ctx, target, answer.Status, err, hide())
	}
	if r.Check != nil {
		if err := r.Check(answer); err != nil {
			return nil, &AnswerError{FarEnd: c.o.FarEnd, Host: target.Host, Status: answer.Status, err: err}
		}
	}
	return answer, nil
}

func (c *Client) newRequest(ctx context.Context, target *url.URL, r *Request, onRead func()) (*http.Request, *watched, error) {
	header := r.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if _, ok := header["User-Agent"]; !ok {
		header.Set("User-Agent", c.o.UserAgent)
	}
	if r.Key != "" {
		header.Set("Idempotency-Key", r.Key)
	}
	body := r.Body
	if body == nil {
		body = Bytes(nil)
	}
	if r.Signer != nil {
		if err := signBody(r.Signer, header, r.Key, c.o.Clock.Now(), body); err != nil {
			return nil, nil, err
		}
	}
	source, err := body.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errSource, err)
	}
	sent := &watched{ReadCloser: source, onRead: onRead}
	req, err := http.NewRequestWithContext(ctx, r.method(), target.String(), sent)
	if err != nil {
		return nil, nil, errors.Join(redact.WithoutURL(err), source.Close())
	}
	if req.ContentLength = body.Size(); req.ContentLength == 0 {
		req.Body = http.NoBody // with any other, net/http would take the length for unknown
		if err := source.Close(); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errSource, err)
		}
	}
	req.Header = header
	return req, sent, nil
}

func signBody(signer *Signer, header http.Header, key string, at time.Time, body Body) error {
	source, err := body.Open()
	if err != nil {
		return fmt.Errorf("%w: %w", errSource, err)
	}
	if err := signer.sign(header, key, at, source); err != nil {
		return fmt.Errorf("%w: %w", errSource, errors.Join(err, source.Close()))
	}
	if err := source.Close(); err != nil {
		return fmt.Errorf("%w: %w", errSource, err)
	}
	return nil
}

// readAnswer reads up to a bound. The answer it returns is never nil.
func readAnswer(resp *http.Response, most int64) (*Answer, error) {
	answer := &Answer{Status: resp.StatusCode, Header: resp.Header}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	answer.Body = body
	if int64(len(body)) > most {
		answer.Body, answer.Cut = body[:most], true
	}
	if err != nil {
		return answer, fmt.Errorf("read answer: %w", err)
	}
	return answer, nil
}

func (c *Client) statusError(target *url.URL, resp *http.Response, answer *Answer, hide redact.Secrets) error {
	e := &StatusError{
		FarEnd: c.o.FarEnd, Host: target.Host, Status: answer.Status,
		Excerpt:    excerptOf(hide, answer),
		RetryAfter: retry.After(answer.Header, c.o.Clock.Now()),
	}
	if location, err := resp.Location(); err == nil && answer.Status >= 300 && answer.Status <= 399 {
		e.Location = location.Scheme + "://" + location.Host
	}
	return e
}

func (c *Client) unreachable(ctx context.Context, target *url.URL, status int, err error, hide redact.Secrets) error {
	err = redact.WithoutURL(err)
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) || errors.Is(cause, errEndless) {
		err = cause
	}
	return &UnreachableError{FarEnd: c.o.FarEnd, Host: target.Host, Status: status, Text: Excerpt(hide.Text(err.Error())), err: err}
}
