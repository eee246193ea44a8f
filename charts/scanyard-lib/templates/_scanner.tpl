{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
One ScanType. Takes
  root           the chart's context
  name           of the ScanType and of its container; scanner.nameAppend is added to the first
  command        what runs, as a list; the Scan's parameters are added by the operator
  resultType     name of the ParseDefinition
  resultFile     file below /home/securecodebox/
  restartPolicy  optional, OnFailure
*/}}
{{- define "scanyard-lib.scanType" -}}
{{- $scanner := .root.Values.scanner }}
{{- include "scanyard-lib.refuseConfigMaps" (dict "root" .root "block" "scanner") }}
{{- include "scanyard-lib.head" (dict "root" .root "group" "execution" "kind" "ScanType" "name" (printf "%s%s" .name ($scanner.nameAppend | default ""))) }}
spec:
  extractResults:
    type: {{ .resultType }}
    location: /home/securecodebox/{{ .resultFile }}
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

{{/* One ParseDefinition. Takes root and resultType, which is its name. */}}
{{- define "scanyard-lib.parseDefinition" -}}
{{- $parser := .root.Values.parser }}
{{- include "scanyard-lib.refuseConfigMaps" (dict "root" .root "block" "parser") }}
{{- include "scanyard-lib.head" (dict "root" .root "group" "execution" "kind" "ParseDefinition" "name" .resultType) }}
spec:
  {{- include "scanyard-lib.image" (dict "image" $parser.image "tag" .root.Chart.Version) | nindent 2 }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if not (kindIs "invalid" $parser.ttlSecondsAfterFinished) }}
  ttlSecondsAfterFinished: {{ $parser.ttlSecondsAfterFinished | int64 }}
  {{- end }}
  {{- with include "scanyard-lib.set" (dict "block" $parser "keys" (dict
        "env" "env" "scopeLimiterAliases" "scopeLimiterAliases" "nodeSelector" "nodeSelector" "affinity" "affinity"
        "tolerations" "tolerations" "resources" "resources")) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The CascadingRules in the chart's folder cascading-rules, when cascadingRules.enabled. The files are data, not
     templates: the braces in them are for the operator's hook. Takes root. */}}
{{- define "scanyard-lib.cascadingRules" -}}
{{- if .root.Values.cascadingRules.enabled }}
{{- range $path, $text := .root.Files.Glob "cascading-rules/*.yaml" }}
{{- $rule := $text | toString | fromYaml }}
{{- include "scanyard-lib.refuseConfigMaps" (dict "root" $.root "what" (printf "the rule %s" $rule.metadata.name) "object" $rule.spec) }}
---
{{ include "scanyard-lib.head" (dict "root" $.root "group" "cascading" "kind" "CascadingRule" "name" $rule.metadata.name "labels" $rule.metadata.labels) }}
spec:
  {{- toYaml $rule.spec | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
