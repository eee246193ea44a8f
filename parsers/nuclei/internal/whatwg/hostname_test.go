// SPDX-License-Identifier: Apache-2.0

package whatwg_test

import (
	"os"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/nuclei/internal/whatwg"
)

// TestHostname holds Hostname to a table of texts and what new URL(text).hostname is in Node 20, null where it throws.
func TestHostname(t *testing.T) {
	data, err := os.ReadFile("testdata/hostnames.json")
	if err != nil {
		t.Fatal(err)
	}
	table, err := finding.DecodeValue(data, 0)
	if err != nil {
		t.Fatal(err)
	}
	cases, _ := table.([]any)
	if len(cases) < 100 {
		t.Fatalf("the table has %d cases", len(cases))
	}
	for _, c := range cases {
		pair, _ := c.([]any)
		text, _ := pair[0].(string)
		want, ok := pair[1].(string)
		t.Run(text, func(t *testing.T) {
			if got, gotOK := whatwg.Hostname(text); got != want || gotOK != ok {
				t.Errorf("%q: want %q, %v, got %q, %v", text, want, ok, got, gotOK)
			}
		})
	}
}

// FuzzHostname asks that a host name is one again where it stands alone.
func FuzzHostname(f *testing.F) {
	for _, seed := range []string{"https://a.b:1", "http://[::1]", "http://0x7f.1", "http://bücher.example/", "tcp://H\x00", "file://x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, ok := whatwg.Hostname(text)
		if !ok || host == "" {
			return
		}
		scheme := "x://"
		if again, ok := whatwg.Hostname(scheme + host); !ok || again != host {
			t.Errorf("%q has the host name %q, and that has %q", text, host, again)
		}
	})
}

func BenchmarkHostname(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		whatwg.Hostname("https://app-123.example.com:8443/x")
	}
}
