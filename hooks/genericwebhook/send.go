// SPDX-License-Identifier: Apache-2.0

package genericwebhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/scanyard/scanyard/hooks/sdk"
)

const (
	maxAttempts  = 4
	firstPause   = time.Second
	longestPause = 2 * time.Minute
)

// answerError is an answer other than success.
type answerError struct {
	host       string
	code       int
	location   string
	retryAfter time.Duration
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("the webhook at %s answers %d %s", e.host, e.code, http.StatusText(e.code))
	if e.location != "" {
		text += ", a redirect to " + e.location + "; redirects are not followed, set the final address"
	}
	return text
}

// passing says whether the answer comes from something in between that may be gone in a moment.
func (e *answerError) passing() bool {
	switch e.code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// send POSTs the body until it is taken, refused, or the attempts are used up.
func (h *handler) send(ctx context.Context, transport http.RoundTripper, body *sdk.Staged, notef func(string, ...any)) error {
	for attempt := 1; ; attempt++ {
		err := h.post(ctx, transport, body)
		if err == nil {
			return nil
		}
		wait, again := nextPause(err, attempt)
		if !again || ctx.Err() != nil {
			if attempt > 1 {
				return fmt.Errorf("given up after %d attempts: %w", attempt, err)
			}
			return err
		}
		notef("%v; trying again in %s", err, wait.Round(time.Second))
		if err := h.wait(ctx, wait); err != nil {
			return err
		}
	}
}

// nextPause says whether another attempt makes sense and how long to wait for it.
func nextPause(err error, attempt int) (time.Duration, bool) {
	wait := firstPause << (attempt - 1)
	wait += rand.N(wait / 4) //nolint:gosec // spreads load, guards nothing
	var answer *answerError
	var certificate *tls.CertificateVerificationError
	switch {
	case attempt >= maxAttempts, errors.Is(err, sdk.ErrNotRepeatable), errors.Is(err, errSource), errors.As(err, &certificate):
		return 0, false
	case errors.As(err, &answer):
		if !answer.passing() || answer.retryAfter > longestPause {
			return 0, false
		}
		return max(wait, answer.retryAfter), true
	default:
		return wait, true
	}
}

var (
	errSilent = errors.New("no sign of life in time")
	// errSource marks an error of the findings, not of the receiver.
	errSource = errors.New("read what is to be sent")
)

// post makes one request.
func (h *handler) post(ctx context.Context, transport http.RoundTripper, body *sdk.Staged) error {
	source, err := body.Open() //nolint:contextcheck // what is staged was given its context when it was staged
	if err != nil {
		return fmt.Errorf("%w: %w", errSource, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// One clock watches the whole exchange: every piece of the body that goes out, and the answer, sets it back.
	watch := time.AfterFunc(h.timeout, func() { cancel(errSilent) })
	defer watch.Stop()
	sent := &watched{ReadCloser: source, onRead: func() { watch.Reset(h.timeout) }}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.target.String(), sent)
	if err != nil {
		return errors.Join(h.hostOnly(err), source.Close())
	}
	req.ContentLength = body.Size()
	req.Header = h.header.Clone()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		if failure := sent.failure(); failure != nil {
			return fmt.Errorf("%w: %w", errSource, failure)
		}
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = fmt.Errorf("%w (%s)", cause, h.timeout)
		}
		return h.hostOnly(err)
	}
	defer resp.Body.Close()
	// A little of the answer is read so that the connection ends in order; what it says is not asked for.
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return h.newAnswerError(resp)
	}
	return nil
}

func (h *handler) newAnswerError(resp *http.Response) error {
	e := &answerError{host: h.target.Host, code: resp.StatusCode}
	if location, err := resp.Location(); err == nil {
		e.location = location.Scheme + "://" + location.Host
	}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		e.retryAfter = time.Duration(min(seconds, 1<<20)) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			e.retryAfter = max(0, at.Sub(date))
		}
	}
	return e
}

// hostOnly keeps the path and the query of the address out of an error.
func (h *handler) hostOnly(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("the webhook at %s cannot be reached: %w", h.target.Host, err)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
