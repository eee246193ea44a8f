// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// newTransport makes connections to third parties. They trust the system's certificates and, where there is a custom
// CA for the cluster, that one as well.
func newTransport(extraCA string) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if extraCA != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // an image without system certificates still has this one
		}
		pem, err := os.ReadFile(extraCA)
		if err != nil {
			return nil, fmt.Errorf("read NODE_EXTRA_CA_CERTS: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read NODE_EXTRA_CA_CERTS: no certificate in %s", extraCA)
		}
		config.RootCAs = pool
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 20 * time.Second}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   20 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}, nil
}
