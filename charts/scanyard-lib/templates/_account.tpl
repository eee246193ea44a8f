{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
A ServiceAccount for pods that need rights of their own, in every namespace where they run. That of scanner pods gets what
the operator's lurker gets as well, for the lurker runs in the same pod. Takes
  root        the chart's context
  name        of the ServiceAccount
  namespaces  where
  rules       rights in these namespaces, as a list of PolicyRules
  wideRules   optional, rights in the whole cluster; then rules are not used
  hook        optional, true for hook pods, which have no lurker
*/}}
{{- define "scanyard-lib.account" -}}
{{- $ := . }}
{{- $labels := include "scanyard-lib.labels" .root }}
{{- range $namespace := .namespaces }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $.name }}
  namespace: {{ $namespace }}
  labels:
    {{- $labels | nindent 4 }}
{{- if not $.hook }}
---
# The Role is the operator's. It lets the lurker see when the scanner has ended.
{{ include "scanyard-lib.binding" (dict "name" (printf "%s-lurker" $.name) "role" "lurker" "account" $.name "namespaces" (list $namespace) "in" $namespace "labels" $labels) }}
{{- end }}
{{- if not $.wideRules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $.name }}
  namespace: {{ $namespace }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- toYaml $.rules | nindent 2 }}
---
{{ include "scanyard-lib.binding" (dict "name" $.name "role" $.name "account" $.name "namespaces" (list $namespace) "in" $namespace "labels" $labels) }}
{{- end }}
{{- end }}
{{- if and .namespaces .wideRules }}
{{- $wide := printf "%s-%s" .root.Release.Namespace .name }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  # Two releases in two namespaces must not overwrite each other's.
  name: {{ $wide }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- toYaml .wideRules | nindent 2 }}
---
{{ include "scanyard-lib.binding" (dict "name" $wide "role" $wide "account" .name "namespaces" .namespaces "labels" $labels) }}
{{- end }}
{{- end }}

{{/* A RoleBinding in namespace "in", or a ClusterRoleBinding where there is none, of an account of some namespaces. */}}
{{- define "scanyard-lib.binding" -}}
{{- $kind := ternary "ClusterRole" "Role" (empty .in) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .in }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- .labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .role }}
subjects:
  {{- range .namespaces }}
  - kind: ServiceAccount
    name: {{ $.account }}
    namespace: {{ . }}
  {{- end }}
{{- end }}
