// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/scanyard/scanyard/registry/internal/credentials"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/limits"
)

const (
	// maxRepeats is how often a request is sent again where a connection broke or a registry failed.
	maxRepeats  = 2
	firstRepeat = time.Second
)

// Clock tells the time and waits.
type Clock interface {
	Now() time.Time
	// Wait ends with the error of the context where that ends first.
	Wait(ctx context.Context, d time.Duration) error
}

// Options are what a Client needs. Only those that say so may be missing.
type Options struct {
	// URL is that of the Registry.
	URL string
	// PlainHTTP allows http for the registry and its realm, SkipVerify trusts any certificate of the registry's host.
	PlainHTTP, SkipVerify bool
	// CABundle is trusted beside Roots, or beside the system's where Roots are missing. Both may be missing.
	CABundle []byte
	Roots    *x509.CertPool
	// Credentials of no entries are anonymous.
	Credentials credentials.Set
	Dialer      *egress.Dialer
	// Proxy is that of the chart; it may be missing.
	Proxy func(*http.Request) (*url.URL, error)
	Item  *limits.Item
	Clock Clock
	// Chance gives numbers from 0 to 1.
	Chance func() float64
	// Pace may be missing: DefaultPace.
	Pace Pace
	// Observe is told each answer of a host, with the status 0 where there was none; it may be missing.
	Observe func(method string, status int)
}

// Client asks one registry for one unit of work. Several goroutines may use it at once.
type Client struct {
	base       *url.URL
	transports *transports
	authorizer *authorizer
	item       *limits.Item
	clock      Clock
	chance     func() float64
	noHead     atomic.Bool
}

// New makes a Client. The error is an *Error where the host is not allowed.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Hostname() == "" || base.User != nil || base.Scheme != "https" && (base.Scheme != "http" || !o.PlainHTTP) {
		return nil, errors.New("url: must be https://host[:port], or http:// with insecure: PlainHTTP")
	}
	base = &url.URL{Scheme: base.Scheme, Host: Host(base.Host)}
	if err := o.Dialer.Rules().Host(base); err != nil {
		return nil, classify(err)
	}
	if o.Pace == (Pace{}) {
		o.Pace = DefaultPace()
	}
	if o.Observe == nil {
		o.Observe = func(string, int) {}
	}
	ways, err := newTransports(o, base)
	if err != nil {
		return nil, err
	}
	return &Client{
		base: base, transports: ways, item: o.Item, clock: o.Clock, chance: o.Chance,
		authorizer: &authorizer{transports: ways, credentials: o.Credentials, plainHTTP: o.PlainHTTP, now: o.Clock.Now, scopes: map[string]*access{}},
	}, nil
}

// Close ends the connections.
func (c *Client) Close() { c.transports.close() }

// request is what a method of Client asks for.
type request struct {
	method string
	url    *url.URL
	// repository is "" for the catalogue.
	repository string
	header     http.Header
	limit      int64
	// manifest: the request is a GET that counts for the registry's allowance.
	manifest bool
	// stream: a good answer is not read but handed on.
	stream bool
}

func (c *Client) at(path string) *url.URL {
	return &url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: "/v2/" + path}
}

// Ping asks whether there is a registry that lets us in.
func (c *Client) Ping(ctx context.Context) error {
	a, err := c.send(ctx, request{method: http.MethodGet, url: c.at(""), limit: maxErrorBody})
	switch {
	case err != nil:
		return err
	case a.status == http.StatusOK:
		return nil
	case a.status == http.StatusNotFound:
		return &Error{Reason: NoRegistry, Status: a.status}
	}
	return refused(a)
}

// send asks until there is an answer: it waits for limits, answers challenges, and asks again where something passing went wrong. The
// answer is none of 401, 429 and 5xx.
func (c *Client) send(ctx context.Context, r request) (answer, error) {
	throttled, failed := 0, 0
	for {
		a, err := c.authorized(ctx, r)
		now := c.clock.Now()
		switch {
		case err != nil:
		case isThrottled(a, now):
			c.item.Host().Observe(now, a.header)
			until, ends := c.item.Host().Throttled(now, a.header, throttled, c.chance())
			if ends {
				return answer{}, &Error{Reason: RateLimited, Status: a.status, NotBefore: until}
			}
			throttled++
			continue
		case a.status < http.StatusInternalServerError, a.status == http.StatusNotImplemented:
			c.item.Host().Observe(now, a.header)
			return a, nil
		default:
			err = refused(a)
		}
		if failed == maxRepeats || !isPassing(ctx, err) {
			return answer{}, c.givenUp(err)
		}
		if err := c.clock.Wait(ctx, limits.Jitter(firstRepeat<<failed, c.chance())); err != nil {
			return answer{}, fmt.Errorf("wait to ask again: %w", err)
		}
		failed++
	}
}

func isThrottled(a answer, now time.Time) bool {
	_, told := limits.RetryAfter(a.header, now)
	return a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable && told
}

// givenUp pauses the host where nothing can be had from it.
func (c *Client) givenUp(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	switch e.Reason {
	case Unreachable, TLSFailed, NameNotResolved:
		e.NotBefore = c.item.Host().Failed(c.clock.Now())
	default:
	}
	return err
}

// authorized sends a request until its answer is none of 401, or nothing is left to try. The error is an *Error or that of the context.
func (c *Client) authorized(ctx context.Context, r request) (answer, error) {
	s := c.authorizer.access(r.repository)
	for {
		header, generation, err := c.authorizer.current(ctx, s)
		if err != nil {
			return answer{}, err
		}
		if err := c.letIn(ctx, r.manifest); err != nil {
			return answer{}, err
		}
		e := exchange{method: r.method, url: r.url, header: r.header.Clone(), limit: r.limit, stream: r.stream}
		if e.header == nil {
			e.header = http.Header{}
		}
		if header != "" {
			e.header.Set("Authorization", header)
		}
		a, err := c.transports.do(ctx, e)
		if err != nil {
			if ctx.Err() != nil {
				return answer{}, fmt.Errorf("ask registry: %w", ctx.Err())
			}
			return answer{}, classify(err)
		}
		switch {
		case a.status != http.StatusUnauthorized:
			s.worked(generation)
			return a, nil
		case a.away:
			return answer{}, &Error{Reason: Unauthorized, Status: a.status, Detail: "a redirect leads to a host that wants credentials of its own"}
		}
		if err := c.authorizer.challenged(ctx, s, generation, a.header.Values("WWW-Authenticate")); err != nil {
			return answer{}, err
		}
	}
}

// letIn waits for the limits of the host.
func (c *Client) letIn(ctx context.Context, manifest bool) error {
	for {
		wait, again, err := c.item.Next(c.clock.Now(), manifest)
		if err != nil {
			return classify(err)
		}
		if wait > 0 {
			if err := c.clock.Wait(ctx, wait); err != nil {
				return fmt.Errorf("wait for the host: %w", err)
			}
		}
		if !again {
			return nil
		}
	}
}
