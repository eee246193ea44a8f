// SPDX-License-Identifier: Apache-2.0

package size_test

import (
	"testing"

	"github.com/scanyard/scanyard/forwarding/internal/size"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]struct {
		bytes size.Size
		shown string
	}{
		"0": {0, "0"}, "1000": {1000, "1000"}, "1024": {1024, "1KiB"}, "64KiB": {64 << 10, "64KiB"}, "1536KiB": {1536 << 10, "1536KiB"},
		"4MiB": {4 << 20, "4MiB"}, "1GiB": {1 << 30, "1GiB"}, "1024MiB": {1 << 30, "1GiB"}, "4294967296GiB": {1 << 62, "4294967296GiB"},
	} {
		got, err := size.Parse(text)
		if err != nil || got != want.bytes || got.String() != want.shown {
			t.Errorf("%s: got %d, %s, %v", text, got, got.String(), err)
		}
	}
	for _, text := range []string{"", "KiB", "2MB", "2 MiB", "-1", "+1", "1.5GiB", "0x10", "9223372036854775807", "9223372036854775808", "4294967297GiB", "1KiBKiB"} {
		if got, err := size.Parse(text); err == nil {
			t.Errorf("%q was taken for %d", text, got)
		}
	}
}
