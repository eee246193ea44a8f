{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
A cluster-wide ScanType, ParseDefinition or hook runs in the namespace of every Scan. A ConfigMap is in one namespace
only, so pods of all others would wait for it for ever. That is refused when the chart is installed. Hooks that run in
one namespace (executionNamespace) are free to use its ConfigMaps. Takes root, and block (a part of the values) or
what and object.
*/}}
{{- define "scanyard-lib.refuseConfigMaps" -}}
{{- $isHook := eq (.block | default "") "hook" }}
{{- if and .root.Values.clusterWide (not (and $isHook .root.Values.executionNamespace)) }}
{{- $object := .object }}
{{- if .block }}
{{- $object = pick (get .root.Values .block) "env" "envFrom" "extraVolumes" "extraContainers" }}
{{- end }}
{{- if regexMatch `(?m)^[\s-]*configMap(KeyRef|Ref)?:` (toYaml $object) }}
{{- $what := .what | default (printf "%s.env or %s.extraVolumes" .block .block) }}
{{- $ways := list
      "use a container image that has the file in it"
      "leave it out here and add it with spec.volumes and spec.env of the Scans in namespaces that have the ConfigMap"
      "install the chart in each namespace that needs it: --set clusterWide=false" }}
{{- if $isHook }}
{{- $ways = list
      (printf "run the hook in this namespace only, where the ConfigMap is: --set executionNamespace=%s" .root.Release.Namespace)
      "use a container image that has the file in it"
      "install the chart in each namespace that needs it: --set clusterWide=false" }}
{{- end }}
{{- fail (printf "\n\nclusterWide is true, but %s reads a ConfigMap.\nA ConfigMap is in one namespace only, and what is cluster-wide runs in the namespace of every Scan, where it is missing.\nInstead, one of:\n  - %s\n" $what (join "\n  - " $ways)) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
A hook with an executionNamespace runs there for Scans of all namespaces, with the secrets that are there. Whoever
installs it must be allowed to install there, and what the chart makes beside the hook must be there: so it has to be
the release's namespace.
*/}}
{{- define "scanyard-lib.refuseExecutionNamespace" -}}
{{- with .Values.executionNamespace }}
{{- if not $.Values.clusterWide }}
{{- fail (printf "\n\nexecutionNamespace is %s, but clusterWide is false.\nOnly cluster-wide hooks can run in a namespace of their own; others run in the namespace of their Scan.\nInstead, one of:\n  - make the hook cluster-wide: --set clusterWide=true\n  - leave executionNamespace empty\n" .) }}
{{- end }}
{{- if ne . $.Release.Namespace }}
{{- fail (printf "\n\nexecutionNamespace is %s, but the release is installed into %s.\nThe hook would run without the secrets and service accounts that belong to this release.\nInstead, one of:\n  - install it there: helm upgrade --install %s --namespace %s ...\n  - run it here: --set executionNamespace=%s\n  - run it in the namespace of each Scan: leave executionNamespace empty\n" . $.Release.Namespace $.Release.Name . $.Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}
