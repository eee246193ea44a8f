// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"strconv"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// lineOf returns the line of the deepest part of a path that a patch has. An element of a list is
// found by its name, or by its place.
func lineOf(node *kyaml.Node, path []string) int {
	line := max(node.Line, 1)
	for _, part := range path {
		key, next := child(node, part)
		if next == nil {
			return line
		}
		line, node = key.Line, next
	}
	return line
}

// child returns a field of a mapping, or the element of a list that has a name, with the node
// that stands for it.
func child(node *kyaml.Node, part string) (key, value *kyaml.Node) {
	switch node.Kind {
	case kyaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == part {
				return node.Content[i], node.Content[i+1]
			}
		}
	case kyaml.SequenceNode:
		for i, e := range node.Content {
			if strconv.Itoa(i) == part {
				return e, e
			}
			if _, name := child(e, "name"); name != nil && name.Value == part {
				return e, e
			}
		}
	default: // scalars have no children
	}
	return nil, nil
}

// lineOfKey returns the line of the first field of a name, at any depth; 1 where there is none.
func lineOfKey(node *kyaml.Node, name string) int {
	if line := findKey(node, name); line > 0 {
		return line
	}
	return 1
}

func findKey(node *kyaml.Node, name string) int {
	for i, c := range node.Content {
		if node.Kind == kyaml.MappingNode && i%2 == 0 {
			if c.Value == name {
				return c.Line
			}
			continue
		}
		if line := findKey(c, name); line > 0 {
			return line
		}
	}
	return 0
}
