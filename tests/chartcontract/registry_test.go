// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAlertsOfRegistries: each fires where it should, is tried where it should not, and has a section that says what to do.
func TestAlertsOfRegistries(t *testing.T) {
	folder := filepath.Join(charts, "registry", "alerts")
	tried := filepath.Join(folder, "registry_test.yaml")
	if out, err := promtool(t, "test", "rules", tried); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	var rules ruleFile
	readYAML(t, filepath.Join(folder, "registry.yaml"), &rules)
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "registries.md"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile(tried)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.Groups[0].Rules {
		if strings.Count(string(cases), "alertname: "+r.Alert+"\n") < 2 {
			t.Errorf("%s is not tried both ways", r.Alert)
		}
		if !strings.Contains(string(docs), "\n### "+r.Alert+"\n") {
			t.Errorf("%s has no section in the documentation", r.Alert)
		}
		if want := "https://github.com/scanyard/scanyard/blob/main/docs/registries.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
	}
}
