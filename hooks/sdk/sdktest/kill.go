// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/hooks/sdk"
)

// Findings makes a findings array of this many findings with the ids finding-0, finding-1 and so on.
func Findings(count int) []byte {
	var out strings.Builder
	out.WriteByte('[')
	for i := range count {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"id":"finding-%d","name":"Port %d","category":"Open Port","severity":"LOW","attributes":{"port":%d}}`, i, i, i)
	}
	out.WriteByte(']')
	return []byte(out.String())
}

// Delivery is a hook and a remote service that can be killed at each step.
type Delivery struct {
	Hook sdk.Hook
	// Env is the hook's environment for a remote service at this address.
	Env func(address string) map[string]string
	// Prepare changes the world before each run. Optional.
	Prepare func(w *World)
	// Remote makes one that has seen nothing: take does with a request what it does, check says in the end what it
	// did not get, or got twice.
	Remote func() (take func(Request) Reply, check func() error)
}

// errKilled is why a run ends.
var errKilled = errors.New("killed")

// KillEverywhere runs the hook undisturbed to learn what it sends. Then, for each request, it kills the hook when the
// request has come in but is not done, and again when it is done but not answered, starts the hook again as its Job
// would, and checks what the remote service has.
func (d Delivery) KillEverywhere(t *testing.T) {
	t.Helper()
	requests := d.run(t, -1, false)
	if requests == 0 {
		t.Fatal("the hook sends nothing")
	}
	for n := range requests {
		t.Run("Before"+strconv.Itoa(n), func(t *testing.T) { d.run(t, n, false) })
		t.Run("After"+strconv.Itoa(n), func(t *testing.T) { d.run(t, n, true) })
	}
}

// run kills the hook at its n-th request, or not if n is negative, and returns how many requests there were.
func (d Delivery) run(t *testing.T, n int, done bool) int {
	t.Helper()
	w := New(t)
	if d.Prepare != nil {
		d.Prepare(w)
	}
	take, check := d.Remote()
	ctx, kill := context.WithCancelCause(t.Context())
	defer kill(nil)
	far := w.NewRemote(t, func(i int, r Request) Reply {
		if i != n {
			return take(r)
		}
		if done {
			take(r)
		}
		kill(errKilled)
		return Reply{Drop: true}
	})
	env := d.Env(far.URL)
	if n >= 0 {
		if got := w.RunUntil(ctx, t, d.Hook, env); got.ExitCode == 0 {
			t.Errorf("killed, and yet the exit code is 0: %s", got.Stderr)
		}
	}
	if got := w.Run(t, d.Hook, env); got.ExitCode != 0 {
		t.Fatalf("exit code %d: %s", got.ExitCode, got.Stderr)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	return len(far.Requests())
}

// Tally counts how often each finding arrived.
type Tally map[string]int

// Exactly says which findings of Findings(count) did not arrive exactly once.
func (c Tally) Exactly(count int) error { return c.each(count, func(n int) bool { return n == 1 }) }

// AtLeast says which findings of Findings(count) did not arrive.
func (c Tally) AtLeast(count int) error { return c.each(count, func(n int) bool { return n >= 1 }) }

func (c Tally) each(count int, fine func(n int) bool) error {
	for i := range count {
		if id := "finding-" + strconv.Itoa(i); !fine(c[id]) {
			return fmt.Errorf("%s arrived %d times", id, c[id])
		}
	}
	if len(c) != count {
		return fmt.Errorf("%d findings arrived, want %d", len(c), count)
	}
	return nil
}
