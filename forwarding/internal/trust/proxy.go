// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/proxy"
)

// maxProxyAnswer bounds the header of a proxy's answer.
const maxProxyAnswer = 64 << 10

// plainProxy is the proxy of a request without TLS. To a far end with TLS the Client finds the way itself, since the transport of HTTP would do
// a handshake of its own behind a proxy, with other roots and without our certificate. A Client that may not dial every address has no
// proxy here: the proxy would find the address of the name by itself.
func (c *Client) plainProxy(request *http.Request) (*url.URL, error) {
	if request.URL.Scheme == "https" || c.config.Dial != nil {
		return nil, nil
	}
	return c.proxyOf(request.URL)
}

// proxyOf is the proxy on the way to a URL; nil for none.
func (c *Client) proxyOf(to *url.URL) (*url.URL, error) {
	through, err := c.config.Proxy(&http.Request{URL: to})
	if err != nil { // the error holds the URL of the proxy, with its password
		return nil, proxyFailed(errors.New("the URL of the proxy in the environment is not valid: write it such as https://proxy.example.com:3128"))
	}
	return through, nil
}

// dialSecure connects with TLS, through the proxy for the address where there is one.
func (c *Client) dialSecure(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := c.reach(ctx, network, address)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return c.Secure(ctx, raw, host)
}

// reach connects to a far end that speaks TLS, through the proxy for its address where there is one. TLS has not begun.
func (c *Client) reach(ctx context.Context, network, address string) (net.Conn, error) {
	through, err := c.proxyOf(&url.URL{Scheme: "https", Host: address})
	if err == nil && through == nil {
		return c.DialPlain(ctx, network, address)
	}
	var raw net.Conn
	if err == nil {
		raw, err = c.tunnels(ctx, through, network, address)
	}
	if err != nil {
		e := Classify(err)
		c.remember(e)
		return nil, e
	}
	return raw, nil
}

// tunnels connects through a proxy to the first address that may be dialled and that the proxy leads to. Where some may not, the name is resolved here and
// the proxy is told an address: the proxy might resolve it to something else.
func (c *Client) tunnels(ctx context.Context, through *url.URL, network, address string) (net.Conn, error) {
	if c.config.Dial == nil {
		return c.tunnel(ctx, through, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, ip := range found {
		to := net.JoinHostPort(ip.Unmap().String(), port)
		if e := c.forbidden(network, to); e != nil {
			err = cmp.Or(err, error(e))
			continue
		}
		conn, failed := c.tunnel(ctx, through, network, to)
		if failed == nil {
			return conn, nil
		}
		err = failed
	}
	return nil, err
}

// proxyFailed is the error of a way that ends at the proxy.
func proxyFailed(err error) error { return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err} }

// tunnel connects to an address through a proxy.
func (c *Client) tunnel(ctx context.Context, through *url.URL, network, address string) (net.Conn, error) {
	switch through.Scheme {
	case "http", "https":
		return c.connect(ctx, through, network, address)
	case "socks5", "socks5h":
		dialer, err := proxy.FromURL(through, forward{c})
		if err != nil {
			return nil, proxyFailed(err)
		}
		conn, err := dialer.(proxy.ContextDialer).DialContext(ctx, network, address) // all dialers of SOCKS5 are such
		if err != nil {
			return nil, proxyFailed(err)
		}
		return conn, nil
	}
	return nil, proxyFailed(fmt.Errorf("the scheme of the proxy is %q: use http, https or socks5", through.Scheme))
}

// forward dials the proxy.
type forward struct{ client *Client }

// Dial dials for as long as a dialling may take.
func (f forward) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout) //nolint:forbidigo // the interface has no context
	defer cancel()
	return f.DialContext(ctx, network, address)
}

// DialContext dials.
func (f forward) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f.client.dial(ctx, network, address, nil) // whoever runs the program has chosen the proxy
}

// connect asks a proxy of HTTP for a tunnel.
func (c *Client) connect(ctx context.Context, through *url.URL, network, address string) (net.Conn, error) {
	port := through.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[through.Scheme]
	}
	conn, err := c.dial(ctx, network, net.JoinHostPort(through.Hostname(), port), nil) // whoever runs the program has chosen the proxy
	if err != nil {
		return nil, proxyFailed(err)
	}
	if through.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: through.Hostname(), MinVersion: tls.VersionTLS12, Time: c.config.Now})
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if through.User != nil {
		password, _ := through.User.Password()
		word := base64.StdEncoding.EncodeToString([]byte(through.User.Username() + ":" + password))
		request.Header.Set("Proxy-Authorization", "Basic "+word)
	}
	if err := ask(ctx, conn, request); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// ask sends a request to a proxy and waits for its consent, at most until the context ends.
func ask(ctx context.Context, conn net.Conn, request *http.Request) error {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = conn.SetDeadline(time.Unix(1, 0)) // in the past: whoever reads or writes gives up
	})
	answer, err := exchange(conn, request) //nolint:bodyclose // what follows the consent is the tunnel
	if !stop() {
		<-ended
		err = ctx.Err()
	}
	if err != nil {
		return proxyFailed(err)
	}
	return proxyAnswer(answer)
}

func exchange(conn net.Conn, request *http.Request) (*http.Response, error) {
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	// Behind its consent the proxy says nothing before the far end does, and the far end not before us.
	return http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxProxyAnswer)), request)
}
