// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

const (
	// attempts is how often a request is sent while the server or the network fails.
	attempts = 5
	// firstPause doubles with each attempt: about 1, 2, 4, 8 seconds.
	firstPause   = time.Second
	longestPause = 8 * time.Second
	// secondaryPause is what GitHub asks for where a limit says nothing about its end.
	secondaryPause = time.Minute
	// longestWait is more than the hour of GitHub's limit; a server that asks for more is not waited for.
	longestWait = 70 * time.Minute
	// largestAnswer is far above a page of a hundred repositories.
	largestAnswer = 64 << 20
	// limitWaits bounds how often one request may run into a limit.
	limitWaits = 5
)

// LimitError says that the server's rate limit is reached.
type LimitError struct {
	// Until is when it ends.
	Until time.Time
	// Tried reports that it was waited for, in vain.
	Tried bool
}

// Error says what the user can do.
func (e *LimitError) Error() string {
	s := "the server's rate limit is reached until " + e.Until.UTC().Format(time.RFC3339)
	if e.Tried {
		return s + ", and waiting did not help"
	}
	return s + "; give an access token for a higher limit, or wait for it with --obey-rate-limit"
}

// polite sends requests again where that helps, and keeps to rate limits. All requests of this package read, so
// sending them twice does no harm.
type polite struct {
	next   http.RoundTripper
	clock  retry.Clock
	random func() float64
	obey   bool
	log    func(format string, args ...any)
	// host is the only one that gets the token, in a header.
	host, header, token string
}

// RoundTrip repeats a request until a response arrives that needs no other try.
func (p *polite) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	req = req.Clone(ctx)
	if p.token != "" && req.URL.Host == p.host {
		req.Header.Set(p.header, p.token)
	}
	loop := retry.Policy{
		First: firstPause, Longest: longestPause, Attempts: attempts, Clock: p.clock, Random: p.random,
		Notice: func(err error, pause time.Duration) {
			p.log("%s: %v; trying again in %s", req.URL.Redacted(), err, pause.Round(time.Millisecond))
		},
	}.Begin()
	for {
		resp, err := p.sendWithinLimit(ctx, req)
		var failed error
		switch {
		case isFinal(err):
			return nil, err
		case ctx.Err() != nil:
			if resp != nil {
				drop(resp)
			}
			return nil, ctx.Err()
		case err != nil:
			failed = errors.New("no response")
		case resp.StatusCode >= http.StatusInternalServerError:
			failed = errors.New(resp.Status)
		default:
			resp.Body = http.MaxBytesReader(nil, resp.Body, largestAnswer)
			return resp, nil
		}
		if wait := loop.Wait(ctx, failed, 0); wait != nil {
			if loop.Attempts() >= attempts {
				return resp, err // the client library says what is wrong
			}
			if resp != nil {
				drop(resp)
			}
			return nil, wait
		}
		if resp != nil {
			drop(resp)
		}
	}
}

// isFinal distinguishes a limit that was not waited for, or in vain, from a network that may work again.
func isFinal(err error) bool {
	_, limited := errors.AsType[*LimitError](err)
	return limited
}

// sendWithinLimit sends a request, and again after each limit that it runs into.
func (p *polite) sendWithinLimit(ctx context.Context, req *http.Request) (*http.Response, error) {
	for waits := 1; ; waits++ {
		resp, err := p.next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		until, limited := p.limit(resp)
		if !limited {
			return resp, nil
		}
		drop(resp)
		if err := p.waitForLimit(ctx, until, waits); err != nil {
			return nil, err
		}
	}
}

// drop reads the small rest of a response, so that the connection can be reused.
func drop(resp *http.Response) {
	_, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return // the connection is not used again, that is all
	}
}

// limit returns until when a rate limit lasts. GitHub answers 403 or 429, with the end in X-RateLimit-Reset or in
// Retry-After; GitLab answers 429 with Retry-After or RateLimit-Reset.
func (p *polite) limit(resp *http.Response) (time.Time, bool) {
	h := resp.Header
	exhausted := h.Get("X-RateLimit-Remaining") == "0" || h.Get("RateLimit-Remaining") == "0"
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusForbidden:
		if !exhausted && h.Get("Retry-After") == "" {
			return time.Time{}, false // simply not allowed
		}
	default:
		return time.Time{}, false
	}
	now := p.clock.Now()
	if n, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil && n >= 0 && n < 1<<31 {
		return now.Add(time.Duration(n) * time.Second), true
	}
	for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset"} {
		if n, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && exhausted {
			// A second more: the server's clock and ours differ.
			return time.Unix(n, 0).Add(time.Second), true
		}
	}
	return now.Add(secondaryPause), true
}

func (p *polite) waitForLimit(ctx context.Context, until time.Time, waits int) error {
	if !p.obey {
		return &LimitError{Until: until}
	}
	d := max(until.Sub(p.clock.Now()), time.Second)
	if waits > limitWaits {
		return &LimitError{Until: until, Tried: true}
	}
	if d > longestWait {
		return fmt.Errorf("%w: that is more than %s away", &LimitError{Until: until}, longestWait)
	}
	p.log("the server's rate limit is reached; waiting until %s", until.UTC().Format(time.RFC3339))
	return p.clock.Sleep(ctx, d)
}
