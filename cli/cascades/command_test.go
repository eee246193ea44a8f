// SPDX-License-Identifier: Apache-2.0

package cascades_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var (
	update  = flag.Bool("update", false, "write the expected outputs anew")
	cluster *testcluster.Cluster
)

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// explainCases are those of the package that answers.
var explainCases = filepath.Join("..", "..", "findings", "cascade", "explain", "testdata")

func golden(t *testing.T, w *clitest.World, name string, got clitest.Result) {
	t.Helper()
	text := strings.ReplaceAll(got.Out+"--- stderr\n"+got.Err, w.Namespace, "NAMESPACE")
	path := filepath.Join("testdata", name+".txt")
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

// TestTree shows a cascade of three levels, with a child that has lost its parent.
func TestTree(t *testing.T) {
	w := clitest.New(t, cluster)
	child := func(parent *executionv1.Scan, rule, scanType string, state executionv1.ScanState) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) {
			s.Annotations = map[string]string{
				"cascading.securecodebox.io/parent-scan": parent.Name, "cascading.securecodebox.io/chain": strings.TrimPrefix(parent.Annotations["cascading.securecodebox.io/chain"]+","+rule, ","),
			}
			if parent.UID != "" {
				s.OwnerReferences = []metav1.OwnerReference{{APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "Scan", Name: parent.Name, UID: parent.UID}}
			}
			s.Spec.ScanType, s.Status.State = scanType, state
			count := int64(3)
			s.Status.Findings = executionv1.FindingStats{Count: &count}
		}
	}
	root := w.Scan("nmap-network", nil, nil, func(s *executionv1.Scan) { s.Spec.ScanType = "nmap" })
	http := w.Scan("nmap-network-http-1", nil, nil, child(root, "http", "zap", executionv1.ScanStateDone))
	w.Scan("nmap-network-http-1-tls", nil, nil, child(http, "tls", "sslyze", executionv1.ScanStateErrored))
	w.Scan("orphan", nil, nil, child(&executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}, "http", "zap", executionv1.ScanStateScanning))
	last := &executionv1.Scan{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "orphan"}, last); err != nil {
		t.Fatal(err)
	}
	w.Now = func() time.Time { return last.CreationTimestamp.Add(3 * time.Hour) }
	cases := map[string][]string{
		"Tree":    {"tree"},
		"Cascade": {"cascade"},
		"Below":   {"tree", "nmap-network-http-1"},
		"Names":   {"tree", "-o", "name"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			got := w.Run(args...)
			if got.Code != 0 {
				t.Errorf("exit code %d", got.Code)
			}
			golden(t, w, name, got)
		})
	}
	for format, read := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) }} {
		var listed struct {
			Scans []struct {
				Name, Parent, Rule, Remark string
				Children                   []string
			}
		}
		got := w.Run("tree", "-o", format)
		if err := read([]byte(got.Out), &listed); err != nil || len(listed.Scans) != 4 || listed.Scans[0].Children[0] != "nmap-network-http-1" || listed.Scans[2].Rule != "tls" || listed.Scans[3].Remark == "" {
			t.Errorf("%s: %v, %+v", format, err, listed)
		}
	}
	if got := w.Run("tree", "nmap-netwrk"); got.Code != 1 || !strings.Contains(got.Err, "did you mean nmap-network") {
		t.Errorf("%+v", got)
	}
	if got := w.Run("tree", "-o", "xml"); got.Code != 1 || !strings.Contains(got.Err, "there are the formats table, json, yaml, name") {
		t.Errorf("%+v", got)
	}
	if got := clitest.New(t, cluster).Run("tree"); got.Code != 0 || got.Out != "" || !strings.Contains(got.Err, "no Scans in namespace cli-") {
		t.Errorf("%+v", got)
	}
}

// TestCancelChain ends what runs of a Scan and of what is below it, and nothing beside.
func TestCancelChain(t *testing.T) {
	w := clitest.New(t, cluster)
	below := func(parent string, state executionv1.ScanState) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) {
			s.Annotations = map[string]string{"cascading.securecodebox.io/parent-scan": parent}
			s.Status.State = state
		}
	}
	w.Scan("top", nil, nil)
	w.Scan("ended", nil, nil, below("top", executionv1.ScanStateDone))
	w.Scan("runs", nil, nil, below("top", executionv1.ScanStateScanning))
	w.Scan("deep", nil, nil, below("ended", executionv1.ScanStateParsing))
	w.Scan("beside", nil, nil, below("", executionv1.ScanStateScanning))
	got := w.Run("cancel", "top", "--chain")
	if lines := strings.Fields(got.Out); got.Code != 0 || len(lines) != 4 || !strings.Contains(got.Out, "scan/runs cancelled\n") || !strings.Contains(got.Out, "scan/deep cancelled\n") {
		t.Errorf("%+v", got)
	}
	for name, want := range map[string]bool{"top": false, "ended": false, "runs": true, "deep": true, "beside": false} {
		s := &executionv1.Scan{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, s); err != nil {
			t.Fatal(err)
		}
		if s.Cancelled() != want {
			t.Errorf("%s is cancelled: %v, want %v", name, s.Cancelled(), want)
		}
	}
	if got := w.Run("cancel", "top", "--chain"); got.Code != 1 || !strings.Contains(got.Err, "nothing runs of scan top and of what it has started") {
		t.Errorf("%+v", got)
	}
	if got := w.Run("cancel", "tpo", "--chain"); got.Code != 1 || !strings.Contains(got.Err, "did you mean top") {
		t.Errorf("%+v", got)
	}
	if got := w.Run("cancel", "ended"); got.Code != 1 || !strings.Contains(got.Err, "scan ended is Done already") {
		t.Errorf("%+v", got)
	}
}

// TestExplainFiles needs no cluster: the kubeconfig names none.
func TestExplainFiles(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Kubeconfig = filepath.Join(t.TempDir(), "none")
	folders, err := filepath.Glob(filepath.Join(explainCases, "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			args := []string{"cascade", "explain", "--scan", filepath.Join(folder, "scan.yaml"), "--findings", filepath.Join(folder, "findings.json"), "--rules", filepath.Join(folder, "rules.yaml")}
			if definition := filepath.Join(folder, "definition.yaml"); exists(definition) {
				args = append(args, "--parse-definition", definition)
			}
			got := w.Run(args...)
			want, err := os.ReadFile(filepath.Join(folder, "output.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.Out); diff != "" {
				t.Errorf("(-want +got):\n%s%s", diff, got.Err)
			}
			if fails := strings.Contains(string(want), "\nerror:"); (got.Code == 1) != fails {
				t.Errorf("exit code %d although the hook would fail: %t", got.Code, fails)
			}
		})
	}
	ports := func(name string) string { return filepath.Join(explainCases, "ports", name) }
	cases := map[string]struct {
		args []string
		says string
	}{
		"NoScan":     {nil, `required flag(s) "scan" not set`},
		"NoFindings": {[]string{"--scan", ports("scan.yaml"), "--rules", ports("rules.yaml")}, "--findings and --rules name files too"},
		"NoFile":     {[]string{"--scan", "nope.yaml", "--findings", ports("findings.json"), "--rules", ports("rules.yaml")}, "nope.yaml: no such file"},
		"Rules":      {[]string{"--scan", ports("rules.yaml"), "--findings", ports("findings.json"), "--rules", ports("rules.yaml")}, "rules.yaml holds 4 objects, want one"},
		"Format":     {[]string{"--scan", ports("scan.yaml"), "-o", "table"}, "there are the formats yaml and json"},
	}
	for name, c := range cases {
		if got := w.Run(append([]string{"cascade", "explain"}, c.args...)...); got.Code != 1 || !strings.Contains(got.Err, c.says) {
			t.Errorf("%s: %+v, want %q", name, got, c.says)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

const portFindings = `[
	{"id":"f-1","name":"Open Port: 443","category":"Open Port","severity":"INFORMATIONAL","location":"tcp://a.example.com:443","attributes":{"hostname":"a.example.com","port":443,"service":"https"}},
	{"id":"f-2","name":"Open Port: 22","category":"Open Port","severity":"INFORMATIONAL","location":"tcp://a.example.com:22","attributes":{"hostname":"a.example.com","port":22,"service":"ssh"}}]`

func rule(kind, name, service string) string {
	return `{"apiVersion":"cascading.securecodebox.io/v1","kind":"` + kind + `","metadata":{"name":"` + name + `"},"spec":{` +
		`"matches":{"anyOf":[{"category":"Open Port","attributes":{"service":"` + service + `"}}]},"scanSpec":{"scanType":"sslyze","parameters":["{{attributes.hostname}}"]}}}`
}

// TestExplainFromTheCluster takes what is not given as files from the cluster, in both modes.
func TestExplainFromTheCluster(t *testing.T) {
	w := clitest.New(t, cluster)
	mode := executionv1.ClusterWide
	w.Scan("local", []byte(portFindings), nil, func(s *executionv1.Scan) { s.Spec.Cascades = &executionv1.CascadeSpec{} })
	w.Scan("wide", []byte(portFindings), nil, func(s *executionv1.Scan) {
		s.Spec.Cascades, s.Spec.ResourceMode = &executionv1.CascadeSpec{}, &mode
	})
	put := func(text string) {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "CascadingRule" {
			o.SetNamespace(w.Namespace)
		}
		if err := w.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	put(rule("CascadingRule", "tls", "https"))
	put(rule("CascadingRule", "nothing", "gopher"))
	put(rule("ClusterCascadingRule", "everywhere", "ssh"))
	mine := filepath.Join(t.TempDir(), "rule.yaml")
	if err := os.WriteFile(mine, []byte(rule("CascadingRule", "mine", "ssh")), 0o600); err != nil {
		t.Fatal(err)
	}
	type told struct {
		Scan     string
		Findings int
		Children []struct{ Spec struct{ Parameters []string } }
		Rules    []struct {
			Rule    string
			Started int
			Reason  string
		}
	}
	cases := map[string]struct {
		args []string
		want []string
	}{
		"Local":    {[]string{"--scan", "local"}, []string{"nothing 0", "tls 1"}},
		"Wide":     {[]string{"--scan", "wide"}, []string{"everywhere 1"}},
		"OwnRules": {[]string{"--scan", "local", "--rules", mine}, []string{"mine 1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := w.Run(append([]string{"cascade", "explain", "-o", "json"}, c.args...)...)
			var answer told
			if err := json.Unmarshal([]byte(got.Out), &answer); err != nil || got.Code != 0 {
				t.Fatalf("%v, %+v", err, got)
			}
			var rules []string
			for _, r := range answer.Rules {
				rules = append(rules, r.Rule+" "+string(rune('0'+r.Started)))
			}
			if diff := cmp.Diff(c.want, rules); diff != "" || len(answer.Children) != 1 || answer.Findings != 2 {
				t.Errorf("%d children of %d findings, rules (-want +got):\n%s", len(answer.Children), answer.Findings, diff)
			}
		})
	}
	if got := w.Run("cascade", "explain", "--scan", "locl"); got.Code != 1 || !strings.Contains(got.Err, "did you mean local?") {
		t.Errorf("%+v", got)
	}
}
