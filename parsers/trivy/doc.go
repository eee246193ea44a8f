// SPDX-License-Identifier: Apache-2.0

// Package trivy is the parser of trivy's JSON reports of images, file systems, repositories and clusters, result type
// trivy-json: one finding per vulnerability, in clusters also per misconfiguration.
//
//	{"ArtifactName": …, "Results": [{"Target": …, "Vulnerabilities": [ {…}, … ]}, …]}
//	{"ClusterName": …, "Resources": [{"Namespace": …, "Kind": …, "Name": …, "Results": [{"Target": …,
//	    "Class": …, "Type": …, "Vulnerabilities": [ {…}, … ], "Misconfigurations": [ {…}, … ]}, …]}, …]}
//
// What it decides:
//
//   - A key ClusterName makes a report one of a cluster. There, keys that are not known are errors, so that nothing is
//     missed in silence; for images they are ignored, with misconfigurations and secrets among them.
//   - One vulnerability or misconfiguration is in memory at a time. Most reports name what findings need before the
//     list that findings are made of, and one pass does. What comes later is found by a second reading that runs ahead
//     of the first: names after the report's list by one that skips the list, names after a result's list, and a list
//     that goes before another but comes after it, by readings that stay one result ahead ([ahead]).
//   - CRITICAL is HIGH, UNKNOWN is INFORMATIONAL.
package trivy
