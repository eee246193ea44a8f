// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/podkit/process"
)

func TestExitCode(t *testing.T) {
	refused := process.Final(errors.New("no"), exitcode.Refused)
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   int
	}{
		"Unknown":        {"an unknown error may pass", io.ErrUnexpectedEOF, 1},
		"Setting":        {"the next try has the same settings", fmt.Errorf("channel: %w", process.Misconfigured(io.EOF)), exitcode.Configuration},
		"Outermost":      {"who wraps an error knows more", process.Final(refused, exitcode.InvalidInput), exitcode.InvalidInput},
		"MayPassAfter":   {"code 1 is an answer as well", process.Final(refused, 1), 1},
		"AllAreFinal":    {"nothing can work", errors.Join(refused, process.Misconfigured(io.EOF)), exitcode.Refused},
		"OneMayPass":     {"one may work yet", errors.Join(process.Misconfigured(io.EOF), io.EOF), 1},
		"OneWrapped":     {"a list of one is that one", fmt.Errorf("all: %w", errors.Join(refused, nil)), exitcode.Refused},
		"NothingIsWrong": {"no error is none of settings", process.Misconfigured(nil), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := process.ExitCode(tc.err); got != tc.want {
				t.Errorf("%s: exit code %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{
		"parse:\n\tline 2 ":                           "parse: line 2",
		"boom\ngoroutine 1 [running]:\nmain.main()":   "boom",
		"get http://a/b?X-Amz-Signature=c0ffee: gone": "get http://a/b?… gone",
		strings.Repeat("ä", 5000):                     strings.Repeat("ä", (process.MaxWords-len("…")-1)/2) + "…",
	} {
		if got := process.Sentence(errors.New(in)); got != want || len(got) >= process.MaxWords {
			t.Errorf("%.40q: %.60q", in, got)
		}
	}
}

func TestFail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "termination-log")
	err := process.Misconfigured(errors.New("two\nlines"))
	var stderr bytes.Buffer
	if code := process.LastWords(file).Fail(&stderr, "it", err); code != exitcode.Configuration || stderr.String() != "it: two lines\n" {
		t.Errorf("code %d, %q", code, &stderr)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("outside a pod a file was made: %v", err)
	}
	if err := os.WriteFile(file, []byte("what an earlier program has left, which is longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	process.LastWords(file).Fail(io.Discard, "it", err)
	if got, err := os.ReadFile(file); err != nil || string(got) != "two lines\n" {
		t.Errorf("last words %q, %v", got, err)
	}
	stderr.Reset()
	if process.LastWords(filepath.Dir(file)).Fail(&stderr, "it", err); !strings.Contains(stderr.String(), "write last words") {
		t.Errorf("a fault is not reported: %q", &stderr)
	}
	if err := process.LastWords("").Leave(nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestScanOf(t *testing.T) {
	env := map[string]string{process.EnvScanName: "nightly"}
	get := func(name string) string { return env[name] }
	if _, err := process.ScanOf(get); err == nil || !strings.Contains(err.Error(), "NAMESPACE is not set") || process.ExitCode(err) != exitcode.Configuration {
		t.Errorf("got %v", err)
	}
	env[process.EnvNamespace] = "team-a"
	if s, err := process.ScanOf(get); err != nil || s != (process.Scan{Namespace: "team-a", Name: "nightly"}) {
		t.Errorf("got %+v, %v", s, err)
	}
}
