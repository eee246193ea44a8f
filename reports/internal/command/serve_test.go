// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// patience bounds what a test waits for; nothing that works takes that long.
const patience = time.Minute

func noEnvironment(string) string { return "" }

// served is a command that serves.
type served struct {
	URL string `json:"url"`
	CA  string `json:"ca"`

	client *http.Client
	stop   func()
	ended  <-chan error
}

func startDoor(t *testing.T, args ...string) *served {
	t.Helper()
	return startServing(t, append([]string{"--standalone", "--bind", "127.0.0.1:0"}, args...)...)
}

func startServing(t *testing.T, args ...string) *served {
	t.Helper()
	out, in := io.Pipe()
	command := New(in, noEnvironment)
	command.SetArgs(args)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		err := command.ExecuteContext(ctx)
		ended <- err
		in.CloseWithError(err)
	}()
	t.Cleanup(func() {
		stop()
		<-finished
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	d := &served{stop: stop, ended: ended}
	if err := json.Unmarshal(line, d); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	trusted := x509.NewCertPool()
	if d.CA != "" && !trusted.AppendCertsFromPEM([]byte(d.CA)) {
		t.Fatalf("no CA: %s", d.CA)
	}
	d.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}}
	return d
}

func (d *served) ask(t *testing.T, method, path, body, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

const (
	reports = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/team-a/policyreports"
	minimal = `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a"}}`
)

func TestDoorWithTLS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "reports.db")
	d := startDoor(t, "--sqlite", file, "--namespaces", "team-a,team-b")
	if !strings.HasPrefix(d.URL, "https://127.0.0.1:") {
		t.Fatal(d.URL)
	}
	if code, said := d.ask(t, http.MethodPost, reports, minimal, ""); code != http.StatusCreated {
		t.Errorf("create: %d %s", code, said)
	}
	elsewhere := strings.Replace(reports, "team-a", "team-c", 1)
	if code, said := d.ask(t, http.MethodPost, elsewhere, minimal, ""); code != http.StatusNotFound || !strings.Contains(said, "namespaces") {
		t.Errorf("a namespace that is not there: %d %s", code, said)
	}
	if code, said := d.ask(t, http.MethodGet, "/apis/prext.demo/v1alpha1/namespaces/team-a/policyreports/a", "", ""); code != http.StatusOK {
		t.Errorf("alias: %d %s", code, said)
	}

	// A second process with the same file ends.
	second := New(io.Discard, noEnvironment)
	second.SetArgs([]string{"--standalone", "--sqlite", file})
	if err := second.ExecuteContext(t.Context()); ExitCode(err) != 3 {
		t.Errorf("second process: %v, code %d", err, ExitCode(err))
	}
	d.stop()
	select {
	case err := <-d.ended:
		if ExitCode(err) != 0 {
			t.Errorf("stopped: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the command goes on")
	}
	// What was written is there for the next.
	again := startDoor(t, "--sqlite", file, "--http")
	if code, said := again.ask(t, http.MethodGet, reports+"/a", "", ""); code != http.StatusOK || again.CA != "" {
		t.Errorf("after a restart: %d %s", code, said)
	}
}

func TestDoorWithFiles(t *testing.T) {
	folder := t.TempDir()
	serving, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) string {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	d := startDoor(t, "--sqlite", filepath.Join(folder, "reports.db"), "--tls-cert", write("crt", serving), "--tls-key", write("key", key),
		"--token-file", write("tokens", []byte("# who may what\nall,admin,system:masters\none,tenant,,team-b\n")), "--test-signals")
	for token, code := range map[string]int{"all": http.StatusOK, "one": http.StatusForbidden, "": http.StatusUnauthorized, "odd": http.StatusUnauthorized} {
		if got, said := d.ask(t, http.MethodGet, reports, "", token); got != code {
			t.Errorf("token %q: %d %s", token, got, said)
		}
	}
	// SIGUSR1 drops what has happened so far.
	if code, said := d.ask(t, http.MethodPost, reports, minimal, "all"); code != http.StatusCreated {
		t.Fatalf("create: %d %s", code, said)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(patience)
	for {
		code, said := d.ask(t, http.MethodGet, reports+"?resourceVersion=1&resourceVersionMatch=Exact", "", "all")
		if code == http.StatusGone {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("not compacted: %d %s", code, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	folder := t.TempDir()
	empty, some := filepath.Join(folder, "empty"), filepath.Join(folder, "some")
	for file, content := range map[string]string{empty: "", some: "host=/nowhere"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"Reachable":    {[]string{"--standalone", "--sqlite=x", "--bind=0.0.0.0:0"}, "loopback"},
		"Everywhere":   {[]string{"--standalone", "--sqlite=x", "--bind=:0"}, "loopback"},
		"Name":         {[]string{"--standalone", "--sqlite=x", "--bind=example.com:0"}, "loopback"},
		"NoDatabase":   {[]string{"--standalone"}, "REPORTS_DSN"},
		"EmptyDSN":     {[]string{"--standalone", "--database=postgresql", "--dsn-file=" + empty}, "is empty"},
		"CopyOfAFile":  {[]string{"--standalone", "--sqlite=x", "--query-dsn-file=" + empty}, "are for PostgreSQL"},
		"EmptyCopy":    {[]string{"--standalone", "--database=postgresql", "--dsn-file=" + some, "--query-dsn-file=" + empty}, "copy for questions: read the data source name"},
		"OddDatabase":  {[]string{"--standalone", "--database=odd", "--dsn-file=" + empty}, ""},
		"SQLiteOther":  {[]string{"--standalone", "--database=mysql", "--sqlite=x"}, "--sqlite is for"},
		"KeyAlone":     {[]string{"--standalone", "--sqlite=x", "--tls-key=k"}, "together"},
		"HTTPAndTLS":   {[]string{"--standalone", "--sqlite=x", "--http", "--tls-key=k", "--tls-cert=c"}, "exclude"},
		"DoorOnly":     {[]string{"--sqlite=x", "--http"}, "--standalone"},
		"Small":        {[]string{"--standalone", "--sqlite=x", "--max-request-bytes=5"}, "--max-request-bytes"},
		"Impatient":    {[]string{"--standalone", "--sqlite=x", "--watch-stall=0s"}, "--watch-stall must be 1s or more"},
		"Synchronous":  {[]string{"--standalone", "--sqlite=x", "--sqlite-synchronous=SOME"}, "NORMAL or FULL"},
		"EmptyTokens":  {[]string{"--standalone", "--sqlite=" + filepath.Join(folder, "t.db"), "--http", "--token-file=" + empty}, "has none"},
		"NoClientCA":   {[]string{"--standalone", "--sqlite=" + filepath.Join(folder, "c.db"), "--http", "--client-ca=" + empty}, "CA of clients"},
		"NotADatabase": {[]string{"--standalone", "--http", "--sqlite=" + folder}, folder},
	} {
		t.Run(name, func(t *testing.T) {
			command := New(io.Discard, noEnvironment)
			command.SetArgs(c.args)
			err := command.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) || ExitCode(err) != 1 {
				t.Errorf("%v, code %d; want %q", err, ExitCode(err), c.says)
			}
		})
	}
}

// signed makes a certificate for a client, signed by a CA that is made with it.
func signed(t *testing.T, name, group string) (authority []byte, client tls.Certificate) {
	t.Helper()
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	caKey, key := newKey(), newKey()
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "clients"}, caKey)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{group}},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func TestClientCertificates(t *testing.T) {
	folder := t.TempDir()
	authority, admin := signed(t, "admin", "system:masters")
	_, foreign := signed(t, "admin", "system:masters")
	file := filepath.Join(folder, "ca.crt")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDoor(t, "--sqlite", filepath.Join(folder, "reports.db"), "--client-ca", file)
	trusted := d.client.Transport.(*http.Transport).TLSClientConfig.RootCAs
	for name, c := range map[string]struct {
		shown []tls.Certificate
		code  int
	}{
		"Known":   {[]tls.Certificate{admin}, http.StatusOK},
		"Foreign": {[]tls.Certificate{foreign}, http.StatusUnauthorized},
		"None":    {nil, http.StatusUnauthorized},
	} {
		d.client = &http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: trusted, Certificates: c.shown},
		}}
		if code, said := d.ask(t, http.MethodGet, reports, "", ""); code != c.code {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
}
