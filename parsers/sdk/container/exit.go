// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// unreadable marks the error of a parser as an error of its input. It does not mark errors of an input that did not come as it
// is stored or has changed since, of a missing disk, or of a time that has run out.
func unreadable(ctx context.Context, err error, source *tracked) error {
	if err == nil || ctx.Err() != nil || source.failed.Load() {
		return err
	}
	if _, disk := errors.AsType[*fs.PathError](err); disk || errors.Is(err, transfer.ErrChanged) {
		return err
	}
	return process.Final(err, exitcode.InvalidInput)
}

// tracked remembers whether a source has failed, whatever a parser makes of that.
type tracked struct {
	sdk.Source

	failed atomic.Bool
}

// Open opens the source.
func (t *tracked) Open(ctx context.Context) (io.ReadCloser, error) {
	r, err := t.Source.Open(ctx)
	if err != nil {
		t.failed.Store(true)
		return nil, err
	}
	return &trackedReader{r, t}, nil
}

type trackedReader struct {
	io.ReadCloser

	source *tracked
}

func (r *trackedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.source.failed.Store(true)
	}
	return n, err
}
