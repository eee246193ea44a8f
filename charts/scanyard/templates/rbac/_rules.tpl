{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
What the operator may do in the namespaces that it works in, and why. It has no escalate or bind verb: what it grants to
scan pods it has to hold itself (marked G).

  rule                                      why
  events                                    tells users what happened to a Scan
  pods                             G        sees images that cannot be pulled and pods that find no node; lurkers get pods
  pods/log                         G        lurkers keep the end of the scanner's log; the operator itself reads none
  serviceaccounts, roles, rolebindings      makes lurker, the accounts of single Scans, and what an executionNamespace
                                            needs, and removes the latter two; watches those that have a fixed name
  jobs                                      runs scanners, parsers and hooks
  scans                            G        moves them on, adds finalizers, creates them from schedules and removes old ones
  scans/status                     G        state, conditions, counters; parsers and hooks patch counters
  scheduledscans/status, scansettings/status,
  findingexceptions/status                  says whether they are in force
  scans/finalizers, scheduledscans/finalizers   lets Jobs block the deletion of their Scan, and Scans that of their
                                            ScheduledScan (OwnerReferencesPermissionEnforcement)
  parsedefinitions                 G        reads them; writes the namespaced copy that parser images insist on in cluster mode
  the other kinds                           reads them
*/}}
{{- define "scanyard.namespacedRules" -}}
- apiGroups: [""]
  resources: [events]
  verbs: [list] # why the pods of a Job are refused stands in the Job controller's Events only
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [create, delete, get]
- apiGroups: [""]
  resources: [serviceaccounts]
  resourceNames: [lurker, parser, scan-completion-hook]
  verbs: [list, watch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [create, delete, get, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  resourceNames: [lurker, parser, scan-completion-hook]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [execution.securecodebox.io]
  resources: [scans]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [execution.securecodebox.io]
  resources: [scans/status]
  verbs: [get, patch]
- apiGroups: [execution.securecodebox.io]
  resources: [scheduledscans/status]
  verbs: [patch]
- apiGroups: [execution.securecodebox.io]
  resources: [scans/finalizers, scheduledscans/finalizers]
  verbs: [update]
- apiGroups: [execution.securecodebox.io]
  resources: [parsedefinitions]
  verbs: [create, get, list, patch, watch]
- apiGroups: [execution.securecodebox.io]
  resources: [scheduledscans, scantypes, scancompletionhooks]
  verbs: [get, list, watch]
- apiGroups: [settings.scanyard.io]
  resources: [scansettings, findingexceptions]
  verbs: [get, list, watch]
- apiGroups: [settings.scanyard.io]
  resources: [scansettings/status, findingexceptions/status]
  verbs: [patch]
{{- end }}

{{/* Kinds that belong to no namespace: everybody may see what there is to use. */}}
{{- define "scanyard.clusterKindRules" -}}
- apiGroups: [execution.securecodebox.io]
  resources: [clusterscantypes, clusterparsedefinitions, clusterscancompletionhooks]
  verbs: [get, list, watch]
- apiGroups: [cascading.securecodebox.io]
  resources: [clustercascadingrules]
  verbs: [get, list, watch]
- apiGroups: [settings.scanyard.io]
  resources: [clusterscansettings, clusterfindingexceptions]
  verbs: [get, list, watch]
{{- end }}
