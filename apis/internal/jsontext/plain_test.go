// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"testing"

	"github.com/scanyard/scanyard/apis/internal/jsontext"
)

func TestPlain(t *testing.T) {
	for at := range 8 {
		for c := range 256 {
			eight := []byte("abcdefgh")
			eight[at] = byte(c)
			want := c >= ' ' && c < 0x80 && c != '"' && c != '\\'
			if got := jsontext.Plain(string(eight)); got != want {
				t.Errorf("byte %#x at %d: got %v, want %v", c, at, got, want)
			}
		}
	}
}
