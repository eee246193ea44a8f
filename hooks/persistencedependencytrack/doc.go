// SPDX-License-Identifier: Apache-2.0

// Package persistencedependencytrack is a ReadOnly hook that uploads the software bill of materials (SBOM) that a Scan
// made to OWASP Dependency-Track, into a project named after the image.
//
//	raw result  ─►  is it CycloneDX in JSON, and of what?  ─►  POST /api/v1/bom  ─►  wait until it is processed, if asked to
//	                └ no: ignored
//
// What it decides:
//
//   - Scans with another kind of raw result, or with one that is not CycloneDX in JSON, are ignored: the hook runs for
//     every Scan of a namespace.
//   - A project has the name and version of annotations, else those of the image reference in metadata.component.name:
//     repository and tag, digest, or latest. What is no such reference, like the folder of a file system scan, ends the
//     hook with advice; DEPENDENCYTRACK_ANY_NAME takes it for the name of a project instead.
//   - The SBOM is streamed, without white space, and with a boundary made of the Scan's UID; memory does not grow with it.
//   - Dependency-Track replaces what a project had before. So it has the SBOM once, however often that was sent; a
//     repetition costs another processing.
//   - Whether an upload was processed is not asked by default. DEPENDENCYTRACK_WAIT asks, and fails when it takes longer.
//   - The SBOM has no findings: Dependency-Track finds them. The exceptions that hold for the Scan are matched with those, and
//     become analysis decisions. Decisions of ours begin with a word that tells so; they are taken back when their
//     exception holds no longer. What a person has decided stays as it is.
package persistencedependencytrack
