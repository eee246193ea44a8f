// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkOf(t *testing.T) {
	const base = `{"name":"a","category":"c","attributes":{"port":22}}`
	cases := map[string]struct {
		a, b   string
		same   bool
		reason string
	}{
		"Fingerprint":       {`{"fingerprint":"00112233445566778899aabbccddeeff","name":"a"}`, `{"fingerprint":"00112233445566778899AABBCCDDEEFF","name":"b"}`, true, "the fingerprint alone decides"},
		"OtherFingerprint":  {`{"fingerprint":"00112233445566778899aabbccddeeff"}`, `{"fingerprint":"00112233445566778899aabbccddeefe"}`, false, ""},
		"StrangePrint":      {`{"fingerprint":"nuclei:CVE-1"}`, `{"fingerprint":"nuclei:CVE-1","x":1}`, true, "others may write fingerprints of their own"},
		"StrangeOthers":     {`{"fingerprint":"nuclei:CVE-1"}`, `{"fingerprint":"nuclei:CVE-2"}`, false, ""},
		"Content":           {base, `{"id":"1","parsed_at":"now","identified_at":"x","scan":{"name":"s"},"name":"a","category":"c","attributes":{"port":22}}`, true, "ids, times and Scans change from run to run"},
		"NumberAsID":        {base, `{"id":7,"fingerprint":null,"name":"a","category":"c","attributes":{"port":22}}`, true, "of whatever type"},
		"EmptyFingerprint":  {base, `{"fingerprint":"","name":"a","category":"c","attributes":{"port":22}}`, true, "an empty one is none"},
		"OtherContent":      {base, `{"name":"a","category":"c","attributes":{"port":23}}`, false, ""},
		"SeverityIsContent": {`{"name":"a","severity":"LOW"}`, `{"name":"a","severity":"HIGH"}`, false, "without a fingerprint nothing says what is the same"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, err := MarkOf([]byte(c.a))
			if err != nil {
				t.Fatal(err)
			}
			b, err := MarkOf([]byte(c.b))
			if err != nil {
				t.Fatal(err)
			}
			if (a == b) != c.same {
				t.Errorf("%s: same %t, want %t", c.reason, a == b, c.same)
			}
		})
	}
	for _, broken := range []string{"", "[]", `"x"`, "{"} {
		if _, err := MarkOf([]byte(broken)); err == nil {
			t.Errorf("%q has a mark", broken)
		}
	}
}

func TestSet(t *testing.T) {
	mark := func(name string) Mark { return hashed([]byte(name)) }
	var s Set
	for name := range strings.FieldsSeq("a b c a d") {
		s.Add(mark(name))
	}
	got := map[string]State{}
	for name := range strings.FieldsSeq("b x b d y") {
		got[name] = s.Classify(mark(name))
	}
	for name := range strings.FieldsSeq("a b c d x") {
		if s.IsFixed(mark(name)) {
			got[name] = Fixed
		}
	}
	want := map[string]State{"a": Fixed, "b": Known, "c": Fixed, "d": Known, "x": New, "y": New}
	if diff := cmp.Diff(want, got); diff != "" || s.Len() != 4 || s.FixedCount() != 2 {
		t.Errorf("%d marks, %d fixed (-want +got):\n%s", s.Len(), s.FixedCount(), diff)
	}
	var empty Set
	if empty.Classify(mark("a")) != New || empty.IsFixed(mark("a")) || empty.FixedCount() != 0 {
		t.Error("an empty set knows something")
	}
}

// TestMemory holds a million marks within 18 bytes each.
func TestMemory(t *testing.T) {
	const count = 1_000_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := &Set{}
	for i := range uint64(count) {
		s.Add(hashed(binary.BigEndian.AppendUint64(nil, i)))
	}
	if s.Len() != count {
		t.Fatal(s.Len())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := float64(after.HeapAlloc-before.HeapAlloc) / count; per > 18 {
		t.Errorf("%.1f bytes per finding", per)
	}
	runtime.KeepAlive(s)
}

func BenchmarkMarkOf(b *testing.B) {
	for name, element := range map[string]string{
		"Fingerprint": `{"name":"a","fingerprint":"00112233445566778899aabbccddeeff","attributes":{"x":"` + strings.Repeat("y", 300) + `"}}`,
		"Content":     `{"name":"a","attributes":{"x":"` + strings.Repeat("y", 300) + `"}}`,
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, err := MarkOf([]byte(element)); err != nil {
					b.Fatal(fmt.Errorf("%d: %w", i, err))
				}
			}
		})
	}
}
