{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* A release's name for its objects: the release itself where it says the chart's name already. */}}
{{- define "scanyard-lib.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The labels that hookSelectors of Scans may select by. */}}
{{- define "scanyard-lib.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* apiVersion, kind and metadata. Takes root, group, kind, name and labels (optional); makes the Cluster* kind and
     leaves the namespace out where the chart is installed cluster-wide. */}}
{{- define "scanyard-lib.head" -}}
apiVersion: {{ .group }}.securecodebox.io/v1
kind: {{ if .root.Values.clusterWide }}Cluster{{ end }}{{ .kind }}
metadata:
  name: {{ .name }}
  {{- if not .root.Values.clusterWide }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "scanyard-lib.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* An image from a values block {repository, tag, pullPolicy} and the tag to take when none is set. */}}
{{- define "scanyard-lib.image" -}}
image: "{{ .image.repository }}:{{ .image.tag | default .tag }}"
{{- with .image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{/*
How an image learns of its Scan. Takes
  block   a block of the values {image, scanAccess}
  own     how the repository of our own image ends, wherever it is mirrored: that one needs no access to the API
*/}}
{{- define "scanyard-lib.scanAccess" -}}
{{- $ours := hasSuffix (printf "/%s" .own) (printf "/%s" .block.image.repository) -}}
scanAccess: {{ .block.scanAccess | default (ternary "Handover" "API" $ours) }}
{{- end }}

{{/* Those of the given keys of a values block that are set, as they are. Null, empty lists and empty maps are left out. */}}
{{- define "scanyard-lib.set" -}}
{{- $block := .block }}
{{- range $target, $key := .keys }}
{{- with get $block $key }}
{{ $target }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Two lists in one, as YAML: what a chart brings itself (own) and what the values add (extra). An entry of extra takes the
place of the one in own with the same key, for the API server refuses a container that has a name twice.
*/}}
{{- define "scanyard-lib.merged" -}}
{{- $taken := list }}
{{- range .extra | default list }}
{{- $taken = append $taken (get . $.key) }}
{{- end }}
{{- $all := list }}
{{- range .own | default list }}
{{- if not (has (get . $.key) $taken) }}
{{- $all = append $all . }}
{{- end }}
{{- end }}
{{- toYaml (concat $all (.extra | default list)) }}
{{- end }}

{{/* A ConfigMap of the release's namespace. Takes root, name and data. */}}
{{- define "scanyard-lib.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "scanyard-lib.labels" .root | nindent 4 }}
data:
  {{- toYaml .data | nindent 2 }}
{{- end }}
