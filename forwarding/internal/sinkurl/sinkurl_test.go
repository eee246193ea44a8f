// SPDX-License-Identifier: Apache-2.0

package sinkurl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/sink"
)

func TestParse(t *testing.T) {
	s, err := Parse("hub=grpcs://hub.example.com:9443,ca=/a,cert=/b,key=/c,tokenFile=/d,serverName=hub,maxRecords=5,maxBytes=64KiB,timeout=3s,retryInitial=10ms,retryMax=2s,format=NDJSON")
	if err != nil {
		t.Fatal(err)
	}
	c := s.Config
	if c.Name != "hub" || c.URL.String() != "grpcs://hub.example.com:9443" || c.ServerName != "hub" || c.Timeout != 3*time.Second || c.Insecure || c.Options["format"] != "NDJSON" {
		t.Errorf("got %+v", c)
	}
	if s.MaxRecords != 5 || s.MaxBytes != 64<<10 || s.RetryInitial != 10*time.Millisecond || s.RetryMax != 2*time.Second {
		t.Errorf("got %+v", s)
	}
	if s, err := Parse("a=kafka://k:9092/to%2Cpic%25,brokers=b:1+c:2"); err != nil || s.Config.URL.Path != "/to,pic%" || s.Config.Options["brokers"] != "b:1+c:2" {
		t.Errorf("got %+v, %v", s.Config.URL, err)
	}
	for _, text := range []string{"a=file:///tmp/x", "a=s3://bucket/prefix,endpoint=http://h:1", "a=http://127.0.0.1:1/x?y=z,insecure=true,tokenFile=/t", "a=grpc://[::1]:1,insecure=true,tokenFile=/t", "a=otlp://h:1"} {
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]string{
		"grpcs://a":                                     "NAME=URL",
		"Hub=grpcs://a":                                 "NAME=URL",
		strings.Repeat("a", 41) + "=grpcs://":           "NAME=URL",
		"a=grpc://h:1":                                  "plain text: use TLS, or say insecure=true",
		"a=http://h:1":                                  "plain text",
		"a=nats://h:1/s":                                "plain text",
		"a=grpcs://h:1,colour=red":                      "the key colour is not known: use one of brokers, ca, cert",
		"a=grpcs://h:1,ca":                              "KEY=VALUE",
		"a=grpcs://h:1,ca=":                             "KEY=VALUE",
		"a=grpcs://h:1,ca=x,ca=y":                       "ca is given twice",
		"a=grpcs://h:1,insecure=perhaps":                "insecure must be true or false",
		"a=grpcs://h:1,maxRecords=0":                    "maxRecords must be a number from 1 to 10000",
		"a=grpcs://h:1,maxBytes=8MiB":                   "maxBytes must be a size from 16KiB to 4MiB",
		"a=grpcs://h:1,maxBytes=9223372036854775807KiB": "maxBytes must be a size",
		"a=grpcs://h:1,timeout=0s":                      "timeout must be a duration from 1ms to 10m0s",
		"a=grpcs://user:hunter2@h:1":                    "grpcs://h:1 must have no user name or password",
		"a=grpcs://h:0":                                 "port that is none",
		"a=grpcs://h:65536":                             "port that is none",
		"a=grpcs://h:x":                                 "cannot be read",
		"a=grpcs://":                                    "has no host",
		"a=h:1":                                         "has no host",
		"a=//h:1":                                       "has no scheme",
		"a=file://host/x":                               "must name a directory",
		"a=grpcs://h:1?x=y":                             "no query",
		"a=grpcs://h:1,cert=/a":                         "cert and key belong together",
		"a=grpc://hub.example.com:1,insecure=true,tokenFile=/t": "would send the token in plain text",
	}
	for text, want := range tests {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
}

func TestFilesAreReadAnew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	s, err := Parse("a=grpcs://h:1,tokenFile=" + name + ",credentialsFile=" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Config.Secrets.Read(t.Context()); sink.AsError(err).Class != sink.Auth || sink.AsError(err).Reason != sink.SecretMissing {
		t.Errorf("a missing file: %v", err)
	}
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(name, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if material, err := s.Config.Secrets.Read(t.Context()); err != nil || material.Token.Reveal() != token || material.Further["creds"].Reveal() != token {
			t.Errorf("want %s, got %v", token, err)
		}
	}
	if err := os.WriteFile(name, make([]byte, maxSecretBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Config.Secrets.Read(t.Context()); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is too large: %v", err)
	}
}
