// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	// generatedReference is what the generator calls the one type of the core group that reports refer to.
	generatedReference = "k8s.io/api/core/v1.ObjectReference"
	wgpolicyModel      = "io.wgpolicyk8s.v1alpha2."
	prextModel         = "demo.prext.v1alpha1."
)

// Definitions returns the definitions of all types that are served.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := GetOpenAPIDefinitions(renamed(ref, generatedName))
	// The kinds of prext.demo have the fields of wgpolicyk8s.io.
	for name, definition := range GetOpenAPIDefinitions(renamed(ref, prextName)) {
		if strings.HasPrefix(name, wgpolicyModel) && prextName(name) != name {
			definition.Dependencies = mapped(definition.Dependencies, prextName)
			definitions[prextName(name)] = definition
		}
	}
	for name, definition := range definitions {
		definition.Dependencies = mapped(definition.Dependencies, generatedName)
		definitions[name] = definition
	}
	definitions[corev1.ObjectReference{}.OpenAPIModelName()] = objectReference()
	return definitions
}

func generatedName(name string) string {
	if name == generatedReference {
		return corev1.ObjectReference{}.OpenAPIModelName()
	}
	return name
}

// prextName is the name in prext.demo of a kind of wgpolicyk8s.io; parts of kinds keep theirs.
func prextName(name string) string {
	switch kind, _ := strings.CutPrefix(name, wgpolicyModel); kind {
	case "PolicyReport", "PolicyReportList", "ClusterPolicyReport", "ClusterPolicyReportList":
		return prextModel + kind
	}
	return generatedName(name)
}

func renamed(ref common.ReferenceCallback, name func(string) string) common.ReferenceCallback {
	return func(path string) spec.Ref { return ref(name(path)) }
}

func mapped(names []string, name func(string) string) []string {
	changed := make([]string, len(names))
	for i := range names {
		changed[i] = name(names[i])
	}
	return changed
}

// objectReference describes the core type with its own words.
func objectReference() common.OpenAPIDefinition {
	words := corev1.ObjectReference{}.SwaggerDoc()
	properties := map[string]spec.Schema{}
	for name, description := range words {
		if name != "" {
			properties[name] = *spec.StringProperty().WithDescription(description)
		}
	}
	schema := spec.Schema{SchemaProps: spec.SchemaProps{Description: words[""], Type: []string{"object"}, Properties: properties}}
	schema.AddExtension("x-kubernetes-map-type", "atomic")
	return common.OpenAPIDefinition{Schema: schema}
}
