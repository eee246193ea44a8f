// SPDX-License-Identifier: Apache-2.0

package findings_test

import (
	"encoding/json"
	"strings"
	"testing"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/clitest"
)

// TestMany prints the findings of several Scans: those with a label, of the last run of each target.
func TestMany(t *testing.T) {
	w := clitest.New(t, cluster)
	of := func(team, target string) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) {
			s.Labels = map[string]string{"team": team}
			s.Spec.Parameters = []string{target}
		}
	}
	w.Scan("shop-1", testdata(t, "trivy.json"), nil, of("blue", "shop"))
	w.AwaitLaterSecond("shop-1")
	w.Scan("shop-2", []byte(`[{"name":"Open port","category":"Open Port","severity":"HIGH"}]`), nil, of("blue", "shop"))
	w.Scan("till", []byte(`[{"name":"Old TLS","category":"TLS","severity":"LOW"}]`), nil, of("blue", "till"))
	w.Scan("press", []byte(`[{"name":"Banner","category":"Banner","severity":"INFORMATIONAL"}]`), nil, of("red", "press"))

	got := w.Run("findings", "-l", "team=blue", "--fail-on", "high")
	clitest.Ends(t, got, 2, "SCAN", "shop-2", "Open port", "till", "Old TLS", "2 findings: 1 high, 1 low in the last runs of 2 Scans", "1 finding of that severity or worse")
	if strings.Contains(got.Out, "shop-1") || strings.Contains(got.Out, "press") {
		t.Errorf("an older run, or another team's Scan, is listed:\n%s", got.Out)
	}
	clitest.Ends(t, w.Run("findings", "-l", "team=blue", "--all-runs"), 0, "shop-1", "in 3 Scans")
	clitest.Ends(t, w.Run("findings", "-l", "team=blue", "--fail-on", "high", "--severity", "low"), 0, "Old TLS")
	clitest.Ends(t, w.Run("findings", "-l", "team=green"), 0, "there are no Scans that are Done in this namespace with labels team=green")
	clitest.Ends(t, w.Run("findings", "-A", "-l", "team in (blue,red)", "--limit", "0"), 0, w.Namespace+"/press", w.Namespace+"/till")

	var listed []struct {
		Name string
		Scan struct{ Namespace, Name string }
	}
	if err := json.Unmarshal([]byte(w.Run("findings", "-l", "team=blue", "-o", "json", "--severity", "low").Out), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("%+v, %v", listed, err)
	}
	if listed[0].Scan.Namespace != w.Namespace || listed[0].Scan.Name != "till" {
		t.Errorf("%+v", listed[0])
	}
}

// TestManyRefusesSingleScanFlags: flags that need one Scan are refused.
func TestManyRefusesSingleScanFlags(t *testing.T) {
	w := clitest.New(t, cluster)
	for call, want := range map[string]string{
		"findings":                     "name a Scan, or choose several with --selector or --all-namespaces",
		"findings shop -l a=b":         "goes neither with --all-namespaces nor with --selector",
		"findings -l a=b --new":        "name it",
		"findings -A -o sarif":         "-o sarif is made of one Scan",
		"findings -l =":                "--selector",
		"findings shop --all-runs":     "--all-runs goes with",
		"findings -A --against before": "name it",
	} {
		clitest.Ends(t, w.Run(strings.Fields(call)...), 1, want)
	}
}
