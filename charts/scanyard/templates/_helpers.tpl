{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "scanyard.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The one name that every Service, and every address made from a Service, is built on. Room is left for suffixes. */}}
{{- define "scanyard.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := include "scanyard.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "scanyard.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "scanyard.instanceLabels" . }}
{{- end }}

{{- define "scanyard.instanceLabels" -}}
app.kubernetes.io/name: {{ include "scanyard.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "scanyard.selectorLabels" -}}
{{ include "scanyard.instanceLabels" . }}
app.kubernetes.io/component: operator
control-plane: securecodebox-controller-manager
{{- end }}

{{- define "scanyard.minioSelectorLabels" -}}
{{ include "scanyard.instanceLabels" . }}
app.kubernetes.io/component: minio
{{- end }}

{{- define "scanyard.minioName" -}}
{{ include "scanyard.fullname" . }}-minio
{{- end }}

{{- define "scanyard.minioSecret" -}}
{{ .Values.minio.auth.existingSecret | default (include "scanyard.minioName" .) }}
{{- end }}

{{- define "scanyard.uploadTLSSecret" -}}
{{ include "scanyard.fullname" . }}-upload-tls
{{- end }}

{{/* Not empty where the API server asks the operator before it stores an object. */}}
{{- define "scanyard.webhook" -}}
{{- if and .Values.webhook.enabled (not .Values.watchNamespaces) -}}true{{- end -}}
{{- end }}

{{- define "scanyard.webhookService" -}}
{{ include "scanyard.fullname" . }}-webhook
{{- end }}

{{- define "scanyard.webhookConfiguration" -}}
{{ include "scanyard.fullname" . }}-{{ .Release.Namespace }}
{{- end }}

{{/* Not empty where lurkers get fresh upload URLs. Without a ClusterRole the operator cannot see who asks. */}}
{{- define "scanyard.upload" -}}
{{- if and .Values.uploadEndpoint.enabled (or (not .Values.watchNamespaces) .Values.uploadEndpoint.tokenReviews) -}}true{{- end -}}
{{- end }}

{{/* Not empty where the forwarder is told where results lie. The operator has to see who asks, as above. */}}
{{- define "scanyard.results" -}}
{{- if and .Values.resultsEndpoint.enabled (or (not .Values.watchNamespaces) .Values.uploadEndpoint.tokenReviews) -}}true{{- end -}}
{{- end }}

{{/* Not empty where pods ask the operator, for whichever of the two. */}}
{{- define "scanyard.endpoint" -}}
{{- include "scanyard.upload" . | default (include "scanyard.results" .) -}}
{{- end }}

{{/* Name of what a release puts outside of its namespace. With watchNamespaces there may be several of one name. */}}
{{- define "scanyard.scopedName" -}}
{{- if .Values.watchNamespaces }}{{ .Release.Namespace }}-{{ end }}{{ include "scanyard.fullname" . }}
{{- end }}

{{/* Where object storage listens. */}}
{{- define "scanyard.storagePort" -}}
{{- if .Values.minio.enabled -}}9000
{{- else -}}
{{- .Values.s3.port | default (ternary 443 80 .Values.s3.tls.enabled) -}}
{{- end -}}
{{- end }}

{{/* Where scan pods reach the upload endpoint; empty when it is off. */}}
{{- define "scanyard.uploadURL" -}}
{{- if include "scanyard.upload" . -}}
{{- .Values.uploadEndpoint.url | default (include "scanyard.endpointURL" .) -}}
{{- end -}}
{{- end }}

{{/* The Service in front of what pods ask. */}}
{{- define "scanyard.endpointURL" -}}
{{- printf "https://%s.%s.svc.%s:8443" (include "scanyard.fullname" .) .Release.Namespace .Values.clusterDomain -}}
{{- end }}

{{/* The exporter of the operator's decisions. */}}
{{- define "scanyard.decisionExporter" -}}
{{- $e := .Values.decisionExport }}
{{- include "scanyard-lib.exporter" (dict
  "image" (printf "%s:%s" $e.image.repository ($e.image.tag | default .Chart.Version)) "pullPolicy" $e.image.pullPolicy
  "sinks" $e.sinks "clusterID" $e.clusterID "resources" $e.resources "httpPort" $e.port "volatile" (hasKey $e.volume "emptyDir")
  "args" $e.extraArgs "mounts" $e.mounts) }}
{{- end }}

{{/* Settings that contradict each other are refused before anything is installed. */}}
{{- define "scanyard.validate" -}}
{{- if and .Values.minio.enabled .Values.s3.enabled }}
{{- fail "\n\ns3.enabled and minio.enabled are both true, but only one store can be used.\n  Your own S3:       --set minio.enabled=false (and s3.endpoint, s3.bucket, ...)\n  The bundled store: --set s3.enabled=false" }}
{{- end }}
{{- if and .Values.decisionExport.enabled (not .Values.decisionExport.sinks) }}
{{- fail "\n\ndecisionExport.enabled is true, but nothing says where the records go.\n  Set decisionExport.sinks, such as: --set 'decisionExport.sinks={hub=grpcs://hub.example.com:9443}'" }}
{{- end }}
{{- if and .Values.minio.enabled .Values.minio.tls.enabled }}
{{- fail "\n\nminio.tls.enabled is true, but the bundled store speaks plain HTTP only.\n  Keep it false, or use a store of your own with TLS: --set minio.enabled=false,s3.enabled=true" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (ge (int .Values.podDisruptionBudget.minAvailable) (int .Values.replicas)) }}
{{- fail "\n\npodDisruptionBudget.minAvailable must be lower than replicas, or no node can ever be drained." }}
{{- end }}
{{- end }}
