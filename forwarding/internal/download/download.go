// SPDX-License-Identifier: Apache-2.0

// Package download lets several sinks read one object of storage at once with one download.
//
// A download keeps the last of its bytes. Who begins within them reads along; who falls behind them goes on with a download of its own,
// so that a slow sink holds up no other. The bytes are fetched by whoever needs the next ones.
package download

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
)

const (
	// window is how many bytes of a download are kept.
	window = 1 << 20
	chunk  = 64 << 10
)

// Open opens the object from a byte on.
type Open func(ctx context.Context, offset int64) (io.ReadCloser, error)

// Downloads are those that run. The zero value is ready. It is safe for concurrent use.
type Downloads struct {
	mutex   sync.Mutex
	running map[string]*stream
}

// stream is one download.
type stream struct {
	downloads *Downloads
	object    string
	cancel    context.CancelFunc

	mutex   sync.Mutex
	changed *sync.Cond
	body    io.ReadCloser
	kept    []byte
	base    int64 // offset of the first byte that is kept
	err     error // what came behind the last byte
	fetches bool
	readers int
}

// Read reads an object from a byte on. Equal names of objects must mean equal content.
func (d *Downloads) Read(ctx context.Context, object string, offset int64, open Open) (io.ReadCloser, error) {
	if s := d.join(object, offset); s != nil {
		return s.reader(ctx, offset, open), nil
	}
	// The download outlives the sink that has begun it.
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	body, err := open(within, offset)
	if !stop() && err == nil {
		err = errors.Join(ctx.Err(), body.Close())
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stream{downloads: d, object: object, cancel: cancel, body: body, base: offset, readers: 1}
	s.changed = sync.NewCond(&s.mutex)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.running == nil {
		d.running = map[string]*stream{}
	}
	d.running[object] = s
	return s.reader(ctx, offset, open), nil
}

// join takes part in the download of an object that has a byte, or comes to it next.
func (d *Downloads) join(object string, offset int64) *stream {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.running[object]
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.readers == 0 || offset < s.base || offset > s.base+int64(len(s.kept)) || s.err != nil && !errors.Is(s.err, io.EOF) {
		return nil
	}
	s.readers++
	return s
}

func (s *stream) reader(ctx context.Context, offset int64, open Open) io.ReadCloser {
	r := &reader{stream: s, at: offset, open: open, ctx: ctx}
	r.stop = context.AfterFunc(ctx, func() { r.leave() })
	return r
}

// reader is one sink.
type reader struct {
	stream *stream
	at     int64
	open   Open
	ctx    context.Context //nolint:containedctx // of the download that it may have to open
	stop   func() bool
	left   sync.Once
	own    io.ReadCloser
}

// Read is part of io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.own == nil {
		n, behind, err := r.stream.read(r.ctx, p, r.at)
		if !behind {
			r.at += int64(n)
			return n, err
		}
		r.leave()
		if r.own, err = r.open(r.ctx, r.at); err != nil {
			r.own = nil
			return 0, err
		}
	}
	n, err := r.own.Read(p)
	r.at += int64(n)
	return n, err
}

// Close is part of io.Closer.
func (r *reader) Close() error {
	r.stop()
	r.leave()
	if r.own != nil {
		return r.own.Close()
	}
	return nil
}

// leave ends the part in the download. The last one ends the download.
func (r *reader) leave() {
	r.left.Do(func() { r.stream.leave() })
}

// read gives bytes from an offset on. Behind is true where these bytes are not kept any more.
func (s *stream) read(ctx context.Context, p []byte, offset int64) (n int, behind bool, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for {
		end := s.base + int64(len(s.kept))
		switch {
		case ctx.Err() != nil:
			return 0, false, ctx.Err()
		case offset < s.base:
			return 0, true, nil
		case offset < end:
			return copy(p, s.kept[offset-s.base:]), false, nil
		case s.err != nil:
			return 0, false, s.err
		case s.fetches:
			s.changed.Wait()
		default:
			s.fetch()
		}
	}
}

// fetch gets the next bytes. It is called with the mutex, which others may have meanwhile.
func (s *stream) fetch() {
	s.fetches = true
	s.mutex.Unlock()
	next := make([]byte, chunk)
	n, err := s.body.Read(next)
	s.mutex.Lock()
	s.fetches = false
	if len(s.kept)+n > 2*window {
		drop := len(s.kept) + n - window
		drop = min(drop, len(s.kept))
		s.kept, s.base = append(s.kept[:0], s.kept[drop:]...), s.base+int64(drop)
	}
	s.kept = append(s.kept, next[:n]...)
	if err != nil {
		s.err = err
	}
	s.changed.Broadcast()
}

func (s *stream) leave() {
	s.downloads.mutex.Lock()
	s.mutex.Lock()
	s.readers--
	last := s.readers == 0
	if last && s.downloads.running[s.object] == s {
		delete(s.downloads.running, s.object)
	}
	s.changed.Broadcast()
	fetches := s.fetches
	s.mutex.Unlock()
	s.downloads.mutex.Unlock()
	if !last {
		return
	}
	s.cancel()
	if !fetches {
		s.close()
		return
	}
	go func() { // the bytes that are on their way belong to nobody
		s.mutex.Lock()
		for s.fetches {
			s.changed.Wait()
		}
		s.mutex.Unlock()
		s.close()
	}()
}

// close closes the body. What it says of a download that nobody reads any more is of no use.
func (s *stream) close() {
	if err := s.body.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		s.mutex.Lock()
		s.err = errors.Join(s.err, err)
		s.mutex.Unlock()
	}
}
