// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
)

// TestAuditIntake posts by TLS what a kube-apiserver posts, and finds it at the far end.
func TestAuditIntake(t *testing.T) {
	dir := t.TempDir()
	authority := trusttest.NewAuthority(t, "authority")
	write := func(name string, content []byte) string { return trusttest.Write(t, dir, name, content) }
	pair, own := authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour)), authority.Issue(t, "kube-apiserver", time.Now().Add(time.Hour))
	far := newFarEnd(t)
	p := newPlace(t, far.URL)
	r := p.start(t, "--audit-listen", "127.0.0.1:0", "--audit-tls-cert", write("cert", pair.Certificate), "--audit-tls-key", write("key", pair.Key), "--audit-client-ca", write("ca", authority.PEM))
	body, err := os.ReadFile("../../internal/audit/testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	certificate, err := tls.X509KeyPair(own.Certificate, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	post := func(certificates ...tls.Certificate) (*http.Response, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		return (&http.Client{Transport: transport}).Post("https://"+r.audit+"/", "application/json", strings.NewReader(string(body)))
	}
	if _, err := post(); err == nil {
		t.Error("a caller without a certificate was let in")
	}
	response, err := post(certificate)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || response.ProtoMajor != 2 {
		t.Errorf("%s by %s", response.Status, response.Proto)
	}
	r.waitFor(t, "all is delivered", isEmpty)
	far.mu.Lock()
	defer far.mu.Unlock()
	if far.got["names should not begin with odd"] == 0 || far.got[`admission webhook "deny.example.com" denied the request: [no-secrets] secrets come from the vault`] == 0 {
		t.Errorf("the far end has %v", far.got)
	}
}
