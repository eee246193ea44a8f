// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/scanyard/scanyard/tests/terminal"
)

// start starts a call on a terminal, which is killed if the test leaves it.
func start(ctx context.Context, p terminal.Program, columns uint16, args ...string) *terminal.Session {
	GinkgoHelper()
	s, err := p.Start(bounded(ctx), columns, 30, args...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(s.Kill()).To(Succeed())
	})
	return s
}

func ends(s *terminal.Session, code int) string {
	GinkgoHelper()
	got, err := s.Wait()
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(code), "want exit code %d, got %d, %v:\n%s", code, got, err, s.Written())
	return s.Written()
}

var up = regexp.MustCompile(`\x1b\[(\d+)A\x1b\[J`)

var _ = Describe("The command line on a terminal", Label("cli"), func() {
	// On a terminal there is one block that is drawn over, with colours, and no
	// line is wider than the terminal.
	It("draws one block over, with colours, no wider than the terminal", func(ctx SpecContext) {
		forget("drawn", "plain")
		written := ends(start(ctx, w.alice, 50, "scan", "sh", "--name", "drawn", "--wait", "--", "sleep 2"+found), 0)
		if n := len(up.FindAllString(written, -1)); n < 4 {
			Fail(fmt.Sprintf("the block was drawn over %d times:\n%q", n, written))
		}
		wants(written, "\x1b[32m✓\x1b[0m scanner", "\x1b[36m●\x1b[0m", "scan drawn is Done after")
		colours := regexp.MustCompile(`\x1b\[[0-9;]*[a-zA-Z]`)
		for line := range strings.Lines(written) {
			text := colours.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
			if n := len([]rune(text)); n > 50 && strings.Contains(text, "scanner ") {
				Fail(fmt.Sprintf("%d columns: %q", n, text))
			}
		}
		// Where somebody wants no colours there are none, but the block is still drawn over.
		quiet := w.alice
		quiet.Env = append(append([]string{}, quiet.Env...), "NO_COLOR=1")
		written = ends(start(ctx, quiet, 80, "scan", "test-scan", "--name", "plain", "--wait"), 0)
		if strings.Contains(written, "\x1b[3") || !up.MatchString(written) {
			Fail(fmt.Sprintf("got %q", written))
		}
	})

	It("ends the watching with Ctrl-C, not the scan, and says how to go on", func(ctx SpecContext) {
		forget("goes-on", "read-on")
		s := start(ctx, w.alice, 80, "scan", "sh", "--name", "goes-on", "--wait", "--", "sleep 4"+found)
		Expect(s.Until(bounded(ctx), "The scanner is running")).To(Succeed())
		Expect(s.Interrupt()).To(Succeed())
		wants(ends(s, 130), "interrupted; the scan continues.", "scanyard wait goes-on -n blue --as alice", "scanyard cancel goes-on")
		wants(typed(ctx, w.alice, 0, "wait", "goes-on").Out, "is Done")

		s = start(ctx, w.alice, 80, "scan", "sh", "--name", "read-on", "--follow", "--", "echo here I am; sleep 4"+found)
		Expect(s.Until(bounded(ctx), "here I am")).To(Succeed())
		Expect(s.Interrupt()).To(Succeed())
		wants(ends(s, 130), "the scan continues")
		wants(typed(ctx, w.alice, 0, "logs", "read-on", "--follow").Out, "here I am")
		typed(ctx, w.alice, 0, "wait", "read-on")
	})

	It("lets nothing that a scanner writes drive the terminal; a pipe gets it as it is", func(ctx SpecContext) {
		forget("hostile")
		typed(ctx, w.alice, 0, "scan", "sh", "--name", "hostile", "--wait", "--", `printf '\033]0;owned\007 hello\n'`+found)
		written := ends(start(ctx, w.alice, 80, "logs", "hostile", "scanner"), 0)
		Expect(written).NotTo(ContainSubstring("\x1b]"), "the terminal was driven: %q", written)
		wants(written, "owned", "hello")
		wants(typed(ctx, w.alice, 0, "logs", "hostile", "scanner").Out, "\x1b]0;owned")
	})
})
