// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// patience is how long an answer may take: a check is not a measurement.
const patience = 60 * time.Second

// session is a process of the adapter.
type session struct {
	command *exec.Cmd
	in      io.WriteCloser
	next    int
	mutex   sync.Mutex
	answers map[string]chan protocol.Answer
	// wrong is the first line that is not an answer, or that answers nobody.
	wrong error
	// faulty is closed with the first that was wrong.
	faulty chan struct{}
	ended  chan struct{}
	exit   error
	// patience is how long an answer may take.
	patience time.Duration
}

// open starts the adapter in the check's directory.
func (b *bench) open() (*session, error) {
	s := &session{answers: map[string]chan protocol.Answer{}, ended: make(chan struct{}), faulty: make(chan struct{}), patience: b.options.Patience}
	s.command = exec.Command(b.options.Path, b.options.Args...) //nolint:noctx // the check ends the process itself
	s.command.Dir = b.work
	s.command.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + b.work, "TMPDIR=" + b.work, "LANG=C.UTF-8", "GOMEMLIMIT=800MiB"}
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if s.in, err = s.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start adapter: %w", err)
	}
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start adapter: %w", err)
	}
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start adapter: %w", err)
	}
	b.sessions = append(b.sessions, s)
	go func() {
		s.read(out)
		s.exit = s.command.Wait()
		close(s.ended)
	}()
	return s, nil
}

func (s *session) read(out io.Reader) {
	lines := protocol.NewReader(out)
	for {
		line, err := lines.Line()
		if errors.Is(err, io.EOF) {
			return
		}
		var a protocol.Answer
		if err == nil {
			a, err = protocol.ReadAnswer(line)
		}
		s.mutex.Lock()
		answers, known := s.answers[a.ID]
		before := s.wrong
		switch {
		case err != nil && s.wrong == nil:
			s.wrong = fmt.Errorf("standard output had a line that is not an answer: %w: %.100q", err, line)
		case err == nil && !known && s.wrong == nil:
			s.wrong = fmt.Errorf("an answer has the id %q, which no request has", a.ID)
		case err == nil && known && a.Type != protocol.TypeProgress:
			select {
			case answers <- a:
			default:
				s.wrong = fmt.Errorf("request %q was answered twice", a.ID)
			}
		}
		if before == nil && s.wrong != nil {
			close(s.faulty)
		}
		s.mutex.Unlock()
		if errors.Is(err, protocol.ErrLineTooLong) || err == nil || line != nil {
			continue
		}
		return
	}
}

// fault is what was wrong on standard output.
func (s *session) fault() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.wrong
}

// raw sends a line as it is.
func (s *session) raw(line string) error {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return fmt.Errorf("the adapter does not read: %w", err)
	}
	return nil
}

// begin sends a request, and gives where its answer comes.
func (s *session) begin(op protocol.Op, deadline *time.Time, params any) (id string, answers <-chan protocol.Answer, err error) {
	s.next++
	return s.beginAs("c"+strconv.Itoa(s.next), op, deadline, params)
}

func (s *session) beginAs(id string, op protocol.Op, deadline *time.Time, params any) (string, <-chan protocol.Answer, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return "", nil, fmt.Errorf("encode params: %w", err)
	}
	line, err := protocol.Line(protocol.Request{V: protocol.Version, ID: id, Op: op, Deadline: deadline, Workdir: s.command.Dir, Params: text})
	if err != nil {
		return "", nil, err
	}
	return id, s.expect(id), s.raw(string(line[:len(line)-1]))
}

// expect opens a place for the answer of a request.
func (s *session) expect(id string) <-chan protocol.Answer {
	answers := make(chan protocol.Answer, 1)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answers[id] = answers
	return answers
}

// hear waits for an answer.
func (s *session) hear(answers <-chan protocol.Answer, most time.Duration) (protocol.Answer, error) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a, s.fault()
	case <-s.faulty:
		return protocol.Answer{}, s.fault()
	case <-s.ended:
		select {
		case a := <-answers:
			return a, s.fault()
		default:
		}
		return protocol.Answer{}, errors.Join(s.fault(), errors.New("the adapter has ended without an answer"))
	case <-timer.C:
		return protocol.Answer{}, errors.Join(s.fault(), fmt.Errorf("there was no answer within %s", most))
	}
}

// ask sends a request and reads its result. The error is a *protocol.Error where the adapter says so.
func (s *session) ask(op protocol.Op, params, result any) error {
	_, answers, err := s.begin(op, nil, params)
	if err != nil {
		return err
	}
	a, err := s.hear(answers, s.patience)
	if err != nil {
		return err
	}
	if a.Error != nil {
		return a.Error
	}
	return protocol.Decode(a.Result, result)
}

// close ends the input: the adapter finishes what runs.
func (s *session) close() error {
	if err := s.in.Close(); err != nil {
		return fmt.Errorf("close standard input: %w", err)
	}
	return nil
}

// exited wants the process to end with 0.
func (s *session) exited(most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-s.ended:
		if s.exit != nil {
			return fmt.Errorf("at the end of input the adapter ended with: %w", s.exit)
		}
		return s.fault()
	case <-timer.C:
		return fmt.Errorf("the adapter did not end within %s of the end of input", most)
	}
}

// end closes the input of an adapter that has nothing to do, and wants the process to end with 0.
func (s *session) end() error {
	if err := s.close(); err != nil {
		return err
	}
	return s.exited(farewell)
}

// signal tells the process group.
func (s *session) signal(signal syscall.Signal) {
	_ = syscall.Kill(-s.command.Process.Pid, signal) // the only error is that the group is gone
}

// kill ends the process and all that it has started.
func (s *session) kill() {
	s.signal(syscall.SIGKILL)
	<-s.ended
}

// command is the path of a program, absolute: checks run in directories of their own.
func absolute(path string) (string, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("find adapter: %w", err)
	}
	return filepath.Abs(found)
}

// within gives up after a time.
func within(ctx context.Context, most time.Duration, what string, done <-chan struct{}) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%s did not happen within %s", what, most)
	}
}
