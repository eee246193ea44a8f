// SPDX-License-Identifier: Apache-2.0

package target

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"time"
)

// Web is a running web site.
type Web struct {
	// URL is its address, without a slash at the end.
	URL string
	// Host and Port are the parts of URL.
	Host string
	Port int

	server *httptest.Server
}

// Title is the title of the site's first page.
const Title = "Demo shop"

// pages is the site: three pages, one that sends visitors on, and nothing else.
func pages() http.Handler {
	mux := http.NewServeMux()
	page := func(pattern, title, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			// A scanner that hangs up does not need the page.
			_, _ = fmt.Fprintf(w, "<!DOCTYPE html>\n<html><head><title>%s</title></head><body style=\"background: #036; color: #fff\">%s</body></html>\n", title, body)
		})
	}
	page("GET /{$}", Title, `<h1>Demo shop</h1><p>Nothing to buy here, but <a href="/about">read about us</a>.</p>`)
	page("GET /about", "About us", `<p>Write to <a href="mailto:shop@example.com">shop@example.com</a>.</p>`)
	page("GET /admin/", "Administration", `<form method="post"><input type="password" name="password"></form>`)
	mux.HandleFunc("GET /account", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/about", http.StatusFound) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// nmap tells HTTP by servers that it knows; it asks others for a minute and a half.
		w.Header().Set("Server", "nginx/1.29.0")
		mux.ServeHTTP(w, r)
	})
}

// StartWeb starts the web site over plain HTTP.
func StartWeb() *Web {
	w := &Web{server: unstarted()}
	w.server.Start()
	return w.complete()
}

// StartExpiredWeb starts the web site over TLS, with a certificate that it has signed
// itself and that has expired.
func StartExpiredWeb() (*Web, error) {
	cert, err := expiredCertificate()
	if err != nil {
		return nil, fmt.Errorf("start scan target: %w", err)
	}
	w := &Web{server: unstarted()}
	w.server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	w.server.StartTLS()
	return w.complete(), nil
}

func unstarted() *httptest.Server {
	s := httptest.NewUnstartedServer(pages())
	s.Config.ReadHeaderTimeout = patience
	// Scanners speak all kinds of nonsense on purpose.
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s
}

func (w *Web) complete() *Web {
	w.URL, w.Host, w.Port = w.server.URL, loopback, portOf(w.server.Listener)
	return w
}

// Close ends the site.
func (w *Web) Close() { w.server.Close() }

func portOf(l net.Listener) int {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// CertificateName is the common name in the expired certificate.
const CertificateName = "shop.example"

func expiredCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: CertificateName},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
		DNSNames: []string{CertificateName}, IPAddresses: []net.IP{net.ParseIP(loopback)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
