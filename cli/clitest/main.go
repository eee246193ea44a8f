// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"os"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/tests/testcluster"
)

// Main is the TestMain of a package of commands: the test binary is the command line where Process starts it, and else
// runs the tests with a cluster.
func Main(m *testing.M, cluster **testcluster.Cluster) {
	if IsCommand() {
		os.Exit(Command())
	}
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { *cluster = c }))
}

// Ends checks how a command has ended: its exit code, and texts that it must have printed.
func Ends(t testing.TB, r Result, code int, texts ...string) {
	t.Helper()
	all := r.Out + r.Err
	const most = 4000
	shown := all[:min(len(all), most)]
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("does not say %q:\n%s", text, shown)
		}
	}
	if r.Code != code {
		t.Errorf("exit code %d, want %d:\n%s", r.Code, code, shown)
	}
}
