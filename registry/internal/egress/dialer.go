// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// timeout is for one address; a name may have several.
	timeout = 10 * time.Second
	// maxConnections are those to a host at once, of all who use a Dialer.
	maxConnections = 16
)

// Resolve gives the addresses of a name.
type Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

// Dial connects to an address that is written with numbers.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer connects to what the rules allow. Several goroutines may use it at once.
type Dialer struct {
	rules   Rules
	resolve Resolve
	dial    Dial
	// proxy is the address of the proxy that the chart sets.
	proxy string
	slots *slots
}

// slots are the connections that hosts have.
type slots struct {
	mutex sync.Mutex
	of    map[string]chan struct{}
}

// Option changes a Dialer.
type Option func(*Dialer)

// WithResolve asks another name server than the system's.
func WithResolve(resolve Resolve) Option { return func(d *Dialer) { d.resolve = resolve } }

// WithProxy allows the proxy's own address, host:port. What the proxy connects to is decided by its own rules.
func WithProxy(address string) Option { return func(d *Dialer) { d.proxy = address } }

// NewDialer makes a Dialer that keeps to rules.
func NewDialer(rules Rules, options ...Option) *Dialer {
	d := &Dialer{rules: rules, dial: (&net.Dialer{Timeout: timeout}).DialContext, slots: &slots{of: map[string]chan struct{}{}}}
	d.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	for _, option := range options {
		option(d)
	}
	return d
}

// Rules gives what the dialer keeps to.
func (d *Dialer) Rules() Rules { return d.rules }

// Within gives a Dialer that allows no other hosts than these lists do, too. Both share the connections of hosts.
func (d *Dialer) Within(lists [][]string) *Dialer {
	if len(lists) == 0 {
		return d
	}
	narrow := *d
	narrow.rules.AllowedHosts = slices.Concat(d.rules.AllowedHosts, lists)
	return &narrow
}

type hopKey struct{}

// Hop marks a context as that of a redirect of a host: the error then tells the host that redirected and no address.
func Hop(ctx context.Context, from string) context.Context {
	return context.WithValue(ctx, hopKey{}, from)
}

// DialContext resolves, decides, and dials the addresses that are allowed one after the other. The error is an *Error where all
// addresses are refused. A host that has all of its connections is waited for.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	slots := d.slots.to(address)
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", ctx.Err())
	}
	connection, err := d.connect(ctx, network, address)
	if err != nil {
		<-slots
		return nil, err
	}
	return &counted{Conn: connection, release: sync.OnceFunc(func() { <-slots })}, nil
}

// to gives the connections to an address, host:port.
func (s *slots) to(address string) chan struct{} {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	address = strings.ToLower(address)
	if s.of[address] == nil {
		s.of[address] = make(chan struct{}, maxConnections)
	}
	return s.of[address]
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn

	release func()
}

// Close closes the connection once, and lets the next one in.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func (d *Dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if d.proxy != "" && address == d.proxy {
		return d.dial(ctx, network, address)
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read address %q: %w", address, err)
	}
	if err := checkPort(host, portText); err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read port %q: %w", portText, err)
	}
	addresses, literal, err := d.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	var refused error
	var failures []error
	for _, a := range addresses {
		target := netip.AddrPortFrom(a.Unmap(), uint16(port))
		if class := d.rules.class(target); class != "" {
			refused = firstError(refused, refusal(ctx, host, a, literal, class))
			continue
		}
		connection, err := d.dial(ctx, network, target.String())
		if err == nil {
			return connection, nil
		}
		failures = append(failures, err)
	}
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	return nil, refused
}

// addresses resolves a host; literal: the host is an address itself.
func (d *Dialer) addresses(ctx context.Context, host string) (list []netip.Addr, literal bool, err error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, true, nil
	}
	list, err = d.resolve(ctx, host)
	if err == nil && len(list) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return list, false, err
}

func refusal(ctx context.Context, host string, a netip.Addr, literal bool, class Class) *Error {
	if from, ok := ctx.Value(hopKey{}).(string); ok {
		return refuse(class, "%s leads to an address that is not allowed", from)
	}
	if literal {
		return refuse(class, "%s is %s", host, class)
	}
	return refuse(class, "%s resolves to %s (%s)", host, a.Unmap(), class)
}

func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
