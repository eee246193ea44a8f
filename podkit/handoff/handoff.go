// SPDX-License-Identifier: Apache-2.0

// Package handoff is how a lurker tells the parser beside it that the scanner has ended. Both have one folder, which the
// scanner does not have:
//
//	lurker ──holds──► "lock" ◄──waits── parser
//	       ──writes─► "outcome", lets go of the lock; the parser reads "outcome"
//
// The outcome is a file, so that a parser that is started again finds it. The lock wakes the parser without asking again and
// again, and the kernel lets go of it if the lurker is killed: a parser never waits for somebody who is gone.
package handoff

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

// The files of the folder, and what the outcome says.
const (
	lockFile    = "lock"
	outcomeFile = "outcome"
	scanned     = "scanned"
	notScanned  = "not scanned"
)

const (
	// lookAgain is how often the parser looks for the lurker while there is none.
	lookAgain = 100 * time.Millisecond
	// Patience is how long the parser waits for a lurker that is gone to come back: the kubelet starts it again after
	// five minutes at the latest, unless the pod's containers are not started again.
	Patience = 10 * time.Minute
)

// ErrGone says that the lurker ended without an outcome and has not come back.
var ErrGone = errors.New("the lurker ended without saying whether the scanner has, and was not started again")

// Holder is the lurker's end of a handoff.
type Holder struct {
	dir  string
	lock *os.File
}

// Hold begins a handoff: whoever waits in the folder waits until Tell or Close.
func Hold(dir string) (*Holder, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // G302: the parser may be another user
	if err != nil {
		return nil, fmt.Errorf("begin the handoff to the parser: %w", err)
	}
	if err := flock(lock, syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("begin the handoff to the parser: %w", err), lock.Close())
	}
	return &Holder{dir: dir, lock: lock}, nil
}

// Tell says whether there is a result to parse, and wakes the parser. The first word counts.
func (h *Holder) Tell(isScanned bool) error {
	defer h.Close()
	word := notScanned
	if isScanned {
		word = scanned
	}
	// A file that is renamed is there whole or not at all.
	fresh := filepath.Join(h.dir, outcomeFile+".new")
	err := os.WriteFile(fresh, []byte(word), 0o644) //nolint:gosec // G306: the parser may be another user
	if err == nil {
		err = os.Rename(fresh, filepath.Join(h.dir, outcomeFile))
	}
	if err != nil {
		return fmt.Errorf("tell the parser that the scanner has ended: %w", err)
	}
	return nil
}

// Close ends a handoff without a word.
func (h *Holder) Close() { _ = h.lock.Close() } // it was only a lock

// Await waits until the lurker has told, and returns whether there is a result to parse. The error is ErrGone or that of the
// context or the folder.
func Await(ctx context.Context, dir string, clock retry.Clock) (isScanned bool, err error) {
	clock = clock.WithDefaults()
	var gone time.Time
	for {
		word, err := os.ReadFile(filepath.Join(dir, outcomeFile))
		if err == nil {
			return string(word) == scanned, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("wait for the scanner: %w", err)
		}
		held, began, err := waitForLock(ctx, filepath.Join(dir, lockFile))
		switch {
		case err != nil:
			return false, fmt.Errorf("wait for the scanner: %w", err)
		case held:
			gone = time.Time{} // it may have told before it let go
			continue
		case began && gone.IsZero():
			gone = clock.Now()
		case began && clock.Now().Sub(gone) > Patience:
			return false, ErrGone
		}
		if err := clock.Sleep(ctx, lookAgain); err != nil {
			return false, err
		}
	}
}

// waitForLock waits until the lock is free. held is true if somebody had it, began if the lock exists.
func waitForLock(ctx context.Context, path string) (held, began bool, err error) {
	lock, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if err := flock(lock, syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return false, true, errors.Join(err, lock.Close())
	}
	// The kernel offers no wait that ends with the context: the goroutine ends with the process, or when the lurker does.
	done := make(chan error, 1)
	go func() { done <- errors.Join(flock(lock, syscall.LOCK_SH), lock.Close()) }()
	select {
	case err := <-done:
		return true, true, err
	case <-ctx.Done():
		return true, true, ctx.Err()
	}
}

// flock locks a file; a signal to the process does not end the wait.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
