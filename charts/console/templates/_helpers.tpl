{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "console.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Name of what a release puts outside of its namespace. */}}
{{- define "console.clusterName" -}}
{{ .Release.Namespace }}-{{ include "console.fullname" . }}
{{- end }}

{{- define "console.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "console.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "console.selector" . }}
{{- end }}

{{/* metadata of an object. Takes root, and optionally name, labels, annotations, and wide for what is in no namespace. */}}
{{- define "console.metadata" -}}
metadata:
  name: {{ .name | default (include "console.fullname" .root) }}
  {{- if not .wide }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "console.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "console.sessionSecret" -}}
{{ .Values.session.existingSecret | default (printf "%s-session" (include "console.fullname" .)) }}
{{- end }}

{{/* The host of the address, without a port. */}}
{{- define "console.host" -}}
{{ regexReplaceAll ":[0-9]+$" (urlParse .Values.url).host "" }}
{{- end }}

{{- define "console.validate" -}}
{{- $signIn := .Values.signIn }}
{{- if not .Values.url }}
{{- fail "\n\nNothing says how people reach the console, which answers to no other name.\n  --set url=https://console.example.com" }}
{{- end }}
{{- if and $signIn.proxy.addresses (or $signIn.tokens $signIn.oidc.issuer) }}
{{- fail "\n\nA proxy signs all people in, or none.\n  --set signIn.tokens=false,signIn.oidc.issuer=" }}
{{- end }}
{{- if and $signIn.proxy.addresses (not $signIn.proxy.groups) (not $signIn.proxy.users) }}
{{- fail "\n\nNo group and no user of the proxy counts: nobody would have a right.\n  --set 'signIn.proxy.groups={team-a}'" }}
{{- end }}
{{- if and $signIn.oidc.issuer (not $signIn.oidc.clientID) }}
{{- fail "\n\nsignIn.oidc.issuer is given, and no name of the console at it.\n  --set signIn.oidc.clientID=scanyard-console" }}
{{- end }}
{{- end }}
