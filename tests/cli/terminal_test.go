// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/tests/terminal"
)

// start starts a call on a terminal, which is killed if the test leaves it.
func start(t *testing.T, p terminal.Program, columns uint16, args ...string) *terminal.Session {
	t.Helper()
	s, err := p.Start(bounded(t), columns, 30, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func ends(t *testing.T, s *terminal.Session, code int) string {
	t.Helper()
	got, err := s.Wait()
	if err != nil || got != code {
		t.Fatalf("want exit code %d, got %d, %v:\n%s", code, got, err, s.Written())
	}
	return s.Written()
}

var up = regexp.MustCompile(`\x1b\[(\d+)A\x1b\[J`)

// TestTerminal: on a terminal there is one block that is drawn over, with colours, and no
// line is wider than the terminal.
func TestTerminal(t *testing.T) {
	forget(t, "drawn", "plain")
	written := ends(t, start(t, w.alice, 50, "scan", "sh", "--name", "drawn", "--wait", "--", "sleep 2"+found), 0)
	if n := len(up.FindAllString(written, -1)); n < 4 {
		t.Errorf("the block was drawn over %d times:\n%q", n, written)
	}
	wants(t, written, "\x1b[32m✓\x1b[0m scanner", "\x1b[36m●\x1b[0m", "scan drawn is Done after")
	colours := regexp.MustCompile(`\x1b\[[0-9;]*[a-zA-Z]`)
	for line := range strings.Lines(written) {
		text := colours.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
		if n := len([]rune(text)); n > 50 && strings.Contains(text, "scanner ") {
			t.Errorf("%d columns: %q", n, text)
		}
	}
	// Where somebody wants no colours there are none, but the block is still drawn over.
	quiet := w.alice
	quiet.Env = append(append([]string{}, quiet.Env...), "NO_COLOR=1")
	written = ends(t, start(t, quiet, 80, "scan", "test-scan", "--name", "plain", "--wait"), 0)
	if strings.Contains(written, "\x1b[3") || !up.MatchString(written) {
		t.Errorf("got %q", written)
	}
}

// TestCtrlC: it ends the watching, not the scan, and says how to go on.
func TestCtrlC(t *testing.T) {
	forget(t, "goes-on", "read-on")
	s := start(t, w.alice, 80, "scan", "sh", "--name", "goes-on", "--wait", "--", "sleep 4"+found)
	if err := s.Until(bounded(t), "The scanner is running"); err != nil {
		t.Fatal(err)
	}
	if err := s.Interrupt(); err != nil {
		t.Fatal(err)
	}
	wants(t, ends(t, s, 130), "interrupted; the scan goes on.", "scanyard wait goes-on -n blue --as alice", "scanyard cancel goes-on")
	wants(t, typed(t, w.alice, 0, "wait", "goes-on").Out, "is Done")

	s = start(t, w.alice, 80, "scan", "sh", "--name", "read-on", "--follow", "--", "echo here I am; sleep 4"+found)
	if err := s.Until(bounded(t), "here I am"); err != nil {
		t.Fatal(err)
	}
	if err := s.Interrupt(); err != nil {
		t.Fatal(err)
	}
	wants(t, ends(t, s, 130), "the scan goes on")
	wants(t, typed(t, w.alice, 0, "logs", "read-on", "--follow").Out, "here I am")
	typed(t, w.alice, 0, "wait", "read-on")
}

// TestHostileLog: what a scanner writes does not drive the terminal; a pipe gets it as it is.
func TestHostileLog(t *testing.T) {
	forget(t, "hostile")
	typed(t, w.alice, 0, "scan", "sh", "--name", "hostile", "--wait", "--", `printf '\033]0;owned\007 hello\n'`+found)
	written := ends(t, start(t, w.alice, 80, "logs", "hostile", "scanner"), 0)
	if strings.Contains(written, "\x1b]") {
		t.Errorf("the terminal was driven: %q", written)
	}
	wants(t, written, "owned", "hello")
	wants(t, typed(t, w.alice, 0, "logs", "hostile", "scanner").Out, "\x1b]0;owned")
}
