// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// expectContinueFrom is the size from which the store is asked before the body is sent, so that the client sees a refusal
// and not a broken connection.
const expectContinueFrom = 1 << 20

// Upload PUTs size bytes from open. Open is called for each attempt and must return the same bytes each time, from a reader
// of its own: the previous reader may still be in use for a moment. Close may be called during a Read and must end it. An
// error of open or of the reader ends the upload at once. The header is added to the request; content-type is sent empty
// unless the header has one.
func (c *Client) Upload(
	ctx context.Context, to URL, size int64, open func() (io.ReadCloser, error), header http.Header,
) error {
	if err := to.Check(); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	loop := c.newLoop()
	for {
		err := c.put(ctx, to, size, open, header)
		if err == nil {
			return nil
		}
		if err = wait(ctx, loop, err); err != nil {
			return fmt.Errorf("upload to %s: %w", to, err)
		}
	}
}

func (c *Client) put(
	ctx context.Context, to URL, size int64, open func() (io.ReadCloser, error), header http.Header,
) error {
	source, err := open()
	if err != nil {
		return permanent{fmt.Errorf("open what is to be uploaded: %w", err)}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body := newUploadBody(source, size, c.idle, cancel)
	defer body.Close() //nolint:errcheck // the body was only read; net/http closes it too, but perhaps later
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, string(to), body)
	if err != nil {
		return permanent{withoutURL(err)}
	}
	setUploadHeader(req, size, header)
	if size == 0 {
		if err := body.mustBeEmpty(); err != nil {
			return err
		}
		req.Body = http.NoBody // with any other body net/http would not say Content-Length: 0
	}
	resp, err := c.http.Do(req)
	if failure := body.failure(); failure != nil {
		if err == nil {
			_ = resp.Body.Close() // the status decides
		}
		return permanent{failure}
	}
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errIdle) {
			return cause
		}
		return withoutURL(err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return newStatusError(resp, c.policy.Clock.Now())
	}
	return drain(resp)
}

func setUploadHeader(req *http.Request, size int64, header http.Header) {
	req.ContentLength = size
	maps.Copy(req.Header, header)
	if _, ok := req.Header["Content-Type"]; !ok {
		req.Header["Content-Type"] = []string{""}
	}
	if size >= expectContinueFrom {
		req.Header.Set("Expect", "100-continue")
	}
}

// drain reads the rest of a successful response, so that the connection can be used again.
func drain(resp *http.Response) error {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxErrorBody)) // the object is stored already
	_ = resp.Body.Close()                                               // as above
	return nil
}

var errIdle = errors.New("the connection stood still for too long")

// uploadBody yields exactly size bytes of the source, keeps the source's error apart from the connection's, and ends the
// request when the connection accepts nothing for too long. The time of the source itself does not count.
type uploadBody struct {
	idle  time.Duration
	watch *time.Timer

	source  io.ReadCloser
	once    sync.Once
	closed  atomic.Bool
	closing error

	mu     sync.Mutex
	left   int64
	failed error
}

func newUploadBody(source io.ReadCloser, size int64, idle time.Duration, cancel func(error)) *uploadBody {
	b := &uploadBody{source: source, left: size, idle: idle}
	b.watch = time.AfterFunc(time.Hour, func() { cancel(errIdle) })
	b.watch.Stop() // runs only while the connection has bytes to send
	return b
}

func (b *uploadBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch.Stop()
	switch {
	case b.closed.Load():
		return 0, errors.New("read after close")
	case b.failed != nil:
		return 0, b.failed
	case b.left == 0:
		return 0, io.EOF
	}
	n, err := b.source.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.closed.Load():
		return n, errors.New("closed during a read") // any error of the source is because of the close
	case errors.Is(err, io.EOF) && b.left > 0:
		b.failed = fmt.Errorf("%w: it is %d bytes short", ErrSizeMismatch, b.left)
		return n, b.failed
	case err != nil && !errors.Is(err, io.EOF):
		b.failed = err
		return n, err
	}
	if b.left == 0 {
		// Before the last bytes leave and make the object complete.
		if err := b.end(); !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	b.watch.Reset(b.idle)
	return n, nil
}

// end checks that the source has no more bytes.
func (b *uploadBody) end() error {
	var probe [1]byte
	for range 100 {
		n, err := b.source.Read(probe[:])
		switch {
		case n > 0:
			b.failed = fmt.Errorf("%w: it has more", ErrSizeMismatch)
			return b.failed
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			b.failed = err
			return err
		}
	}
	return io.ErrNoProgress
}

func (b *uploadBody) mustBeEmpty() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.end(); !errors.Is(err, io.EOF) {
		return permanent{err}
	}
	return nil
}

func (b *uploadBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// Close does not wait for a running Read: closing the source ends it.
func (b *uploadBody) Close() error {
	b.watch.Stop()
	b.once.Do(func() {
		b.closed.Store(true)
		b.closing = b.source.Close()
	})
	return b.closing
}
