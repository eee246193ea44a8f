// SPDX-License-Identifier: Apache-2.0

package trusttest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// What proxies ask for.
const (
	ProxyUser     = "me"
	ProxyPassword = "the-word-of-the-proxy"
)

// Proxy is a proxy that lets those through who say user and password.
type Proxy struct {
	t testing.TB
	// scheme and address are where the proxy is.
	scheme, address string
	// names are the addresses of names, since a test has no DNS.
	names map[string]string

	mutex sync.Mutex
	asked []string
}

// URL is the proxy's, with user and password.
func (p *Proxy) URL() *url.URL {
	return &url.URL{Scheme: p.scheme, Host: p.address, User: url.UserPassword(ProxyUser, ProxyPassword)}
}

// Asked are the addresses that the proxy was asked for by who was let through, each once, sorted.
func (p *Proxy) Asked() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(p.asked)))
}

// NewHTTPProxy starts a proxy of HTTP. It leads a host of names to the address that is given there. With a certificate it speaks TLS.
func NewHTTPProxy(t testing.TB, names map[string]string, certificate *tls.Certificate) *Proxy {
	t.Helper()
	p := &Proxy{t: t, scheme: "http", names: names}
	server := httptest.NewUnstartedServer(http.HandlerFunc(p.connect))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if certificate == nil {
		server.Start()
	} else {
		p.scheme, server.TLS = "https", &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12} // CONNECT is of HTTP/1.1
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	p.address = server.Listener.Addr().String()
	return p
}

// connect leads who says the word to the far end.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	r.Header.Set("Authorization", r.Header.Get("Proxy-Authorization"))
	if user, password, _ := r.BasicAuth(); user != ProxyUser || password != ProxyPassword {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	far, err := p.dial(r.Context(), r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.t.Error(err)
		return
	}
	if _, err := near.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		p.t.Error(err)
	}
	both(near, far)
}

// dial connects to what the proxy was asked for.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	p.mutex.Lock()
	p.asked = append(p.asked, address)
	p.mutex.Unlock()
	if named := p.names[address]; named != "" {
		address = named
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// both copies in both directions until one side ends.
func both(near, far net.Conn) {
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(far, near) // either side may end it
		_ = far.Close()
	})
	_, _ = io.Copy(near, far)
	_ = near.Close()
	copying.Wait()
}

// NewSOCKSProxy starts a proxy of SOCKS 5, by RFC 1928 and, with user and password, RFC 1929.
func NewSOCKSProxy(t testing.TB, names map[string]string) *Proxy {
	t.Helper()
	listener := listen(t)
	p := &Proxy{t: t, scheme: "socks5", address: listener.Addr().String(), names: names}
	var open sync.WaitGroup
	var mutex sync.Mutex
	var connections []net.Conn
	open.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			mutex.Lock()
			connections = append(connections, near)
			mutex.Unlock()
			open.Go(func() {
				if far, err := p.greet(near); err == nil {
					both(near, far)
				}
				_ = near.Close() // whoever was refused sees that
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mutex.Lock()
		for _, c := range connections {
			_ = c.Close()
		}
		mutex.Unlock()
		open.Wait()
	})
	return p
}

// Words of SOCKS 5.
const (
	socksVersion, passwordVersion      = 5, 1
	byPassword, noMethod               = 2, 0xff
	connectCommand                     = 1
	byIPv4, byName, byIPv6             = 1, 3, 4
	socksGranted, socksRefused    byte = 0, 5
)

var errNotAllowed = errors.New("not allowed")

// greet asks who it is and where to, and connects there.
func (p *Proxy) greet(near net.Conn) (net.Conn, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(near, head); err != nil {
		return nil, err
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(near, methods); err != nil {
		return nil, err
	}
	if head[0] != socksVersion || !bytes.Contains(methods, []byte{byPassword}) {
		_, err := near.Write([]byte{socksVersion, noMethod})
		return nil, errors.Join(errNotAllowed, err)
	}
	if _, err := near.Write([]byte{socksVersion, byPassword}); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(near, head[:1]); err != nil {
		return nil, err
	}
	user, err := counted(near)
	if err != nil {
		return nil, err
	}
	password, err := counted(near)
	if err != nil {
		return nil, err
	}
	if string(user) != ProxyUser || string(password) != ProxyPassword {
		_, err := near.Write([]byte{passwordVersion, 1})
		return nil, errors.Join(errNotAllowed, err)
	}
	if _, err := near.Write([]byte{passwordVersion, 0}); err != nil {
		return nil, err
	}
	to, err := destination(near)
	if err != nil {
		return nil, err
	}
	far, err := p.dial(p.t.Context(), to)
	said := socksGranted
	if err != nil {
		said = socksRefused
	}
	_, failed := near.Write([]byte{socksVersion, said, 0, byIPv4, 0, 0, 0, 0, 0, 0})
	return far, errors.Join(err, failed)
}

// counted reads bytes behind their number.
func counted(from io.Reader) ([]byte, error) {
	n := make([]byte, 1)
	if _, err := io.ReadFull(from, n); err != nil {
		return nil, err
	}
	text := make([]byte, n[0])
	_, err := io.ReadFull(from, text)
	return text, err
}

// destination reads the request to connect.
func destination(near net.Conn) (string, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(near, head); err != nil {
		return "", err
	}
	if head[0] != socksVersion || head[1] != connectCommand {
		return "", fmt.Errorf("command %d: %w", head[1], errNotAllowed)
	}
	var host string
	switch head[3] {
	case byName:
		name, err := counted(near)
		if err != nil {
			return "", err
		}
		host = string(name)
	case byIPv4, byIPv6:
		raw := make([]byte, map[byte]int{byIPv4: net.IPv4len, byIPv6: net.IPv6len}[head[3]])
		if _, err := io.ReadFull(near, raw); err != nil {
			return "", err
		}
		ip, _ := netip.AddrFromSlice(raw) // the length is right
		host = ip.String()
	default:
		return "", fmt.Errorf("address of type %d: %w", head[3], errNotAllowed)
	}
	port := make([]byte, 2)
	if _, err := io.ReadFull(near, port); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port)))), nil
}
