// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the schemas of charts anew instead of comparing them")

// made marks the schemas that are made from values.yaml; larger charts have one that is written by hand.
const made = "Made from values.yaml by make generate."

// TestSchemas: every chart says the type of each of its values, so that Helm refuses a wrong one with the value's name.
func TestSchemas(t *testing.T) {
	all, err := filepath.Glob(filepath.Join(charts, "*", "values.yaml"))
	if err != nil || len(all) < 30 {
		t.Fatalf("%d charts (%v)", len(all), err)
	}
	for _, values := range all {
		folder := filepath.Dir(values)
		chart, file := filepath.Base(folder), filepath.Join(folder, "values.schema.json")
		t.Run(chart, func(t *testing.T) {
			was, err := os.ReadFile(file)
			if err == nil && !bytes.Contains(was, []byte(made)) {
				t.Skip("its schema is written by hand")
			}
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			text, err := os.ReadFile(values)
			if err != nil {
				t.Fatal(err)
			}
			schema, err := schemaOf(chart, text)
			if err != nil {
				t.Fatalf("charts/%s/values.yaml: %v", chart, err)
			}
			if *update {
				if err := os.WriteFile(file, schema, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(schema), string(was)); diff != "" {
				t.Errorf("charts/%s/values.schema.json is not what values.yaml says: make generate writes it anew:\n%s", chart, diff)
			}
		})
	}
}

// schemaOf makes the schema of a chart's values: types from defaults and, where a default is null, from the word in front of its comment
// or from its name. Names that values.yaml does not have are left to the library chart, which says what was meant.
func schemaOf(chart string, values []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return nil, err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"$comment\": %s,\n  \"title\": %s,\n  \"type\": \"object\"", quoted(made), quoted("Values of the chart "+chart))
	if err := writeProperties(&out, document.Content[0], "  ", ""); err != nil {
		return nil, err
	}
	out.WriteString("\n}\n")
	return []byte(out.String()), nil
}

// writeProperties writes a line for each value, and a block for each that has values of its own.
func writeProperties(out *strings.Builder, mapping *yaml.Node, indent, path string) error {
	fmt.Fprintf(out, ",\n%s\"properties\": {", indent)
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(out, "\n%s  %s: ", indent, quoted(key.Value))
		comment := commentOf(key)
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && !free[key.Value] {
			fmt.Fprintf(out, "{\n%s    \"type\": \"object\"", indent)
			if err := writeProperties(out, value, indent+"    ", path+key.Value+"."); err != nil {
				return err
			}
			fmt.Fprintf(out, "\n%s  }", indent)
			continue
		}
		leaf, err := leafOf(key.Value, value, comment)
		if err != nil {
			return fmt.Errorf("%s%s: %w", path, key.Value, err)
		}
		out.WriteString(leaf)
	}
	fmt.Fprintf(out, "\n%s}", indent)
	return nil
}

// free are values with names that users choose, or that Kubernetes defines.
var free = map[string]bool{
	"securityContext": true, "podSecurityContext": true, "containerSecurityContext": true, "resources": true, "requests": true, "limits": true,
	"labels": true, "annotations": true, "nodeSelector": true, "affinity": true, "scopeLimiterAliases": true,
}

// choices are the values that a name may have wherever it stands.
var choices = map[string][]any{
	"pullPolicy": {"IfNotPresent", "Always", "Never"}, "failurePolicy": {"Fail", "Ignore"}, "runOn": {"Success", "Failure", "Always"}, "scanAccess": {"Handover", "API", nil},
	"phases": {"Fused", "Separate", nil},
}

// also are values that are often given in another type than that of their default, as in --set scanner.image.tag=8.
var also = map[string][]string{"tag": {"string", "number", "null"}, "refresh": {"string", "boolean"}}

// textual are values that are texts, with null as default.
var textual = map[string]bool{
	"nameAppend": true, "apiKeySecret": true, "userSecret": true, "existingSecret": true, "existingCertificate": true, "urlTemplate": true, "storageClassName": true,
}

var typeWord = regexp.MustCompile(`^\((int|bool|string)\) `)

// leafOf is the schema of one value.
func leafOf(name string, value *yaml.Node, comment string) (string, error) {
	type schema struct {
		Type        any    `json:"type,omitempty"`
		Enum        []any  `json:"enum,omitempty"`
		Description string `json:"description,omitempty"`
	}
	word := typeWord.FindStringSubmatch(comment)
	leaf := schema{Description: typeWord.ReplaceAllString(comment, "")}
	var kind string
	switch {
	case value.Kind == yaml.MappingNode:
		kind = "object"
	case value.Kind == yaml.SequenceNode:
		kind = "array"
	case value.Tag == "!!bool" || word != nil && word[1] == "bool":
		kind = "boolean"
	case value.Tag == "!!int" || word != nil && word[1] == "int":
		kind = "integer"
	case value.Tag == "!!float":
		kind = "number"
	case value.Tag == "!!str" || textual[name] || also[name] != nil || word != nil:
		kind = "string"
	case choices[name] == nil:
		return "", fmt.Errorf("its default is null: put (int), (bool) or (string) in front of its comment")
	}
	switch {
	case choices[name] != nil:
		leaf.Enum = choices[name]
	case also[name] != nil:
		leaf.Type = also[name]
	case value.Tag == "!!null":
		leaf.Type = []string{kind, "null"}
	default:
		leaf.Type = kind
	}
	text, err := json.Marshal(leaf)
	return string(text), err
}

// commentOf is what helm-docs takes for the text about a value: the lines from "# --" on.
func commentOf(key *yaml.Node) string {
	_, text, found := strings.Cut("\n"+key.HeadComment, "\n# -- ")
	if !found {
		return ""
	}
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if strings.HasPrefix(line, "@") { // for helm-docs
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " ")
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(out)
}
