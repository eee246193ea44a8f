// SPDX-License-Identifier: Apache-2.0

package crdcontract

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// fullFolder has one object per kind with every field of ours set.
const fullFolder = "../../testdata/full"

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{executionv1.AddToScheme, cascadingv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// readFull returns the JSON of the object of a kind, and the object itself.
func readFull(t *testing.T, k kind) (map[string]any, runtime.Object) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(fullFolder, strings.ToLower(k.Kind)+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plain map[string]any
	if err := yaml.Unmarshal(raw, &plain); err != nil {
		t.Fatal(err)
	}
	o, err := newScheme(t).New(runtimeschema.GroupVersionKind{Group: k.Group, Version: "v1", Kind: k.Kind})
	if err != nil {
		t.Fatal(err)
	}
	// Strict: a field that the Go type does not know is an error.
	if err := yaml.UnmarshalStrict(raw, o); err != nil {
		t.Fatal(err)
	}
	return plain, o
}

// TestFullObjectsSetEveryField keeps the objects of testdata/full worth their name.
func TestFullObjectsSetEveryField(t *testing.T) {
	c := readContract(t)
	for _, k := range c.Kinds {
		plain, _ := readFull(t, k)
		for part, name := range map[string]string{"spec": k.Spec, "status": k.Status} {
			fields, _ := plain[part].(map[string]any)
			for f := range c.Tables[name] {
				if _, ok := fields[f]; !ok {
					t.Errorf("%s: %s.%s is not set", k.Kind, part, f)
				}
			}
		}
	}
}

// TestGoTypesLoseNothing sends every kind through its Go type and back.
func TestGoTypesLoseNothing(t *testing.T) {
	for _, k := range readContract(t).Kinds {
		t.Run(k.Kind, func(t *testing.T) {
			want, o := readFull(t, k)
			raw, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := yaml.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			for path, lost := range missing("", want, got) {
				t.Errorf("%s was %v, and is lost or changed", path, lost)
			}
		})
	}
}

// missing returns what want has and got has not or has otherwise. Empty objects that Go
// types add are not a difference.
func missing(path string, want, got any) map[string]any {
	lost := map[string]any{}
	w, isObject := want.(map[string]any)
	g, gotObject := got.(map[string]any)
	if !isObject || !gotObject {
		wl, isList := want.([]any)
		gl, gotList := got.([]any)
		if isList && gotList && len(wl) == len(gl) {
			for i := range wl {
				maps.Copy(lost, missing(path+"[]", wl[i], gl[i]))
			}
			return lost
		}
		if !reflect.DeepEqual(want, got) {
			lost[path] = want
		}
		return lost
	}
	for k, v := range w {
		maps.Copy(lost, missing(path+"."+k, v, g[k]))
	}
	return lost
}

// TestDefect09EmptyParametersSurviveTheGoType is defect 9 of the contract, on the side of the types: an
// empty list that vanished would make the Scan invalid.
func TestDefect09EmptyParametersSurviveTheGoType(t *testing.T) {
	raw, err := json.Marshal(&executionv1.ScanSpec{ScanType: "test-scan", Parameters: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `"parameters":[]`; !strings.Contains(string(raw), want) {
		t.Errorf("%s lacks %s", raw, want)
	}
}

// TestDeepCopiesShareNothing changes every map, slice and pointer of a copy and looks
// whether the original has changed with it.
func TestDeepCopiesShareNothing(t *testing.T) {
	for _, k := range readContract(t).Kinds {
		t.Run(k.Kind, func(t *testing.T) {
			_, o := readFull(t, k)
			before, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			c := o.DeepCopyObject()
			if !reflect.DeepEqual(o, c) {
				t.Fatal("the copy differs from its original")
			}
			scramble(reflect.ValueOf(c))
			after, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if string(before) != string(after) {
				t.Errorf("a change of the copy changed the original:\n before %s\n after  %s", before, after)
			}
			changed, err := json.Marshal(c)
			if err == nil && string(changed) == string(before) {
				t.Error("the copy was not changed at all: this test tests nothing")
			}
		})
	}
}

// scramble sets to zero whatever can be reached through pointers, slices and maps.
func scramble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		scramble(v.Elem())
		if v.Elem().CanSet() && v.Elem().Kind() != reflect.Struct {
			v.Elem().SetZero()
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			scramble(field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			scramble(v.Index(i))
			if v.Index(i).CanSet() {
				v.Index(i).SetZero()
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			scramble(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Value{})
		}
	}
}
