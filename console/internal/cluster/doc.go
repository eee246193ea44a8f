// SPDX-License-Identifier: Apache-2.0

// Package cluster reads and changes objects with the rights of the person who looks.
//
//	Session ─► Cluster.As ─► Viewer: objects of the Kubernetes API, questions to the reports API, findings.json of a Scan
//
// What it decides:
//
//   - Nothing is read with rights of the console, and nothing that is read is kept for anybody else. What a viewer may do
//     is remembered for a minute, for that viewer.
//   - A list of all namespaces is one list where the viewer may ask for it, else a list for each namespace that was chosen.
//     A namespace that the viewer may not read is a Denial with the right that is missing, not an error of the page.
//   - A kind that is not installed is [ErrAbsent], so that a page can say what to install.
//   - Findings of a Scan are read by its links, as a stream. A link to a host that no other Scan's links lead to is not
//     followed: whoever may change the status of a Scan could have written it.
package cluster
