// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/scanyard/scanyard/podkit/transfer"
)

// NewTransport makes connections to third parties. They trust the system's certificates and those in the PEM file extraCA, if
// it is given, and use the proxies in HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper or lower case, that get returns.
func NewTransport(extraCA string, get func(name string) string) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if extraCA != "" {
		pool, err := transfer.CertPool(extraCA)
		if err != nil {
			return nil, fmt.Errorf("NODE_EXTRA_CA_CERTS: %w", err)
		}
		config.RootCAs = pool
	}
	proxy, err := newProxy(get)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:                 proxy,
		DialContext:           (&net.Dialer{Timeout: 20 * time.Second}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   20 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}, nil
}

func newProxy(get func(string) string) (func(*http.Request) (*url.URL, error), error) {
	values := map[string]string{}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		if values[name] = get(name); values[name] == "" {
			values[name] = get(strings.ToLower(name))
		}
		if value := values[name]; name != "NO_PROXY" && value != "" && !isProxy(value) {
			return nil, fmt.Errorf("%s is not an address of a proxy", name) // the value is not repeated: it may contain a password
		}
	}
	config := httpproxy.Config{HTTPProxy: values["HTTP_PROXY"], HTTPSProxy: values["HTTPS_PROXY"], NoProxy: values["NO_PROXY"]}
	choose := config.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }, nil
}

// isProxy accepts what httpproxy would not silently pass over: an address with or without its scheme.
func isProxy(value string) bool {
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	parsed, err := url.Parse(value)
	if err != nil || parsed.Host == "" {
		return false
	}
	switch parsed.Scheme {
	case "http", "https", "socks5", "socks5h":
		return true
	}
	return false
}
