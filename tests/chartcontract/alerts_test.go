// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// docsBase is where runbooks are read; the file behind it is in the folder docs.
const docsBase = "https://github.com/scanyard/scanyard/blob/main/docs/"

// monitored are the charts that have alerts.
func monitored(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(charts, "*", "alerts"))
	if err != nil || len(folders) < 3 {
		t.Fatalf("alerts in %v (%v): does this test still see them?", folders, err)
	}
	var names []string
	for _, f := range folders {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

func alertsOf(chart string) string { return filepath.Join(charts, chart, "alerts", chart+".yaml") }

func casesOf(chart string) string { return filepath.Join(charts, chart, "alerts", chart+"_test.yaml") }

func readDocs(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

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
	for _, chart := range monitored(t) {
		if out, err := promtool(t, "test", "rules", casesOf(chart)); err != nil {
			t.Errorf("%s: %v\n%s", chart, err, out)
		}
	}
}

// TestEveryAlertIsTried: there is a case in which it fires and one in which it does not.
func TestEveryAlertIsTried(t *testing.T) {
	for _, chart := range monitored(t) {
		var rules ruleFile
		readYAML(t, alertsOf(chart), &rules)
		var cases struct {
			Tests []struct {
				Alerts []struct {
					Name     string `json:"alertname"`
					Expected []any  `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			} `json:"tests"`
		}
		readYAML(t, casesOf(chart), &cases)
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
		if len(rules.Groups) != 1 || len(rules.Groups[0].Rules) == 0 {
			t.Fatalf("%s: %d groups, want one with rules", chart, len(rules.Groups))
		}
		for _, r := range rules.Groups[0].Rules {
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s: tried where it fires: %v, where it does not: %v", r.Alert, fires[r.Alert], quiet[r.Alert])
			}
		}
	}
}

// TestAlertsSayWhatToDo: each has a severity, a summary, what to do, and a heading in the documentation.
func TestAlertsSayWhatToDo(t *testing.T) {
	for _, chart := range monitored(t) {
		var rules ruleFile
		readYAML(t, alertsOf(chart), &rules)
		for _, r := range rules.Groups[0].Rules {
			if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
			}
			file, anchor, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], docsBase), "#")
			if anchor != strings.ToLower(r.Alert) {
				t.Errorf("%s: runbook_url is %s, want %sFILE#%s", r.Alert, r.Annotations["runbook_url"], docsBase, strings.ToLower(r.Alert))
				continue
			}
			if !strings.Contains(readDocs(t, file), "\n### "+r.Alert+"\n") {
				t.Errorf("%s has no heading in docs/%s", r.Alert, file)
			}
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

// dashboards are the files of all charts.
func dashboards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(charts, "*", "dashboards", "*.json"))
	if err != nil || len(files) < 2 {
		t.Fatalf("dashboards %v (%v): does this test still see them?", files, err)
	}
	return files
}

func panelsOf(t *testing.T, dashboard string) []panel {
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
	if board.SchemaVersion < 39 || board.Title == "" || len(board.Panels) < 10 {
		t.Errorf("%s: schema %d, title %q, %d panels: want the schema of Grafana 11 and ten panels", dashboard, board.SchemaVersion, board.Title, len(board.Panels))
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
	for n, file := range dashboards(t) {
		for _, p := range panelsOf(t, file) {
			if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
				t.Errorf("%s: the panel %q says too little", file, p.Title)
			}
			for i, target := range p.Targets {
				name := regexp.MustCompile(`[^a-z]+`).ReplaceAllString(strings.ToLower(p.Title), "_")
				expr := strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*").Replace(target.Expr)
				rules = append(rules, rule{Record: fmt.Sprintf("panel%d:%s:%s", n, name, strings.Repeat("x", i+1)), Expr: expr})
			}
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

// TestMetricsAreDocumented: what alerts and dashboards ask for stands in a table of metrics. That programs serve what
// stands there is tried end to end.
func TestMetricsAreDocumented(t *testing.T) {
	docs := readDocs(t, "forwarding.md") + readDocs(t, "registries.md") + readDocs(t, "configuration.md")
	var text strings.Builder
	for _, file := range dashboards(t) {
		for _, p := range panelsOf(t, file) {
			for _, target := range p.Targets {
				text.WriteString(target.Expr + "\n")
			}
		}
	}
	for _, chart := range monitored(t) {
		var rules ruleFile
		readYAML(t, alertsOf(chart), &rules)
		for _, r := range rules.Groups[0].Rules {
			text.WriteString(r.Expr + "\n")
		}
	}
	names := metricName.FindAllString(text.String(), -1)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 25 {
		t.Errorf("only %v found: does this test still see them?", names)
	}
	for _, name := range names {
		name = strings.TrimSuffix(name, "_bucket")
		if !regexp.MustCompile("(?m)^\\|.*`" + name + "[`{]").MatchString(docs) {
			t.Errorf("%s is in no row of a table of metrics", name)
		}
	}
}
