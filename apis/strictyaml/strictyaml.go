// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	k8sjson "sigs.k8s.io/json"
)

// maxSize bounds a file. A ConfigMap holds 1 MiB.
const maxSize = 4 << 20

// File is a YAML text that was read: it finds lines.
type File struct {
	name string
	root *yaml.Node
	tree any // what encoding/json marshals
}

// Problem is one thing that is wrong with a file.
type Problem struct {
	// File is the name of the file, Line counts from 1; 0 is unknown.
	File string
	Line int
	// Field is the path of the field, such as serviceAutoDiscovery.scanConfigs[0].name.
	Field string
	// Message says what is wrong and what to do.
	Message string
	// Unknown says that the struct does not have the field.
	Unknown bool
}

// String is the problem in a line, as compilers print it.
func (p Problem) String() string {
	at := p.File
	if p.Line > 0 {
		at += ":" + strconv.Itoa(p.Line)
	}
	if p.Field != "" {
		return at + ": " + p.Field + ": " + p.Message
	}
	return at + ": " + p.Message
}

// Error is all that is wrong with a file, in the order of its lines.
type Error struct{ Problems []Problem }

// Error lists the problems, one a line.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Decode reads data, which is called name in errors, into the struct that into points to. The error is an *Error; the File
// is there unless Parse refuses the text.
func Decode(name string, data []byte, into any) (*File, error) {
	f, err := Parse(name, data)
	if err != nil {
		return nil, err
	}
	return f, f.Decode(into, nil)
}

// Parse reads one YAML document, which is called name in errors. Fields that come twice are errors. The error is an *Error.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name}
	if len(data) > maxSize {
		return nil, f.fail(Problem{Message: fmt.Sprintf("is larger than %d MiB", maxSize>>20)})
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, f.fail(Problem{Message: "is empty"})
	case err != nil:
		return nil, f.fail(syntax(err))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, f.fail(Problem{Line: second.Line, Message: "has more than one document; leave one"})
	}
	f.root = document.Content[0]
	w := &walker{}
	f.tree = w.value(f.root, "", 0)
	if len(w.problems) > 0 {
		return nil, f.fail(w.problems...)
	}
	return f, nil
}

// Root is the node of the whole document, for packages that work on nodes.
func (f *File) Root() *yaml.Node { return f.root }

// Decode fills the struct that into points to as Kubernetes does: fields that the struct does not have and values of another
// type are errors. Fields whose key skip takes are left out, at any depth; nil leaves out nothing. The error is an *Error.
func (f *File) Decode(into any, skip func(key string) bool) error {
	tree := f.tree
	if skip != nil {
		tree = without(tree, skip)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return f.fail(Problem{Message: err.Error()})
	}
	strict, err := k8sjson.UnmarshalStrict(raw, into)
	if err != nil {
		path := f.narrow(nil, tree, into)
		return f.fail(Problem{Line: f.Line(path.String()), Field: path.String(), Message: wrongType(err)})
	}
	var problems []Problem
	for _, e := range strict {
		p := Problem{Message: e.Error()}
		if at, ok := errors.AsType[k8sjson.FieldError](e); ok {
			const message = "there is no such field; see the reference, and mind upper and lower case"
			p = Problem{Line: f.Line(at.FieldPath()), Field: at.FieldPath(), Message: message, Unknown: true}
		}
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		return f.fail(problems...)
	}
	return nil
}

func (f *File) fail(problems ...Problem) error {
	for i := range problems {
		problems[i].File = f.name
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	return &Error{Problems: problems}
}

var lineOf = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// syntax turns an error of the YAML parser into a problem.
func syntax(err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := lineOf.FindStringSubmatch(text); m != nil {
		if line, convErr := strconv.Atoi(m[1]); convErr == nil {
			return Problem{Line: line, Message: "is not YAML: " + m[2]}
		}
	}
	return Problem{Message: "is not YAML: " + text}
}

// Check turns what a validation has found into an error with lines; nil where there is nothing.
func (f *File) Check(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	problems := make([]Problem, 0, len(errs))
	for _, e := range errs {
		problems = append(problems, Problem{Line: f.Line(e.Field), Field: e.Field, Message: e.ErrorBody()})
	}
	return f.fail(problems...)
}

// Name is what the file is called in errors.
func (f *File) Name() string { return f.name }

// Where is the place of a field for messages, such as "auto-discovery.yaml:12".
func (f *File) Where(path string) string {
	return Problem{File: f.name, Line: f.Line(path)}.place()
}

func (p Problem) place() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Line returns the line of a field by its path, or that of the nearest one around it
// that is in the file; 0 where there is none.
func (f *File) Line(path string) int {
	return f.LineOf(steps(path)...)
}

// LineOf is Line by the steps of a path. A step into a list is the place of an element or the name that the element has.
func (f *File) LineOf(steps ...string) int {
	if f == nil || f.root == nil {
		return 0
	}
	node, line := f.root, 0
	for _, step := range steps {
		key, child := childOf(resolve(node), step)
		if child == nil {
			break
		}
		node, line = child, child.Line
		if key != nil {
			line = key.Line
		}
	}
	return line
}

// steps splits a.b[0].c[key with.dots] into its parts.
func steps(path string) []string {
	var all []string
	for len(path) > 0 {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return append(all, path[1:])
			}
			all, path = append(all, path[1:end]), path[end+1:]
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			all, path = append(all, path[:end]), path[end:]
		}
	}
	return all
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// childOf returns an entry of a mapping, with its key, or an element of a list.
func childOf(n *yaml.Node, step string) (key, value *yaml.Node) {
	switch n.Kind { //nolint:exhaustive // nothing is inside the other kinds
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i]
		}
		for _, element := range n.Content {
			if _, name := childOf(resolve(element), "name"); name != nil && name.Value == step {
				return nil, element
			}
		}
	}
	return nil, nil
}
