// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEachLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		log  io.Reader
		want []string
	}{
		"Plain":    {strings.NewReader("a\n\x1b[31mb\x1b[0m\nc"), []string{"a", "b", "c"}},
		"LongLine": {strings.NewReader(strings.Repeat("x", 100_000) + "\nend\n"), []string{strings.Repeat("x", 100_000), "end"}},
		"TooLong":  {strings.NewReader("a\n" + strings.Repeat("x", maxLine+1)), []string{"a", "The log cannot be read further: bufio.Scanner: token too long"}},
		"Broken": {
			io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(errors.New("connection reset"))),
			[]string{"a", "The log cannot be read further: connection reset"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			err := eachLine(test.log, func(line string) error {
				got = append(got, line)
				return nil
			})
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%v, %d lines, want %d", err, len(got), len(test.want))
			}
		})
	}
	gone := errors.New("gone")
	if err := eachLine(strings.NewReader("a\nb\n"), func(string) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
