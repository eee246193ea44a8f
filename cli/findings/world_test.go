// SPDX-License-Identifier: Apache-2.0

package findings_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var (
	update  = flag.Bool("update", false, "write the expected outputs anew")
	cluster *testcluster.Cluster
)

func TestMain(m *testing.M) { clitest.Main(m, &cluster) }

// testdata reads a file of findings as parsers write them.
func testdata(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// golden compares what was printed, stdout and stderr, with a file.
func golden(t testing.TB, w *clitest.World, name string, got clitest.Result) {
	t.Helper()
	text := got.Out + "--- stderr\n" + got.Err
	text = strings.NewReplacer(w.Namespace, "NAMESPACE", report.Plain(w.Namespace), "NAMESPACE").Replace(text)
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
