// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	alertRules     = filepath.Join(charts, "forwarding", "alerts", "forwarding.yaml")
	alertTests     = filepath.Join(charts, "forwarding", "alerts", "forwarding_test.yaml")
	dashboard      = filepath.Join(charts, "forwarding", "dashboards", "forwarding.json")
	forwardingDocs = filepath.Join("..", "..", "docs", "forwarding.md")
)

// ruleFile is what is looked at of a file of rules.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// promtool runs Prometheus' own tool, which parses expressions and evaluates rules.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path := os.Getenv("PROMTOOL")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "tools", "promtool")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatalf("promtool does not run: make test-tools (%v)", err)
	}
	return string(out), err
}

// TestAlertsFireWhereTheyShould evaluates every alert over series that it is about, and over those that it is not.
func TestAlertsFireWhereTheyShould(t *testing.T) {
	if out, err := promtool(t, "test", "rules", alertTests); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestEveryAlertIsTried: there is a case in which it fires and one in which it does not.
func TestEveryAlertIsTried(t *testing.T) {
	var rules ruleFile
	readYAML(t, alertRules, &rules)
	var cases struct {
		Tests []struct {
			Alerts []struct {
				Name     string `json:"alertname"`
				Expected []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	readYAML(t, alertTests, &cases)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, c := range cases.Tests {
		for _, a := range c.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				quiet[a.Name] = true
			}
		}
	}
	count := 0
	for _, r := range rules.Groups[0].Rules {
		count++
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s: tried where it fires: %v, where it does not: %v", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
	if count != 14 {
		t.Errorf("%d alerts, want 14", count)
	}
}

// TestAlertsSayWhatToDo: each has a severity, a summary, what to do, and a heading in the documentation.
func TestAlertsSayWhatToDo(t *testing.T) {
	var rules ruleFile
	readYAML(t, alertRules, &rules)
	docs, err := os.ReadFile(forwardingDocs)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.Groups[0].Rules {
		if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
		}
		if want := "https://github.com/scanyard/scanyard/blob/main/docs/forwarding.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !strings.Contains(string(docs), "\n### "+r.Alert+"\n") {
			t.Errorf("%s has no heading in %s", r.Alert, forwardingDocs)
		}
	}
}

// panel is what is looked at of a panel of the dashboard.
type panel struct {
	Title, Description, Type string
	Targets                  []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

func dashboardPanels(t *testing.T) []panel {
	t.Helper()
	raw, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title         string  `json:"title"`
		SchemaVersion int     `json:"schemaVersion"`
		Panels        []panel `json:"panels"`
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatalf("%s: %v", dashboard, err)
	}
	if board.SchemaVersion < 39 || board.Title == "" || len(board.Panels) != 12 {
		t.Errorf("schema %d, title %q, %d panels: want the schema of Grafana 11 and 12 panels", board.SchemaVersion, board.Title, len(board.Panels))
	}
	return board.Panels
}

// TestDashboardIsPromQL has Prometheus' parser read every expression, as rules that record it.
func TestDashboardIsPromQL(t *testing.T) {
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, p := range dashboardPanels(t) {
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("the panel %q says too little", p.Title)
		}
		for i, target := range p.Targets {
			name := regexp.MustCompile(`[^a-z]+`).ReplaceAllString(strings.ToLower(p.Title), "_")
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			rules = append(rules, rule{Record: "panel:" + name + ":" + strings.Repeat("x", i+1), Expr: expr})
		}
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", file); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var metricName = regexp.MustCompile(`\bscanyard_[a-z_]+`)

// TestMetricsAreDocumented: what alerts and dashboard ask for stands in the table of metrics. That programs serve what
// stands there is tried end to end.
func TestMetricsAreDocumented(t *testing.T) {
	docs, err := os.ReadFile(forwardingDocs)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, p := range dashboardPanels(t) {
		for _, target := range p.Targets {
			text.WriteString(target.Expr + "\n")
		}
	}
	rules, err := os.ReadFile(alertRules)
	if err != nil {
		t.Fatal(err)
	}
	text.Write(rules)
	names := metricName.FindAllString(text.String(), -1)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 15 {
		t.Errorf("only %v found: does this test still see them?", names)
	}
	for _, name := range names {
		name = strings.TrimSuffix(name, "_bucket")
		if !strings.Contains(string(docs), "\n| `"+name) {
			t.Errorf("%s is in no row of %s", name, forwardingDocs)
		}
	}
}
