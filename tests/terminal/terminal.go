// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// Program is a program, with arguments and variables that each call of it has.
type Program struct {
	Path string
	Args []string
	Env  []string
}

// With adds arguments to each call.
func (p Program) With(args ...string) Program {
	p.Args = append(append([]string{}, p.Args...), args...)
	return p
}

// Result is how a call ended.
type Result struct {
	Code        int
	Out, ErrOut string
}

// Said is all that it has written, for messages.
func (r Result) Said() string {
	return fmt.Sprintf("exit code %d\n%s%s", r.Code, r.Out, r.ErrOut)
}

func (p Program) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.Path, append(append([]string{}, p.Args...), args...)...)
	cmd.Env = append(os.Environ(), p.Env...)
	// The end of ctx is a Ctrl-C.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// Run runs a call to its end. An exit code is not an error.
func (p Program) Run(ctx context.Context, args ...string) (Result, error) {
	return p.Watch(ctx, nil, args...)
}

// Watch runs a call, and hands over each line of stdout as it comes. each may be nil; when
// it returns false the call is ended by Ctrl-C.
func (p Program) Watch(ctx context.Context, each func(line string) bool, args ...string) (Result, error) {
	cmd := p.command(ctx, args)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return Result{}, fmt.Errorf("run %s: %w", p.Path, err)
	}
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("run %s: %w", p.Path, err)
	}
	var out strings.Builder
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		out.WriteString(line)
		if each != nil && line != "" && !each(strings.TrimSuffix(line, "\n")) {
			each = nil
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				return Result{}, fmt.Errorf("interrupt %s: %w", p.Path, err)
			}
		}
		if err != nil {
			break // the end of the output; Wait tells how it ended
		}
	}
	code, err := exitCode(cmd.Wait())
	return Result{Code: code, Out: out.String(), ErrOut: errOut.String()}, err
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	}
	return -1, err
}

// Session is a call on a pseudo terminal.
type Session struct {
	cmd   *exec.Cmd
	tty   *os.File
	ended chan struct{}

	mu     sync.Mutex
	screen bytes.Buffer
	more   chan struct{}
}

func (s *Session) read(from io.Reader) {
	defer close(s.ended)
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		s.mu.Lock()
		s.screen.Write(buffer[:n])
		close(s.more)
		s.more = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return // EIO is how a pseudo terminal ends
		}
	}
}

// Written is all that was written to the terminal so far.
func (s *Session) Written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// Until waits until a text was written.
func (s *Session) Until(ctx context.Context, text string) error {
	for {
		s.mu.Lock()
		there, more := strings.Contains(s.screen.String(), text), s.more
		s.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%q was not written: %w; this was:\n%s", text, ctx.Err(), s.Written())
		case <-s.ended:
			if strings.Contains(s.Written(), text) {
				return nil
			}
			return fmt.Errorf("%q was not written before the end; this was:\n%s", text, s.Written())
		case <-more:
		}
	}
}

// Interrupt types Ctrl-C: the terminal makes the signal of it.
func (s *Session) Interrupt() error {
	_, err := s.tty.Write([]byte{3})
	return err
}

// Wait waits for the end and returns the exit code.
func (s *Session) Wait() (int, error) {
	<-s.ended
	code, err := exitCode(s.cmd.Wait())
	return code, errors.Join(err, s.tty.Close())
}

// Kill ends the call at once, if it has not ended.
func (s *Session) Kill() error {
	err := s.cmd.Process.Signal(syscall.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
