{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
CEL that says whether a name is among those that are allowed. Takes
  name     a CEL expression
  allowed  names; one that ends in * stands for all that begin so
*/}}
{{- define "scanyard.policyNamed" -}}
{{- $parts := list }}
{{- range .allowed }}
{{- if hasSuffix "*" . }}
{{- $parts = append $parts (printf "%s.startsWith('%s')" $.name (trimSuffix "*" .)) }}
{{- else }}
{{- $parts = append $parts (printf "%s == '%s'" $.name .) }}
{{- end }}
{{- end }}
{{- if $parts }}({{ join " || " $parts }}){{ else }}false{{ end }}
{{- end }}

{{/* CEL for a list of an object that may be absent or null. Takes the object and the field. */}}
{{- define "scanyard.policyList" -}}
(has({{ .of }}.{{ .field }}) && {{ .of }}.{{ .field }} != null ? {{ .of }}.{{ .field }} : [])
{{- end }}
