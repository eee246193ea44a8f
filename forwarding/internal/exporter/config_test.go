// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	_ "github.com/scanyard/scanyard/forwarding/internal/sinks"
	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
)

const whole = `clusterID: c1
tenant: team
tenantFrom: resourceNamespace
intake:
  socket: {path: /run/e.sock, maxLineBytes: 64KiB, allowUIDs: [65532, "*"], allowGIDs: [7, 8]}
  grpc: {listen: "127.0.0.1:9443", tlsCertFile: /c, tlsKeyFile: /k, clientCAFile: /ca, tokensFile: /t}
  audit: {listen: "127.0.0.1:8443", insecure: true}
queue: {maxBytes: 8MiB, tenantMaxBytes: 5242880, diskReserve: 0, onFull: reject, sync: "interval:50ms"}
sinks:
  - name: hub
    provider: grpc
    batch: {maxRecords: 7, maxBytes: 64KiB}
    timeoutSeconds: 5
    retry: {initialMilliseconds: 20, maxSeconds: 3}
    grpc:
      endpoint: https://hub.example.com:9443
      compression: Gzip
      tls: {serverName: hub, minVersion: TLS12}
      authentication: {serverCAFile: /a, clientCertFile: /b, clientKeyFile: /d, tokenFile: /e}
  - {name: plain, provider: grpc, grpc: {endpoint: "http://127.0.0.1:1", tls: {insecure: true}}}
  - {name: short, provider: grpc, grpc: {endpoint: "hub:1"}}
  - {name: web, provider: http, http: {url: "https://h.example.com/x?y=z", format: NDJSON, headers: {X-Team: "a, b"}, authentication: {usernameFile: /u, passwordFile: /p}}}
  - {name: log, provider: kafka, kafka: {brokers: ["b:1", "c:2"], topic: t, sasl: {mechanism: PLAIN}, authentication: {usernameFile: /u, passwordFile: /p}}}
  - {name: bus, provider: nats, nats: {url: "tls://n:4222", subject: "scans.{tenant}", ordered: true}}
  - {name: disk, provider: file, file: {directory: /var/lib/records}}
`

// parse gives the settings of a command line and a file.
func parse(t *testing.T, file string, args ...string) (*settings, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var f flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.bind(set)
	if err := set.Parse(append([]string{"--dir=/q", "--config=" + path}, args...)); err != nil {
		t.Fatal(err)
	}
	s, _, err := f.load(set.Changed)
	return s, err
}

func TestFile(t *testing.T) {
	s, err := parse(t, whole, "--tenant=other")
	if err != nil {
		t.Fatal(err)
	}
	if s.clusterID != "c1" || s.tenant != "other" || s.tenantFrom != "resourceNamespace" || s.socket != "/run/e.sock" || s.maxLine != 64<<10 || !s.access.Anybody ||
		s.access.UIDs[0] != 65532 || len(s.access.GIDs) != 2 {
		t.Errorf("%+v", s.flags)
	}
	if s.grpc.listen != "127.0.0.1:9443" || s.grpc.files.ClientCA != "/ca" || s.grpc.tokens != "/t" || s.grpc.insecure || !s.audit.insecure || s.audit.listen != "127.0.0.1:8443" {
		t.Errorf("%+v, %+v", s.grpc, s.audit)
	}
	if s.queueMax != 8<<20 || s.tenantMax != 5<<20 || s.reserve != 0 || s.onFull != "reject" || s.interval != 50*time.Millisecond {
		t.Errorf("%+v", s.flags)
	}
	urls := map[string]string{
		"hub": "grpcs://hub.example.com:9443", "plain": "grpc://127.0.0.1:1", "short": "grpcs://hub:1", "web": "https://h.example.com/x?y=z", "log": "kafka://b:1/t",
		"bus": "tls://n:4222/scans.%7Btenant%7D", "disk": "file:///var/lib/records",
	}
	byName := map[string]sinkurl.Sink{}
	for _, target := range s.targets {
		byName[target.Config.Name] = target
		if got := target.Config.URL.String(); got != urls[target.Config.Name] {
			t.Errorf("%s: %s", target.Config.Name, got)
		}
	}
	hub := byName["hub"]
	if hub.MaxRecords != 7 || hub.MaxBytes != 64<<10 || hub.RetryInitial != 20*time.Millisecond || hub.RetryMax != 3*time.Second || hub.Config.Timeout != 5*time.Second ||
		!hub.Config.TLS12 || hub.Config.ServerName != "hub" || hub.Config.Options["compression"] != "Gzip" {
		t.Errorf("%+v", hub)
	}
	files, ok := hub.Config.Secrets.(sinkurl.Files)
	if !ok || files["ca"] != "/a" || files["cert"] != "/b" || files["key"] != "/d" || files["tokenFile"] != "/e" {
		t.Errorf("%+v", files)
	}
	if len(byName) != 7 || byName["web"].Config.Options["header.X-Team"] != "a, b" || byName["log"].Config.Options["brokers"] != "b:1+c:2" || byName["bus"].Config.Options["ordered"] != "true" {
		t.Errorf("%+v", byName)
	}
	if bus := byName["bus"].Config.URL.Path; bus != "/scans.{tenant}" {
		t.Errorf("the subject is %s", bus)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	base := "clusterID: c\nintake: {socket: {path: /s}}\n"
	for name, c := range map[string]struct{ file, want string }{
		"UnknownKey":    {base + "sinks:\n- name: hub\n  provider: grpc\n  colour: red\n  grpc: {endpoint: \"h:1\"}\n", "config.yaml:6: sinks[0].colour: there is no such field"},
		"WrongSize":     {base + "queue:\n  maxBytes: 8MB\n", `config.yaml:4: queue.maxBytes: "8MB" is not a size`},
		"WrongBool":     {base + "intake2: {}\n", "config.yaml:3: intake2"},
		"Insecure":      {"clusterID: c\nintake:\n  grpc:\n    listen: \":1\"\n    insecure: perhaps\n", "config.yaml:5: intake.grpc.insecure"},
		"NotDocumented": {base + "sinks:\n- {name: hub, provider: smoke}\n", `config.yaml:4: sinks[0]: provider: "smoke" is not known: use one of grpc, http, kafka, nats, otlp, s3, file`},
		"NoBlock":       {base + "sinks:\n- {name: hub, provider: grpc}\n", "sinks[0]: provider is grpc: describe it in grpc"},
		"OtherBlock":    {base + "sinks:\n- {name: hub, provider: grpc, grpc: {endpoint: \"h:1\"}, http: {}}\n", "sinks[0]: provider is grpc: remove http"},
		"PlainText":     {base + "sinks:\n- {name: hub, provider: grpc, grpc: {endpoint: \"http://h:1\"}}\n", "config.yaml:4: sinks[0]: grpc would send findings in plain text"},
		"Name":          {base + "sinks:\n- {name: Hub, provider: grpc, grpc: {endpoint: \"h:1\"}}\n", "config.yaml:4: sinks[0]: name must be"},
		"Twice":         {base + "sinks:\n- {name: a, provider: grpc, grpc: {endpoint: \"h:1\"}}\n- {name: a, provider: grpc, grpc: {endpoint: \"h:1\"}}\n", "two sinks are called a"},
		"NoSinks":       {base, "--sink is required"},
		"Empty":         {"", "is empty"},
		"MinVersion":    {base + "sinks:\n- {name: a, provider: grpc, grpc: {endpoint: \"h:1\", tls: {minVersion: SSL3}}}\n", "tls.minVersion"},
		"List":          {base + "tenant: [a]\n", "config.yaml:3: tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.file)
			if err == nil || !strings.Contains(err.Error(), c.want) || ExitCode(err) != exitUsage {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := parse(t, whole, "--sink=a=grpcs://h:1"); err == nil || !strings.Contains(err.Error(), "config.yaml:9: sinks: --sink is given as well") {
		t.Errorf("got %v", err)
	}
}

func TestInvalidFileIsIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(whole)
	f := flags{}
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.bind(set)
	if err := set.Parse([]string{"--dir=/q", "--config=" + path}); err != nil {
		t.Fatal(err)
	}
	_, content, err := f.load(set.Changed)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	w := &watcher{flags: &f, given: set.Changed, last: content, log: slog.New(slog.NewTextHandler(&log, nil))}
	applied, valid := 0, true
	refuse := error(nil)
	look := func(asked bool, wantApplied int, wantValid bool) {
		t.Helper()
		w.look(asked, func([]sinkurl.Sink) error {
			applied++
			return refuse
		}, func(v bool) { valid = v })
		if applied != wantApplied || valid != wantValid {
			t.Errorf("applied %d times, valid %v; want %d, %v", applied, valid, wantApplied, wantValid)
		}
	}
	look(false, 0, true) // nothing has changed
	look(true, 1, true)  // somebody asks
	write(whole + "colour: red\n")
	look(false, 1, false)
	look(false, 1, false)
	if n := strings.Count(log.String(), "config.yaml:26: colour"); n != 1 {
		t.Errorf("the problem is told %d times: %s", n, &log)
	}
	write(whole)
	look(false, 2, true) // it is mended
	look(false, 2, true)
	write(whole + "# changed\n")
	refuse = errors.New("no")
	look(false, 3, false)
	refuse = nil
	look(false, 4, true) // what could not be applied is tried again
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(false, 4, false)
}
