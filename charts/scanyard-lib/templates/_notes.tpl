{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
What Helm says after it has installed a scanner: the chart's example.yaml, fit for this release, ready to paste. Takes
  root             the chart's context
  more             optional, a further paragraph
  wideConfigMaps   optional, as for scanyard-lib.cascadingRules
*/}}
{{- define "scanyard-lib.scannerNotes" -}}
{{- $values := .root.Values }}
{{- $scan := .root.Files.Get "example.yaml" | fromYaml }}
{{- $type := printf "%s%s" $scan.spec.scanType ($values.scanner.nameAppend | default "") }}
{{- $_ := set $scan.spec "scanType" $type }}
{{- if $values.clusterWide }}
{{- $_ := set $scan.spec "resourceMode" "clusterWide" }}
{{- $_ := set $scan "spec" (include "scanyard-lib.withoutConfigMaps" (dict "spec" $scan.spec "names" .wideConfigMaps) | fromYaml) }}
{{- end }}
{{- $kubectl := $values.clusterWide | ternary "kubectl" (printf "kubectl -n %s" .root.Release.Namespace) -}}
{{ ternary "ClusterScanType" "ScanType" $values.clusterWide }} {{ $type }} is ready for Scans {{ if $values.clusterWide }}of every namespace{{ else }}in namespace {{ .root.Release.Namespace }}{{ end }}. Scan:

  {{ $kubectl }} apply -f - <<'SCAN'
  {{- toYaml $scan | nindent 2 }}
  SCAN

and watch it with: {{ $kubectl }} get scan {{ $scan.metadata.name }} --watch
{{- with .more }}

{{ . }}
{{- end }}
{{- end }}
