{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
The exporter beside a container that makes records of decisions: a native side car, one item of a pod's initContainers. It
is ready before the others start, and ends after them: SIGTERM is enough for it. Its volume and the mounts are the templates
below; the producer writes to unix:///run/scanyard/exporter/exporter.sock. Takes
  image       the image, whole
  pullPolicy  optional
  sinks       where records go, as NAME=URL[,KEY=VALUE…]
  clusterID   optional; without it, the ConfigMap scanyard-cluster-id of the pod's namespace says it
  resources   optional
  httpPort    where health and metrics are served
  volatile    whether the volume goes with the pod
  args        optional, further flags
  mounts      optional, further mounts
*/}}
{{- define "scanyard-lib.exporter" -}}
- name: exporter
  image: {{ .image | quote }}
  {{- with .pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  restartPolicy: Always
  args:
    - run
    - --dir=/run/scanyard/queue
    - --socket=/run/scanyard/exporter/exporter.sock
    - --cluster-id=$(CLUSTER_ID)
    - --http-listen=:{{ .httpPort }}
    {{- if .volatile }}
    - --volatile
    {{- end }}
    {{- range .sinks }}
    - {{ printf "--sink=%s" . | quote }}
    {{- end }}
    {{- with .args }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  env:
    {{- include "scanyard-lib.exporterClusterID" . | nindent 4 }}
  ports:
    - name: exporter-http
      containerPort: {{ .httpPort }}
      protocol: TCP
  startupProbe:
    httpGet:
      path: /readyz
      port: exporter-http
    periodSeconds: 1
    failureThreshold: 60
  livenessProbe:
    httpGet:
      path: /healthz
      port: exporter-http
    periodSeconds: 20
    timeoutSeconds: 5
  {{- with .resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "scanyard-lib.exporterSecurityContext" . | nindent 4 }}
  volumeMounts:
    {{- include "scanyard-lib.exporterMount" . | nindent 4 }}
    {{- with .mounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* The variable CLUSTER_ID of an exporter. Takes clusterID. */}}
{{- define "scanyard-lib.exporterClusterID" -}}
- name: CLUSTER_ID
  {{- if .clusterID }}
  value: {{ .clusterID | quote }}
  {{- else }}
  valueFrom:
    configMapKeyRef:
      name: scanyard-cluster-id
      key: clusterID
  {{- end }}
{{- end }}

{{/* What the level restricted asks for, and the uid that the socket admits. */}}
{{- define "scanyard-lib.exporterSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* The mount of queue and socket, for the exporter and for those who write to it. */}}
{{- define "scanyard-lib.exporterMount" -}}
- name: exporter
  mountPath: /run/scanyard
{{- end }}

{{/* The volume of queue and socket. Takes volume: a volume of a pod without its name. */}}
{{- define "scanyard-lib.exporterVolume" -}}
- name: exporter
  {{- toYaml .volume | nindent 2 }}
{{- end }}
