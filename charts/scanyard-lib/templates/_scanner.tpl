{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
All that a scanner chart installs: ScanTypes, a ParseDefinition and, where they are switched on, cascading rules. Takes
what scanyard-lib.scanType, .parseDefinition and .cascadingRules take, and
  values     optional, the chart's own values: a map of name to the names below it, for scanyard-lib.refuseUnknown
  scanTypes  optional, where there are several: a list of what differs from one to the next
*/}}
{{- define "scanyard-lib.scanner" -}}
{{- $ := . }}
{{- include "scanyard-lib.refuseUnknown" (dict "root" .root "blocks" (merge (dict
      "clusterWide" list "imagePullSecrets" list "cascadingRules" (list "enabled")
      "parser" (list "enabled" "image" "scanAccess" "ttlSecondsAfterFinished" "env" "scopeLimiterAliases" "nodeSelector" "affinity" "tolerations" "resources")
      "scanner" (list "image" "nameAppend" "ttlSecondsAfterFinished" "activeDeadlineSeconds" "backoffLimit" "resources" "env" "envFrom"
        "extraVolumes" "extraVolumeMounts" "extraContainers" "nodeSelector" "affinity" "tolerations" "podSecurityContext" "securityContext" "suspend" "phases"))
      (.values | default dict))) }}
{{- range .scanTypes | default (list dict) }}
---
{{ include "scanyard-lib.scanType" (merge (dict) . (omit $ "scanTypes")) }}
{{- end }}
{{- if ne (toString .root.Values.parser.enabled) "false" }}
---
{{ include "scanyard-lib.parseDefinition" . }}
{{- end }}
{{- include "scanyard-lib.cascadingRules" . }}
{{- end }}

{{/*
One ScanType. Takes
  root                 the chart's context
  name                 of the ScanType and of its container; scanner.nameAppend is added to the first
  command              what runs, as a list; the Scan's parameters are added by the operator
  resultType           name of the ParseDefinition
  resultFile           file below /home/securecodebox/
  restartPolicy        optional, OnFailure
  serviceAccountName   optional, the operator's lurker
  env, volumes,        optional, what the chart brings itself; what the values name the same takes its place
  volumeMounts
*/}}
{{- define "scanyard-lib.scanType" -}}
{{- include "scanyard-lib.refuseConfigMaps" (dict "root" .root "block" "scanner") }}
{{- $scanner := deepCopy .root.Values.scanner }}
{{- range $own, $at := dict "env" (list "env" "name") "volumes" (list "extraVolumes" "name") "volumeMounts" (list "extraVolumeMounts" "mountPath") }}
{{- $both := dict "own" (get $ $own) "extra" (get $scanner (first $at)) "key" (last $at) }}
{{- $_ := set $scanner (first $at) (include "scanyard-lib.merged" $both | fromYamlArray) }}
{{- end }}
{{- include "scanyard-lib.head" (dict "root" .root "group" "execution" "kind" "ScanType" "name" (printf "%s%s" .name ($scanner.nameAppend | default ""))) }}
spec:
  extractResults:
    type: {{ .resultType }}
    location: /home/securecodebox/{{ .resultFile }}
  {{- with $scanner.phases }}
  phases: {{ . }}
  {{- end }}
  jobTemplate:
    spec:
      suspend: {{ $scanner.suspend | default false }}
      {{- range $key := list "ttlSecondsAfterFinished" "backoffLimit" "activeDeadlineSeconds" }}
      {{- if not (kindIs "invalid" (index $scanner $key)) }}
      {{ $key }}: {{ index $scanner $key | int64 }}
      {{- end }}
      {{- end }}
      template:
        spec:
          restartPolicy: {{ .restartPolicy | default "OnFailure" }}
          {{- with .serviceAccountName }}
          serviceAccountName: {{ . }}
          {{- end }}
          {{- with .root.Values.imagePullSecrets }}
          imagePullSecrets:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          containers:
            - name: {{ .name }}
              {{- include "scanyard-lib.image" (dict "image" $scanner.image "tag" .root.Chart.AppVersion) | nindent 14 }}
              command:
                {{- toYaml .command | nindent 16 }}
              {{- with include "scanyard-lib.set" (dict "block" $scanner "keys" (dict
                    "env" "env" "envFrom" "envFrom" "resources" "resources" "securityContext" "securityContext"
                    "volumeMounts" "extraVolumeMounts")) | trim }}
              {{- . | nindent 14 }}
              {{- end }}
            {{- with $scanner.extraContainers }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with include "scanyard-lib.set" (dict "block" $scanner "keys" (dict
                "volumes" "extraVolumes" "nodeSelector" "nodeSelector" "affinity" "affinity" "tolerations" "tolerations"
                "securityContext" "podSecurityContext")) | trim }}
          {{- . | nindent 10 }}
          {{- end }}
{{- end }}

{{/*
One ParseDefinition. Takes
  root                                      the chart's context
  resultType                                which is its name
  parserEnv, parserVolumes,                 optional, what the chart brings itself
  parserVolumeMounts
*/}}
{{- define "scanyard-lib.parseDefinition" -}}
{{- include "scanyard-lib.refuseConfigMaps" (dict "root" .root "block" "parser") }}
{{- $parser := merge (dict "volumes" .parserVolumes "volumeMounts" .parserVolumeMounts) (deepCopy .root.Values.parser) }}
{{- $_ := set $parser "env" (include "scanyard-lib.merged" (dict "own" .parserEnv "extra" $parser.env "key" "name") | fromYamlArray) }}
{{- include "scanyard-lib.head" (dict "root" .root "group" "execution" "kind" "ParseDefinition" "name" .resultType) }}
spec:
  {{- include "scanyard-lib.image" (dict "image" $parser.image "tag" .root.Chart.Version) | nindent 2 }}
  {{- $access := include "scanyard-lib.scanAccess" (dict "block" $parser "own" "scanyard/parser") }}
  {{- $access | nindent 2 }}
  {{- if and (hasSuffix "/scanyard/parser" (printf "/%s" $parser.image.repository)) (contains "Handover" $access) }}
  phases: Fused
  {{- end }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if not (kindIs "invalid" $parser.ttlSecondsAfterFinished) }}
  ttlSecondsAfterFinished: {{ $parser.ttlSecondsAfterFinished | int64 }}
  {{- end }}
  {{- with include "scanyard-lib.set" (dict "block" $parser "keys" (dict
        "env" "env" "volumes" "volumes" "volumeMounts" "volumeMounts" "scopeLimiterAliases" "scopeLimiterAliases"
        "nodeSelector" "nodeSelector" "affinity" "affinity" "tolerations" "tolerations" "resources" "resources")) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{/*
The CascadingRules in the chart's folder cascading-rules, when cascadingRules.enabled. The files are data, not templates:
the braces in them are for the operator's hook. Takes
  root             the chart's context
  wideConfigMaps   optional, names of ConfigMaps that cluster-wide Scans do without, since the ScanType itself brings what
                   is in them; rules then leave out volumes of them
*/}}
{{- define "scanyard-lib.cascadingRules" -}}
{{- if .root.Values.cascadingRules.enabled }}
{{- $ := . }}
{{- range $path, $text := .root.Files.Glob "cascading-rules/*.yaml" }}
{{- $rule := $text | toString | fromYaml }}
{{- if $.root.Values.clusterWide }}
{{- $_ := set $rule.spec "scanSpec" (include "scanyard-lib.withoutConfigMaps" (dict "spec" $rule.spec.scanSpec "names" $.wideConfigMaps) | fromYaml) }}
{{- end }}
{{- include "scanyard-lib.refuseConfigMaps" (dict "root" $.root "rule" $rule.metadata.name "object" $rule.spec) }}
---
{{ include "scanyard-lib.head" (dict "root" $.root "group" "cascading" "kind" "CascadingRule" "name" $rule.metadata.name "labels" $rule.metadata.labels) }}
spec:
  {{- toYaml $rule.spec | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* A scanSpec without the volumes, and their mounts, of the ConfigMaps of these names. Takes spec and names. */}}
{{- define "scanyard-lib.withoutConfigMaps" -}}
{{- $dropped := list }}
{{- range .spec.volumes | default list }}
{{- if has (dig "configMap" "name" "" .) ($.names | default list) }}
{{- $dropped = append $dropped .name }}
{{- end }}
{{- end }}
{{- $spec := omit .spec "volumes" "volumeMounts" }}
{{- range $key := list "volumes" "volumeMounts" }}
{{- $kept := list }}
{{- range get $.spec $key | default list }}
{{- if not (has .name $dropped) }}
{{- $kept = append $kept . }}
{{- end }}
{{- end }}
{{- if $kept }}
{{- $_ := set $spec $key $kept }}
{{- end }}
{{- end }}
{{- toYaml $spec }}
{{- end }}
