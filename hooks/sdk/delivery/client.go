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
	// DefaultContact is the budget until a remote service has responded well once. Failing then loses nothing: the hook's Job
	// retries, and its Scan shows the reason in the meantime.
	DefaultContact   = 20 * time.Second
	DefaultTimeout   = time.Minute
	DefaultMaxAnswer = 1 << 20

	defaultFirstPause   = time.Second
	defaultLongestPause = 30 * time.Second
	// longestRetryAfter is the longest pause that a service can ask for. Beyond that the Job retries later.
	longestRetryAfter = 2 * time.Minute
	// longestAttempt ends a request that would never end, one byte after the other.
	longestAttempt = 30 * time.Minute
)

// Options are the options of a Client. The zero value of each but Remote is its default.
type Options struct {
	// Remote is the name of the remote service in messages: "the webhook", "Elasticsearch".
	Remote string
	// Attempts is the largest number of attempts of a request.
	Attempts int
	// Budget is how long after its first attempt a request is still repeated. By default it is DefaultBudget, and
	// DefaultContact until the remote service has responded well once, unless the service asks for a pause.
	Budget time.Duration
	// Timeout is how long the remote service may be silent.
	Timeout time.Duration
	// FirstPause is about the pause before the second attempt. Pauses double up to LongestPause.
	FirstPause, LongestPause time.Duration
	// MaxAnswer is how much of a response is read.
	MaxAnswer int64
	// Secrets must not appear in errors. The credentials in addresses and headers are known without this field.
	Secrets []string
	// UserAgent is sent if a request's header has none.
	UserAgent string
	// Transport makes the connections.
	Transport http.RoundTripper
	// Clock is the source of time.
	Clock Clock
	// Random is a number from 0 to below 1, for jitter.
	Random func() float64
	// Notef writes a line for people when a request is retried. Nil is silent.
	Notef func(format string, args ...any)
}

// Client delivers requests to remote services of one kind.
type Client struct {
	o    Options
	http *http.Client
	host atomic.Pointer[string] // of the last request
	// answered says that the remote service has responded well.
	answered atomic.Bool
}

// New makes a Client.
func New(o Options) *Client {
	setDefault(&o.Remote, "the remote service")
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

// Do sends a request until the service accepts or refuses it, or attempts or time are used up.
func (c *Client) Do(ctx context.Context, r *Request) (*Answer, error) {
	target, err := r.prepare()
	if err != nil {
		return nil, fmt.Errorf("send to %s: %w", c.o.Remote, err)
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

// remote names the remote service and its host, as soon as the host is known.
func (c *Client) remote() string {
	if host := c.host.Load(); host != nil {
		return c.o.Remote + " at " + *host
	}
	return c.o.Remote
}

// attempt sends the request once.
func (c *Client) attempt(ctx context.Context, target *url.URL, r *Request) (*Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// One clock watches the whole exchange: every piece of the body that is sent resets it, the response does not.
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
		return nil, c.statusError(target, resp, answer, hide()) // a part of an explanation is still of use
	}
	if err != nil {
		if r.StatusIsEnough {
			return answer, nil
		}
		return nil, c.unreachable(ctx, target, answer.Status, err, hide())
	}
	if r.Check != nil {
		if err := r.Check(answer); err != nil {
			return nil, &AnswerError{Remote: c.o.Remote, Host: target.Host, Status: answer.Status, err: err}
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
		req.Body = http.NoBody // net/http takes the length of any other body as unknown
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

// readAnswer reads a response up to a bound. The Answer is never nil.
func readAnswer(resp *http.Response, most int64) (*Answer, error) {
	answer := &Answer{Status: resp.StatusCode, Header: resp.Header}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	answer.Body = body
	if int64(len(body)) > most {
		answer.Body, answer.Cut = body[:most], true
	}
	if err != nil {
		return answer, fmt.Errorf("read response: %w", err)
	}
	return answer, nil
}

func (c *Client) statusError(target *url.URL, resp *http.Response, answer *Answer, hide redact.Secrets) error {
	e := &StatusError{
		Remote: c.o.Remote, Host: target.Host, Status: answer.Status,
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
	return &UnreachableError{Remote: c.o.Remote, Host: target.Host, Status: status, Text: Excerpt(hide.Text(err.Error())), err: err}
}
