// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
)

func (r *program) metrics(t testing.TB) string {
	t.Helper()
	response, err := http.Get(r.http + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestConfigIsReadAgain gives a running exporter another sink, a wrong file, and the mended one.
func TestConfigIsReadAgain(t *testing.T) {
	one, other := newFarEnd(t), newFarEnd(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	write := func(name, url string) {
		t.Helper()
		content := fmt.Sprintf("sinks:\n- name: %s\n  provider: http\n  http: {url: %q, tls: {insecure: true}}\n", name, url)
		if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one", one.URL)
	p := newPlace(t, "")
	r := p.start(t, "--config", config, "--volatile")
	hangUp := func() {
		t.Helper()
		if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	send(t, p, 50)
	r.waitFor(t, "the first sink has all", isEmpty)
	if lost := one.lost(50); lost > 0 {
		t.Errorf("%d are lost", lost)
	}
	if text := r.metrics(t); !strings.Contains(text, "scanyard_exporter_config_valid 1") || !strings.Contains(text, "scanyard_exporter_durable 0") {
		t.Error(text)
	}
	if text := r.metrics(t); !strings.Contains(text, "scanyard_exporter_commit_records_sum 50\n") || strings.Contains(text, "scanyard_exporter_fsync_seconds_count 0\n") {
		t.Error(text)
	}
	write("two", "nonsense")
	hangUp()
	for !strings.Contains(r.metrics(t), "scanyard_exporter_config_valid 0") { // the next answer may come before the signal
	}
	if v := r.queue(t); len(v.Sinks) != 1 || v.Sinks[0].Name != "one" {
		t.Errorf("a wrong file was applied: %+v", v)
	}
	write("two", other.URL)
	hangUp()
	r.waitFor(t, "the other sink is served", func(v queueView) bool { return len(v.Sinks) == 1 && v.Sinks[0].Name == "two" })
	send(t, p, 100)
	r.waitFor(t, "the other sink has all", func(v queueView) bool { return v.Sinks[0].Pending == 0 && other.lost(100) == 0 })
	if !strings.Contains(r.metrics(t), "scanyard_exporter_config_valid 1") {
		t.Error("the file is mended")
	}
}

// TestCertificateEnds asks when the certificate of a far end does.
func TestCertificateEnds(t *testing.T) {
	authority := trusttest.NewAuthority(t, "authority")
	ends := time.Now().Add(50 * time.Hour)
	pair := authority.Issue(t, "127.0.0.1", ends)
	own, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	far := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	far.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	far.StartTLS()
	t.Cleanup(far.Close)
	p := newPlace(t, "")
	r := p.start(t, "--sink", "hub="+far.URL+",ca="+trusttest.Write(t, t.TempDir(), "ca", authority.PEM))
	send(t, p, 1)
	r.waitFor(t, "all is delivered", isEmpty)
	_, after, found := strings.Cut(r.metrics(t), `scanyard_forwarding_certificate_expiry_seconds{sink="hub",which="server"} `)
	value, _, _ := strings.Cut(after, "\n")
	if left, err := strconv.ParseFloat(value, 64); !found || err != nil || left <= 0 || left > (50*time.Hour).Seconds() {
		t.Errorf("%q, %v", value, err)
	}
}
