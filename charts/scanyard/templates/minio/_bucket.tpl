{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "scanyard.minioBucketPod" -}}
restartPolicy: OnFailure
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.minio.podSecurityContext | nindent 2 }}
containers:
  - name: bucket
    image: "{{ .Values.minio.image.repository }}:{{ .Values.minio.image.tag }}"
    imagePullPolicy: {{ .Values.minio.image.pullPolicy }}
    command:
      - /bin/sh
      - -c
      - |
        set -eu
        until mc alias set store "http://${ENDPOINT}:9000" "${ROOT_USER}" "${ROOT_PASSWORD}"; do
          sleep 1
        done
        mc mb --ignore-existing "store/${BUCKET}"
    env:
      - name: MC_CONFIG_DIR
        value: /tmp/mc
      - name: ENDPOINT
        value: {{ include "scanyard.minioName" . }}
      - name: BUCKET
        value: {{ .Values.minio.defaultBuckets | quote }}
      - name: ROOT_USER
        valueFrom:
          secretKeyRef:
            name: {{ include "scanyard.minioSecret" . }}
            key: root-user
      - name: ROOT_PASSWORD
        valueFrom:
          secretKeyRef:
            name: {{ include "scanyard.minioSecret" . }}
            key: root-password
    resources:
      requests: {cpu: 20m, memory: 32Mi}
      limits: {memory: 128Mi}
    securityContext:
      {{- toYaml .Values.minio.securityContext | nindent 6 }}
    volumeMounts:
      - name: tmp
        mountPath: /tmp
volumes:
  - name: tmp
    emptyDir: {}
{{- include "scanyard.scheduling" . | nindent 0 }}
{{- end }}
