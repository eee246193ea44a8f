// SPDX-License-Identifier: Apache-2.0

package testscan

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		size   int64
		code   int
	}{
		"Plain":  {"an empty file, as touch makes", nil, 0, 0},
		"Sized":  {"a result of the size asked for", []string{"--bytes", "1000"}, 1000, 0},
		"Failed": {"a failure after a result was written", []string{"--exit", "3", "--bytes", "1"}, 1, 3},
		"Slow":   {"a scan that takes its time", []string{"--sleep", "1ms"}, 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "result.txt")
			err := Run(t.Context(), append([]string{file}, tc.args...), io.Discard)
			exit, isExit := errors.AsType[*ExitError](err)
			if (err != nil) != (tc.code != 0) || isExit && exit.Code != tc.code {
				t.Fatalf("%s: error %v, want exit code %d", tc.reason, err, tc.code)
			}
			info, err := os.Stat(file)
			if err != nil || info.Size() != tc.size {
				t.Errorf("%s: file %v, error %v, want %d bytes", tc.reason, info, err, tc.size)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for name, args := range map[string][]string{"NoFile": nil, "FlagForFile": {"--sleep"}, "Unknown": {"f", "x"}, "BadDuration": {"f", "--sleep", "long"}} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var out strings.Builder
			if err := Run(t.Context(), args, &out); err == nil {
				t.Error("no error")
			}
			if _, err := os.Stat("f"); err == nil {
				t.Error("a result was written")
			}
		})
	}
}
