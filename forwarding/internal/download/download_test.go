// SPDX-License-Identifier: Apache-2.0

package download

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// object is one that counts how often it is opened and closed.
type object struct {
	content      []byte
	opened, shut atomic.Int32
	fails        error
}

func newObject(size int) *object {
	o := &object{content: make([]byte, size)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range o.content {
		o.content[i] = byte(r.Uint32())
	}
	return o
}

func (o *object) open(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if o.fails != nil {
		return nil, o.fails
	}
	o.opened.Add(1)
	return &body{o: o, ctx: ctx, rest: bytes.NewReader(o.content[offset:])}, nil
}

type body struct {
	o    *object
	ctx  context.Context
	rest *bytes.Reader
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.rest.Read(p)
}

func (b *body) Close() error {
	b.o.shut.Add(1)
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSinksShareADownload: who begins at the same byte reads along, at a speed of its own.
func TestSinksShareADownload(t *testing.T) {
	o, d := newObject(window), &Downloads{}
	first, err := d.Read(t.Context(), "a", 0, o.open)
	must(t, err)
	second, err := d.Read(t.Context(), "a", 0, o.open)
	must(t, err)
	for _, r := range []io.ReadCloser{first, second} {
		got, err := io.ReadAll(r)
		must(t, err)
		if !bytes.Equal(got, o.content) {
			t.Errorf("%d bytes, others than those of the object", len(got))
		}
	}
	must(t, first.Close())
	if o.shut.Load() != 0 {
		t.Error("the first to end has closed the download of the other")
	}
	must(t, second.Close())
	if o.opened.Load() != 1 || o.shut.Load() != 1 || len(d.running) != 0 {
		t.Errorf("opened %d times, closed %d times, %d run", o.opened.Load(), o.shut.Load(), len(d.running))
	}
}

// TestSlowReaderDownloadsAlone: a slow sink holds up no other, and keeps no more than the window in memory.
func TestSlowReaderDownloadsAlone(t *testing.T) {
	o, d := newObject(5*window), &Downloads{}
	slow, err := d.Read(t.Context(), "a", 0, o.open)
	must(t, err)
	begun := make([]byte, 10)
	_, err = io.ReadFull(slow, begun)
	must(t, err)
	quick, err := d.Read(t.Context(), "a", 10, o.open)
	must(t, err)
	got, err := io.ReadAll(quick)
	must(t, err)
	if !bytes.Equal(got, o.content[10:]) {
		t.Error("the quick one has read something else")
	}
	if kept := len(d.running["a"].kept); kept > 2*window {
		t.Errorf("%d bytes are kept", kept)
	}
	rest, err := io.ReadAll(slow)
	must(t, err)
	if !bytes.Equal(append(begun, rest...), o.content) {
		t.Error("the slow one has read something else")
	}
	must(t, slow.Close())
	must(t, quick.Close())
	if o.opened.Load() != 2 || o.shut.Load() != 2 {
		t.Errorf("opened %d times, closed %d times", o.opened.Load(), o.shut.Load())
	}
}

// TestSeparateDownloads: a byte that is far away, another object, and a download that has failed.
func TestSeparateDownloads(t *testing.T) {
	o, d := newObject(window), &Downloads{}
	for _, at := range []struct {
		object string
		offset int64
	}{{"a", 0}, {"a", window / 2}, {"b", 0}} {
		r, err := d.Read(t.Context(), at.object, at.offset, o.open)
		must(t, err)
		defer func() { must(t, r.Close()) }()
	}
	if o.opened.Load() != 3 {
		t.Errorf("opened %d times", o.opened.Load())
	}
	o.fails = errors.New("storage is away")
	if _, err := d.Read(t.Context(), "c", 0, o.open); !errors.Is(err, o.fails) {
		t.Error(err)
	}
}

// TestCanceledReaderDoesNotEndDownload: the context of the sink that has begun the download is not that of the download.
func TestCanceledReaderDoesNotEndDownload(t *testing.T) {
	o, d := newObject(3*chunk), &Downloads{}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := d.Read(ctx, "a", 0, o.open)
	must(t, err)
	second, err := d.Read(t.Context(), "a", 0, o.open)
	must(t, err)
	cancel()
	if _, err := io.ReadAll(first); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	got, err := io.ReadAll(second)
	must(t, err)
	if !bytes.Equal(got, o.content) || o.opened.Load() != 1 {
		t.Errorf("%d bytes, opened %d times", len(got), o.opened.Load())
	}
	must(t, first.Close())
	must(t, second.Close())
}

// TestConcurrentReads is for the race detector.
func TestConcurrentReads(t *testing.T) {
	o, d := newObject(4*window), &Downloads{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			offset := int64(i%3) * chunk
			r, err := d.Read(t.Context(), "a", offset, o.open)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, o.content[offset:]) {
				t.Errorf("%d bytes: %v", len(got), err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(d.running) != 0 || o.opened.Load() != o.shut.Load() {
		t.Errorf("%d run, opened %d times, closed %d times", len(d.running), o.opened.Load(), o.shut.Load())
	}
}
