// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/scanyard/scanyard/cli/session"
)

// TestMeter draws a line over itself while a download takes long, and leaves none behind.
func TestMeter(t *testing.T) {
	cases := map[string]struct {
		live bool
		size int64
		step time.Duration
		says string
	}{
		"NoTerminal": {false, 4, time.Second, ""},
		"Quick":      {true, 4, time.Millisecond, ""},
		"Slow":       {true, 4, 600 * time.Millisecond, "\r\x1b[Kraw result of s: 2 B of 4 B, 50 %\r\x1b[Kraw result of s: 3 B of 4 B, 75 %"},
		"NoSize":     {true, -1, 600 * time.Millisecond, "\r\x1b[Kraw result of s: 2 B"},
	}
	for name, c := range cases {
		var drawn bytes.Buffer
		now := time.Unix(0, 0)
		r := &Reader{session: &session.Session{
			IOStreams: genericiooptions.IOStreams{ErrOut: &drawn}, Live: c.live,
			Now: func() time.Time { now = now.Add(c.step); return now },
		}}
		body := r.meter(io.NopCloser(iotest.OneByteReader(strings.NewReader("four"))), c.size, "raw result of s")
		if text, err := io.ReadAll(body); err != nil || string(text) != "four" {
			t.Fatalf("%s: %q, %v", name, text, err)
		}
		if got := drawn.String(); !strings.HasPrefix(got, c.says) || (got != "") != (c.says != "") || got != "" && !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestBytes(t *testing.T) {
	cases := map[int64]string{0: "0 B", 1023: "1023 B", 1 << 10: "1.0 KiB", 5 << 19: "2.5 MiB", 3 << 30: "3.0 GiB"}
	for n, want := range cases {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestExpiry(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		link string
		want bool
	}{
		"None":      {"", false},
		"Good":      {"https://h/k?X-Amz-Date=20291231T235900Z&X-Amz-Expires=600", true},
		"RunOut":    {"https://h/k?X-Amz-Date=20291231T230000Z&X-Amz-Expires=600", false},
		"AboutTo":   {"https://h/k?X-Amz-Date=20291231T235030Z&X-Amz-Expires=600", false},
		"Google":    {"https://h/k?X-Goog-Date=20291231T230000Z&X-Goog-Expires=600", false},
		"VersionV2": {"https://h/k?Expires=1893455999&Signature=x", false},
		"Unknown":   {"https://h/k", true},
	}
	for name, c := range cases {
		if got := isGood(c.link, now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
