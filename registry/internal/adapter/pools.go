// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const directory = 0o700

// Starter gives a process of its own to each request, and starts the next one ahead.
type Starter struct {
	options Options
	root    string
	mutex   sync.Mutex
	number  int
	ready   *Session
	closed  bool
}

// Session is a process and a directory for one request.
type Session struct {
	*Process

	// Dir is the process's directory, Workdir the request's, relative to Dir.
	Dir, Workdir string
}

// NewStarter makes a Starter whose processes have directories below root. The first one is started.
func NewStarter(o Options, root string) (*Starter, error) {
	s := &Starter{options: o, root: root}
	ready, err := s.start()
	s.ready = ready
	return s, err
}

func (s *Starter) start() (*Session, error) {
	s.number++
	return newSession(s.options, filepath.Join(s.root, strconv.Itoa(s.number)))
}

func newSession(o Options, dir string) (*Session, error) {
	const workdir = "r1"
	if err := os.MkdirAll(filepath.Join(dir, workdir), directory); err != nil {
		return nil, fmt.Errorf("make workdir: %w", err)
	}
	o.Dir = dir
	p, err := Start(o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Session{Process: p, Dir: dir, Workdir: workdir}, nil
}

// Take gives a process that has had no request. The caller ends the session.
func (s *Starter) Take() (*Session, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil, errors.New("the adapter is being closed")
	}
	taken := s.ready
	s.ready = nil
	if taken != nil {
		select {
		case <-taken.Dead(): // ended while nobody asked it anything
			if err := os.RemoveAll(taken.Dir); err != nil {
				return nil, fmt.Errorf("remove workdir: %w", err)
			}
			taken = nil
		default:
		}
	}
	if taken == nil {
		var err error
		if taken, err = s.start(); err != nil {
			return nil, err
		}
	}
	// What cannot be started ahead is started, and its error told, by the next Take.
	if next, err := s.start(); err == nil {
		s.ready = next
	}
	return taken, nil
}

// End ends the process at once, and removes its directory.
func (s *Session) End() error {
	s.kill(&CrashError{Reason: Exited, Message: "the request has ended"})
	<-s.Dead()
	if err := os.RemoveAll(s.Dir); err != nil {
		return fmt.Errorf("remove workdir: %w", err)
	}
	return nil
}

// Close ends the process that was started ahead.
func (s *Starter) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closed = true
	if s.ready == nil {
		return nil
	}
	ready := s.ready
	s.ready = nil
	return ready.End()
}

// Bounds are how long a process is kept.
type Bounds struct {
	Requests int
	Age      time.Duration
}

// DefaultBounds are 1,000 requests or an hour.
func DefaultBounds() Bounds { return Bounds{Requests: 1000, Age: time.Hour} }

// Keeper gives many requests to one process, and replaces it before it grows old or large. The old one ends its requests.
type Keeper struct {
	options Options
	root    string
	bounds  Bounds
	now     func() time.Time
	mutex   sync.Mutex
	number  int
	current *kept
	closed  bool
}

// kept is a process with its requests.
type kept struct {
	session *Session
	began   time.Time
	taken   int
	at      int
	retired bool
}

// Lease is a place for a request at a process that others use, too.
type Lease struct {
	*Process

	Dir, Workdir string
	keeper       *Keeper
	kept         *kept
}

// NewKeeper makes a Keeper whose processes have directories below root.
func NewKeeper(o Options, root string, bounds Bounds, now func() time.Time) *Keeper {
	return &Keeper{options: o, root: root, bounds: bounds, now: now}
}

// Take gives a place at the present process, or at a new one. The caller ends the lease.
func (k *Keeper) Take() (*Lease, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.closed {
		return nil, errors.New("the adapter is being closed")
	}
	var failed error
	if k.current != nil && k.isOld(k.current) {
		failed = k.retire(k.current)
		k.current = nil
	}
	if k.current == nil {
		k.number++
		session, err := newSession(k.options, filepath.Join(k.root, strconv.Itoa(k.number)))
		if err = errors.Join(failed, err); err != nil {
			return nil, err
		}
		k.current = &kept{session: session, began: k.now()}
	}
	c := k.current
	c.taken++
	c.at++
	workdir := "r" + strconv.Itoa(c.taken)
	if err := os.MkdirAll(filepath.Join(c.session.Dir, workdir), directory); err != nil {
		c.at--
		return nil, fmt.Errorf("make workdir: %w", err)
	}
	return &Lease{Process: c.session.Process, Dir: c.session.Dir, Workdir: workdir, keeper: k, kept: c}, nil
}

func (k *Keeper) isOld(c *kept) bool {
	select {
	case <-c.session.Dead():
		return true
	default:
	}
	return c.taken >= k.bounds.Requests || k.now().Sub(c.began) >= k.bounds.Age || c.session.Now() > c.session.memory/2
}

// Now is the memory that the process has, in bytes.
func (p *Process) Now() int64 { return resident(p.command.Process.Pid) }

// retire takes a process out of use, and ends it where no request is left. The mutex is held.
func (k *Keeper) retire(c *kept) error {
	c.retired = true
	if c.at > 0 {
		return nil
	}
	return c.session.End()
}

// End gives the place back, and removes the request's directory.
func (l *Lease) End() error {
	err := os.RemoveAll(filepath.Join(l.Dir, l.Workdir))
	l.keeper.mutex.Lock()
	defer l.keeper.mutex.Unlock()
	if l.kept.at--; l.kept.at == 0 && l.kept.retired {
		err = errors.Join(err, l.kept.session.End())
	}
	if err != nil {
		return fmt.Errorf("remove workdir: %w", err)
	}
	return nil
}

// Close takes the process out of use: what runs there goes on until its leases end.
func (k *Keeper) Close() error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.closed = true
	if k.current == nil {
		return nil
	}
	c := k.current
	k.current = nil
	return k.retire(c)
}
