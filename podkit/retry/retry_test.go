// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

var errBusy = errors.New("busy")

// clock moves on by each pause and by nothing else.
type clock struct {
	now    time.Time
	pauses []time.Duration
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) clock() retry.Clock {
	return retry.Clock{
		Now: func() time.Time { return c.now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			c.pauses = append(c.pauses, d)
			c.now = c.now.Add(d)
			return context.Cause(ctx)
		},
	}
}

func seconds(list ...float64) (all []time.Duration) {
	for _, s := range list {
		all = append(all, time.Duration(s*float64(time.Second)))
	}
	return all
}

func most() float64 { return 1 }

func TestWait(t *testing.T) {
	for name, tc := range map[string]struct {
		policy retry.Policy
		asked  time.Duration
		lasts  time.Duration // of each attempt
		pauses []time.Duration
		fails  string
		reason string
	}{
		"Doubles":      {policy: retry.Policy{First: time.Second, Longest: 5 * time.Second, Attempts: 6}, pauses: seconds(1, 2, 4, 5, 5), fails: "given up after 6 attempts: busy"},
		"LeastJitter":  {policy: retry.Policy{First: time.Second, Longest: time.Second, Attempts: 2, Random: func() float64 { return 0 }}, pauses: seconds(0.5), fails: "given up after 2 attempts: busy", reason: "half of a pause is never chance"},
		"OneAttempt":   {policy: retry.Policy{First: time.Second, Longest: time.Second, Attempts: 1}, fails: "busy", reason: "one attempt is not worth a count"},
		"Budget":       {policy: retry.Policy{First: time.Second, Longest: time.Minute, Budget: 8 * time.Second}, pauses: seconds(1, 2, 4), fails: "given up after 4 attempts: busy", reason: "a pause beyond the budget is not begun"},
		"SlowAttempts": {policy: retry.Policy{First: time.Second, Longest: time.Minute, Budget: 8 * time.Second}, lasts: 5 * time.Second, pauses: seconds(1), fails: "given up after 2 attempts: busy", reason: "attempts count as well"},
		"Asked":        {policy: retry.Policy{First: time.Second, Longest: time.Second, Attempts: 3}, asked: 7 * time.Second, pauses: seconds(7, 7), fails: "given up after 3 attempts: busy"},
		"AskedLittle":  {policy: retry.Policy{First: 4 * time.Second, Longest: 4 * time.Second, Attempts: 2}, asked: time.Second, pauses: seconds(4), fails: "given up after 2 attempts: busy"},
		"AskedTooMuch": {policy: retry.Policy{First: time.Second, Longest: time.Second, LongestAsked: time.Minute}, asked: time.Hour, fails: "busy (it asks to wait for 1h0m0s)"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			tc.policy.Clock = c.clock()
			if tc.policy.Random == nil {
				tc.policy.Random = most
			}
			var noticed []time.Duration
			tc.policy.Notice = func(_ error, pause time.Duration) { noticed = append(noticed, pause) }
			loop := tc.policy.Begin()
			var err error
			for err == nil {
				c.now = c.now.Add(tc.lasts)
				err = loop.Wait(t.Context(), errBusy, tc.asked)
			}
			if err.Error() != tc.fails || !errors.Is(err, errBusy) {
				t.Errorf("%s: %v, want %q", tc.reason, err, tc.fails)
			}
			if !slices.Equal(c.pauses, tc.pauses) || !slices.Equal(noticed, tc.pauses) {
				t.Errorf("%s: paused %v, notice of %v, want %v", tc.reason, c.pauses, noticed, tc.pauses)
			}
		})
	}
}

// TestProgressBeginsAnew with attempts, pauses and time.
func TestProgressBeginsAnew(t *testing.T) {
	c := newClock()
	loop := retry.Policy{First: time.Second, Longest: time.Minute, Budget: 4 * time.Second, Clock: c.clock(), Random: most}.BeginAtFailure()
	c.now = c.now.Add(time.Hour)
	for range 3 {
		for range 2 {
			if err := loop.Wait(t.Context(), errBusy, 0); err != nil {
				t.Fatal(err)
			}
		}
		loop.Progress()
	}
	if want := seconds(1, 2, 1, 2, 1, 2); !slices.Equal(c.pauses, want) {
		t.Errorf("paused %v, want %v", c.pauses, want)
	}
}

func TestContextEndsLoop(t *testing.T) {
	over := errors.New("over")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(over) })
		loop := retry.Policy{First: time.Hour, Longest: time.Hour}.Begin()
		for range 2 { // once during a pause, once before it
			if err := loop.Wait(ctx, errBusy, 0); !errors.Is(err, over) || !errors.Is(err, errBusy) || !strings.HasPrefix(err.Error(), "over (while: busy") {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestPausesDoNotOverflow(t *testing.T) {
	c := newClock()
	loop := retry.Policy{First: time.Second, Longest: 30 * time.Second, Clock: c.clock()}.Begin()
	for range 100 {
		if err := loop.Wait(t.Context(), errBusy, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range c.pauses {
		if p > 30*time.Second || i > 5 && p < 15*time.Second {
			t.Fatalf("pause %d is %s", i, p)
		}
	}
}

func TestAfter(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "17": 17 * time.Second, "-5": 0, "soon": 0, "99999999999": 1 << 30 * time.Second,
		"Tue, 01 Jan 2030 00:00:40 GMT": 40 * time.Second, "Mon, 31 Dec 2029 23:00:00 GMT": 0,
	} {
		if got := retry.After(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	header := http.Header{"Retry-After": {"Tue, 01 Jan 2030 09:00:40 GMT"}, "Date": {"Tue, 01 Jan 2030 09:00:00 GMT"}}
	if got := retry.After(header, now); got != 40*time.Second {
		t.Errorf("with a clock that differs: %s", got)
	}
}

func TestIsLasting(t *testing.T) {
	for _, err := range []error{
		&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		x509.HostnameError{},
		x509.CertificateInvalidError{},
		tls.RecordHeaderError{},
		http.ErrSchemeMismatch, context.Canceled,
	} {
		if !retry.IsLasting(fmt.Errorf("get: %w", err)) {
			t.Errorf("%T may pass", err)
		}
	}
	for _, err := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, &net.DNSError{IsNotFound: true}} {
		if retry.IsLasting(err) {
			t.Errorf("%T lasts", err)
		}
	}
}
