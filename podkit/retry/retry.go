// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Policy is how often and how long an operation is retried. The zero value of a bound means no bound.
type Policy struct {
	// First is about the pause after the first attempt. Pauses double up to Longest.
	First, Longest time.Duration
	// Attempts is the largest number of attempts.
	Attempts int
	// Budget is how long attempts continue.
	Budget time.Duration
	// LongestAsked is the longest pause that a server can ask for. A server that asks for more ends the loop.
	LongestAsked time.Duration
	// Clock is the source of time.
	Clock Clock
	// Random returns a number from 0 to below 1, for jitter. Nil is a random one.
	Random func() float64
	// Notice is called before each pause. Nil is silent.
	Notice func(err error, pause time.Duration)
}

// Loop counts the attempts of one operation. It is for one goroutine.
type Loop struct {
	// Policy may change between two attempts, for example when a server that has responded once gets more time.
	Policy
	since    time.Time
	attempts int
}

// Begin returns a Loop whose budget counts from now.
func (p Policy) Begin() *Loop {
	l := p.BeginAtFailure()
	l.since = l.Clock.Now()
	return l
}

// BeginAtFailure returns a Loop whose budget counts from the first failure.
func (p Policy) BeginAtFailure() *Loop {
	p.Clock = p.Clock.WithDefaults()
	if p.Random == nil {
		p.Random = rand.Float64
	}
	if p.Notice == nil {
		p.Notice = func(error, time.Duration) {}
	}
	return &Loop{Policy: p}
}

// Progress says that an attempt succeeded, at least in part: attempts, pauses and budget count again from the next failure.
func (l *Loop) Progress() { l.attempts, l.since = 0, time.Time{} }

// Attempts is the number of failed attempts since the beginning or the last progress.
func (l *Loop) Attempts() int { return l.attempts }

// Wait pauses after an attempt that failed with an error that may pass; asked is how long the server asked to wait, 0 if it
// did not. An error of Wait ends the loop. It wraps err, and the context's cause if the context has ended.
func (l *Loop) Wait(ctx context.Context, err error, asked time.Duration) error {
	l.attempts++
	if ctx.Err() != nil {
		return stopped(context.Cause(ctx), err)
	}
	now := l.Clock.Now()
	if l.since.IsZero() {
		l.since = now
	}
	pause := max(l.pause(), asked)
	switch {
	case l.LongestAsked > 0 && asked > l.LongestAsked:
		return l.Stop(fmt.Errorf("%w (it asks to wait for %s)", err, asked.Round(time.Second)))
	case l.Policy.Attempts > 0 && l.attempts >= l.Policy.Attempts, l.Budget > 0 && now.Add(pause).Sub(l.since) > l.Budget:
		return l.Stop(err)
	}
	l.Notice(err, pause)
	if cause := l.Clock.Sleep(ctx, pause); cause != nil {
		return stopped(cause, err)
	}
	return nil
}

// Stop adds the number of attempts to a final error, if there was more than one.
func (l *Loop) Stop(err error) error {
	if l.attempts > 1 {
		return fmt.Errorf("given up after %d attempts: %w", l.attempts, err)
	}
	return err
}

func stopped(cause, err error) error { return fmt.Errorf("%w (while: %w)", cause, err) }

// pause is how long to wait after this many attempts.
func (l *Loop) pause() time.Duration {
	d := l.Longest
	if l.attempts <= 16 { // far beyond any sensible maximum, well before the shift overflows
		d = min(d, l.First<<(l.attempts-1))
	}
	return d/2 + time.Duration(float64(d/2)*l.Random())
}

// After reads the header Retry-After, which has seconds or a date; 0 if there is none. A date is compared with the server's
// own clock if the header Date has it, else with now.
func After(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(0, seconds), 1<<30)) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}
