{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
What stands beside a ScanType: servers and caches that scanners share. They run the scanner's image, in the namespace of
the release.
*/}}

{{/*
A server that scanners of all namespaces ask. Takes
  root           the chart's context
  name           of Deployment and Service
  command        what runs, as a list
  port           where it listens
  health         path of the probes
  cacheDir       where it writes; it can write there and to /tmp only
  env            as a list
  settings       a block of the values {replicas, cacheStorageLimit, resources, podSecurityContext, securityContext,
                 nodeSelector, affinity, tolerations}
*/}}
{{- define "scanyard-lib.server" -}}
{{- $selector := dict "app.kubernetes.io/name" .name "app.kubernetes.io/instance" .root.Release.Name }}
{{- $labels := merge (dict) $selector (include "scanyard-lib.labels" .root | fromYaml) }}
{{- $probe := dict "httpGet" (dict "path" .health "port" "http") }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- toYaml $labels | nindent 4 }}
spec:
  replicas: {{ .settings.replicas | int }}
  selector:
    matchLabels:
      {{- toYaml $selector | nindent 6 }}
  template:
    metadata:
      labels:
        {{- toYaml $labels | nindent 8 }}
    spec:
      automountServiceAccountToken: false
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          {{- include "scanyard-lib.image" (dict "image" .root.Values.scanner.image "tag" .root.Chart.AppVersion) | nindent 10 }}
          command:
            {{- toYaml .command | nindent 12 }}
          env:
            {{- toYaml .env | nindent 12 }}
          ports:
            - name: http
              containerPort: {{ .port }}
          # It answers only once its database is there, which takes as long as the download.
          startupProbe:
            {{- toYaml (merge (dict "periodSeconds" 5 "failureThreshold" 120) $probe) | nindent 12 }}
          readinessProbe:
            {{- toYaml $probe | nindent 12 }}
          livenessProbe:
            {{- toYaml (merge (dict "periodSeconds" 20) $probe) | nindent 12 }}
          {{- include "scanyard-lib.set" (dict "block" .settings "keys" (dict "resources" "resources" "securityContext" "securityContext")) | trim | nindent 10 }}
          volumeMounts:
            - name: cache
              mountPath: {{ .cacheDir }}
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: cache
          emptyDir:
            sizeLimit: {{ .settings.cacheStorageLimit }}
        - name: tmp
          emptyDir: {}
      {{- with include "scanyard-lib.set" (dict "block" .settings "keys" (dict
            "securityContext" "podSecurityContext" "nodeSelector" "nodeSelector" "affinity" "affinity" "tolerations" "tolerations")) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- toYaml $labels | nindent 4 }}
spec:
  selector:
    {{- toYaml $selector | nindent 4 }}
  ports:
    - name: http
      port: {{ .port }}
      targetPort: http
{{- end }}

{{/*
A volume that scanners of the release's namespace read, a CronJob that keeps it fresh, and a Job that fills it when the
chart is installed. Takes
  root                the chart's context
  claim, cron, job    their names
  mountPath           where the refreshing container has it
  command             what refreshes, as a list
  settings            a block of the values {accessMode, size, storageClassName, schedule, successfulJobsHistoryLimit,
                      failedJobsHistoryLimit, concurrencyPolicy}
*/}}
{{- define "scanyard-lib.cache" -}}
{{- $labels := include "scanyard-lib.labels" .root }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .claim }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  accessModes:
    {{- toYaml .settings.accessMode | nindent 4 }}
  {{- with .settings.storageClassName }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .settings.size }}
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ .cron }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  schedule: {{ .settings.schedule | quote }}
  concurrencyPolicy: {{ .settings.concurrencyPolicy }}
  successfulJobsHistoryLimit: {{ .settings.successfulJobsHistoryLimit | int }}
  failedJobsHistoryLimit: {{ .settings.failedJobsHistoryLimit | int }}
  jobTemplate:
    spec:
      {{- include "scanyard-lib.refresh" . | nindent 6 }}
{{- if .root.Release.IsInstall }}
---
# Only at the first installation: later the volume is filled, and a Job cannot be changed by an upgrade.
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .job }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  {{- include "scanyard-lib.refresh" . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The part that the Job and the CronJob of a cache have in common. Takes what scanyard-lib.cache takes. */}}
{{- define "scanyard-lib.refresh" -}}
{{- $scanner := .root.Values.scanner -}}
backoffLimit: 3
template:
  metadata:
    labels:
      {{- include "scanyard-lib.labels" .root | nindent 6 }}
    annotations:
      # What it runs is not what the team deploys: discovery need not scan it.
      auto-discovery.securecodebox.io/ignore: "true"
  spec:
    restartPolicy: OnFailure
    automountServiceAccountToken: false
    {{- with .root.Values.imagePullSecrets }}
    imagePullSecrets:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    containers:
      - name: refresh
        {{- include "scanyard-lib.image" (dict "image" $scanner.image "tag" .root.Chart.AppVersion) | nindent 8 }}
        command:
          {{- toYaml .command | nindent 10 }}
        {{- with include "scanyard-lib.set" (dict "block" $scanner "keys" (dict
              "env" "env" "envFrom" "envFrom" "resources" "resources" "securityContext" "securityContext")) | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        volumeMounts:
          - name: cache
            mountPath: {{ .mountPath }}
    volumes:
      - name: cache
        persistentVolumeClaim:
          claimName: {{ .claim }}
    {{- with include "scanyard-lib.set" (dict "block" $scanner "keys" (dict
          "nodeSelector" "nodeSelector" "affinity" "affinity" "tolerations" "tolerations" "securityContext" "podSecurityContext")) | trim }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end }}
