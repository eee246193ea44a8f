// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// session is a server whose both ends a test holds.
type session struct {
	t       *testing.T
	in      *io.PipeWriter
	answers chan protocol.Answer
	ended   chan error
}

func start(t *testing.T, handlers map[protocol.Op]serve.Handler) *session {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	s := &session{t: t, in: write, answers: make(chan protocol.Answer, 100), ended: make(chan error, 1)}
	go func() {
		err := serve.Run(t.Context(), serve.Options{
			In: in, Out: out, Log: slog.New(slog.DiscardHandler), Handlers: handlers, Parallel: map[protocol.Op]int{"wait": 2},
		})
		out.Close()
		s.ended <- err
	}()
	go func() {
		defer close(s.answers)
		lines := protocol.NewReader(read)
		for {
			line, err := lines.Line()
			if err != nil {
				return
			}
			a, err := protocol.ReadAnswer(line)
			if err != nil {
				t.Errorf("a line that is not an answer: %q: %v", line, err)
			}
			s.answers <- a
		}
	}()
	return s
}

func (s *session) say(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(s.in, line+"\n"); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *session) ask(id, op, rest string) {
	s.say(fmt.Sprintf(`{"v":1,"id":%q,"op":%q%s}`, id, op, rest))
}

// hear gives the next answer as id, type, and code or result.
func (s *session) hear() string {
	a, open := <-s.answers
	switch {
	case !open:
		return "end"
	case a.Type == protocol.TypeError:
		return strings.Join([]string{a.ID, a.Type, string(a.Error.Code)}, " ")
	case a.Type == protocol.TypeProgress:
		return fmt.Sprintf("%s progress %d/%d", a.ID, a.Done, a.Total)
	}
	return strings.Join([]string{a.ID, a.Type, string(a.Result)}, " ")
}

func (s *session) expect(want ...string) {
	s.t.Helper()
	for _, w := range want {
		if got := s.hear(); got != w {
			s.t.Errorf("want %q, got %q", w, got)
		}
	}
}

func (s *session) end() {
	s.t.Helper()
	s.in.Close()
	if err := <-s.ended; err != nil {
		s.t.Error(err)
	}
	s.expect("end")
}

// wait ends with its context.
func wait(ctx context.Context, call serve.Call) (any, error) {
	call.Progress(1, 2, "waiting")
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestInvalidRequestsAreSkipped(t *testing.T) {
	s := start(t, nil)
	s.say("garbage", "", strings.Repeat("x", 2<<20), `[1]`, `{"v":1,"op":"ping"}`, "\x00\xff")
	s.ask("1", "ping", `,"unknown":{"member":true}`)
	s.expect("1 result {}")
	s.ask("2", "sing", "")
	s.expect("2 error Unsupported")
	s.say(`{"v":7,"id":"3","op":"ping"}`)
	s.expect("3 error InvalidRequest")
	s.end()
}

func TestRequestsEndEarlyWithTheirReason(t *testing.T) {
	s := start(t, map[protocol.Op]serve.Handler{"wait": wait})
	s.ask("1", "wait", "")
	s.expect("1 progress 1/2")
	s.ask("1", "wait", "")
	s.expect("1 error InvalidRequest")
	s.ask("2", "wait", "")
	s.expect("2 progress 1/2")
	s.ask("3", "cancel", `,"params":{"request":"1"}`)
	got := map[string]bool{s.hear(): true, s.hear(): true}
	if !got["3 result {}"] || !got["1 error Cancelled"] {
		t.Errorf("got %v", got)
	}
	s.ask("4", "wait", `,"deadline":"2020-01-01T00:00:00Z"`)
	for answer := s.hear(); answer != "4 error Timeout"; answer = s.hear() {
		if answer != "4 progress 1/2" {
			t.Fatalf("want a Timeout, got %q", answer)
		}
	}
	s.ask("5", "cancel", `,"params":{"request":"nobody"}`)
	s.expect("5 result {}")
	s.ask("6", "cancel", `,"params":[]`)
	s.expect("6 error InvalidRequest")
	s.ask("7", "cancel", `,"params":{"request":"2"}`)
	got = map[string]bool{s.hear(): true, s.hear(): true}
	if !got["7 result {}"] || !got["2 error Cancelled"] {
		t.Errorf("got %v", got)
	}
	s.end()
}

func TestErrorsHaveCodes(t *testing.T) {
	fail := func(err error) serve.Handler {
		return func(context.Context, serve.Call) (any, error) { return nil, err }
	}
	s := start(t, map[protocol.Op]serve.Handler{
		"told": fail(fmt.Errorf("around: %w", protocol.Errorf(protocol.TooLarge, "m"))), "other": fail(errors.New("x")),
		"long": func(context.Context, serve.Call) (any, error) { return strings.Repeat("x", protocol.MaxLine), nil },
		"disk": fail(fmt.Errorf("write: %w", &os.PathError{Op: "write", Err: syscall.ENOSPC})),
	})
	s.ask("1", "told", "")
	s.expect("1 error TooLarge")
	s.ask("2", "other", "")
	s.expect("2 error Internal")
	s.ask("3", "long", "")
	s.expect("3 error Internal")
	s.ask("4", "disk", "")
	s.expect("4 error DiskFull")
	s.end()
}

func TestEndOfInputWaitsForRequests(t *testing.T) {
	release := make(chan struct{})
	s := start(t, map[protocol.Op]serve.Handler{"slow": func(context.Context, serve.Call) (any, error) {
		<-release
		return json.RawMessage(`{"a":1}`), nil
	}})
	s.ask("1", "slow", "")
	s.in.Close()
	select {
	case err := <-s.ended:
		t.Fatalf("ended with a request at work: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	close(release)
	s.expect(`1 result {"a":1}`)
	s.end()
}

func TestDocumentsLieBelowWorkdir(t *testing.T) {
	dir := t.TempDir()
	s := start(t, map[protocol.Op]serve.Handler{"write": func(_ context.Context, call serve.Call) (any, error) {
		var params struct{ Out string }
		if err := call.Params(&params); err != nil {
			return nil, err
		}
		return call.WriteFile(params.Out, func(w io.Writer) error {
			_, err := io.WriteString(w, "hello")
			return err
		})
	}})
	where := fmt.Sprintf(`,"workdir":%q`, dir)
	s.ask("1", "write", where+`,"params":{"out":"a.json"}`)
	s.expect(`1 result {"path":"a.json","sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","bytes":5}`)
	for id, out := range []string{"../a", "/etc/passwd", ""} {
		s.ask(fmt.Sprintf("x%d", id), "write", where+fmt.Sprintf(`,"params":{"out":%q}`, out))
		s.expect(fmt.Sprintf("x%d error InvalidRequest", id))
	}
	s.end()
}
