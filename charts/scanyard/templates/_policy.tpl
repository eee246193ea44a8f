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

{{/*
How far the policy over Scans goes: always, auto or never. enabled is how older values say always and never. By itself
it goes in only where Kubernetes knows it and a cluster admin installs: an installation for some namespaces makes nothing for
the cluster that it is not asked for.
*/}}
{{- define "scanyard.policyMode" -}}
{{- $p := .Values.scanPolicy }}
{{- if kindIs "bool" $p.enabled }}{{ ternary "always" "never" $p.enabled }}
{{- else if ne $p.mode "auto" }}{{ $p.mode }}
{{- else if or .Values.watchNamespaces (semverCompare "<1.30-0" .Capabilities.KubeVersion.Version) }}never
{{- else }}auto
{{- end }}
{{- end }}

{{/* What somebody can do whom the policy holds up by itself. */}}
{{- define "scanyard.policyHint" }} (policy of the cluster for namespaces without the label pod-security.kubernetes.io/enforce: scanPolicy.mode){{ end }}

{{/*
Not empty where the policy over the status of Scans goes in: where Kubernetes serves the kind, and the installation is for the
whole cluster.
*/}}
{{- define "scanyard.statusPolicy" -}}
{{- if and .Values.statusPolicy.enabled (not .Values.watchNamespaces) (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") -}}true{{- end -}}
{{- end }}
