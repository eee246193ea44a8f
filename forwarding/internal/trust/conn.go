// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/scanyard/scanyard/forwarding/internal/wire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// quick is the backoff of connections: the core has one of its own.
func quick() backoff.Config {
	return backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 100 * time.Millisecond}
}

// Conn makes a connection of gRPC to HOST:PORT, which dials with the first call. Each call has the token as it is then. With TLS the way leads
// through the proxy for the address, where there is one.
func (c *Client) Conn(host, agent string, timeout time.Duration) (*grpc.ClientConn, error) {
	dial := c.reach
	if c.config.Insecure {
		dial = c.DialPlain
	}
	options := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: wire.PingAfter, Timeout: wire.PingTimeout}),
		grpc.WithPerRPCCredentials(bearer{c}),
		grpc.WithUserAgent(agent),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick(), MinConnectTimeout: timeout}),
	}
	if c.config.Insecure {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	} else {
		options = append(options, grpc.WithTransportCredentials(c.Credentials()), grpc.WithAuthority(host))
	}
	return grpc.NewClient("passthrough:///"+host, options...)
}

// bearer sends the token as it is now with each call.
type bearer struct{ client *Client }

// GetRequestMetadata gives the header.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.client.Token(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	if token == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + token.Reveal()}, nil
}

// RequireTransportSecurity is false for plain text, which the command line and settings allow with a token on this machine only.
func (b bearer) RequireTransportSecurity() bool { return !b.client.config.Insecure }

// dialTimeout ends a dialling that takes too long: the transport of HTTP goes on with it when the request has ended.
const dialTimeout = 10 * time.Second

// HTTP makes a client of HTTP, which follows no redirects.
func (c *Client) HTTP() *http.Client {
	bounded := func(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return dial(ctx, network, address)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: c.plainProxy, DialContext: bounded(c.DialPlain), DialTLSContext: bounded(c.dialSecure),
			MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// proxyAnswer is the error of a proxy that does not lead to the far end. The words of the proxy are not told: they may repeat what it was asked with.
func proxyAnswer(answer *http.Response) error {
	class := sink.Transport
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		class = sink.Auth
	}
	said := strings.TrimSpace(fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode)))
	return &sink.Error{Class: class, Reason: sink.ProxyFailed, Message: "the proxy does not lead to the far end: it answers " + said}
}

// Explain says why a request of HTTP had no answer, without the address, whose query may hold secrets.
// The far end may refuse our certificate while we write to it: then the connection knows why.
func (c *Client) Explain(err error) *sink.Error {
	e := Classify(WithoutAddress(err))
	if reason := c.Reason(); reason != nil && e.Class != sink.Auth && e.Reason != sink.ProxyFailed {
		return reason
	}
	return e
}

// WithoutAddress takes the address from an error of HTTP.
func WithoutAddress(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}
