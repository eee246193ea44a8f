// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the kinds of the API group execution.securecodebox.io/v1:
// what a team writes (Scan, ScheduledScan) and what runs it (ScanType,
// ParseDefinition, ScanCompletionHook and their Cluster* counterparts).
//
// The group is the wire contract of OWASP secureCodeBox. Field names, types,
// defaults and printer columns stay as they are there, so that its charts,
// images and clients work unchanged. Fields that it lacks are optional
// additions and say so in their comment.
//
// +kubebuilder:object:generate=true
// +groupName=execution.securecodebox.io
package v1
