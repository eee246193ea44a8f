{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "discovery.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "discovery.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "discovery.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "discovery.selectorLabels" . }}
{{- end }}

{{- define "discovery.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "discovery.fullname" .) }}
{{- end }}

{{/* The ConfigMap has secureCodeBox's name, by which "scanyard discover --dry-run" finds it. */}}
{{- define "discovery.configMap" -}}
{{- if .Values.fullnameOverride }}{{ include "discovery.fullname" . }}{{ else }}auto-discovery{{ end }}
{{- end }}

{{/* Where the Lease is. */}}
{{- define "discovery.leaseNamespace" -}}
{{- (.Values.config.leaderElection | default dict).resourceNamespace | default .Release.Namespace }}
{{- end }}

{{- define "discovery.leaseName" -}}
{{- (.Values.config.leaderElection | default dict).resourceName | default "0e41a1f4.securecodebox.io" }}
{{- end }}

{{/* The configuration file: value config, with the image of the extractor. */}}
{{- define "discovery.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $containers := $config.containerAutoDiscovery | default dict }}
{{- $secrets := $containers.imagePullSecretConfig | default dict }}
{{- if not $secrets.extractorImage }}
{{- with .Values.pullSecretExtractor.image }}
{{- $_ := set $secrets "extractorImage" (printf "%s:%s" .repository (.tag | default $.Chart.Version)) }}
{{- end }}
{{- end }}
{{- $_ := set $containers "imagePullSecretConfig" $secrets }}
{{- $_ := set $config "containerAutoDiscovery" $containers }}
{{- toYaml $config }}
{{- end }}

{{/* The port of an address such as :8081. */}}
{{- define "discovery.port" -}}
{{- regexFind "[0-9]+$" . }}
{{- end }}
