{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The operator's environment: storage first, then what it hands on to scan pods. */}}
{{- define "scanyard.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: VERSION
  value: {{ .Chart.Version | quote }}
- name: TELEMETRY_ENABLED
  value: "false"
{{- if .Values.minio.enabled }}
{{ include "scanyard.minioEnv" . }}
{{- else }}
{{ include "scanyard.s3Env" . }}
{{- end }}
{{- with .Values.s3.publicEndpoint }}
- name: S3_PUBLIC_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- with .Values.s3.urlTemplate }}
- name: S3_URL_TEMPLATE
  value: {{ . | quote }}
{{- end }}
- name: URL_EXPIRATION_SCAN
  value: {{ .Values.presignedUrlExpirationTimes.scanners | quote }}
- name: URL_EXPIRATION_PARSER
  value: {{ .Values.presignedUrlExpirationTimes.parsers | quote }}
- name: URL_EXPIRATION_HOOK
  value: {{ .Values.presignedUrlExpirationTimes.hooks | quote }}
- name: LURKER_IMAGE
  value: "{{ .Values.lurker.image.repository }}:{{ .Values.lurker.image.tag | default .Chart.Version }}"
- name: LURKER_PULL_POLICY
  value: {{ .Values.lurker.image.pullPolicy | quote }}
- name: LURKER_SECCOMP_PROFILE
  value: {{ dig "seccompProfile" "type" "RuntimeDefault" .Values.securityContext | quote }}
- name: ALLOW_ISTIO_SIDECAR_INJECTION_IN_JOBS
  value: {{ .Values.allowIstioSidecarInjectionInJobs | quote }}
{{- if .Values.customCACertificate.existingCertificate }}
- name: CUSTOM_CA_CERTIFICATE_EXISTING_CERTIFICATE
  value: {{ .Values.customCACertificate.existingCertificate | quote }}
- name: CUSTOM_CA_CERTIFICATE_NAME
  value: {{ .Values.customCACertificate.certificate | quote }}
{{- end }}
{{- end }}

{{- define "scanyard.minioEnv" -}}
- name: S3_ENDPOINT
  value: "{{ include "scanyard.minioName" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}"
- name: S3_PORT
  value: "9000"
- name: S3_USE_SSL
  value: "false"
- name: S3_BUCKET
  value: {{ .Values.minio.defaultBuckets | quote }}
- name: S3_REGION
  value: "us-east-1"
- name: S3_PATH_STYLE
  value: "true"
- name: MINIO_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ include "scanyard.minioSecret" . }}
      key: root-user
- name: MINIO_SECRET_KEY
  valueFrom:
    secretKeyRef:
      name: {{ include "scanyard.minioSecret" . }}
      key: root-password
{{- end }}

{{- define "scanyard.s3Env" -}}
- name: S3_ENDPOINT
  value: {{ required "s3.endpoint is needed when minio.enabled is false" .Values.s3.endpoint | quote }}
{{- with .Values.s3.port }}
- name: S3_PORT
  value: {{ . | toString | quote }}
{{- end }}
- name: S3_USE_SSL
  value: {{ .Values.s3.tls.enabled | quote }}
- name: S3_BUCKET
  value: {{ required "s3.bucket is needed when minio.enabled is false" .Values.s3.bucket | quote }}
{{- with .Values.s3.region }}
- name: S3_REGION
  value: {{ . | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.s3.pathStyle) }}
- name: S3_PATH_STYLE
  value: {{ .Values.s3.pathStyle | quote }}
{{- end }}
{{- if .Values.s3.caFile }}
- name: S3_CA_FILE
  value: {{ .Values.s3.caFile | quote }}
{{- else if .Values.customCACertificate.existingCertificate }}
- name: S3_CA_FILE
  value: "/etc/ssl/certs/{{ .Values.customCACertificate.certificate }}"
{{- end }}
- name: S3_AUTH_TYPE
  value: {{ .Values.s3.authType | quote }}
{{- if has (.Values.s3.authType | lower) (list "aws-iam" "aws-irsa") }}
- name: S3_AWS_IRSA_STS_ENDPOINT
  value: {{ .Values.s3.awsStsEndpoint | quote }}
{{- else }}
- name: MINIO_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .Values.s3.keySecret }}
      key: {{ .Values.s3.secretAttributeNames.accesskey }}
- name: MINIO_SECRET_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .Values.s3.keySecret }}
      key: {{ .Values.s3.secretAttributeNames.secretkey }}
{{- end }}
{{- end }}

{{/* Where pods of this chart may run. */}}
{{- define "scanyard.scheduling" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
