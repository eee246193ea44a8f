// SPDX-License-Identifier: Apache-2.0

package crdcontract

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// schema is what is looked at of a schema. Unknown keys are ignored on purpose: rules
// and bounds that refuse what can never work are tested with real requests.
type schema struct {
	Type        string            `json:"type"`
	Format      string            `json:"format"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Additional  *schema           `json:"additionalProperties"`
	Required    []string          `json:"required"`
	Default     any               `json:"default"`
	Enum        []any             `json:"enum"`
	Nullable    bool              `json:"nullable"`
	Minimum     *float64          `json:"minimum"`
	IntOrString bool              `json:"x-kubernetes-int-or-string"`
	Preserve    bool              `json:"x-kubernetes-preserve-unknown-fields"`
	ListType    string            `json:"x-kubernetes-list-type"`
	MapType     string            `json:"x-kubernetes-map-type"`
}

// kubernetesTypes are the types that the contract takes over from Kubernetes.
var kubernetesTypes = map[string]reflect.Type{
	"Affinity":             reflect.TypeFor[corev1.Affinity](),
	"Condition":            reflect.TypeFor[metav1.Condition](),
	"Container":            reflect.TypeFor[corev1.Container](),
	"EnvVar":               reflect.TypeFor[corev1.EnvVar](),
	"Job":                  reflect.TypeFor[batchv1.Job](),
	"LabelSelector":        reflect.TypeFor[metav1.LabelSelector](),
	"ResourceRequirements": reflect.TypeFor[corev1.ResourceRequirements](),
	"Toleration":           reflect.TypeFor[corev1.Toleration](),
	"Volume":               reflect.TypeFor[corev1.Volume](),
	"VolumeMount":          reflect.TypeFor[corev1.VolumeMount](),
}

func TestFieldsAreThoseOfTheContract(t *testing.T) {
	c, crds := readContract(t), readCRDs(t)
	for _, k := range c.Kinds {
		t.Run(k.Kind, func(t *testing.T) {
			root := crds[k.Kind].Spec.Versions[0].Schema.Root
			ch := &checker{t: t, tables: c.Tables}
			equal(t, "fields of the root", []string{"apiVersion", "kind", "metadata", "spec", "status"}, slices.Sorted(maps.Keys(root.Properties)))
			equal(t, "required at the root", []string(nil), root.Required)
			ch.table("spec", c.Tables[k.Spec], root.Properties["spec"])
			status := root.Properties["status"]
			if k.Status != "" {
				ch.table("status", c.Tables[k.Status], status)
				return
			}
			// Old clients send the field; whatever is in it is pruned.
			if status.Type != "object" || len(status.Properties) > 0 || status.Preserve || status.Additional != nil {
				t.Errorf("status is %+v, want an object without properties", status)
			}
		})
	}
}

// checker holds schemas against tables.
type checker struct {
	t      *testing.T
	tables map[string]table
}

func (c *checker) errorf(path, format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
}

func (c *checker) table(path string, want table, got schema) {
	c.t.Helper()
	if want == nil {
		c.errorf(path, "contract.yaml has no such table")
		return
	}
	if got.Type != "object" || got.Nullable {
		c.errorf(path, "type %q, nullable %t, want an object", got.Type, got.Nullable)
	}
	var required []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		f := want[name]
		if f.Required {
			required = append(required, name)
		}
		s, ok := got.Properties[name]
		if !ok {
			c.errorf(path+"."+name, "the CRD has no such field")
			continue
		}
		c.field(path+"."+name, f, s)
	}
	for name := range got.Properties {
		if _, ok := want[name]; !ok {
			c.errorf(path+"."+name, "the contract has no such field; list it with added: true")
		}
	}
	slices.Sort(got.Required)
	if !slices.Equal(required, got.Required) {
		c.errorf(path, "required are %v, want %v", got.Required, required)
	}
}

func (c *checker) field(path string, want field, got schema) {
	c.t.Helper()
	if want.Added && want.Required {
		c.errorf(path, "an addition must be optional")
	}
	if want.Nullable != got.Nullable {
		c.errorf(path, "nullable is %t, want %t", got.Nullable, want.Nullable)
	}
	if !reflect.DeepEqual(want.Default, got.Default) {
		c.errorf(path, "default is %v, want %v", got.Default, want.Default)
	}
	if !reflect.DeepEqual(want.Enum, got.Enum) {
		c.errorf(path, "enum is %v, want %v", got.Enum, want.Enum)
	}
	if !reflect.DeepEqual(want.Minimum, got.Minimum) {
		c.errorf(path, "minimum is %v, want %v", number(got.Minimum), number(want.Minimum))
	}
	if want.ListType != got.ListType {
		c.errorf(path, "list type is %q, want %q", got.ListType, want.ListType)
	}
	if want.MapType != got.MapType {
		c.errorf(path, "map type is %q, want %q", got.MapType, want.MapType)
	}
	if want.ItemsRequire != nil && (got.Items == nil || !slices.Equal(want.ItemsRequire, got.Items.Required)) {
		c.errorf(path, "its items do not require exactly %v", want.ItemsRequire)
	}
	c.typed(path, want.Type, got)
}

// typed holds a schema against a type of contract.yaml.
func (c *checker) typed(path, want string, got schema) {
	c.t.Helper()
	if item, ok := strings.CutPrefix(want, "[]"); ok {
		if got.Type != "array" || got.Items == nil {
			c.errorf(path, "type %q, want an array", got.Type)
			return
		}
		c.typed(path+"[]", item, *got.Items)
		return
	}
	if item, ok := strings.CutPrefix(want, "map["); ok {
		if got.Type != "object" || got.Additional == nil {
			c.errorf(path, "type %q, want a map", got.Type)
			return
		}
		c.typed(path+"{}", strings.TrimSuffix(item, "]"), *got.Additional)
		return
	}
	if name, ok := strings.CutPrefix(want, "table "); ok {
		c.table(path, c.tables[name], got)
		return
	}
	if name, ok := strings.CutPrefix(want, "kubernetes "); ok {
		if kubernetesTypes[name] == nil {
			c.errorf(path, "unknown Kubernetes type %q", name)
			return
		}
		c.kubernetes(path, kubernetesTypes[name], got)
		return
	}
	c.scalar(path, want, got)
}

// scalars are the simple types of contract.yaml as {type, format} of a schema.
var scalars = map[string][2]string{
	"string": {"string", ""}, "boolean": {"boolean", ""}, "integer": {"integer", ""},
	"int32": {"integer", "int32"}, "int64": {"integer", "int64"}, "date-time": {"string", "date-time"},
}

func (c *checker) scalar(path, want string, got schema) {
	c.t.Helper()
	if want == "int-or-string" {
		if !got.IntOrString {
			c.errorf(path, "is not an int-or-string")
		}
		return
	}
	s, ok := scalars[want]
	if !ok {
		c.errorf(path, "unknown type %q in contract.yaml", want)
	}
	if have := [2]string{got.Type, got.Format}; have != s {
		c.errorf(path, "type %v, want %v", have, s)
	}
}

// kubernetesRequires are fields that Kubernetes declares as required although its Go
// types would leave them out when empty.
var kubernetesRequires = map[string]bool{
	"v1.ContainerRestartRule.action": true, "v1.ContainerRestartRuleOnExitCodes.operator": true,
	"v1.PodCertificateProjection.keyType": true, "v1.PodCertificateProjection.signerName": true,
}

// metadataFields are those of a template's metadata that must survive. The API server
// prunes what a schema does not name (trap T9 of the contract).
var metadataFields = []string{"annotations", "labels"}

// kubernetes holds a schema against a Go type of Kubernetes: all fields are there, of
// the right kind, and none is required that Kubernetes lets users leave out.
func (c *checker) kubernetes(path string, t reflect.Type, got schema) {
	c.t.Helper()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		c.scalar(path, "int-or-string", got)
		return
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		c.scalar(path, "date-time", got)
		return
	case reflect.TypeFor[metav1.ObjectMeta]():
		for _, f := range metadataFields {
			c.typed(path+"."+f, "map[string]", got.Properties[f])
		}
		return
	case reflect.TypeFor[metav1.FieldsV1]():
		return
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			c.scalar(path, "string", schema{Type: got.Type})
			return
		}
		if got.Type != "array" || got.Items == nil {
			c.errorf(path, "type %q, want an array", got.Type)
			return
		}
		c.kubernetes(path+"[]", t.Elem(), *got.Items)
	case reflect.Map:
		if got.Type != "object" || got.Additional == nil {
			c.errorf(path, "type %q, want a map", got.Type)
			return
		}
		c.kubernetes(path+"{}", t.Elem(), *got.Additional)
	case reflect.Struct:
		c.kubernetesStruct(path, t, got)
	default:
		c.kubernetesScalar(path, t, got)
	}
}

func (c *checker) kubernetesScalar(path string, t reflect.Type, got schema) {
	c.t.Helper()
	want := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer",
		reflect.Int32: "int32", reflect.Int64: "int64",
	}[t.Kind()]
	c.scalar(path, want, got)
}

func (c *checker) kubernetesStruct(path string, t reflect.Type, got schema) {
	c.t.Helper()
	if got.Type != "object" {
		c.errorf(path, "type %q, want an object", got.Type)
		return
	}
	needed := map[string]bool{}
	for f := range t.Fields() {
		tag := strings.Split(f.Tag.Get("json"), ",")
		if f.Anonymous && tag[0] == "" {
			if f.Type != reflect.TypeFor[metav1.TypeMeta]() {
				c.kubernetesEmbedded(path, f.Type, got)
			}
			continue
		}
		needed[tag[0]] = len(tag) == 1 // without omitempty
		s, ok := got.Properties[tag[0]]
		if !ok {
			c.errorf(path+"."+tag[0], "the CRD has no such field of %s", t)
			continue
		}
		c.kubernetes(path+"."+tag[0], f.Type, s)
	}
	for _, r := range got.Required {
		if needs, known := needed[r]; known && !needs && !kubernetesRequires[t.String()+"."+r] {
			c.errorf(path+"."+r, "is required, but optional in %s", t)
		}
	}
}

// kubernetesEmbedded checks the fields of an embedded struct, which JSON has inline.
func (c *checker) kubernetesEmbedded(path string, t reflect.Type, got schema) {
	c.t.Helper()
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		s, ok := got.Properties[name]
		if !ok {
			c.errorf(path+"."+name, "the CRD has no such field of %s", t)
			continue
		}
		c.kubernetes(path+"."+name, field.Type, s)
	}
}

// TestDefect23LabelsOfTemplatesAreKept is trap T9 and defect 23 of the contract: secureCodeBox
// types both as a bare object, and the API server drops all that is in them.
func TestDefect23LabelsOfTemplatesAreKept(t *testing.T) {
	crds := readCRDs(t)
	for _, kind := range []string{"ScanType", "ClusterScanType"} {
		job := crds[kind].Spec.Versions[0].Schema.Root.Properties["spec"].Properties["jobTemplate"]
		for path, metadata := range map[string]schema{
			"jobTemplate.metadata":               job.Properties["metadata"],
			"jobTemplate.spec.template.metadata": job.Properties["spec"].Properties["template"].Properties["metadata"],
		} {
			for _, f := range metadataFields {
				s, ok := metadata.Properties[f]
				if !ok || s.Additional == nil || s.Additional.Type != "string" {
					t.Errorf("%s %s.%s is not kept", kind, path, f)
				}
			}
		}
	}
}

func number(f *float64) any {
	if f == nil {
		return nil
	}
	return *f
}

// TestScanTypesNeedAContainer: of a ScanType's Job only the template, and of its pod
// only the containers, are required.
func TestScanTypesNeedAContainer(t *testing.T) {
	crds := readCRDs(t)
	for _, kind := range []string{"ScanType", "ClusterScanType"} {
		job := crds[kind].Spec.Versions[0].Schema.Root.Properties["spec"].Properties["jobTemplate"]
		spec := job.Properties["spec"]
		pod := spec.Properties["template"].Properties["spec"]
		equal(t, kind+" jobTemplate requires", []string(nil), job.Required)
		equal(t, kind+" jobTemplate.spec requires", []string{"template"}, spec.Required)
		equal(t, kind+" jobTemplate.spec.template.spec requires", []string{"containers"}, pod.Required)
	}
}
