{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Ends the installation with what is wrong, why, and the ways out. Takes what, why and ways. */}}
{{- define "scanyard-lib.refuse" -}}
{{- fail (printf "\n\n%s\n%s\nInstead%s:\n  - %s\n" .what .why (gt (len .ways) 1 | ternary ", one of" "") (join "\n  - " .ways)) }}
{{- end }}

{{/*
A cluster-wide ScanType, ParseDefinition or hook runs in the namespace of every Scan. A ConfigMap is in one namespace
only, so pods of all others would wait for it for ever. That is refused when the chart is installed. Hooks that run in
one namespace (executionNamespace) are free to use its ConfigMaps. Takes root, and block (a part of the values) or
rule (a name) and object.
*/}}
{{- define "scanyard-lib.refuseConfigMaps" -}}
{{- $isHook := eq (.block | default "") "hook" }}
{{- if and .root.Values.clusterWide (not (and $isHook .root.Values.executionNamespace)) }}
{{- $object := .object }}
{{- if .block }}
{{- $object = pick (get .root.Values .block) "env" "envFrom" "extraVolumes" "extraContainers" }}
{{- end }}
{{- if regexMatch `(?m)^[\s-]*configMap(KeyRef|Ref)?:` (toYaml $object) }}
{{- $ways := list
      "use a container image that has the file in it"
      "leave it out here and add it with spec.volumes and spec.env of the Scans in namespaces that have the ConfigMap"
      "install the chart in each namespace that needs it: --set clusterWide=false" }}
{{- if $isHook }}
{{- $ways = list
      (printf "run the hook in this namespace only, where the ConfigMap is: --set executionNamespace=%s" .root.Release.Namespace)
      "use a container image that has the file in it"
      "install the chart in each namespace that needs it: --set clusterWide=false" }}
{{- else if .rule }}
{{- $ways = list
      "do without the rules: --set cascadingRules.enabled=false"
      "do without them here, and make a ClusterCascadingRule of your own whose image has the file in it"
      "install the chart in each namespace that needs it: --set clusterWide=false" }}
{{- end }}
{{- include "scanyard-lib.refuse" (dict
      "what" (printf "clusterWide is true, but %s reads a ConfigMap." (.rule | empty | ternary (printf "%s.env or %s.extraVolumes" (toString .block) (toString .block)) (printf "the rule %s" (toString .rule))))
      "why" "A ConfigMap is in one namespace only, and what is cluster-wide runs in the namespace of every Scan, where it is missing."
      "ways" $ways) }}
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
{{- include "scanyard-lib.refuse" (dict
      "what" (printf "executionNamespace is %s, but clusterWide is false." .)
      "why" "Only cluster-wide hooks can run in a namespace of their own; others run in the namespace of their Scan."
      "ways" (list "make the hook cluster-wide: --set clusterWide=true" "leave executionNamespace empty")) }}
{{- end }}
{{- if ne . $.Release.Namespace }}
{{- include "scanyard-lib.refuse" (dict
      "what" (printf "executionNamespace is %s, but the release is installed into %s." . $.Release.Namespace)
      "why" "The hook would run without the secrets and service accounts that belong to this release."
      "ways" (list
        (printf "install it there: helm upgrade --install %s --namespace %s ..." $.Release.Name .)
        (printf "run it here: --set executionNamespace=%s" $.Release.Namespace)
        "run it in the namespace of each Scan: leave executionNamespace empty")) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
A misspelt value would be passed over in silence. Takes root, and blocks: a map of the names a chart knows to the names
below them; an empty list says that anything may be below. A known name is suggested if it has the same letters, goes on
after the given one, or is at most two letters more or less.
*/}}
{{- define "scanyard-lib.refuseUnknown" -}}
{{- $values := .root.Values }}
{{- $all := merge (dict "" (concat (keys .blocks) (list "global" "scanyard-lib"))) .blocks }}
{{- range $block, $known := $all }}
{{- $at := empty $block | ternary $values (get $values $block) }}
{{- if and $known (kindIs "map" $at) }}
{{- range $name, $_ := $at }}
{{- if not (has $name $known) }}
{{- $near := list }}
{{- $given := lower $name | splitList "" }}
{{- range $other := $known }}
{{- $right := lower $other | splitList "" }}
{{- $fewer := le (len $given) (len $right) | ternary (list $given $right) (list $right $given) }}
{{- $within := and (regexMatch "^[[:alnum:]]+$" $name) (regexMatch (join ".*" (first $fewer)) (join "" (last $fewer))) }}
{{- /* sortAlpha sorts in place, so it gets lists of its own. */}}
{{- if or (eq (lower $name | splitList "" | sortAlpha | join "") (lower $other | splitList "" | sortAlpha | join "")) (hasPrefix (lower $name) (lower $other))
      (and $within (le (sub (len (last $fewer)) (len (first $fewer))) 2)) }}
{{- $near = append $near (printf "did you mean %s?" (list $block $other | compact | join ".")) }}
{{- end }}
{{- end }}
{{- include "scanyard-lib.refuse" (dict
      "what" (printf "%s is not a value of the chart %s." (list $block $name | compact | join ".") $.root.Chart.Name)
      "why" (printf "Here it knows: %s." (without $known "scanyard-lib" | sortAlpha | join ", "))
      "ways" (append $near "leave it out")) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
