{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "forwarding.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Name of what a release puts outside of its namespace. */}}
{{- define "forwarding.clusterName" -}}
{{ .Release.Namespace }}-{{ include "forwarding.fullname" . }}
{{- end }}

{{- define "forwarding.instanceLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "forwarding.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "forwarding.instanceLabels" . }}
{{- end }}

{{/* What selects the pods of a part. Takes root and part: forwarder, exporter or receiver. */}}
{{- define "forwarding.selector" -}}
{{ include "forwarding.instanceLabels" .root }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{/* metadata of an object. Takes root, name, and optionally part, labels, annotations, and wide for what is in no namespace. */}}
{{- define "forwarding.metadata" -}}
metadata:
  name: {{ .name }}
  {{- if not .wide }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "forwarding.labels" .root | nindent 4 }}
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
{{- define "forwarding.podMetadata" -}}
{{- $values := get .root.Values .part }}
metadata:
  labels:
    {{- include "forwarding.labels" .root | nindent 4 }}
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
{{- define "forwarding.pod" -}}
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

{{/* What the containers of a part have in common: image, probes, resources. Takes root, part and ports, a map of names to numbers with one called http. */}}
{{- define "forwarding.container" -}}
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
    port: http
  periodSeconds: 1
  failureThreshold: 120
livenessProbe:
  httpGet:
    path: /healthz
    port: http
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: http
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
{{- define "forwarding.goMemory" -}}
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

{{/* The proxy of the forwarder, as variables of its container. What is asked for in the cluster goes without: the API server, by the address that the
pod knows it by, and Services, of which the operator is one. */}}
{{- define "forwarding.proxy" -}}
{{- $proxy := .Values.forwarder.proxy }}
{{- if or $proxy.url $proxy.secretName }}
- name: HTTPS_PROXY
  {{- if $proxy.secretName }}
  valueFrom:
    secretKeyRef:
      name: {{ $proxy.secretName }}
      key: url
  {{- else }}
  value: {{ $proxy.url | quote }}
  {{- end }}
{{- $direct := list "$(KUBERNETES_SERVICE_HOST)" ".svc" (printf ".%s" .Values.clusterDomain) }}
{{- with .Values.operator.url }}
{{- $direct = append $direct (urlParse .).hostname }}
{{- end }}
- name: NO_PROXY
  value: {{ concat $direct $proxy.noProxy | join "," | quote }}
{{- if $proxy.caConfigMap }}
- name: SSL_CERT_DIR
  value: /etc/ssl/certs:/etc/scanyard/proxy-ca
{{- end }}
{{- end }}
{{- end }}

{{/* A RoleBinding in a namespace, or a ClusterRoleBinding where wide is true, to the role of the same name. Takes root, name, account, and the rest of forwarding.metadata. */}}
{{- define "forwarding.binding" -}}
{{- $kind := ternary "ClusterRole" "Role" (.wide | default false) }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
{{ include "forwarding.metadata" . }}
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
{{- define "forwarding.service" -}}
apiVersion: v1
kind: Service
{{ include "forwarding.metadata" (merge (dict "name" (printf "%s-%s" (include "forwarding.fullname" .root) .part)) .) }}
spec:
  selector:
    {{- include "forwarding.selector" . | nindent 4 }}
  ports:
    {{- range $name, $number := .ports }}
    - name: {{ $name }}
      port: {{ $number }}
      targetPort: {{ $name }}
      protocol: TCP
    {{- end }}
{{- end }}

{{/* A claim's spec. Takes persistence of the values, and mode. */}}
{{- define "forwarding.claim" -}}
accessModes: [{{ .mode }}]
{{- with .persistence.storageClass }}
storageClassName: {{ . | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .persistence.size }}
{{- end }}

{{/* Name of the Secret with a part's certificate. Takes root and part. */}}
{{- define "forwarding.tlsSecret" -}}
{{ (get .root.Values .part).tls.secretName | default (printf "%s-%s-tls" (include "forwarding.fullname" .root) .part) }}
{{- end }}

{{/* Name of the ConfigMap with the authority of a certificate that Helm makes. Takes root and part. */}}
{{- define "forwarding.authority" -}}
{{ include "forwarding.fullname" .root }}-{{ .part }}-ca
{{- end }}

{{/* The certificate of a part, made once: Secret and ConfigMap. What the cluster has already is kept. Takes root and part. */}}
{{- define "forwarding.certificate" -}}
{{- $secret := include "forwarding.tlsSecret" . }}
{{- $data := (lookup "v1" "Secret" .root.Release.Namespace $secret).data | default dict }}
{{- $certificate := get $data "tls.crt" }}
{{- $key := get $data "tls.key" }}
{{- $authority := get $data "ca.crt" }}
{{- if not (and $certificate $key $authority) }}
{{- $service := printf "%s-%s" (include "forwarding.fullname" .root) .part }}
{{- $inNamespace := printf "%s.%s" $service .root.Release.Namespace }}
{{- $names := list $service $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.%s" $inNamespace .root.Values.clusterDomain) "localhost" }}
{{- $issuer := genCA (printf "%s-%s" $service "authority") 3650 }}
{{- $made := genSignedCert (printf "%s.svc" $inNamespace | trunc 64) (list "127.0.0.1") $names 3650 $issuer }}
{{- $certificate = b64enc $made.Cert }}
{{- $key = b64enc $made.Key }}
{{- $authority = b64enc $issuer.Cert }}
{{- end }}
apiVersion: v1
kind: Secret
{{ include "forwarding.metadata" (merge (dict "name" $secret) .) }}
type: kubernetes.io/tls
data:
  tls.crt: {{ $certificate }}
  tls.key: {{ $key }}
  ca.crt: {{ $authority }}
---
apiVersion: v1
kind: ConfigMap
{{ include "forwarding.metadata" (merge (dict "name" (include "forwarding.authority" .)) .) }}
data:
  ca.crt: |
    {{- b64dec $authority | trim | nindent 4 }}
{{- end }}

{{/* Where the operator answers. */}}
{{- define "forwarding.operatorNamespace" -}}
{{ .Values.operator.namespace | default .Release.Namespace }}
{{- end }}
{{- define "forwarding.operatorURL" -}}
{{ .Values.operator.url | default (printf "https://%s.%s.svc.%s:8443" .Values.operator.service (include "forwarding.operatorNamespace" .) .Values.clusterDomain) }}
{{- end }}

{{/* Settings that contradict each other are refused before anything is installed. */}}
{{- define "forwarding.validate" -}}
{{- $exporter := .Values.exporter }}
{{- $receiver := .Values.receiver }}
{{- if and $exporter.enabled (not (get $exporter.config "sinks")) }}
{{- fail "\n\nexporter.enabled is true, and exporter.config.sinks does not say where records go.\n  Write a values file as docs/forwarding.md has it, and give it with --values." }}
{{- end }}
{{- with .Values.forwarder.proxy }}
{{- if and .url .secretName }}
{{- fail "\n\nforwarder.proxy.url and forwarder.proxy.secretName both name a proxy.\n  --set forwarder.proxy.url=" }}
{{- end }}
{{- if and (or .noProxy .caConfigMap) (not .url) (not .secretName) }}
{{- fail "\n\nforwarder.proxy.noProxy and forwarder.proxy.caConfigMap count with a proxy only.\n  --set forwarder.proxy.url=http://proxy.example.com:3128" }}
{{- end }}
{{- end }}
{{- if and $receiver.insecure $receiver.tls.secretName }}
{{- fail "\n\nreceiver.insecure is true, but receiver.tls.secretName names a certificate.\n  Plain text: --set receiver.tls.secretName=\n  TLS:        --set receiver.insecure=false" }}
{{- end }}
{{- if and $receiver.tls.clientCA (not $receiver.tls.secretName) }}
{{- fail "\n\nreceiver.tls.clientCA is true, but no Secret holds the authority of senders.\n  --set receiver.tls.secretName=NAME, a Secret with tls.crt, tls.key and ca.crt" }}
{{- end }}
{{- if and .Values.snippet.enabled (not .Values.snippet.sinks) (not $exporter.enabled) }}
{{- fail "\n\nsnippet.enabled is true, and nothing says where records of that exporter go.\n  To an exporter of this release: --set exporter.enabled=true (and exporter.config)\n  Elsewhere:                      --set 'snippet.sinks={hub=grpcs://hub.example.com:9443}'" }}
{{- end }}
{{- end }}
