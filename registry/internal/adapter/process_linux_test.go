// SPDX-License-Identifier: Apache-2.0

package adapter_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// TestMain is the launcher and the adapter, where a test starts this file's program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case sandbox.Subcommand:
			fmt.Fprintln(os.Stderr, sandbox.Main(os.Args[2:], os.Environ()))
			os.Exit(1)
		case "adapter":
			behave(os.Args[2])
		}
	}
	os.Exit(m.Run())
}

// behave is an adapter of some kind.
func behave(kind string) {
	switch kind {
	case "serve":
		err := serve.Run(context.Background(), serve.Options{
			In: os.Stdin, Out: os.Stdout, Log: slog.New(slog.DiscardHandler), Handlers: handlers,
			Parallel: map[protocol.Op]int{"hang": 10, "echo": 10},
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "deaf":
		time.Sleep(time.Hour)
	}
	// The others wait for one line.
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		os.Exit(0)
	}
	fmt.Fprint(os.Stderr, "before the end\x1b[31m\n")
	switch kind {
	case "garbage":
		fmt.Println("Hello!")
	case "long":
		fmt.Println(strings.Repeat("x", 2<<20))
	case "stranger":
		fmt.Println(`{"v":1,"id":"4711","type":"result","result":{}}`)
	case "twice":
		fmt.Println(`{"v":1,"id":"1","type":"result","result":{}}` + "\n" + `{"v":1,"id":"1","type":"result","result":{}}` + "\n" + `x`)
	case "wrong-result":
		fmt.Println(`{"v":1,"id":"1","type":"result","result":{"done":"much"}}`)
	case "silent":
		os.Exit(0)
	case "code":
		os.Exit(3)
	case "signal":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "close":
		os.Stdout.Close()
	case "memory":
		held := make([]byte, 256<<20)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		defer fmt.Print(len(held))
	case "child":
		child := exec.Command("/bin/sleep", "3600")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			fmt.Println(err)
		}
		fmt.Printf(`{"v":1,"id":"1","type":"result","result":{"done":%d}}`+"\n", child.Process.Pid)
		os.Exit(5)
	}
	time.Sleep(time.Hour)
}

type said struct {
	Done int64    `json:"done"`
	Text []string `json:"text"`
}

var handlers = map[protocol.Op]serve.Handler{
	"echo": func(_ context.Context, call serve.Call) (any, error) {
		var s said
		return &s, call.Params(&s)
	},
	"hang": func(ctx context.Context, _ serve.Call) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"stuck": func(_ context.Context, call serve.Call) (any, error) {
		call.Progress(1, 2, "stuck")
		time.Sleep(time.Hour)
		return struct{}{}, nil
	},
	"fail": func(context.Context, serve.Call) (any, error) {
		return nil, protocol.Errorf(protocol.NotAnImage, "no image")
	},
	"look": func(context.Context, serve.Call) (any, error) {
		s := said{Text: os.Environ()}
		entries, err := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			n, _ := strconv.Atoi(e.Name())
			target, _ := os.Readlink("/proc/self/fd/" + e.Name())
			// Those of Go's runtime, and of this directory itself, are made by the process.
			if n > 2 && target != "" && !strings.Contains(target, "anon_inode") && !strings.HasPrefix(target, "/proc/") {
				s.Text = append(s.Text, "inherited "+target)
			}
		}
		return s, err
	},
	"reach": func(_ context.Context, call serve.Call) (any, error) {
		var s said
		if err := call.Params(&s); err != nil {
			return nil, err
		}
		var answers []string
		for _, what := range s.Text {
			_, err := os.ReadFile(what)
			if host, is := strings.CutPrefix(what, "tcp:"); is {
				_, err = net.Dial("tcp", host)
			}
			answers = append(answers, fmt.Sprint(err == nil))
		}
		return said{Text: answers}, nil
	},
	"grow": func(context.Context, serve.Call) (any, error) {
		grown = make([]byte, 100<<20)
		for i := 0; i < len(grown); i += 4096 {
			grown[i] = 1
		}
		return struct{}{}, nil
	},
}

// grown is memory that an adapter keeps.
var grown []byte

func options(t *testing.T, kind string) adapter.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return adapter.Options{
		Command: adapter.Command{Path: self, Args: []string{"adapter", kind}}, Launcher: self, Sandbox: sandbox.Prefer, Dir: t.TempDir(),
	}
}

func start(t *testing.T, o adapter.Options) *adapter.Process {
	t.Helper()
	p, err := adapter.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func do(ctx context.Context, p *adapter.Process, op protocol.Op, params said) (said, error) {
	var result said
	err := p.Do(ctx, op, "", params, &result, nil)
	return result, err
}

func TestRequestsOverlap(t *testing.T) {
	p := start(t, options(t, "serve"))
	var group sync.WaitGroup
	for i := range int64(50) {
		group.Go(func() {
			if got, err := do(t.Context(), p, "echo", said{Done: i}); err != nil || got.Done != i {
				t.Errorf("want %d, got %v, %v", i, got, err)
			}
		})
	}
	group.Wait()
	if _, err := do(t.Context(), p, "fail", said{}); protocol.CodeOf(err) != protocol.NotAnImage || adapter.IsCrash(err) {
		t.Errorf("want NotAnImage, got %v", err)
	}
	if _, err := do(t.Context(), p, "sing", said{}); protocol.CodeOf(err) != protocol.Unsupported {
		t.Errorf("want Unsupported, got %v", err)
	}
}

func TestCrashesHaveReasons(t *testing.T) {
	for kind, want := range map[string]adapter.CrashError{
		"garbage":      {Reason: adapter.ProtocolError},
		"long":         {Reason: adapter.ProtocolError},
		"stranger":     {Reason: adapter.ProtocolError},
		"wrong-result": {Reason: adapter.ProtocolError},
		"silent":       {Reason: adapter.ProtocolError},
		"close":        {Reason: adapter.ProtocolError},
		"code":         {Reason: adapter.Exited, ExitCode: 3},
		"signal":       {Reason: adapter.Exited, ExitCode: -1, Signal: "killed"},
		"memory":       {Reason: adapter.MemoryExceeded},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := options(t, kind)
			o.Memory = 128 << 20
			p, err := adapter.Start(o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = do(t.Context(), p, "echo", said{})
			var crash *adapter.CrashError
			if !errors.As(err, &crash) || crash.Reason != want.Reason || crash.ExitCode != want.ExitCode || crash.Signal != want.Signal {
				t.Fatalf("want %+v, got %v", want, err)
			}
			if !strings.Contains(crash.Log, `before the end\u001b[31m`) || crash.PeakBytes == 0 {
				t.Errorf("want the log with escapes and the peak, got %q and %d", crash.Log, crash.PeakBytes)
			}
			if _, again := do(t.Context(), p, "echo", said{}); !adapter.IsCrash(again) {
				t.Errorf("a process that has ended answers nothing, got %v", again)
			}
		})
	}
}

func TestSecondAnswerIsAnError(t *testing.T) {
	p := start(t, options(t, "twice"))
	if _, err := do(t.Context(), p, "echo", said{}); err != nil {
		if !adapter.IsCrash(err) {
			t.Error(err)
		}
	}
	<-p.Dead()
}

func TestRequestEndsWithContext(t *testing.T) {
	p := start(t, options(t, "serve"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := do(ctx, p, "hang", said{}); protocol.CodeOf(err) != protocol.Timeout {
		t.Errorf("want Timeout, got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := do(ctx, p, "hang", said{}); protocol.CodeOf(err) != protocol.Cancelled {
		t.Errorf("want Cancelled, got %v", err)
	}
	if got, err := do(t.Context(), p, "echo", said{Done: 5}); err != nil || got.Done != 5 {
		t.Errorf("the process must go on, got %v, %v", got, err)
	}
}

func TestHangingProcessIsKilled(t *testing.T) {
	for _, kind := range []string{"serve", "deaf"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := start(t, options(t, kind))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if kind == "deaf" {
				cancel()
			}
			err := p.Do(ctx, "stuck", "", said{}, &said{}, func(protocol.Answer) { cancel() })
			if protocol.CodeOf(err) != protocol.Cancelled || adapter.IsCrash(err) {
				t.Errorf("want Cancelled, got %v", err)
			}
			<-p.Dead()
		})
	}
}

func TestChildrenOfAdapterAreKilled(t *testing.T) {
	o := options(t, "child")
	p, err := adapter.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := do(t.Context(), p, "echo", said{})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Dead()
	// A process that was killed takes its time, and its new parent buries it when it likes.
	for range time.Tick(10 * time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", got.Done))
		if err != nil || strings.Contains(string(text), ") Z ") {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("the child lives: %s", text)
		}
	}
}

func TestAdapterIsIsolated(t *testing.T) {
	t.Setenv("SCANYARD_TEST_SECRET", "x")
	held, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	o := options(t, "serve")
	p := start(t, o)
	got, err := do(t.Context(), p, "look", said{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + o.Dir, "TMPDIR=" + o.Dir, "GOMEMLIMIT=" + strconv.Itoa((1<<30)/100*80), "LANG=C.UTF-8",
	}
	if !slices.Equal(got.Text, want) {
		t.Errorf("want %q, got %q", want, got.Text)
	}
	confines, err := sandbox.Prefer.Confines()
	if err != nil || !confines {
		t.Skip("this kernel has no Landlock: what follows is not kept from an adapter", err)
	}
	reached, err := do(t.Context(), p, "reach", said{Text: []string{token, "/etc/passwd", "tcp:" + stranger.Addr().String()}})
	if err != nil || !slices.Equal(reached.Text, []string{"false", "false", "false"}) {
		t.Errorf("token, passwords, a port: %v, %v", reached.Text, err)
	}
}

func TestEachRequestHasAProcessOfItsOwn(t *testing.T) {
	root := t.TempDir()
	s, err := adapter.NewStarter(options(t, "serve"), root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[*adapter.Process]bool{}
	for range 3 {
		session, err := s.Take()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := do(t.Context(), session.Process, "echo", said{}); err != nil || seen[session.Process] {
			t.Errorf("want a new process that answers: %v", err)
		}
		seen[session.Process] = true
		if info, err := os.Stat(session.Dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the workdir must be there for this process alone: %v, %v", info, err)
		}
		if err := session.End(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("directories are left: %v, %v", left, err)
	}
	if _, err := s.Take(); err == nil {
		t.Error("a Starter that is closed starts nothing")
	}
}

func TestProcessIsReplaced(t *testing.T) {
	now := time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)
	root := t.TempDir()
	o := options(t, "serve")
	o.Memory = 160 << 20
	k := adapter.NewKeeper(o, root, adapter.Bounds{Requests: 3, Age: time.Hour}, func() time.Time { return now })
	take := func() *adapter.Lease {
		t.Helper()
		lease, err := k.Take()
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	ask := func(l *adapter.Lease, op protocol.Op) {
		t.Helper()
		if _, err := do(t.Context(), l.Process, op, said{}); err != nil {
			t.Error(err)
		}
	}
	end := func(l *adapter.Lease) {
		t.Helper()
		if err := l.End(); err != nil {
			t.Error(err)
		}
	}
	first, second, third := take(), take(), take()
	if first.Process != second.Process || first.Workdir == second.Workdir {
		t.Error("requests share a process, and have directories of their own")
	}
	fourth := take()
	if fourth.Process == third.Process {
		t.Error("the fourth request must get a new process")
	}
	ask(third, "echo")
	end(first)
	end(second)
	ask(third, "echo")
	end(third)
	<-third.Dead()
	end(fourth)
	now = now.Add(time.Hour)
	fifth := take()
	if fifth.Process == fourth.Process {
		t.Error("after an hour there must be a new process")
	}
	ask(fifth, "grow")
	end(fifth)
	sixth := take()
	if sixth.Process == fifth.Process {
		t.Error("a large process must be replaced")
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	ask(sixth, "echo")
	end(sixth)
	<-sixth.Dead()
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("directories are left: %v, %v", left, err)
	}
}
