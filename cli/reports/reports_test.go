// SPDX-License-Identifier: Apache-2.0

package reports_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// newWorld is a namespace of a cluster that keeps reports as custom resources.
func newWorld(t *testing.T) *clitest.World {
	t.Helper()
	if err := cluster.InstallReportCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	return clitest.New(t, cluster)
}

// write writes a file and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const report = `{
  "apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "test"},
  "summary": {"pass": 1, "fail": 1},
  "results": [
    {"policy": "one", "result": "pass", "message": "fine"},
    {"policy": "two", "result": "fail", "severity": "high"}
  ]
}`

// TestPluginSpeaksAsScriptsKnow holds the words that scripts read, in the order in which they are used.
func TestPluginSpeaksAsScriptsKnow(t *testing.T) {
	w := newWorld(t)
	w.Program = session.PluginProgram
	file := write(t, report)
	changed := write(t, strings.Replace(report, `"pass": 1`, `"pass": 2`, 1))
	ns := w.Namespace
	for i, step := range []struct {
		args      []string
		code      int
		out, errs string
	}{
		{[]string{"get", "polr"}, 0, "", "No policy reports found in namespace: " + ns + "\n"},
		{[]string{"create", "-f", file}, 0, "PolicyReport 'test' in namespace " + ns + " successfully created.\n", ""},
		{[]string{"create", "-f", file}, 1, "", `Error: ` + file + `: policyreports.wgpolicyk8s.io "test" already exists` + "\n"},
		{[]string{"apply", "-f", changed}, 0, "PolicyReport 'test' in namespace " + ns + " successfully configured.\n", ""},
		{[]string{"apply", "-f", changed}, 0, "PolicyReport 'test' in namespace " + ns + " successfully unchanged.\n", ""},
		{[]string{"patch", "polr", "test", "--type", "merge", "-p", `{"summary":{"warn":3}}`}, 0, "PolicyReport 'test' in namespace " + ns + " successfully patched.\n", ""},
		{[]string{"get", "polr"}, 0, "Policy reports in namespace: " + ns + "\nNAME\ntest\n", ""},
		{[]string{"get", "policyreports", "-o", "name"}, 0, "policyreport.wgpolicyk8s.io/test\n", ""},
		{[]string{"delete", "polr", "test", "other"}, 1, "Successfully deleted  polr :  test\n", `Error: policyreports.wgpolicyk8s.io "other" not found` + "\n"},
	} {
		got := w.Run(step.args...)
		if diff := cmp.Diff(clitest.Result{Code: step.code, Out: step.out, Err: step.errs}, got); diff != "" {
			t.Errorf("step %d, %v (-want +got):\n%s", i, step.args, diff)
		}
	}
}

// TestClusterReports holds what is printed of kinds without namespace.
func TestClusterReports(t *testing.T) {
	w := newWorld(t)
	name := "of-" + w.Namespace
	file := write(t, strings.NewReplacer("PolicyReport", "ClusterPolicyReport", `"test"`, `"`+name+`"`).Replace(report))
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"reports", "apply", "-f", file}, "ClusterPolicyReport '" + name + "' successfully created.\n"},
		{[]string{"reports", "get", "cpolr", "--field-selector", "metadata.name=" + name}, "Cluster policy reports:\nNAME\n" + name + "\n"},
		{[]string{"reports", "delete", "cpolr", name}, "Successfully deleted  cpolr :  " + name + "\n"},
	} {
		if got := w.Run(step.args...); got.Code != 0 || got.Out != step.want {
			t.Errorf("%v: got %+v, want %q", step.args, got, step.want)
		}
	}
}

// TestYAML holds the order of keys and the indentation.
func TestYAML(t *testing.T) {
	w := newWorld(t)
	if got := w.Run("reports", "create", "-f", write(t, report)); got.Code != 0 {
		t.Fatal(got.Err)
	}
	got := w.Run("reports", "get", "polr", "test", "-o", "yaml")
	var keys []string
	for line := range strings.Lines(got.Out) {
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") {
			keys = append(keys, strings.TrimSpace(strings.SplitAfter(line, ":")[0]))
		}
	}
	if diff := cmp.Diff([]string{"apiVersion:", "kind:", "metadata:", "summary:", "results:"}, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s\n%s", diff, got.Out)
	}
	if !strings.Contains(got.Out, "\nsummary:\n    fail: 1\n    pass: 1\nresults:\n    - message: fine\n      policy: one\n") {
		t.Errorf("got\n%s", got.Out)
	}
	back := &wgpolicyv1alpha2.PolicyReport{}
	if err := yaml.UnmarshalStrict([]byte(got.Out), back); err != nil || back.Name != "test" || len(back.Results) != 2 {
		t.Errorf("read back: %v, %+v", err, back)
	}
}

// TestTables holds that all columns of the API are shown, over all namespaces too.
func TestTables(t *testing.T) {
	w := newWorld(t)
	if got := w.Run("reports", "create", "-f", write(t, report)); got.Code != 0 {
		t.Fatal(got.Err)
	}
	got := w.Run("reports", "get", "polr", "-o", "wide")
	if fields := strings.Fields(got.Out); !strings.HasPrefix(got.Out, "NAME") || len(fields) < 10 || got.Code != 0 {
		t.Errorf("got %+v", got)
	}
	for _, word := range []string{"PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE", "test"} {
		if !strings.Contains(got.Out, word) {
			t.Errorf("%s is missing in\n%s", word, got.Out)
		}
	}
	if got := w.Run("reports", "get", "polr", "-A"); !strings.HasPrefix(got.Out, "Policy reports in all namespaces:\nNAMESPACE") || !strings.Contains(got.Out, w.Namespace) {
		t.Errorf("got %+v", got)
	}
}

// TestPages holds that a list longer than a page is whole.
func TestPages(t *testing.T) {
	w := newWorld(t)
	const reports = 501
	var all strings.Builder
	for i := range reports {
		fmt.Fprintf(&all, "---\n%s\n", strings.Replace(report, `"test"`, fmt.Sprintf(`"r-%03d"`, i), 1))
	}
	if got := w.Run("reports", "create", "-f", write(t, all.String())); got.Code != 0 || strings.Count(got.Out, "created") != reports {
		t.Fatal(got)
	}
	if got := w.Run("reports", "get", "polr"); strings.Count(got.Out, "\nr-") != reports {
		t.Errorf("got %d names", strings.Count(got.Out, "\nr-"))
	}
}

// TestLint holds that a summary is compared with the results.
func TestLint(t *testing.T) {
	w := newWorld(t)
	create := func(content string) {
		t.Helper()
		if got := w.Run("reports", "create", "-f", write(t, content)); got.Code != 0 {
			t.Fatal(got.Err)
		}
	}
	create(report)
	if got := w.Run("reports", "lint"); got.Code != 0 || got.Out != "" || !strings.Contains(got.Err, "1 reports; 0 counts") {
		t.Errorf("what fits: got %+v", got)
	}
	create(strings.NewReplacer(`"test"`, `"wrong"`, `"pass": 1`, `"pass": 7`).Replace(report))
	want := "PolicyReport 'wrong' in namespace " + w.Namespace + ": summary.pass is 7, and 1 results are pass\n"
	if got := w.Run("reports", "lint", "polr"); got.Code != 1 || got.Out != want {
		t.Errorf("what does not fit: got %+v, want %q", got, want)
	}
}

// TestMistakes holds that a mistake is told before anything is sent, with what to type.
func TestMistakes(t *testing.T) {
	w := newWorld(t)
	other := write(t, report+"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
	for name, tc := range map[string]struct {
		args []string
		out  string
		want string
	}{
		"Kind":           {[]string{"reports", "get", "pods"}, "", `"pods" is not a kind of report: choose one of polr, cpolr, reps`},
		"Format":         {[]string{"reports", "get", "polr", "-o", "xml"}, "", "-o xml is not a format of this command: choose table"},
		"NameAndAll":     {[]string{"reports", "get", "polr", "test", "-A"}, "", "names go with neither --all-namespaces nor selectors"},
		"PatchType":      {[]string{"reports", "patch", "polr", "x", "--type", "strategic", "-p", "{}"}, "", "choose merge or json"},
		"OtherKind":      {[]string{"reports", "create", "-f", other}, "PolicyReport 'test' in namespace " + w.Namespace + " successfully created.\n", `ConfigMap "c" of v1 is not a report`},
		"NoFile":         {[]string{"reports", "create", "-f", "/does/not/exist"}, "", "does not exist"},
		"NotServedTable": {[]string{"reports", "get", "img", "-o", "wide"}, "", "does not serve images of reports.scanyard.io/v1alpha1: install"},
		"NotServed":      {[]string{"reports", "get", "vulnr"}, "", "does not serve vulnerabilityreports of reports.scanyard.io/v1alpha1: install the reports API server"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.Run(tc.args...)
			if got.Code != 1 || got.Out != tc.out || !strings.Contains(got.Err, tc.want) {
				t.Errorf("got %+v, want %q and %q", got, tc.out, tc.want)
			}
		})
	}
}
