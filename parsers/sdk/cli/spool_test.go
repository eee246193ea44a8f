// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestStandardInputCanBeReadTwiceAtOnce: trivy's parser opens the report again while its first reading goes on.
func TestStandardInputCanBeReadTwiceAtOnce(t *testing.T) {
	const n = 100_000
	in := strings.Repeat("0123456789", n/10)
	s := &spool{in: iotest.HalfReader(strings.NewReader(in))}
	defer s.remove()
	first, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start := make([]byte, n/3)
	if _, err := io.ReadFull(first, start); err != nil {
		t.Fatal(err)
	}
	second, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(second)
	if err != nil || string(whole) != in {
		t.Errorf("the second reading gives %d bytes, %v", len(whole), err)
	}
	rest, err := io.ReadAll(first)
	if err != nil || string(start)+string(rest) != in {
		t.Errorf("the first reading gives %d bytes, %v", len(start)+len(rest), err)
	}
}
