// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

// Download GETs an object as a stream and returns its size, -1 if the store does not say. Faults, also in the middle of the
// stream, are retried and the download continues where it was; an error of the returned reader is final. The reader is for
// one goroutine and must be closed.
func (c *Client) Download(ctx context.Context, from URL) (io.ReadCloser, int64, error) {
	return c.DownloadAt(ctx, from, "", 0)
}

// DownloadAt downloads from an offset on, of the object with an ETag; an empty ETag is any object. Another object is
// ErrChanged. The size is the size of the whole object.
func (c *Client) DownloadAt(ctx context.Context, from URL, etag string, offset int64) (io.ReadCloser, int64, error) {
	if err := from.Check(); err != nil {
		return nil, 0, fmt.Errorf("download: %w", err)
	}
	d := &download{client: c, ctx: ctx, from: from, size: -1, etag: etag, done: offset, loop: c.newLoop()}
	for {
		err := d.connect() //nolint:contextcheck // the context of Download is that of all its requests
		if err == nil {
			return d, d.size, nil
		}
		if err = wait(ctx, d.loop, err); err != nil {
			return nil, 0, fmt.Errorf("download from %s: %w", from, err)
		}
	}
}

// download is the download of one object, over as many requests as needed.
type download struct {
	client *Client
	ctx    context.Context //nolint:containedctx // a reader has no other way to get it
	from   URL
	loop   *retry.Loop

	etag string
	size int64
	done int64

	body   io.ReadCloser
	cancel context.CancelCauseFunc
	reqCtx context.Context //nolint:containedctx // of the running request, for the cause of its end
	watch  *time.Timer
	failed error
}

func (d *download) Read(p []byte) (int, error) {
	if d.failed != nil {
		return 0, d.failed
	}
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := d.readOnce(p)
		if n > 0 {
			d.done += int64(n)
			d.loop.Progress()
			return n, nil // the next read returns the error again
		}
		if errors.Is(err, io.EOF) && (d.size < 0 || d.done == d.size) {
			d.failed = io.EOF
			return 0, io.EOF
		}
		if err == nil {
			continue
		}
		d.drop()
		if err = wait(d.ctx, d.loop, err); err != nil {
			d.failed = fmt.Errorf("download from %s, after %d bytes: %w", d.from, d.done, err)
			return 0, d.failed
		}
	}
}

// readOnce reads from the running request, or makes the next one.
func (d *download) readOnce(p []byte) (int, error) {
	if d.body == nil {
		if err := d.connect(); err != nil {
			return 0, err
		}
	}
	d.watch.Reset(d.client.idle)
	n, err := d.body.Read(p)
	d.watch.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := context.Cause(d.reqCtx); errors.Is(cause, errIdle) {
			err = cause
		}
		return n, withoutURL(err)
	}
	if errors.Is(err, io.EOF) && n == 0 && d.size >= 0 && d.done < d.size {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// Close ends the download.
func (d *download) Close() error {
	d.drop()
	if d.failed == nil {
		d.failed = errors.New("read after close")
	}
	return nil
}

func (d *download) drop() {
	if d.body == nil {
		return
	}
	d.watch.Stop()
	d.cancel(nil)
	_ = d.body.Close() // the body is not used any more
	d.body = nil
}

// connect sends a request for the missing bytes.
func (d *download) connect() error {
	ctx, cancel := context.WithCancelCause(d.ctx)
	resp, err := d.get(ctx) //nolint:bodyclose // drop closes it
	if err != nil {
		cancel(nil)
		return err
	}
	d.body, d.cancel, d.reqCtx = resp.Body, cancel, ctx
	d.watch = time.AfterFunc(time.Hour, func() { cancel(errIdle) })
	d.watch.Stop() // runs only during a read
	if err := d.seek(resp); err != nil {
		d.drop()
		return err
	}
	return nil
}

func (d *download) get(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(d.from), http.NoBody)
	if err != nil {
		return nil, permanent{withoutURL(err)}
	}
	if d.done > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(d.done, 10)+"-")
	}
	if d.etag != "" {
		req.Header.Set("If-Match", d.etag)
	}
	resp, err := d.client.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	switch {
	case resp.StatusCode == http.StatusOK,
		resp.StatusCode == http.StatusPartialContent && d.done > 0:
		return resp, nil
	case resp.StatusCode == http.StatusPreconditionFailed && d.etag != "":
		_ = resp.Body.Close() // its text adds nothing
		return nil, permanent{ErrChanged}
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		_ = resp.Body.Close() // not the object
		return nil, permanent{fmt.Errorf("the store answers %d without the object", resp.StatusCode)}
	}
	return nil, newStatusError(resp, d.client.policy.Clock.Now())
}

// seek moves the response to the next wanted byte, and checks that the object is the same.
func (d *download) seek(resp *http.Response) error {
	etag := resp.Header.Get("ETag")
	if strings.HasPrefix(etag, "W/") {
		etag = "" // a weak one does not vouch for bytes
	}
	if d.done == 0 && (d.etag == "" || d.etag == etag) {
		d.etag, d.size = etag, resp.ContentLength
		return nil
	}
	start, size := int64(0), resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		var ok bool
		if start, size, ok = parseContentRange(resp.Header.Get("Content-Range")); !ok {
			return permanent{errors.New("the store answers with an unreadable Content-Range")}
		}
	}
	if etag != d.etag || size >= 0 && d.size >= 0 && size != d.size {
		return permanent{ErrChanged}
	}
	d.size = max(d.size, size)
	if start > d.done {
		return permanent{errors.New("the store answers with a later part than asked for")}
	}
	for left := d.done - start; left > 0; {
		d.watch.Reset(d.client.idle)
		n, err := io.CopyN(io.Discard, d.body, min(left, ioBuffer))
		d.watch.Stop()
		if err != nil {
			return withoutURL(err)
		}
		left -= n
	}
	return nil
}

// parseContentRange reads "bytes 5-9/10"; the size is -1 for "*".
func parseContentRange(value string) (start, size int64, ok bool) {
	rest, ok := strings.CutPrefix(value, "bytes ")
	if !ok {
		return 0, 0, false
	}
	span, total, ok := strings.Cut(rest, "/")
	if !ok {
		return 0, 0, false
	}
	first, _, ok := strings.Cut(span, "-")
	if !ok {
		return 0, 0, false
	}
	start, err := strconv.ParseInt(first, 10, 64)
	if err != nil || start < 0 {
		return 0, 0, false
	}
	if total == "*" {
		return start, -1, true
	}
	size, err = strconv.ParseInt(total, 10, 64)
	return start, size, err == nil
}
