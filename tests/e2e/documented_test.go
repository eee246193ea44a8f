// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// update has tests write what they have measured into the documentation.
var update = flag.Bool("update", false, "rewrite the tables of docs/security.md with what was measured")

// securityDoc is what the tables and the claims of isolation stand in.
const securityDoc = "../../docs/security.md"

// wantDocumented holds what a test has measured against the block of docs/security.md
// that is marked with a name.
func wantDocumented(block, measured string) {
	GinkgoHelper()
	doc, err := os.Open(securityDoc)
	Expect(err).NotTo(HaveOccurred())
	defer doc.Close()
	// Another process may write another block.
	Expect(syscall.Flock(int(doc.Fd()), syscall.LOCK_EX)).To(Succeed())
	b, err := io.ReadAll(doc)
	Expect(err).NotTo(HaveOccurred())
	begin, end := "<!-- begin "+block+" -->\n", "<!-- end "+block+" -->"
	before, rest, ok := strings.Cut(string(b), begin)
	have, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		Fail(fmt.Sprintf("%s has no block %q and %q", securityDoc, strings.TrimSpace(begin), end))
	}
	measured = "\n" + strings.TrimSpace(measured) + "\n\n"
	if have == measured {
		return
	}
	if !*update {
		Fail(fmt.Sprintf("%s does not say what was measured (-said +measured); make e2e FOCUS=%q UPDATE=1 rewrites it:\n%s", securityDoc, CurrentSpecReport().LeafNodeText, cmp.Diff(have, measured)))
	}
	Expect(os.WriteFile(securityDoc, []byte(before+begin+measured+end+after), 0o644)).To(Succeed())
}

// markdownTable writes a table. Its first row is the heading.
func markdownTable(rows [][]string) string {
	var out strings.Builder
	for i, row := range rows {
		out.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			out.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return out.String()
}
