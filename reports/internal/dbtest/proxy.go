// SPDX-License-Identifier: Apache-2.0

package dbtest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// postgresSocket is how PostgreSQL calls its socket.
const postgresSocket = ".s.PGSQL.5432"

// Cut says when a proxy cuts a connection that commits.
type Cut int

// When a connection is cut.
const (
	Never        Cut = iota
	BeforeCommit     // the server does not get the commit
	AfterCommit      // the server has committed, the client is not told
)

// Proxy stands between a client and its server.
type Proxy struct {
	path string

	mu       sync.Mutex
	server   string
	listener net.Listener
	conns    map[net.Conn]bool
	cut      Cut
	cuts     int
	frozen   chan struct{} // closed when bytes pass again; nil while they do
}

// Proxied returns an empty database of one kind behind a proxy.
func Proxied(t testing.TB, driver sqldb.Driver) (sqldb.Config, *Proxy) {
	t.Helper()
	config := New(t, driver)
	behind, socket := mariadb.folder, "socket"
	if driver == sqldb.PostgreSQL {
		behind, socket = postgres.folder, postgresSocket
	}
	p, folder := newProxy(t, filepath.Join(behind, socket), socket)
	config.DSN = sqldb.Secret(strings.Replace(string(config.DSN), behind, folder, 1))
	return config, p
}

// newProxy returns a proxy to a server's socket, and the folder in which the proxy's own socket is.
func newProxy(t testing.TB, server, socket string) (*Proxy, string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "proxy-") //nolint:usetesting // a test's own folder is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: server, path: filepath.Join(folder, socket), conns: map[net.Conn]bool{}}
	p.Up(t)
	t.Cleanup(func() {
		p.Down()
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return p, folder
}

// lead has new connections go to another server.
func (p *Proxy) lead(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Up begins to take connections.
func (p *Proxy) Up(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // Down
			}
			go p.serve(client)
		}
	}()
}

// Down ends all connections and takes no others.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
	}
	for conn := range p.conns {
		conn.Close()
	}
	clear(p.conns)
	p.thaw()
}

// Freeze lets no byte pass any more, and keeps all connections open.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thaw()
}

func (p *Proxy) thaw() {
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// pass returns when bytes may pass.
func (p *Proxy) pass() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// CutNext cuts the next connection that commits.
func (p *Proxy) CutNext(cut Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// Cuts is how many connections were cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// takeCut tells what becomes of what a client says.
func (p *Proxy) takeCut(said []byte) Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == Never || !bytes.Contains(bytes.ToLower(said), []byte("commit")) {
		return Never
	}
	cut := p.cut
	p.cut = Never
	p.cuts++
	return cut
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	behind := p.server
	p.mu.Unlock()
	server, err := net.Dial("unix", behind)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	var silent sync.Mutex // held while the client is not told
	answered := make(chan struct{}, 1)
	go func() {
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if n > 0 {
				select {
				case answered <- struct{}{}:
				default:
				}
				silent.Lock()
				p.pass()
				_, writeErr := client.Write(buffer[:n])
				silent.Unlock()
				if writeErr != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	p.forward(client, server, &silent, answered)
}

func (p *Proxy) forward(client, server net.Conn, silent *sync.Mutex, answered chan struct{}) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if n > 0 {
			cut := p.takeCut(buffer[:n])
			if cut == BeforeCommit {
				return
			}
			if cut == AfterCommit {
				silent.Lock()
				defer silent.Unlock()
				select {
				case <-answered:
				default:
				}
			}
			p.pass()
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
			if cut == AfterCommit {
				<-answered
				client.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}
