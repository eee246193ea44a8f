// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// grace is how long requests may go on after the end of input.
const grace = 9 * time.Second

// Handler answers a request with a result, which becomes a JSON object. An error that is no *protocol.Error is Internal.
type Handler func(ctx context.Context, call Call) (any, error)

// Call is a request on its way.
type Call struct {
	workdir  string
	params   json.RawMessage
	progress func(protocol.Answer)
}

// Params reads the params of the request.
func (c Call) Params(into any) error {
	if err := protocol.Decode(c.params, into); err != nil {
		return protocol.Errorf(protocol.InvalidRequest, "params: %v", err)
	}
	return nil
}

// Workdir is where the request's files go.
func (c Call) Workdir() string { return c.workdir }

// Path gives the path of a file of the request, which must lie below workdir.
func (c Call) Path(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", protocol.Errorf(protocol.InvalidRequest, "a file must be named by a path below workdir, which %q is not", name)
	}
	return filepath.Join(c.workdir, name), nil
}

// Progress tells how far the request is.
func (c Call) Progress(done, total int64, message string) {
	c.progress(protocol.Answer{Type: protocol.TypeProgress, Done: done, Total: total, Message: message})
}

// Options are what Run needs.
type Options struct {
	In       io.Reader
	Out      io.Writer
	Log      *slog.Logger
	Handlers map[protocol.Op]Handler
	// Parallel bounds the requests of an operation that run at once; absent: one.
	Parallel map[protocol.Op]int
}

type server struct {
	options Options
	slots   map[protocol.Op]chan struct{}
	writing sync.Mutex
	broken  error
	mutex   sync.Mutex
	running map[string]context.CancelCauseFunc
	work    sync.WaitGroup
}

var errCancelled = errors.New("the request was cancelled")

// Run answers requests until the end of input. The error is that of the streams.
func Run(ctx context.Context, o Options) error {
	s := &server{options: o, slots: map[protocol.Op]chan struct{}{}, running: map[string]context.CancelCauseFunc{}}
	for op := range o.Handlers {
		s.slots[op] = make(chan struct{}, max(1, o.Parallel[op]))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := s.read(ctx)
	timer := time.AfterFunc(grace, func() { cancel(errCancelled) })
	defer timer.Stop()
	s.work.Wait()
	return errors.Join(err, s.broken)
}

func (s *server) read(ctx context.Context) error {
	lines := protocol.NewReader(s.options.In)
	for {
		line, err := lines.Line()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, protocol.ErrLineTooLong):
			s.options.Log.Warn("a line was passed over", "error", err.Error())
			continue
		case err != nil:
			return fmt.Errorf("read request: %w", err)
		}
		request, err := protocol.ReadRequest(line)
		switch {
		case err == nil:
			s.begin(ctx, request)
		case request.ID != "":
			s.fail(request.ID, protocol.Errorf(protocol.InvalidRequest, "%v", err))
		default:
			s.options.Log.Warn("a line was passed over", "error", err.Error())
		}
	}
}

// begin starts a request. Those that need no handler are answered at once.
func (s *server) begin(ctx context.Context, r protocol.Request) {
	switch r.Op {
	case protocol.Ping:
		s.succeed(r.ID, struct{}{})
		return
	case protocol.Cancel:
		s.cancel(r)
		return
	default:
	}
	handler, found := s.options.Handlers[r.Op]
	if !found {
		s.fail(r.ID, protocol.Errorf(protocol.Unsupported, "there is no operation %q", r.Op))
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.mutex.Lock()
	_, twice := s.running[r.ID]
	if !twice {
		s.running[r.ID] = cancel
	}
	s.mutex.Unlock()
	if twice {
		cancel(nil)
		s.fail(r.ID, protocol.Errorf(protocol.InvalidRequest, "a request with this id is at work"))
		return
	}
	s.work.Go(func() {
		defer cancel(nil)
		s.handle(ctx, r, handler)
	})
}

func (s *server) handle(ctx context.Context, r protocol.Request, handler Handler) {
	if r.Deadline != nil {
		var release context.CancelFunc
		ctx, release = context.WithDeadline(ctx, *r.Deadline)
		defer release()
	}
	var result any
	err := s.slot(ctx, r.Op)
	if err == nil {
		result, err = handler(ctx, Call{workdir: r.Workdir, params: r.Params, progress: func(a protocol.Answer) {
			a.V, a.ID = protocol.Version, r.ID
			s.write(a)
		}})
		<-s.slots[r.Op]
	}
	// The id is free before the answer can be read.
	s.mutex.Lock()
	delete(s.running, r.ID)
	s.mutex.Unlock()
	if err != nil {
		s.fail(r.ID, explain(ctx, err))
		return
	}
	s.succeed(r.ID, result)
}

func (s *server) slot(ctx context.Context, op protocol.Op) error {
	select {
	case s.slots[op] <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other requests: %w", ctx.Err())
	}
}

// explain finds the code of an error.
func explain(ctx context.Context, err error) *protocol.Error {
	e, told := errors.AsType[*protocol.Error](err)
	switch {
	case errors.Is(context.Cause(ctx), errCancelled):
		return protocol.Errorf(protocol.Cancelled, "the request was cancelled")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return protocol.Errorf(protocol.Timeout, "the deadline has passed")
	case told:
		return e
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return protocol.Errorf(protocol.DiskFull, "%v", err)
	}
	return protocol.Errorf(protocol.Internal, "%v", err)
}

func (s *server) cancel(r protocol.Request) {
	var params protocol.CancelParams
	if err := protocol.Decode(r.Params, &params); err != nil {
		s.fail(r.ID, protocol.Errorf(protocol.InvalidRequest, "params: %v", err))
		return
	}
	s.mutex.Lock()
	cancel := s.running[params.Request]
	s.mutex.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
	s.succeed(r.ID, struct{}{})
}

func (s *server) succeed(id string, result any) {
	text, err := json.Marshal(result)
	if err != nil {
		s.fail(id, protocol.Errorf(protocol.Internal, "encode result: %v", err))
		return
	}
	s.write(protocol.Answer{V: protocol.Version, ID: id, Type: protocol.TypeResult, Result: text})
}

func (s *server) fail(id string, e *protocol.Error) {
	s.write(protocol.Answer{V: protocol.Version, ID: id, Type: protocol.TypeError, Error: e})
}

// write sends a line. Lines that are too long become an error, so that the request has its answer.
func (s *server) write(a protocol.Answer) {
	line, err := protocol.Line(a)
	if err != nil {
		line, err = protocol.Line(protocol.Answer{
			V: protocol.Version, ID: a.ID, Type: protocol.TypeError, Error: protocol.Errorf(protocol.Internal, "%v", err),
		})
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err == nil {
		_, err = s.options.Out.Write(line)
	}
	if err != nil && s.broken == nil {
		s.broken = fmt.Errorf("write answer: %w", err)
	}
}
