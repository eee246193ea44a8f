// SPDX-License-Identifier: Apache-2.0

// Package cluster reads and changes objects with the rights of the person who looks.
//
//	Session ─► Cluster.As ─► Viewer: objects of the Kubernetes API, questions to the reports API, findings.json of a Scan
//
// What it decides:
//
//   - Nothing is read with rights of the console, which has none. What a viewer may do is remembered for a minute, for that
//     viewer: for buttons, not for what is shown.
//   - All Scans of the cluster are read once, and followed, for those who may list them all: to list ten thousand for each
//     page of each viewer is more than an API server can do. Before each page the API server says whether its viewer may.
//     Whoever may not gets what they may list themselves. Nothing else that is read is kept for anybody else.
//   - A list of all namespaces is one list where the viewer may ask for it, else a list for each namespace that was chosen.
//     A namespace that the viewer may not read is a Denial with the right that is missing, not an error of the page.
//   - A kind that is not installed is [ErrAbsent], so that a page can say what to install.
//   - Findings of a Scan are read by its links, as a stream. A link to a host that no other Scan's links lead to is not
//     followed: whoever may change the status of a Scan could have written it.
package cluster
