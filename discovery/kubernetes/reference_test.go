// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

var update = flag.Bool("update", false, "rewrite the chart's schema and the reference")

var root = filepath.Join("..", "..")

const chartFolder = "auto-discovery-kubernetes"

// TestReference: the reference of the configuration, and what the chart's schema says of
// value config, are made from the types. -update makes them.
func TestReference(t *testing.T) {
	comments := fieldComments(t, "config", filepath.Join("..", "internal", "scanconfig"))
	current(t, filepath.Join(root, "docs", "reference", "auto-discovery.md"), referencePage(comments))

	path := filepath.Join(root, "charts", chartFolder, "values.schema.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	config := schemaOf(reflect.TypeFor[config.Config](), comments)
	config["description"] = "The configuration file; docs/reference/auto-discovery.md."
	schema["properties"].(map[string]any)["config"] = config
	want, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	current(t, path, string(want)+"\n")
}

func current(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not current; go test ./kubernetes -run TestReference -update makes it (-want +got):\n%s", path, diff)
	}
}

// TestChartDefaults: the configuration that the chart brings is one.
func TestChartDefaults(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "charts", chartFolder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Config json.RawMessage `json:"config"`
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.JSONToYAML(values.Config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load("values.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if c.ResourceInclusion.Mode != config.EnabledPerNamespace || !c.ServiceAutoDiscovery.Enabled || c.ContainerAutoDiscovery.Enabled ||
		c.ServiceAutoDiscovery.ScanConfigs[0].Name != "zap" || c.ContainerAutoDiscovery.ScanConfigs[0].Name != "trivy" {
		t.Errorf("the chart's defaults are not secureCodeBox's: %+v", c.Config)
	}
}

// fieldComments are the comments of the fields of structs, by Type.Field.
func fieldComments(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						for _, name := range field.Names {
							text := strings.Join(strings.Fields(field.Doc.Text()), " ")
							all[spec.Name.Name+"."+name.Name] = strings.TrimSpace(strings.TrimPrefix(text, name.Name+" "))
						}
					}
				}
				return true
			})
		}
	}
	return all
}

// property is a field of the configuration.
type property struct {
	name, comment string
	t             reflect.Type
}

// properties are the fields of a struct by their names in the file.
func properties(t reflect.Type, comments map[string]string) []property {
	var all []property
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == reflect.TypeFor[metav1.TypeMeta]():
			all = append(all, property{"apiVersion", "is " + config.ConfigAPIVersion + ".", reflect.TypeFor[string]()},
				property{"kind", "is " + config.ConfigKind + ".", reflect.TypeFor[string]()})
		case name == "":
			all = append(all, properties(f.Type, comments)...)
		default:
			all = append(all, property{name, comments[t.Name()+"."+f.Name], f.Type})
		}
	}
	return all
}

// isOurs says whether a struct is one of the configuration, and not one of Kubernetes.
func isOurs(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.Contains(t.PkgPath(), "scanyard/discovery/")
}

func schemaOf(t reflect.Type, comments map[string]string) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^0$`}
	case t == reflect.TypeFor[intstr.IntOrString]():
		return map[string]any{"type": []string{"integer", "string"}}
	case isOurs(t):
		all := map[string]any{}
		for _, p := range properties(t, comments) {
			s := schemaOf(p.t, comments)
			s["description"] = sentence(p.comment)
			all[p.name] = s
		}
		return map[string]any{"type": "object", "additionalProperties": false, "properties": all}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), comments)}
	default:
		return map[string]any{"type": "object"}
	}
}

func sentence(comment string) string {
	if comment == "" {
		return ""
	}
	return strings.ToUpper(comment[:1]) + comment[1:]
}

// referencePage lists all fields.
func referencePage(comments map[string]string) string {
	b := &strings.Builder{}
	b.WriteString("<!-- Made from the types by \"go test ./kubernetes -run TestReference -update\" in discovery/. -->\n" +
		"# Configuration of the auto-discovery for Kubernetes\n\n" +
		"The file `auto-discovery.yaml`, value `config` of the chart [auto-discovery-kubernetes](../../charts/auto-discovery-kubernetes/README.md).\n" +
		"How it is used: [auto-discovery](../auto-discovery.md). The defaults here are those of the program, with which a file of\n" +
		"secureCodeBox means what it means there; the chart brings some others. Fields marked T are templates. A field that is not\n" +
		"listed here is refused, with its line.\n")
	section(b, "The file", "", reflect.TypeFor[config.Config](), comments)
	b.WriteString("\n## scanConfigs\n\nThe same in all of serviceAutoDiscovery, containerAutoDiscovery, ingressAutoDiscovery and gatewayAutoDiscovery.\n\n")
	table(b, "", reflect.TypeFor[config.ScanConfig](), comments)
	return b.String()
}

func section(b *strings.Builder, title, prefix string, t reflect.Type, comments map[string]string) {
	fmt.Fprintf(b, "\n## %s\n\n", title)
	table(b, prefix, t, comments)
	for _, p := range properties(t, comments) {
		if isOurs(p.t) && prefix == "" {
			section(b, p.name, p.name+".", p.t, comments)
		}
	}
}

func table(b *strings.Builder, prefix string, t reflect.Type, comments map[string]string) {
	b.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
	for _, p := range properties(t, comments) {
		switch {
		case isOurs(p.t) && prefix != "":
			for _, inner := range properties(p.t, comments) {
				row(b, p.name+"."+inner.name, inner)
			}
		default:
			row(b, p.name, p)
		}
	}
}

func row(b *strings.Builder, name string, p property) {
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, typeName(p.t), sentence(strings.ReplaceAll(p.comment, "|", `\|`)))
}

func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		return "duration"
	case t == reflect.TypeFor[intstr.IntOrString]():
		return "number or text"
	case isOurs(t):
		return "below"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "number"
	case reflect.Slice:
		if isOurs(t.Elem()) {
			return "list, below"
		}
		return "list of " + typeName(t.Elem())
	case reflect.Map:
		return "map of texts"
	default:
		return t.Name()
	}
}
