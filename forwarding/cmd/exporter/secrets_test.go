// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
)

// TestSecretsAreNowhere has an exporter whose far ends repeat what they are sent, one in the refusal of each record. No secret is in
// what the exporter tells: its log, its metrics, its queue, its dead letters, its arguments.
func TestSecretsAreNowhere(t *testing.T) {
	const n = 3
	dir := t.TempDir()
	authority := trusttest.NewAuthority(t, "far ends")
	issued := authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	echoes := map[string]*trusttest.Echo{"web": {}, "strict": {Status: http.StatusUnprocessableEntity}, "hub": {}, "bus": {}}
	https := func(handler http.Handler) string {
		s := httptest.NewUnstartedServer(handler)
		s.TLS = config.Clone()
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	file := func(name string) string {
		return trusttest.Write(t, dir, name, []byte(strings.Repeat(trusttest.Sesame+"-"+name+".", 20)))
	}
	ca := ",ca=" + trusttest.Write(t, dir, "ca", authority.PEM)
	user := ",usernameFile=" + trusttest.Write(t, dir, "user", []byte("scanyard"))
	p := place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock")}
	r := p.start(t,
		"--sink", "web=https://"+https(echoes["web"])+ca+",tokenFile="+file("web"),
		"--sink", "strict=https://"+https(echoes["strict"])+ca+user+",passwordFile="+file("strict")+",signingFile="+file("signing"),
		"--sink", "hub=grpcs://"+echoes["hub"].GRPC(t, grpc.Creds(credentials.NewTLS(config)))+ca+",tokenFile="+file("hub"),
		"--sink", "bus=tls://"+echoes["bus"].NATS(t, config)+"/scanyard"+ca+",tokenFile="+file("bus"),
	)
	send(t, p, n)
	r.waitFor(t, "each sink says why records do not arrive", func(v queueView) bool {
		told := 0
		for _, s := range v.Sinks {
			if s.DeadLetters == n || s.Name != "strict" && s.Reason != "" {
				told++
			}
		}
		return told == len(echoes)
	})
	for name, echo := range echoes {
		if !echo.Heard() {
			t.Errorf("%s: nothing was repeated", name)
		}
	}
	response, err := http.Get(r.http + "/v1/queue")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	queue, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	letters, err := command("queue", "ls", "--dir", p.dir, "--dead-letters", "--bodies", "--output", "json").Output()
	if err != nil || !strings.Contains(string(letters), "422") {
		t.Errorf("%s, %v", letters, err)
	}
	for place, text := range map[string]string{
		"the log": r.log.String(), "the metrics": r.metrics(t), "the queue": string(queue), "the dead letters": string(letters),
		"the arguments": strings.Join(r.cmd.Args, " "),
	} {
		for _, trace := range trusttest.Traces(text) {
			t.Errorf("a secret is in %s: %s", place, trace)
		}
	}
}
