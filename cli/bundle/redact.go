// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"slices"
	"strings"

	"github.com/scanyard/scanyard/podkit/redact"
)

// lastApplied is the annotation with a copy of the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// redacted replaces a secret.
const redacted = redact.DocumentMark

var (
	// openFields have names that sound like secrets, and values that are not secret.
	openFields = []string{
		"serviceAccountToken", "automountServiceAccountToken", "secretKeyRef", "secretName", "secretRef", "secrets", "imagePullSecrets", "secret",
		"tokenExpirationSeconds", "sessionAffinity", "sessionAffinityConfig", "nodePublishSecretRef", "authors",
	}
	// Short flags by which tools take passwords and headers.
	shortSecretFlags = []string{"-p", "-u", "-H", "-P", "--header", "--user", "--proxy-user"}
)

// Text redacts a text, which may be a line of a log.
func Text(s string) string { return redact.Document(s) }

// Arguments redacts a command line, including the value behind a flag that takes a secret.
func Arguments(args []any) []any {
	out := make([]any, len(args))
	hide := false
	for i, a := range args {
		text, ok := a.(string)
		switch {
		case !ok:
			out[i] = Value(a)
			continue
		case hide:
			out[i] = redacted
		default:
			out[i] = Text(text)
		}
		hide = !hide && (redact.IsFlag(text) || slices.Contains(shortSecretFlags, text) && !isNumber(args, i+1))
	}
	return out
}

// isNumber reports whether an argument is a plain list of numbers, such as the ports of -p.
func isNumber(args []any, i int) bool {
	if i >= len(args) {
		return false
	}
	text, ok := args[i].(string)
	return ok && text != "" && strings.Trim(text, "0123456789,-") == ""
}

// Value redacts a part of an object.
func Value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return fields(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Value(v[i])
		}
		return out
	case string:
		return Text(v)
	default:
		return v
	}
}

func fields(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, v := range m {
		switch list, isList := v.([]any); {
		case key == "managedFields", key == lastApplied:
		case (key == "env" || key == "httpHeaders") && isList:
			out[key] = environment(list)
		case isList && (key == "args" || key == "command" || key == "parameters"):
			out[key] = Arguments(list)
		case key == "annotations":
			out[key] = annotations(v)
		case isSecretText(key, v):
			out[key] = redacted
		case key == "patch", key == "data", key == "stringData", key == "binaryData":
			out[key] = redacted // its value may hold a whole object
		default:
			out[key] = Value(v)
		}
	}
	return out
}

// isSecretText reports whether a field holds a secret, by its name.
func isSecretText(key string, v any) bool {
	_, isText := v.(string)
	return isText && redact.IsName(key) && !slices.Contains(openFields, key)
}

// openAnnotations are those whose values are shown: ours, secureCodeBox's, and those of Kubernetes, Helm and Kueue that
// say how objects are handled. Other annotations may hold any text, so only their names are shown.
var openAnnotations = []string{
	"scanyard.io/", "securecodebox.io/", "kueue.x-k8s.io/", "meta.helm.sh/", "helm.sh/", "deployment.kubernetes.io/", "batch.kubernetes.io/", "kubernetes.io/",
}

// annotations redacts the values of unknown annotations.
func annotations(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return Value(v)
	}
	out := make(map[string]any, len(m))
	for key, value := range m {
		domain, _, _ := strings.Cut(key, "/")
		switch {
		case key == lastApplied:
		case slices.ContainsFunc(openAnnotations, func(open string) bool {
			return domain+"/" == open || strings.HasSuffix(domain+"/", "."+open)
		}) && strings.Contains(key, "/") && !isSecretText(key[len(domain)+1:], value):
			out[key] = Value(value)
		default:
			out[key] = redacted
		}
	}
	return out
}

// environment keeps names and sources.
func environment(list []any) []any {
	out := make([]any, len(list))
	for i := range list {
		v, ok := list[i].(map[string]any)
		if !ok {
			out[i] = redacted
			continue
		}
		kept := map[string]any{"name": v["name"]}
		if from, ok := v["valueFrom"]; ok {
			kept["valueFrom"] = Value(from)
		} else if _, ok := v["value"]; ok {
			kept["value"] = redacted
		}
		out[i] = kept
	}
	return out
}
