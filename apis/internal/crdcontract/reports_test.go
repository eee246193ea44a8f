// SPDX-License-Identifier: Apache-2.0

package crdcontract

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	reportContract = "../../testdata/reportcontract.txt"
	reportFolder   = "../../testdata/reportcrds"
)

// TestReportsAreThePublishedOnes compares each fact of the kinds of wgpolicyk8s.io and openreports.io that
// clients see with the published ones, one line each: names, columns, and the fields down to those of
// Kubernetes' own types.
func TestReportsAreThePublishedOnes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(reportFolder, "*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d CRDs in %s: %v", len(files), reportFolder, err)
	}
	var have []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := yaml.Unmarshal(raw, &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		have = append(have, reportFacts(object)...)
	}
	raw, err := os.ReadFile(reportContract)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(have, line) {
			t.Errorf("published, and not in our CRDs: %s", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			t.Errorf("in our CRDs, and not published: %s", line)
		}
	}
}

// reportFacts are the lines of one CRD.
func reportFacts(crd map[string]any) []string {
	spec := at(crd, "spec")
	kind := fmt.Sprint(at(spec, "names")["kind"])
	facts := []string{fmt.Sprintf("%s: %v %v %v %v", kind, spec["group"], spec["scope"], at(spec, "names")["plural"], at(spec, "names")["shortNames"])}
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		facts = append(facts, fmt.Sprintf("%s: version %v, subresources %v", kind, version["name"], version["subresources"]))
		columns, _ := version["additionalPrinterColumns"].([]any)
		for i, c := range columns {
			column, _ := c.(map[string]any)
			facts = append(facts, fmt.Sprintf("%s: column %d %v %v %v %v", kind, i, column["name"], column["type"], column["jsonPath"], column["priority"]))
		}
		facts = append(facts, fieldFacts(kind, "", at(at(version, "schema"), "openAPIV3Schema"))...)
	}
	return facts
}

// fieldFacts are the lines of the fields below a schema. Kubernetes' own types have no lines for what is in them.
func fieldFacts(kind, path string, schema map[string]any) []string {
	var facts []string
	required, _ := schema["required"].([]any)
	for name, f := range at(schema, "properties") {
		field, _ := f.(map[string]any)
		here := path + "." + name
		shape, inner := fmt.Sprint(field["type"]), field
		for shape == "array" || strings.HasSuffix(shape, "[]array") {
			inner = at(inner, "items")
			shape = "[]" + fmt.Sprint(inner["type"])
		}
		if more := at(field, "additionalProperties"); len(more) > 0 {
			shape = "map of " + fmt.Sprint(more["type"])
		}
		line := []string{kind + ":", here, shape}
		for _, key := range []string{"format", "enum", "minimum", "maximum", "maxLength", "default"} {
			if value, ok := inner[key]; ok {
				line = append(line, key, fmt.Sprint(value))
			}
		}
		if slices.Contains(required, any(name)) {
			line = append(line, "required")
		}
		facts = append(facts, strings.Join(line, " "))
		if !slices.Contains([]string{"scope", "scopeSelector", "resources", "resourceSelector"}, name) {
			facts = append(facts, fieldFacts(kind, here, inner)...)
		}
	}
	return facts
}

func at(object map[string]any, key string) map[string]any {
	value, _ := object[key].(map[string]any)
	return value
}
