// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/contents"
)

// Bounds of a body.
const (
	maxWire  = 64 << 20
	maxBytes = 256 << 20
	maxRatio = 100
	// freeOfRatio is how long a body may be whatever it was compressed to.
	freeOfRatio = 1 << 20
	maxWindow   = 8 << 20
)

// wire counts what comes from the client.
type wire struct {
	from io.Reader
	read int64
}

// Read implements io.Reader.
func (r *wire) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.read += int64(n); r.read > maxWire {
		return 0, bad(reportsv1.ReasonTooLarge, "the body has more than %d bytes", maxWire)
	}
	return n, err
}

// body is what a client sends, uncompressed; what is read of it is staged.
type body struct {
	ctx    context.Context //nolint:containedctx // of the request
	wire   *wire
	from   io.Reader
	close  func()
	staged *contents.Upload
}

// open begins to read a body. staged may be nil.
func open(ctx context.Context, req *http.Request, staged *contents.Upload) (*body, error) {
	b := &body{ctx: ctx, wire: &wire{from: req.Body}, staged: staged, close: func() {}}
	switch encoding := strings.ToLower(req.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		b.from = b.wire
	case "gzip":
		unzipped, err := gzip.NewReader(b.wire)
		if err != nil {
			return nil, bodyError(err)
		}
		b.from = unzipped
	case "zstd":
		expanded, err := zstd.NewReader(b.wire, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, bodyError(err)
		}
		b.from, b.close = expanded, expanded.Close
	default:
		return nil, apierrors.NewBadRequest("Content-Encoding must be gzip or zstd, is " + encoding)
	}
	return b, nil
}

// bodyError is an error of reading a body. What the server says of it stays.
func bodyError(err error) error {
	var status apierrors.APIStatus
	if errors.Is(err, io.EOF) || errors.As(err, &status) {
		return err
	}
	return apierrors.NewBadRequest("read the body: " + err.Error())
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if n > 0 && b.staged != nil {
		if err := b.staged.Add(b.ctx, p[:n]); err != nil {
			return 0, err
		}
		read := b.staged.Bytes()
		if read > maxBytes || (read > freeOfRatio && read > maxRatio*b.wire.read) {
			return 0, bad(reportsv1.ReasonTooLarge, "the body has more than %d bytes, or more than %d times as many as were sent", maxBytes, maxRatio)
		}
	}
	if err != nil {
		err = bodyError(err)
	}
	return n, err
}

// finish reads what is left, stages it, and compares the sum.
func (b *body) finish(req *http.Request) error {
	if _, err := io.Copy(io.Discard, b); err != nil {
		return err
	}
	if err := b.staged.Finish(b.ctx); err != nil {
		return err
	}
	if wanted := strings.ToLower(req.Header.Get(reportsv1.HeaderSHA256)); wanted != b.staged.Sum() {
		return bad(reportsv1.ReasonSumMismatch, "%s says %q, the body has %s", reportsv1.HeaderSHA256, wanted, b.staged.Sum())
	}
	return nil
}

// stage takes the body of a request in. read looks at it; what read leaves is taken in, too. Of a body that is refused
// nothing is left.
func (s *Service) stage(req *http.Request, read func(from io.Reader, staged *contents.Upload) error) (*contents.Upload, error) {
	ctx := req.Context()
	staged, err := contents.Stage(ctx, s.store, s.clock.Now())
	if err != nil {
		return nil, err
	}
	if err := takeIn(ctx, req, staged, read); err != nil {
		// What cannot be dropped now is swept later.
		_ = staged.Discard(context.WithoutCancel(ctx))
		return nil, err
	}
	return staged, nil
}

func takeIn(ctx context.Context, req *http.Request, staged *contents.Upload, read func(from io.Reader, staged *contents.Upload) error) error {
	b, err := open(ctx, req, staged)
	if err != nil {
		return err
	}
	defer b.close()
	if err := read(b, staged); err != nil {
		return err
	}
	return b.finish(req)
}
