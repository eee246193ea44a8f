{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "registry.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Name of what a release puts outside of its namespace. */}}
{{- define "registry.clusterName" -}}
{{ .Release.Namespace }}-{{ include "registry.fullname" . }}
{{- end }}

{{- define "registry.instanceLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "registry.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "registry.instanceLabels" . }}
{{- end }}

{{/* What selects the pods of a part. Takes root and part: controller or worker. */}}
{{- define "registry.selector" -}}
{{ include "registry.instanceLabels" .root }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{/* metadata of an object. Takes root, name, and optionally part, labels, annotations, and wide for what is in no namespace. */}}
{{- define "registry.metadata" -}}
metadata:
  name: {{ .name }}
  {{- if not .wide }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "registry.labels" .root | nindent 4 }}
    {{- with .part }}
    app.kubernetes.io/component: {{ . }}
    {{- end }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* metadata of a part's pod template. Takes root and part. */}}
{{- define "registry.podMetadata" -}}
{{- $values := get .root.Values .part }}
metadata:
  labels:
    {{- include "registry.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .part }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* What the pods of a part have in common, but for containers and volumes: the level restricted, and where they run. Takes root and part. */}}
{{- define "registry.pod" -}}
{{- $values := get .root.Values .part }}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the containers of a part have in common: image, probes, resources. Takes root, part and ports, a map of names to numbers with one called health. */}}
{{- define "registry.container" -}}
{{- $values := get .root.Values .part }}
image: "{{ $values.image.repository }}:{{ $values.image.tag | default .root.Chart.Version }}"
imagePullPolicy: {{ $values.image.pullPolicy }}
ports:
  {{- range $name, $number := .ports }}
  - name: {{ $name }}
    containerPort: {{ $number }}
    protocol: TCP
  {{- end }}
startupProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 1
  failureThreshold: 120
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 5
  timeoutSeconds: 5
resources:
  {{- toYaml $values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  privileged: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Nine tenths of the memory limit of a part, for Go: as a variable of its container. Takes root and part. */}}
{{- define "registry.goMemory" -}}
{{- $limit := dig "limits" "memory" "" ((get .root.Values .part).resources | default dict) | toString }}
{{- $mebibytes := 0 }}
{{- if hasSuffix "Mi" $limit }}
{{- $mebibytes = trimSuffix "Mi" $limit | int }}
{{- else if hasSuffix "Gi" $limit }}
{{- $mebibytes = mul 1024 (trimSuffix "Gi" $limit | int) }}
{{- end }}
{{- if $mebibytes }}
- name: GOMEMLIMIT
  value: {{ div (mul 9 $mebibytes) 10 }}MiB
{{- end }}
{{- end }}

{{/* A RoleBinding in a namespace, or a ClusterRoleBinding where wide is true, to the role of the same name. Takes root, name, account, and the rest of registry.metadata. */}}
{{- define "registry.binding" -}}
{{- $kind := ternary "ClusterRole" "Role" (.wide | default false) }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
{{ include "registry.metadata" . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* A Service of a part. Takes root, part and ports, a map of names to numbers; a port of the pod has the same name. */}}
{{- define "registry.service" -}}
apiVersion: v1
kind: Service
{{ include "registry.metadata" (merge (dict "name" (printf "%s-%s" (include "registry.fullname" .root) .part)) .) }}
spec:
  selector:
    {{- include "registry.selector" . | nindent 4 }}
  ports:
    {{- range $name, $number := .ports }}
    - name: {{ $name }}
      port: {{ $number }}
      targetPort: {{ $name }}
      protocol: TCP
    {{- end }}
{{- end }}

{{/* RBAC of a part in the namespaces that are looked at: a ClusterRole, or Roles. Takes root, part, name, account and rules, a text. */}}
{{- define "registry.rights" -}}
{{- $root := .root }}
{{- $part := . }}
{{- if $root.Values.namespaces }}
{{- range $root.Values.namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
{{ include "registry.metadata" (merge (dict "namespace" .) $part) }}
rules:
  {{- $part.rules | nindent 2 }}
---
{{ include "registry.binding" (merge (dict "namespace" .) $part) }}
{{- end }}
{{- else }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
{{ include "registry.metadata" (merge (dict "wide" true) $part) }}
rules:
  {{- .rules | nindent 2 }}
---
{{ include "registry.binding" (merge (dict "wide" true) $part) }}
{{- end }}
{{- end }}

{{- define "registry.validate" -}}
{{- $external := .Values.nats.external }}
{{- if and $external.enabled (not $external.urls) }}
{{- fail "\n\nnats.external.enabled is true, and nats.external.urls names no server.\n  --set 'nats.external.urls={tls://nats.example.com:4222}'" }}
{{- end }}
{{- if not (has .Values.defaultAdapter .Values.adapters) }}
{{- fail (printf "\n\ndefaultAdapter is %s, which is not one of adapters.\n  --set 'adapters={%s},defaultAdapter=%s'" .Values.defaultAdapter .Values.defaultAdapter .Values.defaultAdapter) }}
{{- end }}
{{- if and (has "grype" .Values.adapters) (not (dig "grype" "repository" "" .Values.database)) }}
{{- fail "\n\nThe adapter grype has no database of its own accord.\n  --set database.grype.repository=registry.example.com/grype-db:6" }}
{{- end }}
{{- end }}

{{/* Files of an external queue, for both parts. */}}
{{- define "registry.natsMounts" -}}
{{- with .Values.nats.external }}
{{- if and .enabled .credentialsSecret }}
- name: nats-credentials
  mountPath: /etc/scanyard/nats-credentials
  readOnly: true
{{- end }}
{{- if and .enabled .caSecret }}
- name: nats-ca
  mountPath: /etc/scanyard/nats-ca
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
{{- define "registry.natsVolumes" -}}
{{- with .Values.nats.external }}
{{- if and .enabled .credentialsSecret }}
- name: nats-credentials
  secret:
    secretName: {{ .credentialsSecret }}
{{- end }}
{{- if and .enabled .caSecret }}
- name: nats-ca
  secret:
    secretName: {{ .caSecret }}
{{- end }}
{{- end }}
{{- end }}
