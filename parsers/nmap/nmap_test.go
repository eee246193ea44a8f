// SPDX-License-Identifier: Apache-2.0

package nmap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

// TestPassesGiveTheSame lets less and less fit into memory: the findings stay the same, the input is read more often.
func TestPassesGiveTheSame(t *testing.T) {
	for name, open := range map[string]func() io.Reader{
		"Generated": func() io.Reader { return rawgen.Nmap(300, 3, true) },
		"SMB": func() io.Reader {
			raw, err := os.ReadFile(filepath.Join("testdata", "smb.raw.xml"))
			if err != nil {
				t.Fatal(err)
			}
			return bytes.NewReader(raw)
		},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(maxHeld int, passes int64) []byte {
				opened := &atomic.Int64{}
				limits := sdk.DefaultLimits()
				limits.MaxHeld = maxHeld
				got, err := sdktest.Parse(t, Parser(), sdktest.Case{Open: open, Limits: &limits, Opened: opened})
				if err != nil {
					t.Fatal(err)
				}
				if opened.Load() != passes {
					t.Errorf("limit %d: read %d times, want %d", maxHeld, opened.Load(), passes)
				}
				return got
			}
			want := parse(sdk.DefaultLimits().MaxHeld, 1)
			if got := parse(0, 3); !bytes.Equal(got, want) {
				t.Errorf("three passes differ:\n%s\n%s", got, want)
			}
			if name == "Generated" { // hosts fit, script findings do not
				if got := parse(200_000, 2); !bytes.Equal(got, want) {
					t.Error("two passes differ")
				}
			}
		})
	}
}

const (
	runStart  = `<nmaprun>`
	hostStart = runStart + `<host><address addr="10.0.0.1" addrtype="ipv4"/><ports>`
)

func TestHostileResults(t *testing.T) {
	tests := map[string]struct {
		in   io.Reader
		want string
	}{
		"TwoGiBAttribute": {io.MultiReader(strings.NewReader(hostStart+`<port portid="`), io.LimitReader(rawgen.Endless("1"), 2<<30)), "too large: a tag of more than 16777216 bytes"},
		"TwoGiBElem": {
			io.MultiReader(strings.NewReader(runStart+`<host><hostscript><script id="smb-protocols"><table><elem>`), io.LimitReader(rawgen.Endless("1"), 2<<30)),
			"too large: a script element of more than",
		},
		"EndlessPorts":     {io.MultiReader(strings.NewReader(hostStart), rawgen.Endless(`<port portid="1"><state state="open"/></port>`)), "too large: a host with more than"},
		"EndlessAddresses": {io.MultiReader(strings.NewReader(runStart+`<host>`), rawgen.Endless(`<address addr="10.0.0.1" addrtype="ipv4"/>`)), "too large: a host with more than"},
		"EndlessScripts":   {io.MultiReader(strings.NewReader(hostStart+`<port portid="1">`), rawgen.Endless(`<script id="a" output="b"/>`)), "too large: a host with more than"},
		"DeeplyNested":     {io.MultiReader(strings.NewReader(runStart), rawgen.Endless(`<a>`)), "nested deeper than 256"},
		"NestedHosts":      {io.MultiReader(strings.NewReader(runStart), rawgen.Endless(`<host>`)), "nested deeper than 256"},
		"BillionLaughs":    {strings.NewReader(`<!DOCTYPE nmaprun [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><nmaprun args="&b;">`), "unknown entity &b;"},
		"JSON":             {strings.NewReader(`{"a":1}`), `line 1, byte 0: text "{\"a\":1}" outside of the root element`},
		"Binary":           {strings.NewReader("\x1f\x8b\x08\x00"), "outside of the root element"},
		"OtherXML":         {strings.NewReader("\n<html>"), `line 2: the root element is "html", not "nmaprun"`},
		"Truncated":        {strings.NewReader(hostStart + "\n\n<port"), "line 3, byte"},
		"TruncatedAdvice":  {strings.NewReader(hostStart), "nmap was probably stopped before its end"},
		"BadHost":          {strings.NewReader(runStart + "<host/>\n</nmaprun>"), "host 1, before line 1: has no address"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return tt.in }})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want %q, got %v", tt.want, err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("took %d bytes", used)
			}
		})
	}
}

// TestHugeIrrelevantTextIsPassedOver reads a quarter of a gibibyte of text that no finding needs.
func TestHugeIrrelevantTextIsPassedOver(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader {
		return io.MultiReader(strings.NewReader(runStart+`<prescript>`), io.LimitReader(rawgen.Endless("text "), 256<<20), strings.NewReader(`</prescript></nmaprun>`))
	}})
	runtime.ReadMemStats(&after)
	if err != nil || n != 0 {
		t.Errorf("got %d findings, %v", n, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("took %d bytes", used)
	}
}

func TestErrorsOfTheSource(t *testing.T) {
	broken := errors.New("broken")
	in := &sdk.Input{
		Source: sdk.SourceFunc(func(context.Context) (io.ReadCloser, error) { return nil, broken }),
		Scan:   &sdk.Scan{}, Limits: sdk.DefaultLimits(), Env: func(string) string { return "" },
	}
	if err := sdk.Run(t.Context(), Parser(), in, func(*finding.Finding) error { return nil }); !errors.Is(err, broken) {
		t.Errorf("want the source's error, got %v", err)
	}
}

func TestEmitErrorsEndTheParsing(t *testing.T) {
	full := errors.New("disk full")
	for stop := range 5 {
		n := 0
		in := &sdk.Input{
			Source: sdk.SourceFunc(func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(rawgen.Nmap(2, 1, true)), nil
			}), Scan: &sdk.Scan{}, Limits: sdk.DefaultLimits(),
			Env: func(string) string { return "" },
		}
		err := sdk.Run(t.Context(), Parser(), in, func(*finding.Finding) error {
			if n++; n > stop {
				return full
			}
			return nil
		})
		if !errors.Is(err, full) || n != stop+1 {
			t.Errorf("after %d findings: %v", n, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	sdktest.Seeds(f, "testdata")
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	for _, size := range []struct{ hosts, ports int }{{10, 100}, {1000, 100}, {100_000, 1}} {
		b.Run(fmt.Sprintf("%dx%d", size.hosts, size.ports), func(b *testing.B) {
			sdktest.Benchmark(b, Parser(), func() io.Reader { return rawgen.Nmap(size.hosts, size.ports, false) })
		})
	}
}
