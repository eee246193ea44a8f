// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update has tests write what they have measured into the documentation.
var update = flag.Bool("update", false, "rewrite the tables of docs/security.md with what was measured")

// securityDoc is what the tables and the claims of isolation stand in.
const securityDoc = "../../docs/security.md"

var securityDocMu sync.Mutex

// wantDocumented holds what a test has measured against the block of docs/security.md
// that is marked with a name.
func wantDocumented(t *testing.T, block, measured string) {
	t.Helper()
	securityDocMu.Lock()
	defer securityDocMu.Unlock()
	b, err := os.ReadFile(securityDoc)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+block+" -->\n", "<!-- end "+block+" -->"
	before, rest, ok := strings.Cut(string(b), begin)
	have, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no block %q and %q", securityDoc, strings.TrimSpace(begin), end)
	}
	measured = "\n" + strings.TrimSpace(measured) + "\n\n"
	if have == measured {
		return
	}
	if !*update {
		t.Errorf("%s does not say what was measured (-said +measured); go test ./e2e -run %s -update rewrites it:\n%s", securityDoc, t.Name(), cmp.Diff(have, measured))
		return
	}
	if err := os.WriteFile(securityDoc, []byte(before+begin+measured+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
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
