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

{{/* Where the ScheduledScans are made. */}}
{{- define "discovery.scanNamespace" -}}
{{- .Values.config.kubernetes.namespace | default .Release.Namespace }}
{{- end }}

{{- define "discovery.leaseName" -}}
{{- .Values.config.leaderElection.resourceName | default "auto-discovery-cloud-aws.scanyard.io" }}
{{- end }}

{{/* The port of an address such as :8081. */}}
{{- define "discovery.port" -}}
{{- regexFind "[0-9]+$" . }}
{{- end }}

{{/* Settings that cannot work are refused before anything is installed. */}}
{{- define "discovery.validate" -}}
{{- $fromEnv := false }}
{{- range .Values.extraEnv }}{{ if eq .name "SQS_QUEUE_URL" }}{{ $fromEnv = true }}{{ end }}{{ end }}
{{- if not (or .Values.config.aws.queueUrl $fromEnv) }}
{{- fail "\n\nconfig.aws.queueUrl is empty, so there is no queue to read.\n  --set config.aws.queueUrl=https://sqs.eu-central-1.amazonaws.com/123456789012/ecs-events\n  How to make one: docs/auto-discovery-aws.md" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.config.leaderElection.leaderElect) }}
{{- fail "\n\nreplicas is more than 1 and config.leaderElection.leaderElect is false: each would know of half of the events only.\n  --set config.leaderElection.leaderElect=true" }}
{{- end }}
{{- end }}
