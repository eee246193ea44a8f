// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	k8sjson "sigs.k8s.io/json"
)

const (
	// maxDepth and maxNodes bound what a file can make of itself by aliases.
	maxDepth = 64
	maxNodes = 50_000
)

// walker turns nodes into what encoding/json marshals.
type walker struct {
	nodes    int
	problems []Problem
}

func (w *walker) value(n *yaml.Node, path string, depth int) any {
	if w.nodes++; w.nodes > maxNodes || depth > maxDepth {
		if len(w.problems) == 0 {
			w.problems = append(w.problems, Problem{Line: n.Line, Field: path, Message: "is nested too deeply or repeats too much by aliases"})
		}
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.value(n.Alias, path, depth+1)
	case yaml.MappingNode:
		return w.mapping(n, path, depth)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			list = append(list, w.value(c, path+"["+strconv.Itoa(i)+"]", depth+1))
		}
		return list
	default:
		return w.scalar(n, path)
	}
}

func (w *walker) mapping(n *yaml.Node, path string, depth int) any {
	m, merged, seen := map[string]any{}, map[string]any{}, map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			if from, ok := w.value(value, path, depth+1).(map[string]any); ok {
				maps.Copy(merged, from)
				continue
			}
		}
		at := join(path, key.Value)
		if key.Kind != yaml.ScalarNode {
			w.problems = append(w.problems, Problem{Line: key.Line, Field: path, Message: "a key must be a plain text"})
			continue
		}
		if line, twice := seen[key.Value]; twice {
			w.problems = append(w.problems, Problem{Line: key.Line, Field: at, Message: fmt.Sprintf("is there already in line %d; leave one", line)})
			continue
		}
		seen[key.Value] = key.Line
		m[key.Value] = w.value(value, at, depth+1)
	}
	for k, v := range merged {
		if _, ok := m[k]; !ok {
			m[k] = v
		}
	}
	return m
}

// scalar keeps as text what YAML would take for a date.
func (w *walker) scalar(n *yaml.Node, path string) any {
	if n.Tag == "!!timestamp" || n.Tag == "!!binary" {
		return n.Value
	}
	var v any
	if err := n.Decode(&v); err != nil {
		w.problems = append(w.problems, Problem{Line: n.Line, Field: path, Message: err.Error()})
	}
	return v
}

// without is a copy of a value without the fields whose key skip takes.
func without(value any, skip func(key string) bool) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			if !skip(key) {
				out[key] = without(member, skip)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = without(element, skip)
		}
		return out
	}
	return value
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + key + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// crumb is a step from a value to one inside it.
type crumb struct {
	key   string
	index int // where key is ""
}

type trail []crumb

// String is the path as Kubernetes writes it.
func (t trail) String() string {
	path := ""
	for _, c := range t {
		if c.key == "" {
			path += "[" + strconv.Itoa(c.index) + "]"
			continue
		}
		path = join(path, c.key)
	}
	return path
}

// narrow finds the innermost value that cannot be decoded: decoding says that something
// is wrong, and not always where. It tries each value alone, inside nothing but what leads to it.
func (f *File) narrow(at trail, value, into any) trail {
	type entry struct {
		crumb crumb
		value any
	}
	var entries []entry
	switch v := value.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			entries = append(entries, entry{crumb{key: k}, v[k]})
		}
	case []any:
		for i := range v {
			entries = append(entries, entry{crumb{index: i}, v[i]})
		}
	}
	for _, e := range entries {
		inner := append(slices.Clone(at), e.crumb)
		if !decodes(inner, e.value, into) {
			return f.narrow(inner, e.value, into)
		}
	}
	return at
}

// decodes says whether a value decodes at its place.
func decodes(at trail, value, into any) bool {
	for _, step := range slices.Backward(at) {
		if step.key == "" {
			value = []any{value}
		} else {
			value = map[string]any{step.key: value}
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return false
	}
	return k8sjson.UnmarshalCaseSensitivePreserveInts(raw, reflect.New(reflect.TypeOf(into).Elem()).Interface()) == nil
}

var typeError = regexp.MustCompile(`cannot unmarshal (\S+)(?: \S+)? into Go .* of type (\S+)$`)

// names of Go's types for people who write YAML.
var typeNames = map[string]string{
	"string": "a text; put it in quotes", "bool": "true or false", "int": "a whole number",
	"int32": "a whole number", "int64": "a whole number",
}

// kinds are those of JSON for people who write YAML.
var kinds = map[string]string{"object": "map of fields", "array": "list", "string": "text", "number": "number", "bool": "truth value"}

// wrongType says what a value should be.
func wrongType(err error) string {
	m := typeError.FindStringSubmatch(err.Error())
	if m == nil {
		return field.Invalid(nil, "", err.Error()).Detail
	}
	want, ok := typeNames[m[2]]
	switch {
	case ok:
	case m[2][0] == '[':
		want = "a list"
	default:
		want = "a map of fields"
	}
	return fmt.Sprintf("is a %s and must be %s", kinds[m[1]], want)
}
