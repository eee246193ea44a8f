// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"errors"
	"io"
	"sync"
)

// watched is a request's body that reports progress and keeps its own errors apart from the connection's.
type watched struct {
	io.ReadCloser
	onRead func()

	mu     sync.Mutex
	failed error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.onRead()
	// A closed pipe is the transport's doing: it closes the body when the connection breaks.
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		w.mu.Lock()
		w.failed = err
		w.mu.Unlock()
	}
	return n, err
}

// failure is the source's error. The transport may still read while the answer is there already.
func (w *watched) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}
