// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/tests/testcluster"
)

// root is the folder of the checkout.
const root = "../../.."

var (
	update  = flag.Bool("update", false, "write testdata/valid/*.stored.yaml anew")
	cluster *testcluster.Cluster
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// TestValidManifestsAreStoredAsMeant is about shapes that charts and clients of
// secureCodeBox send: nulls, empty lists and objects, and texts that mean "unset".
func TestValidManifestsAreStoredAsMeant(t *testing.T) {
	for _, file := range glob(t, "testdata/valid/*.yaml") {
		if strings.HasSuffix(file, ".stored.yaml") {
			continue
		}
		t.Run(nameOf(file), func(t *testing.T) {
			o := readOne(t, file)
			if err := dryRun(t, o); err != nil {
				t.Fatalf("refused: %v", err)
			}
			got := map[string]any{"spec": o.Object["spec"]}
			want := strings.TrimSuffix(file, ".yaml") + ".stored.yaml"
			if *update {
				write(t, want, got)
			}
			if diff := cmp.Diff(read(t, want), got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDefect55InvalidManifestsAreRefused is about manifests that secureCodeBox takes
// and that can never work.
func TestDefect55InvalidManifestsAreRefused(t *testing.T) {
	for _, file := range glob(t, "testdata/invalid/*.yaml") {
		t.Run(nameOf(file), func(t *testing.T) { refused(t, file) })
	}
}

// TestDefect19UnknownHookTypesAreRefused is about hooks that silently never run.
func TestDefect19UnknownHookTypesAreRefused(t *testing.T) {
	refused(t, "testdata/invalid/hook-type-unknown.yaml")
	refused(t, "testdata/invalid/cluster-hook-type-unknown.yaml")
}

// TestDefect33NegativeTTLIsRefused is about Scans that would be deleted before they end.
func TestDefect33NegativeTTLIsRefused(t *testing.T) {
	refused(t, "testdata/invalid/scan-ttl-negative.yaml")
}

// TestDefect39ScheduleOrIntervalIsNeeded is about schedules that never start anything.
func TestDefect39ScheduleOrIntervalIsNeeded(t *testing.T) {
	for _, file := range glob(t, "testdata/invalid/scheduledscan-*.yaml") {
		refused(t, file)
	}
}

// TestDefect53ResultCalledFindingsIsRefused is about a raw result and findings that
// would overwrite each other in storage.
func TestDefect53ResultCalledFindingsIsRefused(t *testing.T) {
	refused(t, "testdata/invalid/scantype-location-findings.yaml")
}

// TestDefect09EmptyParametersStayValid patches a Scan with an empty list as the operator
// does: neither does the list vanish, nor does the API server refuse the patch.
func TestDefect09EmptyParametersStayValid(t *testing.T) {
	for name, spec := range map[string]any{
		"EmptyParameters": map[string]any{"scanType": "test-scan", "parameters": []any{}, "tolerations": []any{}},
		"NoSpec":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			o := newScan("defect9-"+strings.ToLower(name), spec)
			ctx := t.Context()
			if err := cluster.Client.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/x"]}}`))
			if err := cluster.Client.Patch(ctx, o, patch); err != nil {
				t.Fatalf("add a finalizer: %v", err)
			}
			for field, want := range map[string]any{"parameters": []any{}, "tolerations": []any{}} {
				got, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", field)
				if err != nil || found != (spec != nil) {
					t.Fatalf("spec.%s found: %t, %v", field, found, err)
				}
				if diff := cmp.Diff(want, got); found && diff != "" {
					t.Errorf("spec.%s (-want +got):\n%s", field, diff)
				}
			}
			patch = client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := cluster.Client.Patch(ctx, o, patch); err != nil {
				t.Fatalf("remove the finalizer: %v", err)
			}
		})
	}
}

// TestLargeScansAreRefused: the operator and etcd hold the Scans of all tenants. What is large in
// honest use goes through.
func TestLargeScansAreRefused(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	texts := func(count, n int) (list []any) {
		for range count {
			list = append(list, text(n))
		}
		return list
	}
	env := func(count, n int) (list []any) {
		for i := range count {
			list = append(list, map[string]any{"name": fmt.Sprintf("V%d", i), "value": text(n)})
		}
		return list
	}
	initial := func(fields map[string]any) []any {
		fields["name"], fields["image"] = "a", "a"
		return []any{fields}
	}
	for name, tc := range map[string]struct {
		field string
		value any
		want  string
	}{
		"ManyTargets":        {"parameters", texts(8000, 15), ""},
		"LongParameter":      {"parameters", texts(1, 60<<10), ""},
		"ParametersTogether": {"parameters", texts(3, 60<<10), "parameters may have 128 KiB together"},
		"ParameterTooLong":   {"parameters", texts(1, 70<<10), "spec.parameters[0]"},
		"ParametersTooMany":  {"parameters", texts(9000, 1), "spec.parameters"},
		"Script":             {"initContainers", initial(map[string]any{"args": texts(1, 100<<10)}), ""},
		"ScriptsTogether":    {"initContainers", initial(map[string]any{"args": texts(2, 40<<10), "command": texts(1, 30<<10), "env": env(1, 30<<10)}), "initContainers may have 128 KiB together"},
		"InitContainersMany": {"initContainers", func() (list []any) {
			for i := range 33 {
				list = append(list, map[string]any{"name": fmt.Sprintf("c%d", i), "image": "a"})
			}
			return list
		}(), "spec.initContainers"},
		"Env":         {"env", env(100, 500), ""},
		"EnvTogether": {"env", env(10, 7<<10), "values of env may have 64 KiB together"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := map[string]any{"scanType": "nmap", "parameters": []any{}}
			spec[tc.field] = tc.value
			err := dryRun(t, newScan("large", spec))
			if tc.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tc.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%.300v, want a refusal with %q", err, tc.want)
			}
		})
	}
}

// TestFullObjects sends objects with every field set, with strict checks: no field is
// unknown, and none is changed or pruned. The status goes by its own subresource.
func TestFullObjects(t *testing.T) {
	for _, file := range glob(t, filepath.Join(root, "apis/testdata/full/*.yaml")) {
		t.Run(nameOf(file), func(t *testing.T) {
			o := readOne(t, file)
			want := o.DeepCopy()
			if err := dryRun(t, o, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
				t.Fatalf("refused: %v", err)
			}
			if lost := lostFrom("spec", want.Object["spec"], o.Object["spec"]); len(lost) > 0 {
				t.Errorf("lost or changed: %v", lost)
			}
		})
	}
}

// TestStatusOfScans writes every field of a Scan's status.
func TestStatusOfScans(t *testing.T) {
	for _, kind := range []string{"scan", "scheduledscan"} {
		t.Run(kind, func(t *testing.T) {
			want := readOne(t, filepath.Join(root, "apis/testdata/full", kind+".yaml"))
			ctx, o := t.Context(), want.DeepCopy()
			o.SetNamespace("default")
			if err := cluster.Client.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
			if o.Object["status"] != nil {
				t.Errorf("status came in with the object: %v", o.Object["status"])
			}
			o.Object["status"] = want.DeepCopy().Object["status"]
			if err := cluster.Client.Status().Update(ctx, o); err != nil {
				t.Fatal(err)
			}
			if lost := lostFrom("status", want.Object["status"], o.Object["status"]); len(lost) > 0 {
				t.Errorf("lost or changed: %v", lost)
			}
		})
	}
}

// TestManifestsOfChartsAndDocs sends every object of ours that charts render, that
// stands in an example or in the documentation, with strict checks.
func TestManifestsOfChartsAndDocs(t *testing.T) {
	files := glob(t, filepath.Join(root, "charts/internal/golden/*.yaml"))
	files = append(files, glob(t, filepath.Join(root, "charts/*/example.yaml"))...)
	files = append(files, glob(t, filepath.Join(root, "hooks/*/example.yaml"))...)
	files = append(files, markdown(t)...)
	total := 0
	for _, file := range files {
		for i, o := range ours(t, file) {
			total++
			t.Run(fmt.Sprintf("%s/%d/%s", nameOf(file), i, o.GetKind()), func(t *testing.T) {
				if err := dryRun(t, o, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			})
		}
	}
	if total < 40 {
		t.Errorf("only %d manifests found", total)
	}
}

// refused sends a manifest that the API server must not take.
func refused(t *testing.T, file string) {
	t.Helper()
	o := readOne(t, file)
	err := dryRun(t, o)
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		t.Fatalf("%s: error %v, want it refused as invalid", file, err)
	}
	wants := regexp.MustCompile(`(?m)^# want: (.*)$`).FindAllStringSubmatch(string(readFile(t, file)), -1)
	if len(wants) == 0 {
		t.Fatalf("%s says nowhere what it wants", file)
	}
	for _, w := range wants {
		if !strings.Contains(err.Error(), w[1]) {
			t.Errorf("%s: error\n  %v\ndoes not hold\n  %s", file, err, w[1])
		}
	}
}

// dryRun creates an object without keeping it; the object becomes what would be stored.
func dryRun(t *testing.T, o *unstructured.Unstructured, options ...client.CreateOption) error {
	t.Helper()
	namespaced, err := cluster.Client.IsObjectNamespaced(o)
	if err != nil {
		t.Fatal(err)
	}
	if namespaced {
		o.SetNamespace("default")
	}
	return cluster.Client.Create(t.Context(), o, append(options, client.DryRunAll)...)
}

func newScan(name string, spec any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "execution.securecodebox.io/v1", "kind": "Scan",
		"metadata": map[string]any{"name": name, "namespace": "default"},
	}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// lostFrom returns what want has and got has not or has otherwise.
func lostFrom(path string, want, got any) []string {
	w, wantObject := want.(map[string]any)
	g, gotObject := got.(map[string]any)
	if !wantObject || !gotObject {
		if diff := cmp.Diff(want, got); diff != "" {
			return []string{path + ":\n" + diff}
		}
		return nil
	}
	var lost []string
	for k, v := range w {
		lost = append(lost, lostFrom(path+"."+k, v, g[k])...)
	}
	return lost
}

// ours returns the objects of our groups in a YAML or Markdown file.
func ours(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text := string(readFile(t, file))
	blocks := []string{text}
	if strings.HasSuffix(file, ".md") {
		blocks = nil
		for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(text, -1) {
			blocks = append(blocks, m[1])
		}
	}
	var all []*unstructured.Unstructured
	for _, b := range blocks {
		for _, doc := range regexp.MustCompile(`(?m)^---.*$`).Split(b, -1) {
			if !regexp.MustCompile(`(?m)^apiVersion: (\w+\.securecodebox|settings\.scanyard)\.io/`).MatchString(doc) {
				continue
			}
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, o)
		}
	}
	return all
}

// markdown returns the documentation.
func markdown(t *testing.T) []string {
	t.Helper()
	files := glob(t, filepath.Join(root, "README.md"))
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "charts/*/README.md", "hooks/*/README.md", "parsers/*/README.md"} {
		files = append(files, glob(t, filepath.Join(root, pattern))...)
	}
	return files
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing matches %s: %v", pattern, err)
	}
	return files
}

func nameOf(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".yaml"), ".md")
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func read(t *testing.T, file string) map[string]any {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	raw, err := yaml.YAMLToJSON(readFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	// Numbers as the API machinery has them: int64, not float64.
	raw = append([]byte(`{"apiVersion":"v1","kind":"X",`), raw[1:]...)
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	delete(o.Object, "apiVersion")
	delete(o.Object, "kind")
	return o.Object
}

func readOne(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON(readFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return o
}

func write(t *testing.T, file string, v any) {
	t.Helper()
	raw, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	raw = append([]byte("# SPDX-License-Identifier: Apache-2.0\n"), raw...)
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
