// SPDX-License-Identifier: Apache-2.0

package resultimport

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it does not fail
	return b
}

func TestSplitAndJoin(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		result []byte
		parts  int
		err    string
	}{
		"Small":      {"most results", []byte("<nmaprun/>"), 1, ""},
		"Compressed": {"text becomes small", []byte(strings.Repeat("finding\n", 1<<20)), 1, ""},
		"Parts":      {"what does not become small takes several", noise(2*MaxPart + 1), 3, ""},
		"Empty":      {"a file that was not written is a mistake", nil, 0, "it is empty"},
		"TooLarge":   {"the API server keeps the parts", noise(MaxPart * MaxParts), 0, ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			m, parts, err := Split(bytes.NewReader(tc.result))
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil || len(parts) != tc.parts || m.Parts != tc.parts || m.Size != int64(len(tc.result)) {
				t.Fatalf("%s: %d parts, %+v, %v", tc.reason, len(parts), m, err)
			}
			for i, p := range parts {
				if len(p) > MaxPart {
					t.Errorf("part %d has %d bytes", i, len(p))
				}
			}
			var out bytes.Buffer
			if err := m.Join(&out, bytes.NewReader(bytes.Join(parts, nil))); err != nil || !bytes.Equal(out.Bytes(), tc.result) {
				t.Errorf("%s: %d bytes came back of %d: %v", tc.reason, out.Len(), len(tc.result), err)
			}
		})
	}
}

// TestTooLarge: the bound of what a parser reads holds where the result compresses well, too.
func TestTooLarge(t *testing.T) {
	for size, want := range map[int]error{999: nil, 1000: nil, 1001: ErrTooLarge} {
		if _, _, err := split(strings.NewReader(strings.Repeat("x", size)), 1000); !errors.Is(err, want) {
			t.Errorf("%d bytes of 1000: %v", size, err)
		}
	}
}

func TestJoinRefuses(t *testing.T) {
	m, parts, err := Split(strings.NewReader("a result"))
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := Split(strings.NewReader("b result"))
	if err != nil {
		t.Fatal(err)
	}
	longer := m
	longer.Size++
	bomb := m
	bomb.Size = MaxSize + 1
	for name, tc := range map[string]struct {
		manifest Manifest
		parts    []byte
		err      string
	}{
		"OtherResult": {other, parts[0], "not those of the manifest"},
		"OtherSize":   {longer, parts[0], "not those of the manifest"},
		"Cut":         {m, parts[0][:len(parts[0])-4], "unexpected EOF"},
		"NoGzip":      {m, []byte("plain text"), "invalid header"},
		"Bomb":        {bomb, parts[0], ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.manifest.Join(io.Discard, bytes.NewReader(tc.parts)); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}
