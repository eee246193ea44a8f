// SPDX-License-Identifier: Apache-2.0

// Package kubescape is the parser of kubescape's JSON report (kubescape scan --format json, format version 2), result
// type kubescape-json: one finding per resource and control that it fails.
//
//	pass 1   summaryDetails.controls, resources ──► scores of the controls, names and files of the resources
//	pass 2   results ──► findings, one resource at a time
//
// What it decides:
//
//   - Severity is that of the control's scoreFactor in the bands that kubescape prints: from 9 critical, which is HIGH,
//     from 7 HIGH, from 4 MEDIUM, from 1 LOW, else unknown, which is INFORMATIONAL.
//   - Only failed controls are findings. Passed ones, those that exceptions let pass, and skipped ones (they need a host
//     scanner, a configuration or a person) are not.
//   - What a resource is called comes from its entry among the resources, or from its id where there is no entry. What is
//     kept of controls and resources is bounded by Limits.MaxHeld, which is enough for some 20,000 resources; a resource
//     whose id already says all takes nothing. Beyond it the report is refused.
//   - Format version 1, an array of frameworks, is refused.
package kubescape
