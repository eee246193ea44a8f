// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

const (
	maxConnections = 64
	windowBytes    = 4 << 20
	maxRejects     = 1024
)

// Observer is told what came in, for metrics.
type Observer interface {
	Enqueued(intake, tenant string, n int)
	Rejected(code string)
	Paused(by int)
}

// Options are how records are taken in.
type Options struct {
	Queue *queue.Queue
	// Tenant is whose records they are; ByNamespace takes the resourceNamespace of each record where it has one.
	Tenant      string
	ByNamespace bool
	// RejectWhenFull answers QuotaReached instead of no longer reading.
	RejectWhenFull bool
	// Volatile tells producers that what is acknowledged ends with the pod.
	Volatile     bool
	MaxLineBytes int
	Now          func() time.Time
	Log          *slog.Logger
	Observe      Observer
}

// Access says who may connect to a socket beside the exporter's own user.
type Access struct {
	UIDs, GIDs []uint32
	// Anybody leaves it to the mode of directory and socket.
	Anybody bool
}

// UnsafeError is a place for the socket that cannot be used.
type UnsafeError struct{ Message string }

// Error says what is wrong with the place.
func (e *UnsafeError) Error() string { return e.Message }

// Socket is the unix socket of an exporter.
type Socket struct {
	options  Options
	access   Access
	listener *net.UnixListener
	open     atomic.Int32
	all      sync.WaitGroup
	sessions sessions
}

// sessions are those of open connections. A producer that died and comes again finds what it sent before all on disk, and no one else has its session.
type sessions struct {
	mu   sync.Mutex
	held map[string]*holder
}

// holder is a connection that has a session: it can be asked to end, and says when all that it has read is on disk.
type holder struct {
	end    context.CancelFunc
	synced chan struct{}
}

// claim waits until the connection that had the session before has ended.
func (s *sessions) claim(session string, end context.CancelFunc) (release func()) {
	mine := &holder{end: end, synced: make(chan struct{})}
	for {
		s.mu.Lock()
		other := s.held[session]
		if other == nil {
			if s.held == nil {
				s.held = map[string]*holder{}
			}
			s.held[session] = mine
			s.mu.Unlock()
			break
		}
		s.mu.Unlock()
		other.end()
		<-other.synced
	}
	return func() {
		s.mu.Lock()
		delete(s.held, session)
		s.mu.Unlock()
		close(mine.synced)
	}
}

// Listen makes the socket and its directory. A stale socket is removed where nobody answers on it.
func Listen(ctx context.Context, path string, access Access, options Options) (*Socket, error) {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.MkdirAll(dir, 0o750), os.Chmod(dir, 0o750)); err != nil { //nolint:gosec // the group may go in: producers have it
			return nil, err
		}
		info, err = os.Stat(dir)
	}
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return nil, &UnsafeError{Message: fmt.Sprintf("the directory %s of the socket is writable by others: use a directory below it, or take the right away", dir)}
	}
	if _, err := os.Lstat(path); err == nil {
		dialer := net.Dialer{Timeout: time.Second}
		if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
			return nil, errors.Join(&UnsafeError{Message: fmt.Sprintf("another program answers on the socket %s", path)}, conn.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil { //nolint:gosec // the group of the socket may write: who may connect is checked by uid and gid
		return nil, errors.Join(err, listener.Close())
	}
	return &Socket{options: options, access: access, listener: listener}, nil
}

// Serve takes connections until ctx ends, then says goodbye on each, and returns when all is acknowledged.
func (s *Socket) Serve(ctx context.Context) error {
	// Connections end after the socket is unlinked, so that who is told goodbye does not find this one again.
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		_ = s.listener.Close() // unlinks the socket
		end()
	})
	defer stop()
	defer s.all.Wait()
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil // it was closed on purpose
			}
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ECONNABORTED) {
				continue
			}
			return err
		}
		s.all.Go(func() { s.serve(serving, conn) })
	}
}

// peer is who is at the other end.
type peer struct {
	uid, gid uint32
	pid      int32
}

func peerOf(conn *net.UnixConn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *unix.Ucred
	var failure error
	err = raw.Control(func(fd uintptr) { cred, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failure); err != nil {
		return peer{}, err
	}
	return peer{uid: cred.Uid, gid: cred.Gid, pid: cred.Pid}, nil
}

func (a Access) allows(p peer) bool {
	return a.Anybody || p.uid == uint32(os.Getuid()) || slices.Contains(a.UIDs, p.uid) || slices.Contains(a.GIDs, p.gid)
}

func (s *Socket) serve(ctx context.Context, conn *net.UnixConn) {
	defer s.open.Add(-1)
	p, err := peerOf(conn)
	refusal := (*protocolError)(nil)
	switch n := s.open.Add(1); {
	case err != nil:
		refusal = &protocolError{Code: codeNotAllowed, Message: "who connects cannot be told: " + err.Error()}
	case !s.access.allows(p):
		refusal = &protocolError{Code: codeNotAllowed, Message: fmt.Sprintf("uid %d may not connect: start the exporter with --socket-allow-uid=%d", p.uid, p.uid)}
	case n > maxConnections:
		refusal = &protocolError{Code: codeTooManyConnections, Message: fmt.Sprintf("there are %d connections already", maxConnections)}
	}
	if refusal != nil {
		_, _ = conn.Write(encode(message{Error: refusal})) // who does not listen is refused as well
		_ = conn.Close()                                   // nothing was taken
		return
	}
	newConnection(s.options, conn, p, &s.sessions).run(ctx)
}
