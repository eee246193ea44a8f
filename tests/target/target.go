// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// Target is a running scan target.
type Target struct {
	// Host is where it listens, and HTTP and SSH are its ports.
	Host      string
	HTTP, SSH int

	web  *http.Server
	ssh  net.Listener
	wait sync.WaitGroup
}

// banner is what an SSH server sends first (RFC 4253, 4.2); scanners tell the
// service by it.
const banner = "SSH-2.0-OpenSSH_9.9 Scanyard-demo\r\n"

// patience bounds how long a scanner's connection is kept.
const patience = 20 * time.Second

// loopback is where all targets listen.
const loopback = "127.0.0.1"

// listen takes a free port.
func listen() (*net.TCPListener, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(loopback)})
	if err != nil {
		return nil, fmt.Errorf("start scan target: %w", err)
	}
	return l, nil
}

// Start listens on two free ports.
func Start() (*Target, error) {
	free, err := ports.Free(2)
	if err != nil {
		return nil, fmt.Errorf("start scan target: %w", err)
	}
	t := &Target{Host: loopback, HTTP: free[0], SSH: free[1]}
	web, err := net.Listen("tcp", fmt.Sprintf("%s:%d", t.Host, t.HTTP))
	if err != nil {
		return nil, fmt.Errorf("start scan target: %w", err)
	}
	if t.ssh, err = net.Listen("tcp", fmt.Sprintf("%s:%d", t.Host, t.SSH)); err != nil {
		return nil, errors.Join(fmt.Errorf("start scan target: %w", err), web.Close())
	}
	t.web = &http.Server{ReadHeaderTimeout: patience, Handler: pages()}
	t.wait.Go(func() {
		// It ends with ErrServerClosed; scanners send anything, so other errors do not exist.
		_ = t.web.Serve(web)
	})
	t.wait.Go(t.greet)
	return t, nil
}

// greet sends the banner and listens for as long as the other side wants to talk.
func (t *Target) greet() {
	for {
		conn, err := t.ssh.Accept()
		if err != nil {
			return // closed
		}
		t.wait.Go(func() {
			defer conn.Close()
			if conn.SetDeadline(time.Now().Add(patience)) != nil {
				return
			}
			if _, err := io.WriteString(conn, banner); err == nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20)) // whatever it says, until it hangs up
			}
		})
	}
}

// Ports are both ports in the form of nmap's -p.
func (t *Target) Ports() string { return fmt.Sprintf("%d,%d", t.HTTP, t.SSH) }

// Close ends both services.
func (t *Target) Close() error {
	return errors.Join(t.web.Close(), t.ssh.Close())
}
