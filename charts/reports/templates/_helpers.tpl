{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "reports.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "reports.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "reports.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Name of what a release puts outside of its namespace. */}}
{{- define "reports.clusterName" -}}
{{ .Release.Namespace }}-{{ include "reports.fullname" . }}
{{- end }}

{{- define "reports.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.Version }}
{{- end }}

{{- define "reports.tlsSecret" -}}
{{ include "reports.fullname" . }}-tls
{{- end }}

{{- define "reports.claim" -}}
{{ .Values.database.sqlite.existingClaim | default (include "reports.fullname" .) }}
{{- end }}

{{/* Name of the CronJob of backups, and of their volume. */}}
{{- define "reports.backup" -}}
{{ include "reports.fullname" . }}-backup
{{- end }}

{{/* How the bucket of backups is reached: the variables that the operator reads. */}}
{{- define "reports.bucketEnv" -}}
{{- with .Values.backup.s3 -}}
- name: S3_ENDPOINT
  value: {{ .endpoint | quote }}
{{- with .port }}
- name: S3_PORT
  value: {{ . | toString | quote }}
{{- end }}
- name: S3_USE_SSL
  value: {{ .tls.enabled | quote }}
- name: S3_BUCKET
  value: {{ .bucket | quote }}
{{- with .region }}
- name: S3_REGION
  value: {{ . | quote }}
{{- end }}
{{- if not (kindIs "invalid" .pathStyle) }}
- name: S3_PATH_STYLE
  value: {{ .pathStyle | quote }}
{{- end }}
{{- if .caSecret }}
- name: S3_CA_FILE
  value: /etc/reports-bucket/ca.crt
{{- end }}
- name: S3_AUTH_TYPE
  value: {{ .authType | quote }}
{{- if eq .authType "access-secret-key" }}
- name: MINIO_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .keySecret }}
      key: {{ .secretAttributeNames.accesskey }}
- name: MINIO_SECRET_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .keySecret }}
      key: {{ .secretAttributeNames.secretkey }}
{{- else }}
- name: S3_AWS_STS_ENDPOINT
  value: {{ .awsStsEndpoint | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reports.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{ ternary 1 2 (eq .Values.database.type "sqlite") }}
{{- else -}}
{{ int .Values.replicas }}
{{- end -}}
{{- end }}

{{/* The APIServices of all groups, served or not: the server gives up those of groups that are switched off. */}}
{{- define "reports.apiServices" -}}
[v1alpha2.wgpolicyk8s.io, v1alpha1.openreports.io, v1alpha1.reports.scanyard.io, v1alpha1.prext.demo]
{{- end }}

{{/* Where kube-apiserver finds the server, for those who keep and who remove APIServices. */}}
{{- define "reports.serviceFlags" -}}
- --namespace={{ .Release.Namespace }}
- --service={{ include "reports.fullname" . }}
{{- end }}

{{/* Nine tenths of the memory limit, for Go. */}}
{{- define "reports.goMemory" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString }}
{{- if hasSuffix "Mi" $limit -}}
{{ div (mul 9 (trimSuffix "Mi" $limit | int)) 10 }}MiB
{{- else if hasSuffix "Gi" $limit -}}
{{ div (mul 9 1024 (trimSuffix "Gi" $limit | int)) 10 }}MiB
{{- end -}}
{{- end }}

{{/* Settings that contradict each other are refused before anything is installed. */}}
{{- define "reports.validate" -}}
{{- $database := .Values.database }}
{{- if and (eq $database.type "sqlite") (gt (include "reports.replicas" . | int) 1) }}
{{- fail "\n\nreplicas is more than 1, but one process only can use an SQLite file.\n  --set replicas=1, or a database that several servers share: --set database.type=postgresql,database.existingSecret=..." }}
{{- end }}
{{- if and (ne $database.type "sqlite") (not $database.existingSecret) }}
{{- fail (printf "\n\ndatabase.type is %s, and nothing says where it is.\n  kubectl -n %s create secret generic reports-database --from-literal=%s='<data source name>'\n  --set database.existingSecret=reports-database" $database.type .Release.Namespace $database.key) }}
{{- end }}
{{- if and (eq $database.type "sqlite") $database.existingSecret }}
{{- fail "\n\ndatabase.existingSecret is set, but database.type is sqlite, which needs none.\n  --set database.type=postgresql (or mysql)" }}
{{- end }}
{{- if and .Values.backup.schedule (ne $database.type "sqlite") }}
{{- fail (printf "\n\nbackup.schedule is set, but the server copies SQLite only: back up %s with its own tools, see docs/reports.md.\n  --set backup.schedule=" $database.type) }}
{{- end }}
{{- with .Values.backup }}
{{- if and .schedule .s3.enabled (or (not .s3.endpoint) (not .s3.bucket)) }}
{{- fail "\n\nbackup.s3.enabled is true, and nothing says where the bucket is.\n  --set backup.s3.endpoint=...,backup.s3.bucket=..." }}
{{- end }}
{{- if and .schedule .s3.enabled (eq .s3.authType "access-secret-key") (not .s3.keySecret) }}
{{- fail (printf "\n\nbackup.s3.enabled is true, and no Secret has the keys of the store.\n  kubectl -n %s create secret generic reports-bucket --from-literal=accesskey=... --from-literal=secretkey=...\n  --set backup.s3.keySecret=reports-bucket" $.Release.Namespace) }}
{{- end }}
{{- end }}
{{- if and .Values.tls.certManager.enabled (not (dig "name" "" .Values.tls.certManager.issuerRef)) }}
{{- fail "\n\ntls.certManager.enabled is true, and no issuer is named.\n  --set tls.certManager.issuerRef.name=...,tls.certManager.issuerRef.kind=ClusterIssuer" }}
{{- end }}
{{- end }}

{{/* Rules about what lies in namespaces, and about what does not. */}}
{{- define "reports.written" -}}
- apiGroups: [wgpolicyk8s.io, prext.demo]
  resources: [policyreports]
  verbs: {{ .verbs }}
- apiGroups: [openreports.io]
  resources: [reports]
  verbs: {{ .verbs }}
{{- end }}
{{- define "reports.images" -}}
- apiGroups: [reports.scanyard.io]
  resources: [repositories]
  verbs: [get, list, watch]
- apiGroups: [reports.scanyard.io]
  resources:
    [images/status, repositories/status, repositories/tags, sboms/document, vulnerabilityreports/findings, vulnerabilityreports/sarif]
  verbs: [get]
- apiGroups: [reports.scanyard.io]
  resources: [findingqueries, imagequeries]
  verbs: [create]
{{- end }}
{{- define "reports.namespaced" -}}
{{ include "reports.written" . }}
- apiGroups: [reports.scanyard.io]
  resources: [images, sboms, vulnerabilityreports]
  verbs: {{ .verbs }}
{{- end }}
{{- define "reports.clusterwide" -}}
- apiGroups: [wgpolicyk8s.io, prext.demo]
  resources: [clusterpolicyreports]
  verbs: {{ .verbs }}
- apiGroups: [openreports.io]
  resources: [clusterreports]
  verbs: {{ .verbs }}
- apiGroups: [reports.scanyard.io]
  resources: [clusterfindingqueries]
  verbs: [create]
{{- end }}

{{/* Annotations of an object that is there only while the release is removed. */}}
{{- define "reports.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Where an alert is explained. */}}
{{- define "reports.runbook" -}}
https://github.com/scanyard/scanyard/blob/main/docs/reports.md#{{ . | lower }}
{{- end }}
