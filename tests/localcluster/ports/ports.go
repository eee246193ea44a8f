// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Ports are drawn from below the kernel's usual range for outgoing connections
// (32768 and up), so that a component which restarts does not find its port
// taken by some client's connection in the meantime.
const (
	lowest  = 20000
	highest = 32000
)

// Free returns n different ports that nobody listens on at the moment. No other call, of this process or of another,
// returns one of them before this process has ended: clusters that start side by side listen seconds later.
func Free(n int) ([]int, error) {
	var found []int
	seen := map[int]bool{}
	for tries := 0; len(found) < n; tries++ {
		if tries > 1000 {
			return nil, fmt.Errorf("find %d free ports between %d and %d: found %d", n, lowest, highest, len(found))
		}
		p := lowest + rand.IntN(highest-lowest)
		if seen[p] {
			continue
		}
		seen[p] = true
		if Check(p) == nil && reserve(p) {
			found = append(found, p)
		}
	}
	return found, nil
}

// reserved are the sockets that stand for ports, so that they stay open.
var reserved struct {
	sync.Mutex

	sockets []net.Listener
}

// reserve takes a port for this process by a socket of an abstract name, which the kernel removes with the process. It is
// false where a process has the port already.
func reserve(port int) bool {
	l, err := net.Listen("unix", fmt.Sprintf("@scanyard-port-%d", port))
	if err != nil {
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.sockets = append(reserved.sockets, l)
	return true
}

// TakenError says that a wanted port is in use, and by whom if that can be seen.
type TakenError struct {
	Port int
	// Holder is empty if the process belongs to another user or has gone.
	Holder string
}

// Error names the holder and the way out.
func (e *TakenError) Error() string {
	who := e.Holder
	if who == "" {
		who = "a process that this user may not see"
	}
	return fmt.Sprintf("port %d is taken by %s: stop it, or choose another port (0 picks a free one)", e.Port, who)
}

// Check returns a TakenError if nothing can listen on the port.
func Check(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		holder, findErr := Holder(port)
		if findErr != nil {
			return errors.Join(&TakenError{Port: port}, findErr)
		}
		return &TakenError{Port: port, Holder: holder}
	}
	return l.Close()
}

// Holder describes the process that listens on a TCP port ("nginx (pid 12)"),
// or returns "" if there is none that this user may see.
func Holder(port int) (string, error) {
	inodes := map[string]bool{}
	for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		r, err := os.Open(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("find holder of port %d: %w", port, err)
		}
		err = listeners(r, port, inodes)
		if err = errors.Join(err, r.Close()); err != nil {
			return "", fmt.Errorf("find holder of port %d: %w", port, err)
		}
	}
	if len(inodes) == 0 {
		return "", nil
	}
	return socketOwner("/proc", inodes), nil
}

// listeners adds the socket inodes of a /proc/net/tcp table that listen on the port.
func listeners(r io.Reader, port int, inodes map[string]bool) error {
	const stateListen = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) > 9 && f[3] == stateListen && strings.HasSuffix(f[1], suffix) {
			inodes[f[9]] = true
		}
	}
	return s.Err()
}

// socketOwner looks through the open files of all processes that this user may
// see. What cannot be read belongs to others or has ended, and is passed over.
func socketOwner(proc string, inodes map[string]bool) string {
	fds, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return ""
	}
	for _, fd := range fds {
		link, err := os.Readlink(fd)
		if err != nil {
			continue
		}
		inode, ok := strings.CutPrefix(link, "socket:[")
		if !ok || !inodes[strings.TrimSuffix(inode, "]")] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			name = []byte("unknown")
		}
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), filepath.Base(dir))
	}
	return ""
}
