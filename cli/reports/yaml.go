// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// first are the keys of an object that come before the others, in this order.
var first = []string{"apiVersion", "kind", "metadata", "scope", "summary", "results"}

// writeYAML writes an object with four spaces. Its own keys, and those of the items of a list, come in the order in which
// people read them; all others by the alphabet.
func writeYAML(w io.Writer, fields map[string]any) error {
	node, err := ordered(fields)
	if err != nil {
		return err
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(4)
	if err := enc.Encode(node); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return enc.Close()
}

func ordered(fields map[string]any) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range slices.SortedFunc(maps.Keys(fields), byRank) {
		value := &yaml.Node{}
		items, isList := fields[key].([]any)
		var err error
		if isList && key == "items" {
			value, err = orderedItems(items)
		} else {
			err = value.Encode(fields[key])
		}
		if err != nil {
			return nil, fmt.Errorf("write YAML: %s: %w", key, err)
		}
		name := &yaml.Node{}
		name.SetString(key)
		node.Content = append(node.Content, name, value)
	}
	return node, nil
}

func orderedItems(items []any) (*yaml.Node, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("an item is not an object but %T", item)
		}
		node, err := ordered(fields)
		if err != nil {
			return nil, err
		}
		list.Content = append(list.Content, node)
	}
	return list, nil
}

// byRank orders keys: those of first in their order, then the rest.
func byRank(a, b string) int {
	rank := func(key string) int {
		if i := slices.Index(first, key); i >= 0 {
			return i
		}
		return len(first)
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// lowerFirst has a title begin in lower case, unless its first word is an abbreviation.
func lowerFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[size:])
	if unicode.IsUpper(second) {
		return s
	}
	return string(unicode.ToLower(r)) + s[size:]
}
