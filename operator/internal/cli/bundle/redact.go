// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"regexp"
	"slices"
	"strings"
)

// redacted stands where something was.
const redacted = "REDACTED"

var (
	// urls with a query, or with a user.
	query    = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>?]*)\?[^\s"'<>]*`)
	userInfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s"'<>/?#@]*@`)
	// secretWord is in the names of what holds secrets.
	//nolint:gosec // G101: an expression, and no credential
	secretWord = `[A-Za-z0-9_.-]*(?i:passw(?:or)?d|passphrase|passwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|credential|cookie|session|authorization|auth|bearer|signature)[A-Za-z0-9_.-]*`
	// name=value and name: value, in arguments, logs and headers.
	assignment = regexp.MustCompile(`(` + secretWord + `"?\s*[=:]\s*)("[^"]*"|'[^']*'|(?:(?i:basic|bearer|token)\s+)?[^\s,;&"']+)`)
	// a header value behind its scheme.
	scheme = regexp.MustCompile(`(?i)\b(basic|bearer)\s+[A-Za-z0-9._~+/=-]{6,}`)
	// keys in PEM.
	pem = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	// a flag whose value is the next argument.
	secretFlag = regexp.MustCompile(`^--?` + secretWord + `$`)
	// short flags by which tools take passwords and headers.
	shortSecretFlags = []string{"-p", "-u", "-H", "-P", "--header", "--user", "--pass"}
)

// Text redacts a text, which may be a line of a log.
func Text(s string) string {
	s = pem.ReplaceAllString(s, redacted)
	s = query.ReplaceAllString(s, "$1?"+redacted)
	s = userInfo.ReplaceAllString(s, "${1}"+redacted+"@")
	s = assignment.ReplaceAllString(s, "${1}"+redacted)
	return scheme.ReplaceAllString(s, "$1 "+redacted)
}

// Arguments redacts a command line: also the value behind a flag that takes a secret.
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
		hide = !hide && (secretFlag.MatchString(text) || slices.Contains(shortSecretFlags, text) && !isNumber(args, i+1))
	}
	return out
}

// isNumber says whether an argument is a plain list of numbers, such as the ports of -p.
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
		case key == "managedFields", key == "kubectl.kubernetes.io/last-applied-configuration":
		case key == "env" && isList:
			out[key] = environment(list)
		case isList && (key == "args" || key == "command" || key == "parameters"):
			out[key] = Arguments(list)
		case key == "patch", key == "data", key == "stringData", key == "binaryData":
			out[key] = redacted // texts that may hold whole objects
		default:
			out[key] = Value(v)
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
