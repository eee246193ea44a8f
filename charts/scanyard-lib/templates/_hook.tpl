{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
One ScanCompletionHook. Takes
  root   the chart's context
  hook   the hook's name in the image, handed over as env HOOK: the operator's arguments are URLs only
  type   ReadOnly or ReadAndWrite
  outputs optional, names of objects that the hook writes beside the results of a Scan
  env    further environment, as a list; hook.env of the values comes last and so wins
  values optional, the chart's own values, as for scanyard-lib.refuseUnknown
*/}}
{{- define "scanyard-lib.hook" -}}
{{- $values := .root.Values.hook }}
{{- include "scanyard-lib.refuseUnknown" (dict "root" .root "blocks" (merge (dict
      "clusterWide" list "executionNamespace" list "fullnameOverride" list "imagePullSecrets" list
      "hook" (list "image" "scanAccess" "labels" "priority" "failurePolicy" "runOn" "ttlSecondsAfterFinished" "serviceAccountName" "nodeSelector" "affinity" "tolerations"
        "resources" "extraVolumes" "extraVolumeMounts" "env" "authentication"))
      (.values | default dict))) }}
{{- include "scanyard-lib.refuseExecutionNamespace" .root }}
{{- include "scanyard-lib.refuseConfigMaps" (dict "root" .root "block" "hook") }}
{{- include "scanyard-lib.head" (dict "root" .root "group" "execution" "kind" "ScanCompletionHook" "name" (include "scanyard-lib.fullname" .root) "labels" $values.labels) }}
spec:
  type: {{ .type }}
  priority: {{ $values.priority | int }}
  {{- with $values.failurePolicy }}
  failurePolicy: {{ . }}
  {{- end }}
  {{- with $values.runOn }}
  runOn: {{ . }}
  {{- end }}
  {{- with .outputs }}
  outputs:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.executionNamespace }}
  executionNamespace: {{ . }}
  {{- end }}
  {{- include "scanyard-lib.image" (dict "image" $values.image "tag" .root.Chart.Version) | nindent 2 }}
  {{- include "scanyard-lib.scanAccess" (dict "block" $values "own" "scanyard/hook") | nindent 2 }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- if not (kindIs "invalid" $values.ttlSecondsAfterFinished) }}
  ttlSecondsAfterFinished: {{ $values.ttlSecondsAfterFinished | int64 }}
  {{- end }}
  env:
    {{- toYaml (concat (list (dict "name" "HOOK" "value" .hook)) .env ($values.env | default list)) | nindent 4 }}
  {{- with include "scanyard-lib.set" (dict "block" $values "keys" (dict
        "volumes" "extraVolumes" "volumeMounts" "extraVolumeMounts" "resources" "resources" "nodeSelector" "nodeSelector"
        "affinity" "affinity" "tolerations" "tolerations")) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
