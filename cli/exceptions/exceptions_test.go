// SPDX-License-Identifier: Apache-2.0

package exceptions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) { clitest.Main(m, &cluster) }

const findings = `[
	{"id":"1","fingerprint":"fp-1","name":"Open Port: 22","category":"Open Port","severity":"HIGH","location":"tcp://10.0.0.1:22"},
	{"id":"2","fingerprint":"fp-2","name":"Open Port: 80","category":"Open Port","severity":"HIGH","location":"tcp://10.0.0.1:80"},
	{"id":"3","fingerprint":"fp-3","name":"Host","category":"Host","severity":"LOW","location":"10.0.0.1"}]`

// counted is a Scan whose status counts the findings.
func counted(s *executionv1.Scan) {
	s.Status.Findings = executionv1.FindingStats{
		Count: new(int64(3)), FindingSeverities: executionv1.FindingSeverities{High: new(int64(2)), Low: new(int64(1))},
	}
}

// TestLifeOfAnException makes one as a team does, sees what becomes of the finding, and ends it.
func TestLifeOfAnException(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("ports", []byte(findings), nil, counted)
	const bad = "2 findings of that severity or worse"
	clitest.Ends(t, w.Run("findings", "ports", "--fail-on", "high"), 2, bad)
	clitest.Ends(t, w.Run("exceptions", "list"), 0, "There are no exceptions in namespace "+w.Namespace)
	create := []string{"exceptions", "create", "--from", "ports", "--status", "accepted", "--reason", "The jump host needs it", "--expires", "30d", "--fingerprint"}
	clitest.Ends(t, w.Run(append(create, "fp-9")...), 1, "--fingerprint fp-9: no finding of Scan ports has it")
	clitest.Ends(t, w.Run(append(create, "fp-1", "--dry-run")...), 0, "created (dry run)")
	clitest.Ends(t, w.Run("exceptions", "list"), 0, "There are no exceptions")
	made := w.Run(append(create, "fp-1")...)
	clitest.Ends(t, made, 0, "findingexception/accepted-", " created")
	name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(made.Out), "findingexception/"), " created")
	clitest.Ends(t, w.Run(append(create, "fp-1")...), 1, "already exists")
	clitest.Ends(t, w.Run("exceptions", "list", "-o", "wide"), 0, name, "Accepted", "The jump host needs it")

	clitest.Ends(t, w.Run("findings", "ports", "--fail-on", "high"), 2, "1 finding of that severity or worse", "1 finding is excepted, --show-excepted lists it")
	if got := w.Run("findings", "ports"); strings.Contains(got.Out, "Open Port: 22") {
		t.Errorf("the excepted finding is listed:\n%s", got.Out)
	}
	shown := w.Run("findings", "ports", "--show-excepted", "--limit", "0")
	clitest.Ends(t, shown, 0, "EXCEPTION", "Accepted: The jump host needs it", "1 high, 1 low, 1 excepted")
	if lines := strings.Split(strings.TrimSpace(shown.Out), "\n"); !strings.Contains(lines[len(lines)-1], "Open Port: 22") {
		t.Errorf("the excepted finding is not the last one:\n%s", shown.Out)
	}
	clitest.Ends(t, w.Run("findings", "ports", "--no-exceptions", "--fail-on", "high"), 2, bad)
	clitest.Ends(t, w.Run("findings", "ports", "-o", "jsonl"), 0, `"exception":{"name":"`+name+`","kind":"FindingException","status":"Accepted","reason":"The jump host needs it","expiresAt":`)
	clitest.Ends(t, w.Run("findings", "ports", "-o", "sarif"), 0, `"suppressions":[{"kind":"external","status":"accepted"`)
	w.Scan("before", []byte(`[]`), nil)
	clitest.Ends(t, w.Run("diff", "before", "ports", "--fail-on", "high"), 2, "1 new finding of that severity", "2 new, 0 known, 0 fixed, 1 excepted")

	clitest.Ends(t, w.Run("wait", "ports", "--fail-on", "high"), 2, "has 1 finding of severity HIGH or above (--fail-on); 1 finding excepted")
	clitest.Ends(t, w.Run("wait", "ports", "--fail-on", "high", "--no-exceptions"), 2, "has 2 findings of severity HIGH or above (--fail-on)")

	clitest.Ends(t, w.Run("exceptions", "explain", "ports"), 0, "Accepted by FindingException "+name, "1 of 3 findings are excepted by 1 exceptions")
	clitest.Ends(t, w.Run("exceptions", "explain", "ports", "--fingerprint", "fp-2"), 0, "no exception holds", "matches none: spec.match.anyOf[0].fingerprints")
	clitest.Ends(t, w.Run("exceptions", "expiring"), 0, "No exception in namespace "+w.Namespace+" ends within 14d")
	clitest.Ends(t, w.Run("exceptions", "expiring", "--within", "31d"), 0, name, "The jump host needs it")

	described := w.Run("exceptions", "describe", name)
	clitest.Ends(t, described, 0, "FindingException:", w.Namespace+"/"+name, "Accepted", "The jump host needs it", "fingerprint fp-", "Until:", "Created:", "Holds")
	clitest.Ends(t, w.Run("exceptions", "describe", "acepted"), 1, `there is no FindingException "acepted"`)

	clitest.Ends(t, w.Run("exceptions", "expire", name), 0, "findingexception/"+name+" ended")
	clitest.Ends(t, w.Run("exceptions", "expire", name), 1, "has ended at")
	clitest.Ends(t, w.Run("exceptions", "expire", "acepted"), 1, `there is no FindingException "acepted"`)
	clitest.Ends(t, w.Run("findings", "ports", "--fail-on", "high"), 2, bad)
	clitest.Ends(t, w.Run("exceptions", "explain", "ports"), 0, name+" matches none: spec.expiresAt", "0 of 3 findings")
}

func TestCreateRefuses(t *testing.T) {
	w := clitest.New(t, cluster)
	base := []string{"exceptions", "create", "--reason", "long enough a reason"}
	for text, args := range map[string][]string{
		`--status "" must be one of Accepted, FalsePositive`:        {"--name", "a"},
		`spec.match.anyOf[0]: entry must have a field`:              {"--status", "Mitigated"},
		`spec.match.anyOf[0].names[0]: a glob of * alone`:           {"--status", "Mitigated", "--name", "*"},
		`spec.match.anyOf[0].packages[0]`:                           {"--status", "Mitigated", "--package", "lodash"},
		`--expires: "soon" must be a number of days such as 90d`:    {"--status", "Mitigated", "--name", "a", "--expires", "soon"},
		`--expires: "2001-01-01" is over`:                           {"--status", "Mitigated", "--name", "a", "--expires", "2001-01-01"},
		`a risk is accepted for a time: set spec.expiresAt`:         {"--status", "Accepted", "--name", "a"},
		`status NotAffected needs a justification`:                  {"--status", "NotAffected", "--name", "a"},
		`--severity "awful" must be one of high, medium`:            {"--status", "Mitigated", "--severity", "awful"},
		`--from goes with --fingerprint`:                            {"--status", "Mitigated", "--name", "a", "--from", "x"},
		`there is no Scan "x"`:                                      {"--status", "Mitigated", "--fingerprint", "a", "--from", "x"},
		`ticket must be a URL that begins with https:// or http://`: {"--status", "Mitigated", "--name", "a", "--ticket", "javascript:alert(1)"},
		`a finding has no field "nam"`:                              {"--status", "Mitigated", "--expression", "finding.nam == 'a'"},
	} {
		clitest.Ends(t, w.Run(append(base, args...)...), 1, text)
	}
	clitest.Ends(t, w.Run("exceptions", "create", "--status", "Mitigated", "--name", "a"), 1, "--reason must say why")
	clitest.Ends(t, w.Run("exceptions", "expiring", "--within", "soon"), 1, `--within "soon" must be a time such as 7d or 12h`)
}

// TestExceptionsOfTheCluster have a scope; what is stored and does not compile is told and changes nothing.
func TestExceptionsOfTheCluster(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("ports", []byte(findings), nil, counted)
	e := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{GenerateName: "cli-"}}
	e.Spec.Status, e.Spec.Reason = settingsv1alpha2.ExceptionFalsePositive, "The scanner is wrong"
	e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Categories: []string{"Open*"}}}
	e.Spec.Scope = &settingsv1alpha2.ClusterExceptionScope{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{metav1.NamespaceDefault + "-team": w.Namespace},
	}}
	if err := cluster.Client.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.WithoutCancel(t.Context()), e); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	clitest.Ends(t, w.Run("exceptions", "describe", "--cluster-wide", e.Name), 0, "ClusterFindingException:", "-team="+w.Namespace, "category Open*")
	clitest.Ends(t, w.Run("findings", "ports"), 0, "2 high, 1 low")
	clitest.Ends(t, w.Run("exceptions", "explain", "ports"), 0, e.Name+" matches none: spec.scope.namespaceSelector")
	e.Spec.Scope = &settingsv1alpha2.ClusterExceptionScope{Namespaces: []string{w.Namespace}}
	if err := cluster.Client.Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run("findings", "ports", "--fail-on", "medium"), 0, "2 findings are excepted")
	clitest.Ends(t, w.Run("wait", "ports", "--fail-on", "medium"), 0, "2 findings excepted; see scanyard findings ports --show-excepted")
	clitest.Ends(t, w.Run("exceptions", "list", "--cluster-wide"), 0, e.Name, "FalsePositive")
	broken := e.DeepCopy()
	broken.Spec.Match.AnyOf[0] = settingsv1alpha2.ExceptionEntry{Expression: "finding.nam == 'a'"}
	if err := cluster.Client.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run("findings", "ports"), 0, "exception "+e.Name+" matches nothing: spec.match.anyOf[0].expression", "2 high, 1 low")
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(e), e); err != nil {
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run("exceptions", "expire", "--cluster-wide", e.Name), 0, "ended")
}

const document = `{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://vendor.example/vex-1","author":"Vendor","timestamp":"2026-01-01T00:00:00Z","version":1,"statements":[
{"vulnerability":{"name":"CVE-2021-23337"},"products":[{"@id":"pkg:npm/lodash@4.17.20"}],"status":"not_affected","justification":"vulnerable_code_not_in_execute_path","impact_statement":"template() is not called"},
{"vulnerability":{"name":"CVE-2024-1"},"products":[{"@id":"pkg:npm/a@1"}],"status":"fixed"},
{"vulnerability":{"name":"CVE-2024-2"},"products":[{"@id":"pkg:npm/a@1"}],"status":"affected"}]}`

// TestVEX imports a document, twice, exports what came of it in both formats, and imports that.
func TestVEX(t *testing.T) {
	w := clitest.New(t, cluster)
	file := filepath.Join(t.TempDir(), "vendor.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(document)
	said := file + ": statement 3: affected makes no exception"
	clitest.Ends(t, w.Run("exceptions", "import", file, "--dry-run=server"), 0, "created (dry run)", said)
	clitest.Ends(t, w.Run("exceptions", "list"), 0, "There are no exceptions")
	made := w.Run("exceptions", "import", file, "--expires", "30d")
	clitest.Ends(t, made, 0, "findingexception/vex-", " created", said)
	if strings.Count(made.Out, " created") != 2 {
		t.Errorf("made %s", made.Out)
	}
	clitest.Ends(t, w.Run("exceptions", "import", file), 0, strings.ReplaceAll(made.Out, " created", " unchanged"))
	clitest.Ends(t, w.Run("exceptions", "expiring", "--within", "31d"), 0, "template() is not called", "VEX document says fixed.")
	before := w.Run("exceptions", "list", "-o", "json").Out
	specs := func(text string) (all []settingsv1alpha2.FindingExceptionSpec) {
		t.Helper()
		var list settingsv1alpha2.FindingExceptionList
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for i := range list.Items {
			all = append(all, list.Items[i].Spec)
		}
		return all
	}
	clitest.Ends(t, w.Run("exceptions", "create", "risk", "--name", "a", "--status", "Accepted", "--expires", "9d", "--reason", "long enough a reason"), 0, "created")
	for _, format := range []string{"openvex", "cyclonedx"} {
		exported := w.Run("exceptions", "export", "--format", format)
		clitest.Ends(t, exported, 0, "risk: a VEX document cannot say it: its status is Accepted")
		other := clitest.New(t, cluster)
		write(exported.Out)
		clitest.Ends(t, other.Run("exceptions", "import", file), 0, strings.Split(strings.TrimSpace(made.Out), "\n")...)
		if diff := cmp.Diff(specs(before), specs(other.Run("exceptions", "list", "-o", "json").Out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
	write(strings.Replace(document, "template() is not called", "template() is called by tests only", 1))
	clitest.Ends(t, w.Run("exceptions", "import", file), 0, " configured", " unchanged")
	clitest.Ends(t, w.Run("exceptions", "list", "-o", "wide"), 0, "template() is called by tests only")

	clitest.Ends(t, w.Run("exceptions", "import", file, "--dry-run=client"), 1, `--dry-run "client" must be none or server`)
	clitest.Ends(t, w.Run("exceptions", "import", file, "--expires", "soon"), 1, `--expires: "soon" must be`)
	clitest.Ends(t, w.Run("exceptions", "import", file+"x"), 1, "no such file")
	clitest.Ends(t, w.Run("exceptions", "export", "--format", "csaf"), 1, `--format "csaf" must be one of openvex, cyclonedx`)
	write(`{"a":1}`)
	clitest.Ends(t, w.Run("exceptions", "import", file), 1, "neither OpenVEX nor CycloneDX")
}

// TestCasesOfExceptions runs the cases of the specification through the command findings.
func TestCasesOfExceptions(t *testing.T) {
	w := clitest.New(t, cluster)
	exceptiontest.Each(t, "command line", w.Namespace, w.Now(), func(t *testing.T, c *exceptiontest.Case) {
		name := strings.ToLower(c.Name)
		w.Scan(name, []byte("["+c.Finding+"]"), nil, func(s *executionv1.Scan) {
			s.Status.Findings = executionv1.FindingStats{Count: new(int64(1)), FindingSeverities: executionv1.FindingSeverities{High: new(int64(1))}}
		})
		var made []client.Object
		for _, e := range c.List {
			var object client.Object
			if e.Namespace == "" {
				x := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{Name: e.Name}}
				x.Spec.ExceptionSpec = e.Spec
				if len(e.Scope.Namespaces) == 0 {
					e.Scope.Namespaces = []string{w.Namespace}
				}
				x.Spec.Scope, object = &e.Scope, x
			} else {
				x := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}}
				x.Spec.ExceptionSpec, object = e.Spec, x
			}
			if err := cluster.Client.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			made = append(made, object)
		}
		code, member := 2, ""
		if c.Suppressed {
			code = 0
		}
		if kind, name, ok := strings.Cut(c.Want, "/"); ok {
			member = fmt.Sprintf(`"exception":{"name":%q,"kind":%q`, name, kind)
		}
		got := w.Run("findings", name, "-o", "jsonl", "--fail-on", "high")
		clitest.Ends(t, got, code, member)
		if member == "" && strings.Contains(got.Out, `"exception"`) {
			t.Errorf("marked: %s", got.Out)
		}
		clitest.Ends(t, w.Run("wait", name, "--fail-on", "high"), code)
		for _, object := range made {
			if err := cluster.Client.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	})
}
