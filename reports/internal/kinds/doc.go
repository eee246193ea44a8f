// SPDX-License-Identifier: Apache-2.0

// Package kinds is the table of what the reports API server serves, and what it has to know of each kind.
//
//	wgpolicyk8s.io/v1alpha2 PolicyReport ─┐
//	openreports.io/v1alpha1 Report ───────┼─► Report (internal) ─► Codec ─► rows of "reports"
//	prext.demo/v1alpha1     PolicyReport ─┘
//	reports.scanyard.io/v1alpha1 Image, SBOM, VulnerabilityReport ─► Codec ─► rows of their own
//
// What it decides:
//
//   - A resource (what is served) and the kind that stores it are two things: [Resource] and [Stored]. Three groups serve
//     the rows of reports.
//   - The internal Report has the fields of all groups. It is one Go type, registered as the internal version of each group,
//     so that an object converts from any group to any other. What a group does not have is kept when an object is
//     updated through that group.
//   - A list is a Go type for each group: a list names one kind only. See [List].
//   - What is stored is JSON in the storage version: openreports.io/v1alpha1 for reports.
//   - SBOM and VulnerabilityReport keep their documents in one member apart. Lists and watches never hold them.
package kinds
