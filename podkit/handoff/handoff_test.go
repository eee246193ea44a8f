// SPDX-License-Identifier: Apache-2.0

package handoff_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/scanyard/scanyard/podkit/handoff"
	"github.com/scanyard/scanyard/podkit/retry"
)

// answer is what Await returned.
type answer struct {
	scanned bool
	err     error
}

// await waits beside the test. asleep gets a value each time that the parser sees no lurker.
func await(ctx context.Context, dir string) (answers <-chan answer, asleep <-chan struct{}, now chan<- time.Duration) {
	out, naps, steps := make(chan answer, 1), make(chan struct{}), make(chan time.Duration)
	at := time.Unix(0, 0)
	clock := retry.Clock{
		Now: func() time.Time { return at },
		Sleep: func(ctx context.Context, _ time.Duration) error {
			select {
			case naps <- struct{}{}:
				at = at.Add(<-steps)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	go func() {
		scanned, err := handoff.Await(ctx, dir, clock)
		out <- answer{scanned, err}
	}()
	return out, naps, steps
}

func TestTold(t *testing.T) {
	for _, scanned := range []bool{true, false} {
		dir := t.TempDir()
		answers, asleep, now := await(t.Context(), dir)
		<-asleep // there is no lurker yet
		h, err := handoff.Hold(dir)
		if err != nil {
			t.Fatal(err)
		}
		now <- time.Hour // a lurker that has not begun has all the time it needs
		if err := h.Tell(scanned); err != nil {
			t.Fatal(err)
		}
		if a := <-answers; a.err != nil || a.scanned != scanned {
			t.Errorf("told %t, got %+v", scanned, a)
		}
		if again, err := handoff.Await(t.Context(), dir, retry.Clock{}); err != nil || again != scanned {
			t.Errorf("a parser that is started again gets %t, %v", again, err)
		}
	}
}

// TestLurkerStartedAgain: the first lurker ends without a word, the second tells.
func TestLurkerStartedAgain(t *testing.T) {
	dir := t.TempDir()
	first, err := handoff.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	answers, asleep, now := await(t.Context(), dir)
	first.Close()
	<-asleep
	second, err := handoff.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	now <- time.Minute
	if err := second.Tell(true); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.err != nil || !a.scanned {
		t.Errorf("got %+v", a)
	}
}

// TestLurkerKilled: the kernel lets go of the lock of a process that is killed, and the parser does not wait for ever.
func TestLurkerKilled(t *testing.T) {
	if dir := os.Getenv("HANDOFF_DIR"); dir != "" { // this process is the lurker
		if _, err := handoff.Hold(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "held"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	dir := t.TempDir()
	lurker := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestLurkerKilled$")
	lurker.Env = append(os.Environ(), "HANDOFF_DIR="+dir)
	if err := lurker.Start(); err != nil {
		t.Fatal(err)
	}
	answers, asleep, now := await(t.Context(), dir)
	for { // until the lurker has the lock
		if _, err := os.Stat(filepath.Join(dir, "held")); err == nil {
			break
		}
		select {
		case <-asleep:
			now <- 0
		default:
		}
	}
	if err := lurker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lurker.Wait() // it was killed
	<-asleep
	now <- handoff.Patience
	<-asleep
	now <- time.Second
	if a := <-answers; !errors.Is(a.err, handoff.ErrGone) {
		t.Errorf("got %+v", a)
	}
}

func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	h, err := handoff.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithCancel(t.Context())
	answers, _, _ := await(ctx, dir)
	cancel()
	if a := <-answers; !errors.Is(a.err, context.Canceled) {
		t.Errorf("got %+v", a)
	}
}
